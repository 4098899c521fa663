"""Representations of arrays while a program is compiled.

An array is scalarised (an object array of constants and registers), in `Memory`, or a `LazyArray`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from bricard.execution.llvm.arithmetic import Code, Unsupported, is_constant

MAX_SCALARISED = 20_000
"""Arrays with more elements than this are never scalarised."""
MAX_LOADED = 256
"""Arrays in memory with up to this many elements are scalarised where they are used."""


MAX_LAZY_COST = 20
"""Lazy arrays that need more operations per element are written to memory instead of recomputed at each use."""


class Memory:
    """An array in memory, in row-major order."""

    def __init__(self, base: str, shape: Sequence[int], scalar_type: str, mutable: bool = True):
        self.base, self.shape, self.scalar_type, self.mutable = base, tuple(shape), scalar_type, mutable
        self.references = 0
        """Number of live variables that refer to this array. It may be overwritten in place if there are none."""

    @property
    def size(self) -> int:
        return math.prod(self.shape)


class LazyArray:
    """An array given by a function that emits the element at an index (a list of constants and registers)."""

    def __init__(self, shape: Sequence[int], scalar_type: str, at: Callable[[list[Any]], Any], cost: int = 1):
        self.shape, self.scalar_type, self.at, self.cost = tuple(shape), scalar_type, at, cost

    @property
    def size(self) -> int:
        return math.prod(self.shape)


class Values:
    """Reads, writes and converts arrays."""

    def __init__(self, code: Code):
        self.code = code

    def scalars(self, x: Any) -> np.ndarray:
        """The scalarised array; raises `Unsupported` if it is too large."""
        if isinstance(x, np.ndarray):
            return x
        if x.size > MAX_SCALARISED:
            raise Unsupported(f"an array of {x.shape}")
        result = np.empty(x.shape, dtype=object)
        for index in np.ndindex(x.shape):
            result[index] = self.element(x, list(index), x.scalar_type)
        return result

    def element(self, x: Any, index: Sequence[Any], scalar_type: str) -> Any:
        """The element of an array at an index of constants and registers."""
        if isinstance(x, LazyArray):
            return x.at(list(index))
        if isinstance(x, np.ndarray):
            if all(map(is_constant, index)):
                return x[tuple(index)]
            base = self.code.table(x, scalar_type, list(x.ravel()))
            return self.code.load(base, self.offset(x.shape, index), scalar_type, False)
        return self.code.load(x.base, self.offset(x.shape, index), x.scalar_type, x.mutable)

    def offset(self, shape: Sequence[int], index: Sequence[Any]) -> Any:
        """Offset of an element in words."""
        code, total = self.code, 0
        for length, i in zip(shape, index, strict=True):
            total = code.int_op("add", code.int_op("mul", total, int(length)), i)
        return total

    def stored_copy(self, x: Any, scalar_type: str) -> Memory:
        """A mutable copy of the array in its own memory."""
        memory = Memory(self.code.reserve(math.prod(x.shape)), x.shape, scalar_type)
        self.write(memory, x)
        return memory

    def write(self, to: Memory, x: Any) -> None:
        """Write an array to memory."""
        code = self.code
        if isinstance(x, Memory):
            code.copy(to.base, x.base, x.size)
        elif isinstance(x, np.ndarray):
            for i, value in enumerate(x.ravel()):
                code.store(to.base, i, to.scalar_type, value)
        else:

            def step(i: Any) -> list[Any]:
                index, rest = [], i
                for length in reversed(x.shape):
                    index.insert(0, code.int_divide("rem", rest, length))
                    rest = code.int_divide("div", rest, length)
                code.store(to.base, i, to.scalar_type, x.at(index))
                return [code.int_op("add", i, 1)]

            code.loop("i", [0], lambda i: code.compare("lt", "i", i, x.size), step)

    def is_large(self, x: Any) -> bool:
        """True if the array should stay unscalarised where possible."""
        return isinstance(x, LazyArray) or (isinstance(x, Memory) and x.size > MAX_LOADED)

    def reader(self, x: Any, scalar_type: str) -> Callable[[list[Any]], Any]:
        """A function that emits the element at an index, possibly later."""
        if isinstance(x, Memory):
            x.references += 1  # it may be read later, so it must not be overwritten
        return lambda index: self.element(x, index, scalar_type)


def as_object_array(x: Any) -> np.ndarray:
    """`x` itself if it is an array; a scalar as a zero-dimensional object array."""
    if isinstance(x, np.ndarray):
        return x
    result = np.empty((), dtype=object)
    result[()] = x
    return result
