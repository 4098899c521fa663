"""What JAX' operations do to the shapes of arrays, and sums over axes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import numpy as np

from bricard.native.code import Unsupported
from bricard.native.kinds import INTEGERS, kind_of, wrapped
from bricard.native.numbers import NUMBERWISE
from bricard.native.values import DEAREST, FEW, Memory, Rule, Values, single

Results = list[Any]


def elementwise(values: Values, operation: Callable[..., Any], shape: Sequence[int], kind: str, args, kinds) -> Any:
    """An operation on the numbers of arrays; axes of length 1 go with any, and so do arrays without axes."""
    if any(values.is_large(x) for x in args):
        rules = [(values.rule(x, k), x.shape) for x, k in zip(args, kinds, strict=True)]

        def at(index: list[Any]) -> Any:
            # An array without axes has nothing to be paired with.
            return operation(*(of([0 if n == 1 else i for i, n in zip(index, of_shape)]) for of, of_shape in rules))  # noqa: B905

        result = Rule(shape, kind, at, 1 + sum(map(_cost, args)))
        return values.kept(result, kind) if result.cost > DEAREST else result
    arrays = [values.numbers(x) for x in args]
    result = np.frompyfunc(operation, len(arrays), 1)(*arrays)
    return single(np.broadcast_to(result, shape) if np.shape(result) != tuple(shape) else result)


def _cost(x: Any) -> int:
    return x.cost if isinstance(x, Rule) else 1


def _select(values: Values, params: Any, args: Any, kinds: Any, out: Any) -> Results:
    which, *cases = args
    code, kind = values.code, kinds[1]
    if len(cases) != 2:
        raise Unsupported("a choice of more than two")
    if cases[0] is cases[1]:
        return [cases[0]]

    def operation(condition: Any, no: Any, yes: Any) -> Any:
        if kinds[0] != "b":
            condition = code.compare("ne", kinds[0], condition, 0)
        return code.select(condition, kind, yes, no)

    return [elementwise(values, operation, out[0].shape, kind, (which, *cases), (kinds[0], kind, kind))]


def _select_if_batched(values: Values, params: Any, args: Any, kinds: Any, out: Any) -> Results:
    """Equinox' choice in batched loops; otherwise it is the new value."""
    return [args[1]]


def _clamp(values: Values, params: Any, args: Any, kinds: Any, out: Any) -> Results:
    low, high = (NUMBERWISE[name](values.code, {}, kinds) for name in ("max", "min"))
    return [
        elementwise(values, lambda a, x, b: high(low(a, x), b), out[0].shape, kinds[1], args, kinds),
    ]


def _broadcast(values: Values, params: Any, args: Any, kinds: Any, out: Any) -> Results:
    x, shape, axes = args[0], params["shape"], params["broadcast_dimensions"]
    lengths = x.shape
    if values.is_large(x) or (not lengths and math.prod(shape) > FEW):
        at = values.rule(x, kinds[0])
        return [
            Rule(
                shape,
                kinds[0],
                lambda i: at([0 if n == 1 else i[a] for a, n in zip(axes, lengths, strict=True)]),
                _cost(x),
            )
        ]
    view = [1] * len(shape)
    for axis, length in zip(axes, lengths, strict=True):
        view[axis] = length
    return [np.broadcast_to(values.numbers(x).reshape(view), shape)]


def _reshape(values: Values, params: Any, args: Any, kinds: Any, out: Any) -> Results:
    shape = out[0].shape
    if isinstance(args[0], Memory) and args[0].size > FEW:
        args[0].holders += 1
        same = Memory(args[0].base, shape, args[0].kind, args[0].changes)
        same.holders += 1
        return [same]
    return [values.numbers(args[0]).reshape(shape)]


def _drop_axes(values: Values, params: Any, args: Any, kinds: Any, out: Any) -> Results:
    x, dropped = args[0], {d % max(len(args[0].shape), 1) for d in params["dimensions"]}
    if values.is_large(x):
        at, axes = values.rule(x, kinds[0]), len(x.shape)

        def element(index: list[Any]) -> Any:
            rest = iter(index)
            return at([0 if a in dropped else next(rest) for a in range(axes)])

        return [Rule(out[0].shape, kinds[0], element, _cost(x))]
    return [values.numbers(x).reshape(out[0].shape)]


def _slice(values: Values, params: Any, args: Any, kinds: Any, out: Any) -> Results:
    x, starts = args[0], params["start_indices"]
    strides = params["strides"] or [1] * len(starts)
    if values.is_large(x):
        at, code = values.rule(x, kinds[0]), values.code
        return [
            Rule(
                out[0].shape,
                kinds[0],
                lambda index: at(
                    [
                        code.int_op("add", code.int_op("mul", i, int(k)), int(s))
                        for i, k, s in zip(index, strides, starts, strict=True)
                    ]
                ),
                _cost(x),
            )
        ]
    cuts = zip(starts, params["limit_indices"], strides, strict=True)
    return [values.numbers(x)[tuple(slice(*cut) for cut in cuts)]]


def _transpose(values: Values, params: Any, args: Any, kinds: Any, out: Any) -> Results:
    return [values.numbers(args[0]).transpose(params["permutation"])]


def _concatenate(values: Values, params: Any, args: Any, kinds: Any, out: Any) -> Results:
    return [np.concatenate([values.numbers(x) for x in args], axis=params["dimension"])]


def _stack(values: Values, params: Any, args: Any, kinds: Any, out: Any) -> Results:
    return [np.stack([values.numbers(x) for x in args], axis=params["axis"])]


def _unstack(values: Values, params: Any, args: Any, kinds: Any, out: Any) -> Results:
    x, axis = values.numbers(args[0]), params["axis"]
    return [single(part) for part in np.moveaxis(x, axis, 0)]


def _split(values: Values, params: Any, args: Any, kinds: Any, out: Any) -> Results:
    ends = np.cumsum(params["sizes"])[:-1]
    return list(np.split(values.numbers(args[0]), ends, axis=params["axis"]))


def _tile(values: Values, params: Any, args: Any, kinds: Any, out: Any) -> Results:
    return [np.tile(values.numbers(args[0]), params["reps"])]


def _reverse(values: Values, params: Any, args: Any, kinds: Any, out: Any) -> Results:
    return [np.flip(values.numbers(args[0]), params["dimensions"])]


def _pad(values: Values, params: Any, args: Any, kinds: Any, out: Any) -> Results:
    x, fill = values.numbers(args[0]), values.numbers(args[1])[()]
    result = np.full(out[0].shape, fill, dtype=object)
    for index in np.ndindex(x.shape):
        to = [low + i * (inside + 1) for i, (low, _, inside) in zip(index, params["padding_config"], strict=True)]
        if all(0 <= i < n for i, n in zip(to, result.shape, strict=True)):
            result[tuple(to)] = x[index]
    return [result]


def _iota(values: Values, params: Any, args: Any, kinds: Any, out: Any) -> Results:
    shape, axis = out[0].shape, params["dimension"]
    kind, code = kind_of(out[0]), values.code

    def number(i: Any) -> Any:
        return code.to_float(i, "i") if kind == "f" else code.narrow(i, kind)

    if math.prod(shape) > FEW and len(shape) == 1:
        return [Rule(shape, kind, lambda i: number(i[axis]))]
    result = np.empty(shape, dtype=object)
    for index in np.ndindex(shape):
        result[index] = number(index[axis])
    return [result]


def _reduction(choose: Callable[..., Any], start: Callable[[str], Any]) -> Callable[..., Any]:
    def rule(values: Values, params: Any, args: Any, kinds: Any, out: Any) -> Results:
        x, axes = values.numbers(args[0]), params["axes"]
        operation = choose(values.code, params, kinds)
        kept = [a for a in range(x.ndim) if a not in axes]
        count = math.prod(x.shape[a] for a in axes)
        x = x.transpose(*kept, *axes).reshape(*(x.shape[a] for a in kept), count)
        result = np.empty(x.shape[:-1], dtype=object)
        for index in np.ndindex(result.shape):
            row = list(x[index])
            if not row and start(kinds[0]) is None:
                raise Unsupported("the extreme of nothing")
            result[index] = reduce(operation, row) if row else start(kinds[0])
        return [result]

    return rule


def _of_all(name: str) -> Callable[..., Any]:
    """A question of equinox about a whole batch."""

    def rule(values: Values, params: Any, args: Any, kinds: Any, out: Any) -> Results:
        return SHAPES[name](values, {"axes": range(len(args[0].shape))}, args, kinds, out)

    return rule


def _first(how: str) -> Callable[..., Any]:
    """Where along an axis the largest or smallest is, the first of equal ones; NaN goes before all."""

    def rule(values: Values, params: Any, args: Any, kinds: Any, out: Any) -> Results:
        x, code, kind = values.numbers(args[0]), values.code, kinds[0]
        (axis,) = params["axes"]
        x = np.moveaxis(x, axis, -1)
        if kind_of(out[0]) not in INTEGERS or x.shape[-1] > INTEGERS[kind_of(out[0])].largest:
            raise Unsupported(f"an index of type {out[0].dtype}")
        result = np.empty(x.shape[:-1], dtype=object)
        for index in np.ndindex(result.shape):
            best, where = x[index][0], 0
            for i, value in enumerate(x[index][1:], start=1):
                better = code.compare(how, kind, value, best)
                if kind == "f":
                    lost = code.both(code.compare("ne", "f", value, value), code.compare("eq", "f", best, best))
                    better = code.either(better, lost)
                best = code.select(better, kind, value, best)
                where = code.select(better, "i", i, where)
            result[index] = where
        return [result]

    return rule


def _cumulative(values: Values, params: Any, args: Any, kinds: Any, out: Any) -> Results:
    add = NUMBERWISE["add"](values.code, params, kinds)
    x = np.moveaxis(values.numbers(args[0]), params["axis"], 0)
    result, total = np.empty(x.shape, dtype=object), None
    for i in reversed(range(len(x))) if params["reverse"] else range(len(x)):
        total = single(x[i]) if total is None else single(np.frompyfunc(add, 2, 1)(total, x[i]))
        result[i, ...] = total  # also of single numbers
    return [np.moveaxis(result, 0, params["axis"])]


def _platform(values: Values, params: Any, args: Any, kinds: Any, out: Any) -> Results:
    for i, platforms in enumerate(params["platforms"]):
        if platforms is None or "cpu" in platforms:
            return [single(i)]
    raise Unsupported("nothing for this platform")


SHAPES: dict[str, Callable[..., Any]] = {
    "select_n": _select,
    "select_if_vmap": _select_if_batched,
    "clamp": _clamp,
    "broadcast_in_dim": _broadcast,
    "reshape": _reshape,
    "squeeze": _drop_axes,
    "slice": _slice,
    "transpose": _transpose,
    "concatenate": _concatenate,
    "stack": _stack,
    "unstack": _unstack,
    "split": _split,
    "tile": _tile,
    "rev": _reverse,
    "pad": _pad,
    "iota": _iota,
    "reduce_sum": _reduction(NUMBERWISE["add"], lambda kind: 0.0 if kind == "f" else 0),
    "reduce_max": _reduction(NUMBERWISE["max"], lambda kind: -math.inf if kind == "f" else None),
    "reduce_min": _reduction(NUMBERWISE["min"], lambda kind: math.inf if kind == "f" else None),
    "reduce_and": _reduction(NUMBERWISE["and"], lambda kind: kind == "b" or wrapped(-1, kind)),
    "reduce_or": _reduction(NUMBERWISE["or"], lambda kind: 0 if kind != "b" else False),
    "argmax": _first("gt"),
    "argmin": _first("lt"),
    "cumsum": _cumulative,
    "unvmap_any": _of_all("reduce_or"),
    "unvmap_all": _of_all("reduce_and"),
    "platform_index": _platform,
}
"""Name of the operation -> function of the values, its parameters, its arguments, their kinds and the abstract results,
which gives the results."""
