"""Scalar types of the LLVM back end, each denoted by one letter.

"f" is a double, "b" a boolean. Integers of all widths are held in 64-bit registers and words, sign- or zero-extended,
and narrowed to their own width after each operation that may exceed it, so that they wrap around as in XLA. Other types
(float32, complex numbers, random keys, …) are refused and left to XLA.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np


class Unsupported(Exception):
    """Raised for programs that the LLVM back end cannot compile; the message names the operation or type."""


class Width(NamedTuple):
    """Width and signedness of an integer type."""

    bits: int
    signed: bool

    @property
    def smallest(self) -> int:
        return -(1 << self.bits - 1) if self.signed else 0

    @property
    def largest(self) -> int:
        return (1 << self.bits - self.signed) - 1


INTEGERS = {
    **{scalar_type: Width(bits, True) for scalar_type, bits in zip("chji", (8, 16, 32, 64), strict=True)},
    **{scalar_type: Width(bits, False) for scalar_type, bits in zip("tuvw", (8, 16, 32, 64), strict=True)},
}
"""Integer type -> width. "i" is also the type of indices inside the compiler."""

SCALAR_TYPES = {np.dtype(float): "f", np.dtype(bool): "b"} | {
    np.dtype(f"{'int' if width.signed else 'uint'}{width.bits}"): scalar_type for scalar_type, width in INTEGERS.items()
}
"""dtype of an array -> letter of its scalar type."""

LLVM_TYPES = {"f": "double", "b": "i1"} | dict.fromkeys(INTEGERS, "i64")
"""Scalar type -> LLVM type of a register."""


def scalar_type_of(array: Any) -> str:
    """Scalar type of a concrete or abstract array; raises `Unsupported` if there is none for its dtype."""
    scalar_type = SCALAR_TYPES.get(array.dtype)
    if scalar_type is None:
        raise Unsupported(f"numbers of type {array.dtype}")
    return scalar_type


def wrapped(x: int, scalar_type: str) -> int:
    """An integer wrapped around to the range of its type."""
    bits, signed = INTEGERS[scalar_type]
    x &= (1 << bits) - 1
    return x - (1 << bits) if signed and x >> bits - 1 else x
