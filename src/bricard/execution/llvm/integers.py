"""Integer arithmetic of all widths with the semantics of XLA: it wraps around, and no operation is undefined."""

from __future__ import annotations

from typing import Any

from bricard.execution.llvm.instructions import Instructions, is_constant
from bricard.execution.llvm.scalar_types import INTEGERS, wrapped


class Integers(Instructions):
    """Emits operations on integers. The default type "i" is that of indices."""

    def narrow(self, x: Any, scalar_type: str) -> Any:
        """Wrap a 64-bit integer around to the range of its type."""
        if is_constant(x):
            return wrapped(x, scalar_type)
        return self._extend(x, scalar_type, INTEGERS[scalar_type].signed)

    def _extend(self, x: Any, scalar_type: str, signed: bool) -> Any:
        bits = INTEGERS[scalar_type].bits
        if bits == 64:
            return x
        truncated = self.emit(f"trunc i64 {{}} to i{bits}", x, types="i")
        return self.emit(f"{'sext' if signed else 'zext'} i{bits} {{}} to i64", truncated, types="i")

    def int_op(self, operation: str, x: Any, y: Any, scalar_type: str = "i") -> Any:
        """Emit `add`, `sub` or `mul`."""
        if is_constant(x) and is_constant(y):
            return wrapped(x + y if operation == "add" else x - y if operation == "sub" else x * y, scalar_type)
        if operation != "sub" and is_constant(x):
            x, y = y, x
        if is_constant(y):
            if y == 0:
                return 0 if operation == "mul" else x
            if y == 1 and operation == "mul":
                return x
        return self.narrow(self.emit(f"{operation} i64 {{}}, {{}}", x, y, types="ii"), scalar_type)

    def int_divide(self, operation: str, x: Any, y: Any, scalar_type: str = "i") -> Any:
        """Emit `div` (towards zero) or `rem`. For `y = 0` the quotient has all bits set and the remainder is `x`."""
        signed = INTEGERS[scalar_type].signed
        if is_constant(x) and is_constant(y):
            if y == 0:
                return wrapped(-1, scalar_type) if operation == "div" else x
            quotient = abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)
            return wrapped(quotient if operation == "div" else x - quotient * y, scalar_type)
        if is_constant(y) and y in (0, 1, -1):
            if operation == "rem":
                return x if y == 0 else 0
            return wrapped(-1, scalar_type) if y == 0 else x if y == 1 else self.int_op("sub", 0, x, scalar_type)
        template = f"{'s' if signed else 'u'}{operation} i64 {{}}, {{}}"
        if is_constant(y):
            return self.emit(template, x, y, types="ii")
        # Processors trap on division by zero and on division of the smallest integer by -1.
        is_zero = self.emit("icmp eq i64 {}, 0", y, types="i")
        is_minus_one = self.emit("icmp eq i64 {}, -1", y, types="i") if signed else None
        traps = is_zero if is_minus_one is None else self.emit("or i1 {}, {}", is_zero, is_minus_one, types="bb")
        divisor = self.emit("select i1 {}, i64 1, i64 {}", traps, y, types="bi")
        result = self.emit(template, x, divisor, types="ii")
        if operation == "rem":
            return self.emit("select i1 {}, i64 {}, i64 {}", is_zero, x, result, types="bii")
        if is_minus_one is not None:
            negative = self.int_op("sub", 0, x, scalar_type)
            result = self.emit("select i1 {}, i64 {}, i64 {}", is_minus_one, negative, result, types="bii")
        return self.emit("select i1 {}, i64 {}, i64 {}", is_zero, wrapped(-1, scalar_type), result, types="bii")

    def bitwise(self, operation: str, x: Any, y: Any, scalar_type: str) -> Any:
        """Emit `and`, `or` or `xor`."""
        if is_constant(x) and is_constant(y):
            return wrapped({"and": x & y, "or": x | y, "xor": x ^ y}[operation], scalar_type)
        return self.emit(f"{operation} i64 {{}}, {{}}", x, y, types="ii")

    def complement(self, x: Any, scalar_type: str) -> Any:
        """Bitwise complement."""
        return self.narrow(~x if is_constant(x) else self.emit("xor i64 {}, -1", x, types="i"), scalar_type)

    def shift(self, operation: str, x: Any, y: Any, scalar_type: str) -> Any:
        """Emit `shl`, `lshr` or `ashr`. A shift count that is negative or not below the width shifts all bits out."""
        bits = INTEGERS[scalar_type].bits
        if operation == "lshr":
            x = x & (1 << bits) - 1 if is_constant(x) else self._extend(x, scalar_type, signed=False)
        elif operation == "ashr":
            x = (
                wrapped(x, {8: "c", 16: "h", 32: "j", 64: "i"}[bits])
                if is_constant(x)
                else self._extend(x, scalar_type, True)
            )
        largest, overflow = bits - 1, 0 if operation != "ashr" else None
        if is_constant(y):
            if not 0 <= y <= largest:
                if overflow is not None:
                    return overflow
                y = largest
            if is_constant(x):
                return wrapped(x << y if operation == "shl" else x >> y, scalar_type)
            return self.narrow(self.emit(f"{operation} i64 {{}}, {{}}", x, y, types="ii"), scalar_type)
        out_of_range = self.emit("icmp ugt i64 {}, {}", y, largest, types="ii")
        count = self.emit("select i1 {}, i64 {}, i64 {}", out_of_range, largest, y, types="bii")
        result = self.narrow(self.emit(f"{operation} i64 {{}}, {{}}", x, count, types="ii"), scalar_type)
        return (
            result if overflow is None else self.emit("select i1 {}, i64 0, i64 {}", out_of_range, result, types="bi")
        )

    def count_bits(self, function: str, x: Any, scalar_type: str) -> Any:
        """Emit `ctpop` (number of set bits) or `ctlz` (number of leading zeros)."""
        bits = INTEGERS[scalar_type].bits
        if is_constant(x):
            x &= (1 << bits) - 1
            return x.bit_count() if function == "ctpop" else bits - x.bit_length()
        x = self._extend(x, scalar_type, signed=False)
        if function == "ctpop":
            return self.emit("call i64 @llvm.ctpop.i64(i64 {})", x, types="i")
        zeros = self.emit("call i64 @llvm.ctlz.i64(i64 {}, i1 false)", x, types="i")
        return self.int_op("sub", zeros, 64 - bits)
