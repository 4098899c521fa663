"""Running error analysis: the magnitude of the terms that a computed number was summed from.

A sum that is tiny compared with its terms is rounding error. `term_sizes` therefore evaluates a function on values and
on their sizes at the same time: the size of a sum is the sum of the sizes, the size of a product is their product.
Where terms cancel, the value is small but the size is not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal
from jaxtyping import Array

_SUMS = frozenset({"add", "sub", "add_any"})
_UNCHANGED = frozenset({"neg", "abs", "copy", "copy_p", "convert_element_type", "optimization_barrier"})
_SMOOTH = frozenset(
    {
        *("sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh"),
        *("exp", "exp2", "expm1", "log", "log1p", "sqrt", "rsqrt", "cbrt", "square", "integer_pow", "logistic", "erf"),
        *("div", "pow", "atan2"),
    }
)
_PRODUCTS = frozenset({"mul", "dot_general"})
_EXTREMES = frozenset({"max", "min"})
# Only the first operand of these has a size; the others are indices.
_REARRANGEMENTS = frozenset(
    {
        *("reshape", "transpose", "broadcast_in_dim", "squeeze", "expand_dims", "slice", "rev", "reduce_sum", "cumsum"),
        *("dynamic_slice", "gather", "reduce_max", "split", "unstack", "tile"),
    }
)
_COMBINATIONS = frozenset(
    {"concatenate", "stack", "pad", "select_n", "dynamic_update_slice", "scatter", "scatter-add", "scatter_add"}
)
_CALLS = {"jit": "jaxpr", "pjit": "jaxpr", "closed_call": "call_jaxpr", "core_call": "call_jaxpr"} | {
    "custom_jvp_call": "call_jaxpr",
    "custom_vjp_call": "call_jaxpr",
    "remat": "jaxpr",
    "checkpoint": "jaxpr",
}


def term_sizes(function: Callable[..., Array], *arguments: Any) -> Array:
    """Size of the terms that each entry of `function(*arguments)` was summed from; at least the entry's magnitude.

    The arguments are arrays of floats, or pytrees of them. The size of an argument is its magnitude plus 1, so that a
    term still counts if it vanishes at this point but not one unit (m, rad) away from it. An operation without a rule
    (a loop, a factorisation) contributes the magnitude of its result.
    """
    inputs = jax.tree.leaves(arguments)
    return _sizes(jax.make_jaxpr(function)(*arguments), inputs, [jnp.abs(x) + 1.0 for x in inputs])


def linear_term_sizes(function: Callable[..., Array], n: int, *arguments: Any) -> Array:
    """Term sizes, shape (m, n), of the coefficients of a function `(w, *arguments) -> (m,)` that is linear in `w` (n,).

    `w` is an argument of the traced function because operations on a constant `w` would be evaluated while tracing,
    which hides their terms.
    """
    inputs = jax.tree.leaves(arguments)
    sizes = [jnp.abs(x) + 1.0 for x in inputs]
    closed = jax.make_jaxpr(function)(jnp.zeros(n), *arguments)
    return jax.vmap(lambda w: _sizes(closed, [w, *inputs], [jnp.abs(w), *sizes]), out_axes=1)(jnp.eye(n))


def _sizes(closed: ClosedJaxpr, inputs: Sequence[Any], sizes: Sequence[Any]) -> Array:
    values, found = _run(closed.jaxpr, closed.consts, [jnp.abs(c) for c in closed.consts], inputs, sizes)
    return jnp.maximum(found[0], jnp.abs(values[0]))


def _run(
    jaxpr: Jaxpr, consts: Sequence[Any], const_sizes: Sequence[Any], inputs: Sequence[Any], sizes: Sequence[Any]
) -> tuple[list[Any], list[Any]]:
    """Values and sizes of the results of a jaxpr."""
    environment: dict[Any, tuple[Any, Any]] = dict(
        zip(
            (*jaxpr.constvars, *jaxpr.invars),
            zip((*consts, *inputs), (*const_sizes, *sizes), strict=True),
            strict=True,
        )
    )

    def read(atom: Any) -> tuple[Any, Any]:
        return (atom.val, jnp.abs(atom.val)) if isinstance(atom, Literal) else environment[atom]

    for equation in jaxpr.eqns:
        values, operand_sizes = zip(*map(read, equation.invars), strict=True) if equation.invars else ((), ())
        environment |= zip(equation.outvars, zip(*_apply(equation, values, operand_sizes), strict=True), strict=True)
    results = [read(v) for v in jaxpr.outvars]
    return [value for value, _ in results], [size for _, size in results]


def _apply(equation: JaxprEqn, values: Sequence[Any], sizes: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """Values and sizes of the results of one operation."""
    name = equation.primitive.name
    inner = equation.params.get(_CALLS.get(name, ""))
    if isinstance(inner, ClosedJaxpr):
        return _run(inner.jaxpr, inner.consts, [jnp.abs(c) for c in inner.consts], values, sizes)
    results = _bind(equation, values)
    if not jnp.issubdtype(jnp.result_type(results[0]), jnp.floating):
        return results, [jnp.abs(x) if jnp.issubdtype(x.dtype, jnp.number) else x for x in results]
    found = _result_sizes(equation, name, values, sizes, results[0])
    return results, [jnp.abs(x) for x in results] if found is None else found


def _result_sizes(
    equation: JaxprEqn, name: str, values: Sequence[Any], sizes: Sequence[Any], result: Any
) -> list[Any] | None:
    """Sizes of the results of an operation, whose first result is `result`; None if there is no rule for it."""
    if name in _SUMS:
        return [sizes[0] + sizes[1]]
    if name in _UNCHANGED:
        return [sizes[0] * jnp.ones_like(result)]
    if name in _PRODUCTS:
        return _bind(equation, sizes)
    if name in _EXTREMES:
        return [jnp.maximum(sizes[0], sizes[1])]
    if name in _REARRANGEMENTS:
        return _bind(equation, [sizes[0], *values[1:]])
    if name in _COMBINATIONS:
        floats = [jnp.issubdtype(jnp.result_type(v), jnp.floating) for v in values]
        return _bind(equation, [s if f else v for s, v, f in zip(sizes, values, floats, strict=True)])
    if name in _SMOOTH:
        slopes = [_slope(equation, values, i) for i in range(len(values))]
        return [sum((slope * size for slope, size in zip(slopes, sizes, strict=True)), jnp.abs(result))]
    return None


def _slope(equation: JaxprEqn, values: Sequence[Any], i: int) -> Any:
    """Magnitude of the derivative of an elementwise operation with respect to operand `i`; zero where it is infinite.

    The infinite slope of a square root at zero carries no information about the size of its terms.
    """
    if not jnp.issubdtype(jnp.result_type(values[i]), jnp.floating):
        return 0.0

    def of_operand(x: Any) -> Any:
        return _bind(equation, [*values[:i], x, *values[i + 1 :]])[0]

    slope = jax.jvp(of_operand, (values[i],), (jnp.ones_like(values[i]),))[1]
    return jnp.where(jnp.isfinite(slope), jnp.abs(slope), 0.0)


def _bind(equation: JaxprEqn, values: Sequence[Any]) -> list[Any]:
    primitive = equation.primitive
    found = primitive.bind(*values, **primitive.get_bind_params(equation.params))
    return list(found) if primitive.multiple_results else [found]
