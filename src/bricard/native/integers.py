"""Arithmetic of integers of all widths, as XLA does it: they wrap around, and nothing is undefined."""

from __future__ import annotations

from typing import Any

from bricard.native.instructions import Instructions, known
from bricard.native.kinds import INTEGERS, wrapped


class Integers(Instructions):
    """Operations on integers; the kind of indices is "i"."""

    def narrow(self, x: Any, kind: str) -> Any:
        """64 bits cut to the width of a kind, and extended again."""
        if known(x):
            return wrapped(x, kind)
        return self._extended(x, kind, INTEGERS[kind].signed)

    def _extended(self, x: Any, kind: str, signed: bool) -> Any:
        bits = INTEGERS[kind].bits
        if bits == 64:
            return x
        cut = self.make(f"trunc i64 {{}} to i{bits}", x, kinds="i")
        return self.make(f"{'sext' if signed else 'zext'} i{bits} {{}} to i64", cut, kinds="i")

    def int_op(self, operation: str, x: Any, y: Any, kind: str = "i") -> Any:
        """`add`, `sub` or `mul`."""
        if known(x) and known(y):
            return wrapped(x + y if operation == "add" else x - y if operation == "sub" else x * y, kind)
        if operation != "sub" and known(x):
            x, y = y, x
        if known(y):
            if y == 0:
                return 0 if operation == "mul" else x
            if y == 1 and operation == "mul":
                return x
        return self.narrow(self.make(f"{operation} i64 {{}}, {{}}", x, y, kinds="ii"), kind)

    def divided(self, operation: str, x: Any, y: Any, kind: str = "i") -> Any:
        """`div` (towards zero) or `rem`; over zero the quotient has all bits set, and the remainder is `x`."""
        signed = INTEGERS[kind].signed
        if known(x) and known(y):
            if y == 0:
                return wrapped(-1, kind) if operation == "div" else x
            whole = abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)
            return wrapped(whole if operation == "div" else x - whole * y, kind)
        if known(y) and y in (0, 1, -1):
            if operation == "rem":
                return x if y == 0 else 0
            return wrapped(-1, kind) if y == 0 else x if y == 1 else self.int_op("sub", 0, x, kind)
        template = f"{'s' if signed else 'u'}{operation} i64 {{}}, {{}}"
        if known(y):
            return self.make(template, x, y, kinds="ii")
        # Processors trap on a division by zero, and on that of the smallest integer by -1.
        zero = self.make("icmp eq i64 {}, 0", y, kinds="i")
        minus = self.make("icmp eq i64 {}, -1", y, kinds="i") if signed else None
        trap = zero if minus is None else self.make("or i1 {}, {}", zero, minus, kinds="bb")
        by = self.make("select i1 {}, i64 1, i64 {}", trap, y, kinds="bi")
        result = self.make(template, x, by, kinds="ii")
        if operation == "rem":
            return self.make("select i1 {}, i64 {}, i64 {}", zero, x, result, kinds="bii")
        if minus is not None:
            negative = self.int_op("sub", 0, x, kind)
            result = self.make("select i1 {}, i64 {}, i64 {}", minus, negative, result, kinds="bii")
        return self.make("select i1 {}, i64 {}, i64 {}", zero, wrapped(-1, kind), result, kinds="bii")

    def bitwise(self, operation: str, x: Any, y: Any, kind: str) -> Any:
        """`and`, `or` or `xor`."""
        if known(x) and known(y):
            return wrapped({"and": x & y, "or": x | y, "xor": x ^ y}[operation], kind)
        return self.make(f"{operation} i64 {{}}, {{}}", x, y, kinds="ii")

    def complement(self, x: Any, kind: str) -> Any:
        """All bits inverted."""
        return self.narrow(~x if known(x) else self.make("xor i64 {}, -1", x, kinds="i"), kind)

    def shift(self, operation: str, x: Any, y: Any, kind: str) -> Any:
        """`shl`, `lshr` or `ashr`; by as many bits as there are, or a negative number, all of them leave."""
        bits = INTEGERS[kind].bits
        if operation == "lshr":
            x = x & (1 << bits) - 1 if known(x) else self._extended(x, kind, signed=False)
        elif operation == "ashr":
            x = wrapped(x, {8: "c", 16: "h", 32: "j", 64: "i"}[bits]) if known(x) else self._extended(x, kind, True)
        most, rest = bits - 1, 0 if operation != "ashr" else None
        if known(y):
            if not 0 <= y <= most:
                if rest is not None:
                    return rest
                y = most
            if known(x):
                return wrapped(x << y if operation == "shl" else x >> y, kind)
            return self.narrow(self.make(f"{operation} i64 {{}}, {{}}", x, y, kinds="ii"), kind)
        far = self.make("icmp ugt i64 {}, {}", y, most, kinds="ii")
        by = self.make("select i1 {}, i64 {}, i64 {}", far, most, y, kinds="bii")
        result = self.narrow(self.make(f"{operation} i64 {{}}, {{}}", x, by, kinds="ii"), kind)
        return result if rest is None else self.make("select i1 {}, i64 0, i64 {}", far, result, kinds="bi")

    def count_bits(self, function: str, x: Any, kind: str) -> Any:
        """`ctpop`, the bits that are set, or `ctlz`, the zeros in front."""
        bits = INTEGERS[kind].bits
        if known(x):
            x &= (1 << bits) - 1
            return x.bit_count() if function == "ctpop" else bits - x.bit_length()
        x = self._extended(x, kind, signed=False)
        if function == "ctpop":
            return self.make("call i64 @llvm.ctpop.i64(i64 {})", x, kinds="i")
        zeros = self.make("call i64 @llvm.ctlz.i64(i64 {}, i1 false)", x, kinds="i")
        return self.int_op("sub", zeros, 64 - bits)
