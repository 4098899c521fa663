"""Arrays of a program: numbers one by one, in memory, or by a rule for each element."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from bricard.native.code import Code, Unsupported, known

ONE_BY_ONE = 20_000
"""Larger arrays are never handled number by number."""
FEW = 256
"""Arrays in memory of up to this many numbers are loaded whole where they are used."""


DEAREST = 20
"""What takes more operations for each element is written to memory, not done again wherever it is asked for."""


class Memory:
    """An array in memory, rows first."""

    def __init__(self, base: str, shape: Sequence[int], kind: str, changes: bool = True):
        self.base, self.shape, self.kind, self.changes = base, tuple(shape), kind, changes
        self.holders = 0
        """How many variables of the program, still to be used, are this array. It is written over if there is none."""

    @property
    def size(self) -> int:
        return math.prod(self.shape)


class Rule:
    """An array by what is at an index (a list of numbers, known or not)."""

    def __init__(self, shape: Sequence[int], kind: str, at: Callable[[list[Any]], Any], cost: int = 1):
        self.shape, self.kind, self.at, self.cost = tuple(shape), kind, at, cost

    @property
    def size(self) -> int:
        return math.prod(self.shape)


class Values:
    """How arrays become one another."""

    def __init__(self, code: Code):
        self.code = code

    def numbers(self, x: Any) -> np.ndarray:
        """The array number by number."""
        if isinstance(x, np.ndarray):
            return x
        if x.size > ONE_BY_ONE:
            raise Unsupported(f"an array of {x.shape}")
        result = np.empty(x.shape, dtype=object)
        for index in np.ndindex(x.shape):
            result[index] = self.element(x, list(index), x.kind)
        return result

    def element(self, x: Any, index: Sequence[Any], kind: str) -> Any:
        """One number of an array."""
        if isinstance(x, Rule):
            return x.at(list(index))
        if isinstance(x, np.ndarray):
            if all(map(known, index)):
                return x[tuple(index)]
            base = self.code.table(x, kind, list(x.ravel()))
            return self.code.load(base, self.offset(x.shape, index), kind, False)
        return self.code.load(x.base, self.offset(x.shape, index), x.kind, x.changes)

    def offset(self, shape: Sequence[int], index: Sequence[Any]) -> Any:
        """Number of words before an element."""
        code, total = self.code, 0
        for length, i in zip(shape, index, strict=True):
            total = code.int_op("add", code.int_op("mul", total, int(length)), i)
        return total

    def kept(self, x: Any, kind: str) -> Memory:
        """The array in memory of its own, to be changed."""
        memory = Memory(self.code.reserve(math.prod(x.shape)), x.shape, kind)
        self.write(memory, x)
        return memory

    def write(self, to: Memory, x: Any) -> None:
        """Put an array into memory."""
        code = self.code
        if isinstance(x, Memory):
            code.copy(to.base, x.base, x.size)
        elif isinstance(x, np.ndarray):
            for i, value in enumerate(x.ravel()):
                code.store(to.base, i, to.kind, value)
        else:

            def step(i: Any) -> list[Any]:
                index, rest = [], i
                for length in reversed(x.shape):
                    index.insert(0, code.divided("rem", rest, length))
                    rest = code.divided("div", rest, length)
                code.store(to.base, i, to.kind, x.at(index))
                return [code.int_op("add", i, 1)]

            code.loop("i", [0], lambda i: code.compare("lt", "i", i, x.size), step)

    def is_large(self, x: Any) -> bool:
        """Whether it is not to be handled number by number, if that can be."""
        return isinstance(x, Rule) or (isinstance(x, Memory) and x.size > FEW)

    def rule(self, x: Any, kind: str) -> Callable[[list[Any]], Any]:
        """What is at an index."""
        if isinstance(x, Memory):
            x.holders += 1  # it is read later
        return lambda index: self.element(x, index, kind)


def single(x: Any) -> np.ndarray:
    """Also of a number alone."""
    if isinstance(x, np.ndarray):
        return x
    result = np.empty((), dtype=object)
    result[()] = x
    return result
