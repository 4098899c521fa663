"""`Program`: a jaxpr compiled by LLVM, called with packed arrays.

For small programs it replaces `jax.jit`, and is faster to compile and to run.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from jax.extend.core import ClosedJaxpr
from jax.interpreters.partial_eval import dce_jaxpr

from bricard.execution.llvm.machine import Function
from bricard.execution.llvm.scalar_types import scalar_type_of
from bricard.execution.llvm.size import refuse_large
from bricard.execution.llvm.stop import FLAG, STARTED
from bricard.execution.llvm.translate import Translation, constant_array
from bricard.execution.llvm.values import MAX_SCALARISED, Memory

NONZERO, ZERO, MINUS_ZERO = np.arange(3, dtype=np.uint8)
ZERO_VALUES = {ZERO: 0.0, MINUS_ZERO: -0.0}
"""Values of the parameters that are treated as constants when a program is compiled: zeros, with their signs."""


class Packed(NamedTuple):
    """Arrays stored one after another in one buffer, one 8-byte word per element."""

    words: np.ndarray
    address: int
    """Memory address of `words`."""
    signature: tuple[tuple[tuple[int, ...], str], ...]
    """Shape and dtype of each array."""
    zeros: bytes | None
    """`NONZERO`, `ZERO` or `MINUS_ZERO` for each word if the program may assume these zeros, otherwise None."""


def pack(arrays: Sequence[Any], find_zeros: bool = False) -> Packed:
    """Pack arrays of floats, integers and booleans; raises `Unsupported` for other types."""
    if not arrays:
        return EMPTY
    for x in arrays:
        scalar_type_of(x)
    arrays = [np.asarray(x) for x in arrays]
    words = np.empty(sum(x.size for x in arrays))
    integers, offset = words.view(np.int64), 0
    zeros = np.full(words.size, NONZERO)
    for x in arrays:
        part = slice(offset, offset + x.size)
        if x.dtype.kind == "f":
            words[part] = x.ravel()
            if find_zeros:
                zeros[part] = np.where(words[part] != 0, NONZERO, np.where(integers[part] == 0, ZERO, MINUS_ZERO))
        else:
            integers[part] = x.ravel()
        offset += x.size
    signature = tuple((x.shape, x.dtype.str) for x in arrays)
    return Packed(words, words.ctypes.data, signature, zeros.tobytes() if find_zeros else None)


EMPTY = Packed(np.empty(0), 0, (), None)


class Program:
    """A compiled function of groups of packed arrays; raises `Unsupported` if only XLA can compile it."""

    def __init__(self, closed: ClosedJaxpr, groups: Sequence[Packed]):
        refuse_large(closed.jaxpr)
        translation = Translation()
        code, values = translation.code, translation.values
        names = [f"%in{k}" for k in range(len(groups))]
        avals, inputs = iter(closed.in_avals), []
        for name, group in zip(names, groups, strict=True):
            base, offset = code.parameter(name), 0
            zeros = None if group.zeros is None else np.frombuffer(group.zeros, dtype=np.uint8)
            for shape, _ in group.signature:
                aval: Any = next(avals)
                size = math.prod(shape)
                array = Memory(code.address(base, offset), shape, scalar_type_of(aval), mutable=False)
                inputs.append(array)
                if zeros is not None and size <= MAX_SCALARISED:
                    inputs[-1] = np.empty(shape, dtype=object)
                    for i, index in enumerate(np.ndindex(shape)):
                        value = ZERO_VALUES.get(zeros[offset + i])
                        inputs[-1][index] = values.element(array, index, array.scalar_type) if value is None else value
                offset += size
        jaxpr, _ = dce_jaxpr(closed.jaxpr, [True] * len(closed.jaxpr.outvars), instantiate=True)
        with np.errstate(all="ignore"):  # constants may be NaN or infinite
            results = translation.run(jaxpr, [constant_array(c) for c in closed.consts], inputs)
        self._shapes: list[tuple[slice, Any]] = []
        out, offset = code.parameter("%out"), 0
        for x, aval in zip(results, closed.out_avals, strict=True):
            size = math.prod(x.shape)
            values.write(Memory(code.address(out, offset), x.shape, scalar_type_of(aval)), x)
            self._shapes.append((slice(offset, offset + size), aval))
            offset += size
        self._size, self._memory = offset, code.words
        self._function = Function(code.text(), [*names, "%out", "%memory", "%stop"])

    def __call__(self, groups: Sequence[Packed]) -> list[np.ndarray] | None:
        """The results; None if a guard raised an alarm: an assumption of the program did not hold (`Guards`)."""
        words, memory = np.empty(self._size), np.empty(self._memory)
        memory[0] = 0.0
        FLAG[STARTED] = 1
        self._function.call(*(g.address for g in groups), words.ctypes.data, memory.ctypes.data, FLAG.ctypes.data)
        FLAG[STARTED] = 0
        if memory[:1].view(np.int64)[0]:
            return None
        integers = words.view(np.int64)
        return [
            (words if aval.dtype.kind == "f" else integers)[part].reshape(aval.shape).astype(aval.dtype, copy=False)
            for part, aval in self._shapes
        ]
