"""What JAX' operations do with indices: parts of arrays read and written, in places known or not."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jax.lax import GatherScatterMode

from bricard.native.code import Code, Unsupported, known
from bricard.native.kinds import INTEGERS
from bricard.native.numbers import NUMBERWISE
from bricard.native.values import Memory, Values

Results = list[Any]


def _check(kinds: Sequence[str], shape: Sequence[int]) -> None:
    """Refuse indices in which XLA's own comparisons with the lengths of an array may wrap around."""
    if any(kind not in INTEGERS or kind == "w" or INTEGERS[kind].largest < max(shape, default=0) for kind in kinds):
        raise Unsupported("an index of a type that does not fit the array")


def _within(code: Code, i: Any, largest: int) -> Any:
    """An index made to lie between 0 and `largest`."""
    if known(i):
        return min(max(int(i), 0), largest)
    i = code.select(code.compare("lt", "i", i, 0), "i", 0, i)
    return code.select(code.compare("gt", "i", i, largest), "i", largest, i)


def _starts(values: Values, shape: Sequence[int], sizes: Sequence[int], args: Any) -> list[Any]:
    numbers = [values.numbers(x)[()] for x in args]
    return [_within(values.code, i, n - k) for i, n, k in zip(numbers, shape, sizes, strict=True)]


def _dynamic_slice(values: Values, params: Any, args: Any, kinds: Any, out: Any) -> Results:
    x, sizes = args[0], params["slice_sizes"]
    _check(kinds[1:], x.shape)
    starts = _starts(values, x.shape, sizes, args[1:])
    if isinstance(x, np.ndarray) and all(map(known, starts)):
        return [x[tuple(slice(s, s + n) for s, n in zip(starts, sizes, strict=True))]]
    result = np.empty(sizes, dtype=object)
    for index in np.ndindex(*sizes):
        at = [values.code.int_op("add", s, i) for s, i in zip(starts, index, strict=True)]
        result[index] = values.element(x, at, kinds[0])
    return [result]


def _dynamic_update(values: Values, params: Any, args: Any, kinds: Any, out: Any) -> Results:
    x, part = args[0], values.numbers(args[1])
    _check(kinds[2:], x.shape)
    return [updated(values, x, part, _starts(values, x.shape, part.shape, args[2:]), kinds[0])]


def updated(values: Values, x: Any, part: np.ndarray, starts: list[Any], kind: str) -> Any:
    """An array with a part written over; in place, if nobody needs it as it was."""
    if isinstance(x, np.ndarray) and all(map(known, starts)):
        result = x.copy()
        result[tuple(slice(s, s + n) for s, n in zip(starts, part.shape, strict=True))] = part
        return result
    if not isinstance(x, Memory) or x.holders or not x.changes:
        x = values.kept(x, kind)
    for index in np.ndindex(part.shape):
        at = [values.code.int_op("add", s, i) for s, i in zip(starts, index, strict=True)]
        values.code.store(x.base, values.offset(x.shape, at), x.kind, part[index])
    return x


def _set_row(values: Values, params: Any, args: Any, kinds: Any, out: Any) -> Results:
    """Equinox' `buffer.at[i].set(row)`."""
    _, x, row, *indices = args
    if len(indices) != 1 or params["i_static"] is not None or indices[0].shape or params["kwargs"]:
        raise Unsupported("writing to several places at once")
    _check(kinds[3:], x.shape)
    code, i, n = values.code, values.numbers(indices[0])[()], x.shape[0]
    i = code.select(code.compare("lt", "i", i, 0), "i", code.int_op("add", i, n), i)
    there = code.both(code.compare("ge", "i", i, 0), code.compare("lt", "i", i, n))
    i = _within(code, i, n - 1)
    part = values.numbers(row)[None].copy()
    if there is not True:  # what is written elsewhere is lost
        for index in np.ndindex(part.shape):
            before = values.element(x, [i, *index[1:]], kinds[1])
            part[index] = code.select(there, kinds[1], part[index], before)
    return [updated(values, x, part, [i, *[0] * (part.ndim - 1)], kinds[1])]


def _gather(values: Values, params: Any, args: Any, kinds: Any, out: Any) -> Results:
    x, indices = args[0], values.numbers(args[1])
    _check(kinds[1:2], x.shape)
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
        good: Any = True
        for axis, i in enumerate(at):
            largest = x.shape[axis] - sizes[axis]
            if fills:
                good = code.both(good, code.compare("ge", "i", i, 0))
                good = code.both(good, code.compare("le", "i", i, largest))
            at[axis] = _within(code, i, largest)
        for axis, of in zip(inside, d.offset_dims, strict=True):
            at[axis] = code.int_op("add", at[axis], index[of])
        found = values.element(x, at, kinds[0])
        if good is not True and kinds[0] != "f":
            raise Unsupported("an index that may be too large")
        fill = math.nan if params["fill_value"] is None else float(params["fill_value"])
        result[index] = code.select(good, kinds[0], found, fill)
    return [result]


def _scatter(adds: bool) -> Callable[..., Any]:
    def rule(values: Values, params: Any, args: Any, kinds: Any, out: Any) -> Results:
        x, indices, updates = args[0], values.numbers(args[1]), values.numbers(args[2])
        d, clips = params["dimension_numbers"], params["mode"] == GatherScatterMode.CLIP
        _check(kinds[1:2], x.shape)
        if not adds and params["update_jaxpr"] is not None:
            raise Unsupported("numbers replaced by a function of theirs")
        add = NUMBERWISE["add"](values.code, {}, kinds) if adds else None
        if not all(map(known, indices.ravel())):
            return [_scattered(values, x, indices, updates, params, kinds[0], add)]
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
                at = [min(max(i, 0), most) for i, most in zip(at, largest, strict=True)]
            if not all(0 <= i <= most for i, most in zip(at, largest, strict=True)):
                continue  # the whole of it is lost
            for axis, of in zip(inside, d.update_window_dims, strict=True):
                at[axis] += index[of]
            to, new = tuple(at), updates[index]
            if add is not None:
                new = add(written[to] if to in written else values.element(x, to, kinds[0]), new)
            written[to] = new
        if values.is_large(x):
            return [_patched(values, x, kinds[0], written)]
        result = values.numbers(x).copy()
        for to, value in written.items():
            result[to] = value
        return [result]

    return rule


def _scattered(
    values: Values, x: Any, indices: np.ndarray, updates: np.ndarray, params: Any, kind: str, add: Any
) -> np.ndarray:
    """Numbers written to places that are not known: each place asks whether it is meant."""
    code, d = values.code, params["dimension_numbers"]
    if params["mode"] == GatherScatterMode.CLIP or d.operand_batching_dims or d.update_window_dims:
        raise Unsupported("writing several numbers to a place that is not known")
    result = values.numbers(x).copy()
    for index in np.ndindex(updates.shape):
        at = [indices[(*index, d.scatter_dims_to_operand_dims.index(axis))] for axis in range(result.ndim)]
        for place in np.ndindex(result.shape):
            meant: Any = True
            for i, k in zip(at, place, strict=True):
                meant = code.both(meant, code.compare("eq", "i", i, k))
            value = updates[index] if add is None else add(result[place], updates[index])
            result[place] = code.select(meant, kind, value, result[place])
    return result


def _patched(values: Values, x: Any, kind: str, written: dict[tuple[int, ...], Any]) -> Any:
    """A large array with some numbers replaced."""
    memory = values.kept(x, kind)
    for to, value in written.items():
        values.code.store(memory.base, values.offset(memory.shape, to), kind, value)
    return memory


INDICES: dict[str, Callable[..., Any]] = {
    "dynamic_slice": _dynamic_slice,
    "dynamic_update_slice": _dynamic_update,
    "maybe_set": _set_row,
    "gather": _gather,
    "scatter": _scatter(adds=False),
    "scatter-add": _scatter(adds=True),
}
"""Name of the operation -> function of the values, its parameters, its arguments, their kinds and the abstract results,
which gives the results."""
