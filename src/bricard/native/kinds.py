"""Kinds of numbers: one letter for each type that programs by LLVM compute with.

"f" is a double, "b" one bit. Integers of all widths are kept in registers and words of 64 bits, extended by their sign
or by zeros, and are cut to their own width after each operation that may leave it: they wrap around as in XLA.
Other types (float32, complex numbers, random keys, …) are refused, and left to XLA.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np


class Unsupported(Exception):
    """What only XLA can compile."""


class Width(NamedTuple):
    """Of a type of integers."""

    bits: int
    signed: bool

    @property
    def smallest(self) -> int:
        return -(1 << self.bits - 1) if self.signed else 0

    @property
    def largest(self) -> int:
        return (1 << self.bits - self.signed) - 1


INTEGERS = {
    **{kind: Width(bits, True) for kind, bits in zip("chji", (8, 16, 32, 64), strict=True)},
    **{kind: Width(bits, False) for kind, bits in zip("tuvw", (8, 16, 32, 64), strict=True)},
}
"""Kind of integers -> width. "i" is also the kind of addresses and of indices inside the compiler."""

KINDS = {np.dtype(float): "f", np.dtype(bool): "b"} | {
    np.dtype(f"{'int' if width.signed else 'uint'}{width.bits}"): kind for kind, width in INTEGERS.items()
}
"""Type of an array -> kind of its numbers."""

TYPES = {"f": "double", "b": "i1"} | dict.fromkeys(INTEGERS, "i64")
"""Kind -> type of a register."""


def kind_of(array: Any) -> str:
    """The kind of the numbers of an array, or of an abstract array; `Unsupported` if there is none."""
    kind = KINDS.get(array.dtype)
    if kind is None:
        raise Unsupported(f"numbers of type {array.dtype}")
    return kind


def wrapped(x: int, kind: str) -> int:
    """An integer modulo the width of its kind."""
    bits, signed = INTEGERS[kind]
    x &= (1 << bits) - 1
    return x - (1 << bits) if signed and x >> bits - 1 else x
