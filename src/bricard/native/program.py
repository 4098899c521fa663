"""Compiled functions of arrays: what `jax.jit` does for small numbers of operations, faster to compile and to run."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from jax.extend.core import ClosedJaxpr
from jax.interpreters.partial_eval import dce_jaxpr

from bricard.native.kinds import kind_of
from bricard.native.machine import Function
from bricard.native.size import refuse_large
from bricard.native.stop import FLAG, STARTED
from bricard.native.translate import Translation, constants
from bricard.native.values import ONE_BY_ONE, Memory

NONZERO, ZERO, MINUS_ZERO = np.arange(3, dtype=np.uint8)
KNOWN = {ZERO: 0.0, MINUS_ZERO: -0.0}
"""Zeros that are known when a program is made, with their signs."""


class Packed(NamedTuple):
    """Arrays one after another in words of 8 bytes."""

    words: np.ndarray
    address: int
    """Of the words."""
    signature: tuple[tuple[tuple[int, ...], str], ...]
    """Shape and type of each."""
    zeros: bytes | None
    """For each word `NONZERO`, `ZERO` or `MINUS_ZERO`, if zeros stay what they are and that is to be used."""


def pack(arrays: Sequence[Any], find_zeros: bool = False) -> Packed:
    """Arrays of floats, integers and bits, ready to be handed over; `Unsupported` if there are others."""
    if not arrays:
        return NOTHING
    for x in arrays:
        kind_of(x)
    arrays = [np.asarray(x) for x in arrays]
    words = np.empty(sum(x.size for x in arrays))
    whole, at = words.view(np.int64), 0
    zero = np.full(words.size, NONZERO)
    for x in arrays:
        part = slice(at, at + x.size)
        if x.dtype.kind == "f":
            words[part] = x.ravel()
            if find_zeros:
                zero[part] = np.where(words[part] != 0, NONZERO, np.where(whole[part] == 0, ZERO, MINUS_ZERO))
        else:
            whole[part] = x.ravel()
        at += x.size
    signature = tuple((x.shape, x.dtype.str) for x in arrays)
    return Packed(words, words.ctypes.data, signature, zero.tobytes() if find_zeros else None)


NOTHING = Packed(np.empty(0), 0, (), None)


class Program:
    """A function of groups of arrays, compiled; `Unsupported` if it does what only XLA can."""

    def __init__(self, closed: ClosedJaxpr, groups: Sequence[Packed]):
        refuse_large(closed.jaxpr)
        translation = Translation()
        code, values = translation.code, translation.values
        names = [f"%in{k}" for k in range(len(groups))]
        avals, inputs = iter(closed.in_avals), []
        for name, group in zip(names, groups, strict=True):
            base, at = code.parameter(name), 0
            zeros = None if group.zeros is None else np.frombuffer(group.zeros, dtype=np.uint8)
            for shape, _ in group.signature:
                aval: Any = next(avals)
                size = math.prod(shape)
                array = Memory(code.address(base, at), shape, kind_of(aval), changes=False)
                inputs.append(array)
                if zeros is not None and size <= ONE_BY_ONE:
                    inputs[-1] = np.empty(shape, dtype=object)
                    for i, index in enumerate(np.ndindex(shape)):
                        zero = KNOWN.get(zeros[at + i])
                        inputs[-1][index] = values.element(array, index, array.kind) if zero is None else zero
                at += size
        jaxpr, _ = dce_jaxpr(closed.jaxpr, [True] * len(closed.jaxpr.outvars), instantiate=True)
        with np.errstate(all="ignore"):  # known numbers may be NaN or infinite
            results = translation.run(jaxpr, [constants(c) for c in closed.consts], inputs)
        self._shapes: list[tuple[slice, Any]] = []
        out, at = code.parameter("%out"), 0
        for x, aval in zip(results, closed.out_avals, strict=True):
            size = math.prod(x.shape)
            values.write(Memory(code.address(out, at), x.shape, kind_of(aval)), x)
            self._shapes.append((slice(at, at + size), aval))
            at += size
        self._size, self._memory = at, code.words
        self._function = Function(code.text(), [*names, "%out", "%memory", "%stop"])

    def __call__(self, groups: Sequence[Packed]) -> list[np.ndarray] | None:
        """The results, one after another; None if what the program left out was not finite (`Guards`)."""
        words, memory = np.empty(self._size), np.empty(self._memory)
        memory[0] = 0.0
        FLAG[STARTED] = 1
        self._function.call(*(g.address for g in groups), words.ctypes.data, memory.ctypes.data, FLAG.ctypes.data)
        FLAG[STARTED] = 0
        if memory[:1].view(np.int64)[0]:
            return None
        whole = words.view(np.int64)
        return [
            (words if aval.dtype.kind == "f" else whole)[part].reshape(aval.shape).astype(aval.dtype, copy=False)
            for part, aval in self._shapes
        ]
