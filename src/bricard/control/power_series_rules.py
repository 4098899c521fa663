"""Power series in time of what a function computes, to any order: Taylor arithmetic on its jaxpr, in NumPy.

Nested derivatives double their cost with each order; a product of two series costs the square of their length.
A series of order `n − 1` is an array (n, …) of coefficients; an array that does not change stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Literal

from bricard.control import power_series as series

MOST_TURNS = 100_000
"""A loop of the function that turns more often is given up."""


class Unexpandable(Exception):
    """The function does something of which no power series is known here."""


class Series(NamedTuple):
    """Coefficients of `1, t, t², …`, along the first axis."""

    terms: np.ndarray


def expansion(function: Callable[..., Any], *like: Any) -> Callable[..., list[np.ndarray]]:
    """A function of series (arguments with a first axis more than those of `function`), which returns its values'.

    `like`: arguments of the right shapes.
    """
    closed = jax.make_jaxpr(function)(*like)

    def expanded(*arguments: Any) -> list[np.ndarray]:
        leaves = [np.asarray(x, dtype=float) for x in jax.tree.leaves(arguments)]
        count = leaves[0].shape[0]
        with np.errstate(all="ignore"):
            values = _run(closed.jaxpr, closed.consts, [Series(x) for x in leaves], count)
        return [_terms(x, count) for x in values]

    return expanded


def _run(jaxpr: Any, consts: Sequence[Any], arguments: Sequence[Any], count: int) -> list[Any]:
    known: dict[Any, Any] = {}
    known.update(zip(jaxpr.constvars, consts, strict=True))
    known.update(zip(jaxpr.invars, arguments, strict=True))

    def read(x: Any) -> Any:
        return x.val if isinstance(x, Literal) else known[x]

    for equation in jaxpr.eqns:
        values = [read(x) for x in equation.invars]
        results = _apply(equation.primitive, values, equation.params, count)
        known.update(zip(equation.outvars, results, strict=True))
    return [read(x) for x in jaxpr.outvars]


def _apply(primitive: Any, values: list[Any], params: dict[str, Any], count: int) -> list[Any]:
    name = primitive.name
    if name in _CALLS:
        inner: Any = next(params[key] for key in ("jaxpr", "call_jaxpr", "fun_jaxpr") if key in params)
        jaxpr, consts = (inner.jaxpr, inner.consts) if hasattr(inner, "consts") else (inner, ())
        return _run(jaxpr, consts, values, count)
    if name in _LOOPS:
        return _LOOPS[name](values, params, count)
    constant = not any(isinstance(x, Series) for x in values)
    if name == "convert_element_type":
        constant = constant or params["new_dtype"].kind != "f"
    if constant and name in _RULES and np.asarray(values[0]).dtype.kind == "f":
        return [_RULES[name](1, params, *(Series(np.asarray(x, dtype=float)[None]) for x in values))[0]]
    if constant or name in _PIECEWISE_CONSTANT:
        return _plain(primitive, [_first(x) for x in values], params)
    if name in _SHIFTED and isinstance(values[0], Series):
        return [Series(_SIMPLE[name](_SHIFTED[name](params, count), values[0].terms))]
    if name in _LINEAR:
        return _linear(primitive, values, params, count)
    if name not in _RULES:
        raise Unexpandable(name)
    return [Series(_RULES[name](count, params, *values))]


def _first(x: Any) -> Any:
    return x.terms[0] if isinstance(x, Series) else x


def _terms(x: Any, count: int) -> np.ndarray:
    if isinstance(x, Series):
        return x.terms
    x = np.asarray(x, dtype=float)
    return np.concatenate([x[None], np.zeros((count - 1, *x.shape))])


def _linear(primitive: Any, values: list[Any], params: dict[str, Any], count: int) -> list[Any]:
    """Linear in all floating-point operands together: one coefficient after the other."""

    def coefficient(x: Any, k: int) -> Any:
        if isinstance(x, Series):
            return x.terms[k]
        x = np.asarray(x)
        return np.zeros_like(x) if k and np.issubdtype(x.dtype, np.floating) else x

    rows = [_plain(primitive, [coefficient(x, k) for x in values], params) for k in range(count)]
    return [Series(np.stack(column)) for column in zip(*rows, strict=True)]


def _plain(primitive: Any, values: list[Any], params: dict[str, Any]) -> list[np.ndarray]:
    """The operation on arrays: by NumPy if that is known, since JAX compiles each operation for each shape."""
    simple = _SIMPLE.get(primitive.name)
    values = [np.asarray(x) for x in values]
    found = simple(params, *values) if simple else primitive.bind(*values, **params)
    return [np.asarray(x) for x in (found if primitive.multiple_results else [found])]


def _broadcast_in_dim(params: dict[str, Any], x: np.ndarray, *_: Any) -> np.ndarray:
    shape = [1] * len(params["shape"])
    for axis, size in zip(params["broadcast_dimensions"], np.shape(x), strict=True):
        shape[axis] = size
    return np.broadcast_to(np.reshape(x, shape), params["shape"])


def _pad(params: dict[str, Any], x: np.ndarray, value: np.ndarray) -> np.ndarray:
    shape, places = [], []
    for size, (low, high, inner) in zip(x.shape, params["padding_config"], strict=True):
        shape.append(low + high + size + max(size - 1, 0) * inner)
        if low < 0 or high < 0:
            raise Unexpandable("pad")
        places.append(slice(low, low + size + max(size - 1, 0) * inner, inner + 1))
    found = np.full(shape, value)
    found[tuple(places)] = x
    return found


def _split(params: dict[str, Any], x: np.ndarray) -> list[np.ndarray]:
    return np.split(x, np.cumsum(params["sizes"])[:-1], axis=params["axis"])


def _iota(params: dict[str, Any]) -> np.ndarray:
    shape, axis = params["shape"], params["dimension"]
    along = np.arange(shape[axis], dtype=params["dtype"]).reshape([-1 if i == axis else 1 for i in range(len(shape))])
    return np.broadcast_to(along, shape)


def _slice(params: dict[str, Any], x: np.ndarray) -> np.ndarray:
    strides = params["strides"] or (1,) * x.ndim
    return x[tuple(map(slice, params["start_indices"], params["limit_indices"], strides))]


_SIMPLE: dict[str, Callable[..., Any]] = {
    "add": lambda _, x, y: x + y,
    "add_any": lambda _, x, y: x + y,
    "sub": lambda _, x, y: x - y,
    "neg": lambda _, x: -x,
    "broadcast_in_dim": _broadcast_in_dim,
    "reshape": lambda p, x, *_: np.reshape(x, p["new_sizes"]),
    "transpose": lambda p, x: np.transpose(x, p["permutation"]),
    "squeeze": lambda p, x: np.squeeze(x, p["dimensions"]),
    "concatenate": lambda p, *x: np.concatenate(x, axis=p["dimension"]),
    "convert_element_type": lambda p, x: x.astype(p["new_dtype"]),
    "reduce_sum": lambda p, x, *_: np.sum(x, axis=tuple(p["axes"])),
    "copy": lambda _, x: x,
    "pad": _pad,
    "split": _split,
    "iota": _iota,
    "slice": _slice,
    "rev": lambda p, x: np.flip(x, p["dimensions"]),
    "select_n": lambda _, which, *cases: np.choose(np.asarray(which, dtype=int), list(cases)),
    "eq": lambda _, x, y: x == y,
    "ne": lambda _, x, y: x != y,
    "lt": lambda _, x, y: x < y,
    "le": lambda _, x, y: x <= y,
    "gt": lambda _, x, y: x > y,
    "ge": lambda _, x, y: x >= y,
    "and": lambda _, x, y: x & y,
    "or": lambda _, x, y: x | y,
    "not": lambda _, x: ~x,
    "sign": lambda _, x: np.sign(x),
    "stop_gradient": lambda _, x: x,
}
"""Of those that are linear or constant, the common ones."""


_SHIFTED: dict[str, Callable[..., dict[str, Any]]] = {
    "broadcast_in_dim": lambda p, count: {
        "shape": (count, *p["shape"]),
        "broadcast_dimensions": (0, *(i + 1 for i in p["broadcast_dimensions"])),
    },
    "reshape": lambda p, count: {"new_sizes": (count, *p["new_sizes"])},
    "transpose": lambda p, count: {"permutation": (0, *(i + 1 for i in p["permutation"]))},
    "squeeze": lambda p, count: {"dimensions": tuple(i + 1 for i in p["dimensions"])},
    "reduce_sum": lambda p, count: {"axes": tuple(i + 1 for i in p["axes"])},
    "slice": lambda p, count: {
        "start_indices": (0, *p["start_indices"]),
        "limit_indices": (count, *p["limit_indices"]),
        "strides": (1, *p["strides"]) if p["strides"] else None,
    },
}
"""Parameters with which the same operation serves all coefficients at once."""


# -- products and what follows from them -------------------------------------------------------------------------------


def _unary(rule: Callable[[np.ndarray], np.ndarray]) -> Callable[..., np.ndarray]:
    return lambda count, params, x: rule(_terms(x, count))


def _binary(rule: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> Callable[..., np.ndarray]:
    return lambda count, params, x, y: rule(*_alike(count, x, y))


def _alike(count: int, *values: Any) -> list[np.ndarray]:
    """Series of one shape; numbers go with arrays."""
    terms = [_terms(x, count) for x in values]
    rank = max(x.ndim for x in terms)
    return list(np.broadcast_arrays(*(x.reshape(*x.shape, *(1,) * (rank - x.ndim)) for x in terms)))


def _any_power(count: int, params: dict[str, Any], x: Any, p: Any) -> np.ndarray:
    varies = isinstance(p, Series)
    x, p = _alike(count, x, p)
    if varies:
        return series.exponential(series.product(p, series.from_slope(np.log(x[0]), series.power(x, -1.0), x)))
    p = p[:1]
    if np.all(p == p.flat[0]) and p.flat[0] == np.round(p.flat[0]) and abs(p.flat[0]) <= 64:
        return series.integer_power(x, int(p.flat[0]))
    return series.power(x, p[0])


def _choose(first: Callable[[Any, Any], Any]) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    return lambda x, y: np.where(first(x[0], y[0])[None], x, y)


def _dot(count: int, params: dict[str, Any], x: Any, y: Any) -> np.ndarray:
    (cx, cy), (bx, by) = params["dimension_numbers"]
    x, y = _terms(x, count), _terms(y, count)

    def arranged(z: np.ndarray, batch: Any, contracted: Any, last: bool) -> tuple[np.ndarray, tuple, tuple]:
        rest = [i for i in range(z.ndim - 1) if i not in (*batch, *contracted)]
        order = [*batch, *contracted, *rest] if last else [*batch, *rest, *contracted]
        shape = z.shape[1:]
        of_batch, of_rest = tuple(shape[i] for i in batch), tuple(shape[i] for i in rest)
        inner = int(np.prod([shape[i] for i in contracted], dtype=int))
        outer = int(np.prod(of_rest, dtype=int))
        size = (int(np.prod(of_batch, dtype=int)), *((inner, outer) if last else (outer, inner)))
        return np.transpose(z, (0, *(i + 1 for i in order))).reshape(count, *size), of_batch, of_rest

    left, batch, rows = arranged(x, bx, cx, False)
    right, _, columns = arranged(y, by, cy, True)
    found = np.stack([np.sum(left[: k + 1] @ right[k::-1], axis=0) for k in range(count)])
    return found.reshape(count, *batch, *rows, *columns)


def _triangular_solve(count: int, params: dict[str, Any], a: Any, b: Any) -> np.ndarray:
    a, b = _terms(a, count), _terms(b, count)
    a = np.tril(a) if params["lower"] else np.triu(a)
    if params["unit_diagonal"]:
        index = np.arange(a.shape[-1])
        a = a.copy()
        a[..., index, index] = 0.0
        a[0][..., index, index] = 1.0
    if params["transpose_a"]:
        a = np.swapaxes(a, -1, -2)
    if not params["left_side"]:
        a, b = np.swapaxes(a, -1, -2), np.swapaxes(b, -1, -2)
    found = np.zeros_like(b)
    for k in range(count):
        found[k] = np.linalg.solve(a[0], b[k] - sum(a[j] @ found[k - j] for j in range(1, k + 1)))
    return found if params["left_side"] else np.swapaxes(found, -1, -2)


def _extreme(which: Callable[..., Any]) -> Callable[..., np.ndarray]:
    def rule(count: int, params: dict[str, Any], x: Any) -> np.ndarray:
        axes = tuple(i + 1 for i in params["axes"])
        rest = [i for i in range(1, x.terms.ndim) if i not in axes]
        flat = np.transpose(x.terms, (0, *rest, *axes)).reshape(count, *(x.terms.shape[i] for i in rest), -1)
        index = which(flat[0], axis=-1)[None, ..., None]
        return np.take_along_axis(flat, np.broadcast_to(index, (*flat.shape[:-1], 1)), axis=-1)[..., 0]

    return rule


def _clamp(count: int, params: dict[str, Any], low: Any, x: Any, high: Any) -> np.ndarray:
    low, x, high = _alike(count, low, x, high)
    return np.where((x[0] < low[0])[None], low, np.where((x[0] > high[0])[None], high, x))


_RULES: dict[str, Callable[..., np.ndarray]] = {
    "add": _binary(np.add),
    "add_any": _binary(np.add),
    "sub": _binary(np.subtract),
    "neg": _unary(np.negative),
    "mul": _binary(series.product),
    "div": _binary(series.quotient),
    "dot_general": _dot,
    "pow": _any_power,
    "integer_pow": lambda count, params, x: series.integer_power(x.terms, params["y"]),
    "square": _unary(lambda x: series.product(x, x)),
    "sqrt": _unary(lambda x: series.power(x, 0.5)),
    "rsqrt": _unary(lambda x: series.power(x, -0.5)),
    "cbrt": _unary(lambda x: np.sign(x[0])[None] * series.power(x * np.sign(x[0])[None], 1.0 / 3.0)),
    "exp": _unary(series.exponential),
    "exp2": _unary(lambda x: series.exponential(np.log(2.0) * x)),
    "expm1": _unary(lambda x: series.plus(series.exponential(x), -1.0)),
    "log": _unary(lambda x: series.from_slope(np.log(x[0]), series.power(x, -1.0), x)),
    "log1p": _unary(lambda x: series.from_slope(np.log1p(x[0]), series.power(series.plus(x, 1.0), -1.0), x)),
    "sin": _unary(lambda x: series.sine_cosine(x)[0]),
    "cos": _unary(lambda x: series.sine_cosine(x)[1]),
    "tan": _unary(lambda x: series.quotient(*series.sine_cosine(x))),
    "sinh": _unary(lambda x: series.sine_cosine(x, 1.0)[0]),
    "cosh": _unary(lambda x: series.sine_cosine(x, 1.0)[1]),
    "tanh": _unary(series.tanh),
    "logistic": _unary(lambda x: 0.5 * series.plus(series.tanh(0.5 * x), 1.0)),
    "asin": _unary(
        lambda x: series.from_slope(np.arcsin(x[0]), series.power(series.plus(-series.product(x, x), 1.0), -0.5), x)
    ),
    "acos": _unary(
        lambda x: series.from_slope(np.arccos(x[0]), -series.power(series.plus(-series.product(x, x), 1.0), -0.5), x)
    ),
    "atan": _unary(
        lambda x: series.from_slope(np.arctan(x[0]), series.power(series.plus(series.product(x, x), 1.0), -1.0), x)
    ),
    "asinh": _unary(
        lambda x: series.from_slope(np.arcsinh(x[0]), series.power(series.plus(series.product(x, x), 1.0), -0.5), x)
    ),
    "atan2": _binary(series.atan2),
    "abs": _unary(lambda x: np.sign(x[0])[None] * x),
    "max": _binary(_choose(lambda x, y: x >= y)),
    "min": _binary(_choose(lambda x, y: x <= y)),
    "reduce_max": _extreme(np.argmax),
    "reduce_min": _extreme(np.argmin),
    "clamp": _clamp,
    "cholesky": _unary(series.cholesky),
    "triangular_solve": _triangular_solve,
}

_CALLS = {"jit", "pjit", "closed_call", "core_call", "custom_jvp_call", "custom_vjp_call", "checkpoint", "remat"}
_CALLS |= {"custom_vjp_call_jaxpr", "remat2"}

_PIECEWISE_CONSTANT = {"eq", "ne", "lt", "le", "gt", "ge", "sign", "floor", "ceil", "round", "is_finite"}
_PIECEWISE_CONSTANT |= {"argmax", "argmin", "and", "or", "not", "eq_to", "lt_to", "le_to", "iota"}

_LINEAR = {*_SIMPLE, "stack", "cumsum", "gather", "scatter", "scatter-add", "dynamic_slice", "dynamic_update_slice"}
_LINEAR = (_LINEAR | {"expand_dims", "reduce_precision", "real", "tile"}) - _PIECEWISE_CONSTANT - set(_RULES)


# -- control flow: decided by the values at the start ------------------------------------------------------------------


def _cond(values: list[Any], params: dict[str, Any], count: int) -> list[Any]:
    branch = params["branches"][int(np.clip(_first(values[0]), 0, len(params["branches"]) - 1))]
    return _run(branch.jaxpr, branch.consts, values[1:], count)


def _while(values: list[Any], params: dict[str, Any], count: int) -> list[Any]:
    test, body = params["cond_jaxpr"], params["body_jaxpr"]
    n, m = params["cond_nconsts"], params["body_nconsts"]
    of_test, of_body, carry = values[:n], values[n : n + m], values[n + m :]
    for _ in range(MOST_TURNS):
        if not bool(_first(_run(test.jaxpr, test.consts, [*of_test, *carry], count)[0])):
            return list(carry)
        carry = _run(body.jaxpr, body.consts, [*of_body, *carry], count)
    raise Unexpandable("while")


def _scan(values: list[Any], params: dict[str, Any], count: int) -> list[Any]:
    n, m, body = params["num_consts"], params["num_carry"], params["jaxpr"]
    fixed, carry, over = values[:n], values[n : n + m], values[n + m :]
    rows: list[list[Any]] = []
    order = range(params["length"])
    for i in reversed(order) if params["reverse"] else order:
        at = [Series(x.terms[:, i]) if isinstance(x, Series) else x[i] for x in over]
        results = _run(body.jaxpr, body.consts, [*fixed, *carry, *at], count)
        carry = results[:m]
        rows.append(results[m:])
    rows = rows[::-1] if params["reverse"] else rows
    stacked = []
    for column in zip(*rows, strict=True):
        if any(isinstance(x, Series) for x in column):
            stacked.append(Series(np.stack([_terms(x, count) for x in column], axis=1)))
        else:
            stacked.append(jnp.stack(column))
    return [*carry, *stacked]


_LOOPS: dict[str, Callable[..., list[Any]]] = {"cond": _cond, "while": _while, "scan": _scan}
