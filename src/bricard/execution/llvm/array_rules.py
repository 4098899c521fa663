"""Rules for primitives that rearrange, select or reduce arrays."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import numpy as np

from bricard.execution.llvm.arithmetic import Unsupported
from bricard.execution.llvm.scalar_rules import SCALAR_RULES
from bricard.execution.llvm.scalar_types import INTEGERS, scalar_type_of, wrapped
from bricard.execution.llvm.values import MAX_LAZY_COST, MAX_LOADED, LazyArray, Memory, Values, as_object_array

Results = list[Any]


def elementwise(
    values: Values, operation: Callable[..., Any], shape: Sequence[int], scalar_type: str, args, types
) -> Any:
    """Apply an operation on scalars to arrays, which are broadcast along axes of length 1 and if they are scalars."""
    if any(values.is_large(x) for x in args):
        readers = [(values.reader(x, k), x.shape) for x, k in zip(args, types, strict=True)]

        def at(index: list[Any]) -> Any:
            # Not strict: scalars have no axes.
            return operation(*(read([0 if n == 1 else i for i, n in zip(index, lengths)]) for read, lengths in readers))  # noqa: B905

        result = LazyArray(shape, scalar_type, at, 1 + sum(map(_cost, args)))
        return values.stored_copy(result, scalar_type) if result.cost > MAX_LAZY_COST else result
    arrays = [values.scalars(x) for x in args]
    result = np.frompyfunc(operation, len(arrays), 1)(*arrays)
    return as_object_array(np.broadcast_to(result, shape) if np.shape(result) != tuple(shape) else result)


def _cost(x: Any) -> int:
    return x.cost if isinstance(x, LazyArray) else 1


def _select(values: Values, params: Any, args: Any, types: Any, out: Any) -> Results:
    which, *cases = args
    code, scalar_type = values.code, types[1]
    if len(cases) != 2:
        raise Unsupported("a selection from more than two arrays")
    if cases[0] is cases[1]:
        return [cases[0]]

    def operation(condition: Any, no: Any, yes: Any) -> Any:
        if types[0] != "b":
            condition = code.compare("ne", types[0], condition, 0)
        return code.select(condition, scalar_type, yes, no)

    return [
        elementwise(values, operation, out[0].shape, scalar_type, (which, *cases), (types[0], scalar_type, scalar_type))
    ]


def _select_if_batched(values: Values, params: Any, args: Any, types: Any, out: Any) -> Results:
    """Primitive of equinox that selects the new value unless the loop is batched, which is not supported here."""
    return [args[1]]


def _clamp(values: Values, params: Any, args: Any, types: Any, out: Any) -> Results:
    low, high = (SCALAR_RULES[name](values.code, {}, types) for name in ("max", "min"))
    return [
        elementwise(values, lambda a, x, b: high(low(a, x), b), out[0].shape, types[1], args, types),
    ]


def _broadcast(values: Values, params: Any, args: Any, types: Any, out: Any) -> Results:
    x, shape, axes = args[0], params["shape"], params["broadcast_dimensions"]
    lengths = x.shape
    if values.is_large(x) or (not lengths and math.prod(shape) > MAX_LOADED):
        at = values.reader(x, types[0])
        return [
            LazyArray(
                shape,
                types[0],
                lambda i: at([0 if n == 1 else i[a] for a, n in zip(axes, lengths, strict=True)]),
                _cost(x),
            )
        ]
    view = [1] * len(shape)
    for axis, length in zip(axes, lengths, strict=True):
        view[axis] = length
    return [np.broadcast_to(values.scalars(x).reshape(view), shape)]


def _reshape(values: Values, params: Any, args: Any, types: Any, out: Any) -> Results:
    shape = out[0].shape
    if isinstance(args[0], Memory) and args[0].size > MAX_LOADED:
        args[0].references += 1
        same = Memory(args[0].base, shape, args[0].scalar_type, args[0].mutable)
        same.references += 1
        return [same]
    return [values.scalars(args[0]).reshape(shape)]


def _squeeze(values: Values, params: Any, args: Any, types: Any, out: Any) -> Results:
    x, squeezed = args[0], {d % max(len(args[0].shape), 1) for d in params["dimensions"]}
    if values.is_large(x):
        at, axes = values.reader(x, types[0]), len(x.shape)

        def element(index: list[Any]) -> Any:
            rest = iter(index)
            return at([0 if a in squeezed else next(rest) for a in range(axes)])

        return [LazyArray(out[0].shape, types[0], element, _cost(x))]
    return [values.scalars(x).reshape(out[0].shape)]


def _slice(values: Values, params: Any, args: Any, types: Any, out: Any) -> Results:
    x, starts = args[0], params["start_indices"]
    strides = params["strides"] or [1] * len(starts)
    if values.is_large(x):
        at, code = values.reader(x, types[0]), values.code
        return [
            LazyArray(
                out[0].shape,
                types[0],
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
    return [values.scalars(x)[tuple(slice(*cut) for cut in cuts)]]


def _transpose(values: Values, params: Any, args: Any, types: Any, out: Any) -> Results:
    return [values.scalars(args[0]).transpose(params["permutation"])]


def _concatenate(values: Values, params: Any, args: Any, types: Any, out: Any) -> Results:
    return [np.concatenate([values.scalars(x) for x in args], axis=params["dimension"])]


def _stack(values: Values, params: Any, args: Any, types: Any, out: Any) -> Results:
    return [np.stack([values.scalars(x) for x in args], axis=params["axis"])]


def _unstack(values: Values, params: Any, args: Any, types: Any, out: Any) -> Results:
    x, axis = values.scalars(args[0]), params["axis"]
    return [as_object_array(part) for part in np.moveaxis(x, axis, 0)]


def _split(values: Values, params: Any, args: Any, types: Any, out: Any) -> Results:
    ends = np.cumsum(params["sizes"])[:-1]
    return list(np.split(values.scalars(args[0]), ends, axis=params["axis"]))


def _tile(values: Values, params: Any, args: Any, types: Any, out: Any) -> Results:
    return [np.tile(values.scalars(args[0]), params["reps"])]


def _reverse(values: Values, params: Any, args: Any, types: Any, out: Any) -> Results:
    return [np.flip(values.scalars(args[0]), params["dimensions"])]


def _pad(values: Values, params: Any, args: Any, types: Any, out: Any) -> Results:
    x, fill = values.scalars(args[0]), values.scalars(args[1])[()]
    result = np.full(out[0].shape, fill, dtype=object)
    for index in np.ndindex(x.shape):
        to = [low + i * (inside + 1) for i, (low, _, inside) in zip(index, params["padding_config"], strict=True)]
        if all(0 <= i < n for i, n in zip(to, result.shape, strict=True)):
            result[tuple(to)] = x[index]
    return [result]


def _iota(values: Values, params: Any, args: Any, types: Any, out: Any) -> Results:
    shape, axis = out[0].shape, params["dimension"]
    scalar_type, code = scalar_type_of(out[0]), values.code

    def number(i: Any) -> Any:
        return code.to_float(i, "i") if scalar_type == "f" else code.narrow(i, scalar_type)

    if math.prod(shape) > MAX_LOADED and len(shape) == 1:
        return [LazyArray(shape, scalar_type, lambda i: number(i[axis]))]
    result = np.empty(shape, dtype=object)
    for index in np.ndindex(shape):
        result[index] = number(index[axis])
    return [result]


def _reduction(specialise: Callable[..., Any], start: Callable[[str], Any]) -> Callable[..., Any]:
    def rule(values: Values, params: Any, args: Any, types: Any, out: Any) -> Results:
        x, axes = values.scalars(args[0]), params["axes"]
        operation = specialise(values.code, params, types)
        kept = [a for a in range(x.ndim) if a not in axes]
        count = math.prod(x.shape[a] for a in axes)
        x = x.transpose(*kept, *axes).reshape(*(x.shape[a] for a in kept), count)
        result = np.empty(x.shape[:-1], dtype=object)
        for index in np.ndindex(result.shape):
            row = list(x[index])
            if not row and start(types[0]) is None:
                raise Unsupported("the extreme of an empty integer array")
            result[index] = reduce(operation, row) if row else start(types[0])
        return [result]

    return rule


def _unvmap(name: str) -> Callable[..., Any]:
    """Primitive of equinox that reduces over all elements, including those of a batch."""

    def rule(values: Values, params: Any, args: Any, types: Any, out: Any) -> Results:
        return ARRAY_RULES[name](values, {"axes": range(len(args[0].shape))}, args, types, out)

    return rule


def _arg_extreme(predicate: str) -> Callable[..., Any]:
    """Index of the largest or smallest element along an axis: the first of equal ones, or the first NaN."""

    def rule(values: Values, params: Any, args: Any, types: Any, out: Any) -> Results:
        x, code, scalar_type = values.scalars(args[0]), values.code, types[0]
        (axis,) = params["axes"]
        x = np.moveaxis(x, axis, -1)
        if scalar_type_of(out[0]) not in INTEGERS or x.shape[-1] > INTEGERS[scalar_type_of(out[0])].largest:
            raise Unsupported(f"an index of type {out[0].dtype}")
        result = np.empty(x.shape[:-1], dtype=object)
        for index in np.ndindex(result.shape):
            best, where = x[index][0], 0
            for i, value in enumerate(x[index][1:], start=1):
                better = code.compare(predicate, scalar_type, value, best)
                if scalar_type == "f":
                    is_first_nan = code.bit_and(
                        code.compare("ne", "f", value, value), code.compare("eq", "f", best, best)
                    )
                    better = code.bit_or(better, is_first_nan)
                best = code.select(better, scalar_type, value, best)
                where = code.select(better, "i", i, where)
            result[index] = where
        return [result]

    return rule


def _cumsum(values: Values, params: Any, args: Any, types: Any, out: Any) -> Results:
    add = SCALAR_RULES["add"](values.code, params, types)
    x = np.moveaxis(values.scalars(args[0]), params["axis"], 0)
    result, total = np.empty(x.shape, dtype=object), None
    for i in reversed(range(len(x))) if params["reverse"] else range(len(x)):
        total = as_object_array(x[i]) if total is None else as_object_array(np.frompyfunc(add, 2, 1)(total, x[i]))
        result[i, ...] = total  # the ellipsis is needed for 0-d arrays
    return [np.moveaxis(result, 0, params["axis"])]


def _platform_index(values: Values, params: Any, args: Any, types: Any, out: Any) -> Results:
    for i, platforms in enumerate(params["platforms"]):
        if platforms is None or "cpu" in platforms:
            return [as_object_array(i)]
    raise Unsupported("a branch for other platforms only")


ARRAY_RULES: dict[str, Callable[..., Any]] = {
    "select_n": _select,
    "select_if_vmap": _select_if_batched,
    "clamp": _clamp,
    "broadcast_in_dim": _broadcast,
    "reshape": _reshape,
    "squeeze": _squeeze,
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
    "reduce_sum": _reduction(SCALAR_RULES["add"], lambda scalar_type: 0.0 if scalar_type == "f" else 0),
    "reduce_max": _reduction(SCALAR_RULES["max"], lambda scalar_type: -math.inf if scalar_type == "f" else None),
    "reduce_min": _reduction(SCALAR_RULES["min"], lambda scalar_type: math.inf if scalar_type == "f" else None),
    "reduce_and": _reduction(SCALAR_RULES["and"], lambda scalar_type: scalar_type == "b" or wrapped(-1, scalar_type)),
    "reduce_or": _reduction(SCALAR_RULES["or"], lambda scalar_type: 0 if scalar_type != "b" else False),
    "argmax": _arg_extreme("gt"),
    "argmin": _arg_extreme("lt"),
    "cumsum": _cumsum,
    "unvmap_any": _unvmap("reduce_or"),
    "unvmap_all": _unvmap("reduce_and"),
    "platform_index": _platform_index,
}
"""Primitive -> rule: function of the `Values`, the parameters, the arguments, their scalar types and the abstract
results, which returns the results."""
