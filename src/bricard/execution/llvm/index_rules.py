"""Rules for primitives that read or write parts of arrays at constant or variable indices."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jax.lax import GatherScatterMode

from bricard.execution.llvm.arithmetic import Code, Unsupported, is_constant
from bricard.execution.llvm.scalar_rules import SCALAR_RULES
from bricard.execution.llvm.scalar_types import INTEGERS
from bricard.execution.llvm.values import Memory, Values

Results = list[Any]


def _check(types: Sequence[str], shape: Sequence[int]) -> None:
    """Refuse index types that cannot hold the lengths of the array: the bounds checks of XLA may wrap around."""
    if any(
        scalar_type not in INTEGERS or scalar_type == "w" or INTEGERS[scalar_type].largest < max(shape, default=0)
        for scalar_type in types
    ):
        raise Unsupported("an index of a type that does not fit the array")


def _clip(code: Code, i: Any, largest: int) -> Any:
    """An index clipped to the range from 0 to `largest`."""
    if is_constant(i):
        return min(max(int(i), 0), largest)
    i = code.select(code.compare("lt", "i", i, 0), "i", 0, i)
    return code.select(code.compare("gt", "i", i, largest), "i", largest, i)


def _starts(values: Values, shape: Sequence[int], sizes: Sequence[int], args: Any) -> list[Any]:
    indices = [values.scalars(x)[()] for x in args]
    return [_clip(values.code, i, n - k) for i, n, k in zip(indices, shape, sizes, strict=True)]


def _dynamic_slice(values: Values, params: Any, args: Any, types: Any, out: Any) -> Results:
    x, sizes = args[0], params["slice_sizes"]
    _check(types[1:], x.shape)
    starts = _starts(values, x.shape, sizes, args[1:])
    if isinstance(x, np.ndarray) and all(map(is_constant, starts)):
        return [x[tuple(slice(s, s + n) for s, n in zip(starts, sizes, strict=True))]]
    result = np.empty(sizes, dtype=object)
    for index in np.ndindex(*sizes):
        at = [values.code.int_op("add", s, i) for s, i in zip(starts, index, strict=True)]
        result[index] = values.element(x, at, types[0])
    return [result]


def _dynamic_update(values: Values, params: Any, args: Any, types: Any, out: Any) -> Results:
    x, part = args[0], values.scalars(args[1])
    _check(types[2:], x.shape)
    return [update_slice(values, x, part, _starts(values, x.shape, part.shape, args[2:]), types[0])]


def update_slice(values: Values, x: Any, part: np.ndarray, starts: list[Any], scalar_type: str) -> Any:
    """The array with the slice at `starts` replaced by `part`; in place if the old array is not used any more."""
    if isinstance(x, np.ndarray) and all(map(is_constant, starts)):
        result = x.copy()
        result[tuple(slice(s, s + n) for s, n in zip(starts, part.shape, strict=True))] = part
        return result
    if not isinstance(x, Memory) or x.references or not x.mutable:
        x = values.stored_copy(x, scalar_type)
    for index in np.ndindex(part.shape):
        at = [values.code.int_op("add", s, i) for s, i in zip(starts, index, strict=True)]
        values.code.store(x.base, values.offset(x.shape, at), x.scalar_type, part[index])
    return x


def _maybe_set(values: Values, params: Any, args: Any, types: Any, out: Any) -> Results:
    """Primitive of equinox for `buffer.at[i].set(row)`."""
    _, x, row, *indices = args
    if len(indices) != 1 or params["i_static"] is not None or indices[0].shape or params["kwargs"]:
        raise Unsupported("writing to several rows at once")
    _check(types[3:], x.shape)
    code, i, n = values.code, values.scalars(indices[0])[()], x.shape[0]
    i = code.select(code.compare("lt", "i", i, 0), "i", code.int_op("add", i, n), i)
    in_bounds = code.bit_and(code.compare("ge", "i", i, 0), code.compare("lt", "i", i, n))
    i = _clip(code, i, n - 1)
    part = values.scalars(row)[None].copy()
    if in_bounds is not True:  # writes out of bounds are ignored
        for index in np.ndindex(part.shape):
            old = values.element(x, [i, *index[1:]], types[1])
            part[index] = code.select(in_bounds, types[1], part[index], old)
    return [update_slice(values, x, part, [i, *[0] * (part.ndim - 1)], types[1])]


def _gather(values: Values, params: Any, args: Any, types: Any, out: Any) -> Results:
    x, indices = args[0], values.scalars(args[1])
    _check(types[1:2], x.shape)
    code, d, sizes = values.code, params["dimension_numbers"], params["slice_sizes"]
    fills = params["mode"] == GatherScatterMode.FILL_OR_DROP
    result = np.empty(out[0].shape, dtype=object)
    inside = [a for a in range(len(sizes)) if a not in d.collapsed_slice_dims and a not in d.operand_batching_dims]
    for index in np.ndindex(result.shape):
        batch = [i for a, i in enumerate(index) if a not in d.offset_dims]
        at: list[Any] = [0] * len(sizes)
        for k, axis in enumerate(d.start_index_map):
            at[axis] = indices[(*batch, k)]
        for axis, of in zip(d.operand_batching_dims, d.start_indices_batching_dims, strict=True):
            at[axis] = batch[of]
        in_bounds: Any = True
        for axis, i in enumerate(at):
            largest = x.shape[axis] - sizes[axis]
            if fills:
                in_bounds = code.bit_and(in_bounds, code.compare("ge", "i", i, 0))
                in_bounds = code.bit_and(in_bounds, code.compare("le", "i", i, largest))
            at[axis] = _clip(code, i, largest)
        for axis, of in zip(inside, d.offset_dims, strict=True):
            at[axis] = code.int_op("add", at[axis], index[of])
        found = values.element(x, at, types[0])
        if in_bounds is not True and types[0] != "f":
            raise Unsupported("an index into an integer array that may be out of bounds")
        fill = math.nan if params["fill_value"] is None else float(params["fill_value"])
        result[index] = code.select(in_bounds, types[0], found, fill)
    return [result]


def _scatter(adds: bool) -> Callable[..., Any]:
    def rule(values: Values, params: Any, args: Any, types: Any, out: Any) -> Results:
        x, indices, updates = args[0], values.scalars(args[1]), values.scalars(args[2])
        d, clips = params["dimension_numbers"], params["mode"] == GatherScatterMode.CLIP
        _check(types[1:2], x.shape)
        if not adds and params["update_jaxpr"] is not None:
            raise Unsupported("a scatter that applies a function")
        add = SCALAR_RULES["add"](values.code, {}, types) if adds else None
        if not all(map(is_constant, indices.ravel())):
            return [_scatter_at_variable_indices(values, x, indices, updates, params, types[0], add)]
        written: dict[tuple[int, ...], Any] = {}
        inserted = {*d.inserted_window_dims, *d.operand_batching_dims}
        inside = [a for a in range(len(x.shape)) if a not in inserted]
        window = dict(zip(inside, (updates.shape[a] for a in d.update_window_dims), strict=True))
        largest = [n - window.get(a, 1) for a, n in enumerate(x.shape)]
        for index in np.ndindex(updates.shape):
            batch = [i for a, i in enumerate(index) if a not in d.update_window_dims]
            at = [0] * len(x.shape)
            for k, axis in enumerate(d.scatter_dims_to_operand_dims):
                at[axis] = indices[(*batch, k)]
            for axis, of in zip(d.operand_batching_dims, d.scatter_indices_batching_dims, strict=True):
                at[axis] = batch[of]
            if clips:
                at = [min(max(i, 0), limit) for i, limit in zip(at, largest, strict=True)]
            if not all(0 <= i <= limit for i, limit in zip(at, largest, strict=True)):
                continue  # updates out of bounds are ignored as a whole
            for axis, of in zip(inside, d.update_window_dims, strict=True):
                at[axis] += index[of]
            to, new = tuple(at), updates[index]
            if add is not None:
                new = add(written[to] if to in written else values.element(x, to, types[0]), new)
            written[to] = new
        if values.is_large(x):
            return [_with_entries_replaced(values, x, types[0], written)]
        result = values.scalars(x).copy()
        for to, value in written.items():
            result[to] = value
        return [result]

    return rule


def _scatter_at_variable_indices(
    values: Values, x: Any, indices: np.ndarray, updates: np.ndarray, params: Any, scalar_type: str, add: Any
) -> np.ndarray:
    """Scatter at variable indices: every element is compared with the target index and updated if they match."""
    code, d = values.code, params["dimension_numbers"]
    if params["mode"] == GatherScatterMode.CLIP or d.operand_batching_dims or d.update_window_dims:
        raise Unsupported("a clipped, batched or windowed scatter at variable indices")
    result = values.scalars(x).copy()
    for index in np.ndindex(updates.shape):
        at = [indices[(*index, d.scatter_dims_to_operand_dims.index(axis))] for axis in range(result.ndim)]
        for element in np.ndindex(result.shape):
            selected: Any = True
            for i, k in zip(at, element, strict=True):
                selected = code.bit_and(selected, code.compare("eq", "i", i, k))
            value = updates[index] if add is None else add(result[element], updates[index])
            result[element] = code.select(selected, scalar_type, value, result[element])
    return result


def _with_entries_replaced(values: Values, x: Any, scalar_type: str, written: dict[tuple[int, ...], Any]) -> Any:
    """A large array with some elements replaced."""
    memory = values.stored_copy(x, scalar_type)
    for to, value in written.items():
        values.code.store(memory.base, values.offset(memory.shape, to), scalar_type, value)
    return memory


INDEX_RULES: dict[str, Callable[..., Any]] = {
    "dynamic_slice": _dynamic_slice,
    "dynamic_update_slice": _dynamic_update,
    "maybe_set": _maybe_set,
    "gather": _gather,
    "scatter": _scatter(adds=False),
    "scatter-add": _scatter(adds=True),
}
"""Primitive -> rule: function of the `Values`, the parameters, the arguments, their scalar types and the abstract
results, which returns the results."""
