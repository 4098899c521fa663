"""Arithmetic on single numbers: what is known is computed here, what is multiplied by zero is left out.

`Guards` sees to it that what is left out was finite, and that nobody misses the sign of a zero.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from bricard.native.guards import DIFFERENCE, NEGATIVE, PRODUCT, SUM, call_of
from bricard.native.instructions import ZERO, FoldedZero, Instructions, constant, known, sign, value_key
from bricard.native.integers import Integers
from bricard.native.kinds import INTEGERS, TYPES, Unsupported

__all__ = ["Code", "Unsupported", "constant", "known", "sign"]

POSITIVE = ("fabs", "exp", "cosh")
"""Functions whose results are neither negative nor -0."""


class Code(Integers, Instructions):
    """A program, instruction by instruction."""

    # Assumptions.

    def alarm(self, condition: Any, result: str | None = None) -> None:
        """The program is wrong where `condition` holds and `result` is needed (None: in any case)."""
        if condition is True:
            raise Unsupported("the sign of a zero, which was lost")
        if isinstance(condition, str):
            self.guards.alarms.setdefault(result, []).append(condition)

    def drop(self, x: Any) -> FoldedZero:
        """Zero times `x`, which is assumed to be finite."""
        self.guards.dropped[x] = None
        return ZERO

    def is_positive(self, x: Any) -> bool:
        """Whether a double is certainly neither negative nor -0 (it may be NaN)."""
        if isinstance(x, str):
            return x in self.guards.positive
        return not isinstance(x, FoldedZero) and (x != x or sign(x) > 0)

    def _positive(self, result: str, if_these: bool) -> str:
        if if_these:
            self.guards.positive.add(result)
        return result

    def _zero_of_unknown_sign(self, x: Any) -> Any:
        """Whether `x` is zero, and the sign of it may have been lost."""
        if isinstance(x, FoldedZero):
            return True
        return False if known(x) or self.is_positive(x) else self.compare("eq", "f", x, 0.0)

    # Doubles.

    def add(self, x: Any, y: Any) -> Any:
        if known(x):
            x, y = y, x
        if known(x):
            return folded(x + y, x, y)
        if known(y) and y == 0:
            self.guards.signs_lost |= not self.is_positive(x)
            return x
        return self._positive(self._commuting(SUM, x, y), self.is_positive(x) and self.is_positive(y))

    def sub(self, x: Any, y: Any) -> Any:
        if known(x) and known(y):
            return folded(x - y, x, y)
        if known(y) and y == 0:
            self.guards.signs_lost |= sign(y) < 0 or isinstance(y, FoldedZero)
            return x
        return self.make(DIFFERENCE, x, y, kinds="ff")

    def mul(self, x: Any, y: Any) -> Any:
        if known(x):
            x, y = y, x
        if known(x):
            return folded(x * y, x, y)
        if known(y) and y in (0.0, 1.0, -1.0):
            return self.drop(x) if y == 0 else x if y == 1 else self.neg(x)
        return self._positive(self._commuting(PRODUCT, x, y), x == y or (self.is_positive(x) and self.is_positive(y)))

    def div(self, x: Any, y: Any) -> Any:
        if known(y):
            if known(x):
                if y == 0:
                    self.alarm(x != 0 and isinstance(y, FoldedZero))
                    return math.nan if x == 0 or x != x else math.copysign(math.inf, x) * sign(y)
                return folded(x / y, x, y)
            if y == 1:
                return x
        elif known(x) and x == 0:
            self.alarm(self.compare("eq", "f", y, 0.0))
            return self.drop(y)
        result = self.divide(x, y)
        if isinstance(y, FoldedZero):
            self.alarm(True)
        if not known(y) and not self.is_positive(y):
            self.guards.quotients[result] = None
        return result

    def divide(self, x: Any, y: Any) -> str:
        """A quotient; the sign of a zero to divide by does not matter."""
        return self._positive(
            self.make("fdiv double {}, {}", x, y, kinds="ff"), self.is_positive(x) and self.is_positive(y)
        )

    def neg(self, x: Any) -> Any:
        return folded(-x, x) if known(x) else self.make(NEGATIVE, x, kinds="f")

    def _commuting(self, template: str, x: Any, y: Any, kinds: str = "ff") -> str:
        if isinstance(y, str) and y < x:
            x, y = y, x
        return self.make(template, x, y, kinds=kinds)

    def call(self, function: str, *inputs: Any) -> Any:
        """A function of numbers that LLVM knows, such as "sqrt"."""
        if len(inputs) == 1:
            result = self.make(call_of(function), *inputs, kinds="f")
            return self._positive(result, function in POSITIVE or (function == "sqrt" and self.is_positive(inputs[0])))
        x, y = inputs
        template = f"call contract double @llvm.{function}.f64(double {{}}, double {{}})"
        result = self.make(template, x, y, kinds="ff")
        if function == "atan2":
            # `x`, the sine, decides about ±π where the cosine is negative, and the sign of both where both are zero.
            lost = self.both(self._zero_of_unknown_sign(x), self.compare("le", "f", y, 0.0))
            zeros = self.both(self.compare("eq", "f", x, 0.0), self._zero_of_unknown_sign(y))
            self.alarm(self.either(lost, zeros), result)
        elif function == "pow":
            self.alarm(self.both(self._zero_of_unknown_sign(x), self.compare("lt", "f", y, 0.0)), result)
        return result

    def next_after(self, x: Any, y: Any) -> Any:
        """The number next to `x` on the way to `y`."""
        if known(x) and known(y):
            return math.nextafter(x, y)
        return self.make("call double @nextafter(double {}, double {})", x, y, kinds="ff")

    def remainder(self, x: Any, y: Any) -> Any:
        """Of a division of doubles towards zero."""
        if known(x) and known(y) and y != 0 and math.isfinite(x) and math.isfinite(y):
            return folded(math.fmod(x, y), x, y)
        return self.make("frem double {}, {}", x, y, kinds="ff")

    # Comparisons, bits and choices.

    def compare(self, how: str, kind: str, x: Any, y: Any) -> Any:
        """`how` is eq, ne, lt, le, gt or ge; NaN is equal to nothing."""
        if known(x) and known(y):
            return _COMPARE[how](x, y)
        if kind == "f":
            return self.make(f"fcmp {'une' if how == 'ne' else 'o' + how} double {{}}, {{}}", x, y, kinds="ff")
        signed = kind in INTEGERS and INTEGERS[kind].signed
        order = "" if how in ("eq", "ne") else "s" if signed else "u"
        return self.make(f"icmp {order}{how} {TYPES[kind]} {{}}, {{}}", x, y, kinds=2 * kind)

    def both(self, x: Any, y: Any) -> Any:
        return self._bits("and", x, y, decides=False)

    def either(self, x: Any, y: Any) -> Any:
        return self._bits("or", x, y, decides=True)

    def _bits(self, operation: str, x: Any, y: Any, decides: bool) -> Any:
        """`and` or `or` of bits; one that `decides` makes the other one irrelevant."""
        if known(x):
            x, y = y, x
        if known(y):
            return decides if y == decides else x
        return x if x == y else self._commuting(f"{operation} i1 {{}}, {{}}", x, y, "bb")

    def differ(self, x: Any, y: Any) -> Any:
        if known(x):
            x, y = y, x
        if known(y):
            return self.invert(x) if y else x
        return self.make("xor i1 {}, {}", x, y, kinds="bb")

    def invert(self, x: Any) -> Any:
        return (not x) if known(x) else self.make("xor i1 {}, true", x, kinds="b")

    def select(self, condition: Any, kind: str, yes: Any, no: Any) -> Any:
        if known(condition):
            return yes if condition else no
        if type(yes) is type(no) and value_key(yes) == value_key(no):
            return yes
        if known(yes) and known(no) and yes == no == 0 and any(isinstance(x, FoldedZero) for x in (yes, no)):
            return ZERO
        t = TYPES[kind]
        result = self.make(f"select i1 {{}}, {t} {{}}, {t} {{}}", condition, yes, no, kinds="b" + 2 * kind)
        return self._positive(result, kind == "f" and self.is_positive(yes) and self.is_positive(no))

    # Conversions.

    def to_float(self, x: Any, kind: str) -> Any:
        if known(x):
            return float(x)
        signed = kind in INTEGERS and INTEGERS[kind].signed
        name = self.make(f"{'si' if signed else 'ui'}tofp {TYPES[kind]} {{}} to double", x, kinds=kind)
        return self._positive(name, not signed)

    def cut(self, x: Any, kind: str) -> Any:
        """From a double, towards zero, to the nearest integer that there is; NaN is zero."""
        width = INTEGERS[kind]
        if known(x):
            if x != x:
                return 0
            return width.smallest if x <= width.smallest else width.largest if x >= width.largest else int(x)
        bits, way = width.bits, "si" if width.signed else "ui"
        cut = self.make(f"call i{bits} @llvm.fpto{way}.sat.i{bits}.f64(double {{}})", x, kinds="f")
        return (
            cut if bits == 64 else self.make(f"{way[0]}ext i{bits} {{}} to i64".replace("uext", "zext"), cut, kinds="i")
        )


def folded(result: Any, *of: Any) -> Any:
    """A number computed from known ones: zero has no sign if theirs was lost."""
    return ZERO if result == 0 and any(isinstance(x, FoldedZero) for x in of) else result


_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "eq": lambda x, y: x == y,
    "ne": lambda x, y: x != y,
    "lt": lambda x, y: x < y,
    "le": lambda x, y: x <= y,
    "gt": lambda x, y: x > y,
    "ge": lambda x, y: x >= y,
}
