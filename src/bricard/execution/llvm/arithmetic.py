"""Scalar arithmetic with constant folding: operations on constants are evaluated, products with zero are folded.

`Guards` checks at run time that the folded factors were finite and that no lost sign of a zero matters.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from bricard.execution.llvm.guards import DIFFERENCE, NEGATIVE, PRODUCT, SUM, unary_call
from bricard.execution.llvm.instructions import (
    ZERO,
    FoldedZero,
    Instructions,
    is_constant,
    literal,
    sign,
    value_key,
)
from bricard.execution.llvm.integers import Integers
from bricard.execution.llvm.scalar_types import INTEGERS, LLVM_TYPES, Unsupported

__all__ = ["Code", "Unsupported", "is_constant", "literal", "sign"]

POSITIVE = ("fabs", "exp", "cosh")
"""Functions whose results have no sign bit: neither negative nor -0."""


class Code(Integers, Instructions):
    """Emits the instructions of a program; each method returns a constant or the register of its result."""

    # Assumptions, checked by the guards.

    def alarm(self, condition: Any, result: str | None = None) -> None:
        """Discard the results of the program if `condition` holds and `result` is used (None: in any case)."""
        if condition is True:
            raise Unsupported("the sign of a folded zero")
        if isinstance(condition, str):
            self.guards.alarms.setdefault(result, []).append(condition)

    def fold_to_zero(self, x: Any) -> FoldedZero:
        """The product of zero and `x`, which is assumed to be finite."""
        self.guards.zero_factors[x] = None
        return ZERO

    def is_positive(self, x: Any) -> bool:
        """True if a double is known to be neither negative nor -0 (it may be NaN)."""
        if isinstance(x, str):
            return x in self.guards.positive
        return not isinstance(x, FoldedZero) and (x != x or sign(x) > 0)

    def _mark_positive(self, result: str, condition: bool) -> str:
        if condition:
            self.guards.positive.add(result)
        return result

    def _zero_of_unknown_sign(self, x: Any) -> Any:
        """Condition that `x` is zero and its sign may be wrong because of folding."""
        if isinstance(x, FoldedZero):
            return True
        return False if is_constant(x) or self.is_positive(x) else self.compare("eq", "f", x, 0.0)

    # Doubles.

    def add(self, x: Any, y: Any) -> Any:
        if is_constant(x):
            x, y = y, x
        if is_constant(x):
            return folded(x + y, x, y)
        if is_constant(y) and y == 0:
            self.guards.signs_lost |= not self.is_positive(x)
            return x
        return self._mark_positive(self._commutative(SUM, x, y), self.is_positive(x) and self.is_positive(y))

    def sub(self, x: Any, y: Any) -> Any:
        if is_constant(x) and is_constant(y):
            return folded(x - y, x, y)
        if is_constant(y) and y == 0:
            self.guards.signs_lost |= sign(y) < 0 or isinstance(y, FoldedZero)
            return x
        return self.emit(DIFFERENCE, x, y, types="ff")

    def mul(self, x: Any, y: Any) -> Any:
        if is_constant(x):
            x, y = y, x
        if is_constant(x):
            return folded(x * y, x, y)
        if is_constant(y) and y in (0.0, 1.0, -1.0):
            return self.fold_to_zero(x) if y == 0 else x if y == 1 else self.neg(x)
        return self._mark_positive(
            self._commutative(PRODUCT, x, y), x == y or (self.is_positive(x) and self.is_positive(y))
        )

    def div(self, x: Any, y: Any) -> Any:
        if is_constant(y):
            if is_constant(x):
                if y == 0:
                    self.alarm(x != 0 and isinstance(y, FoldedZero))
                    return math.nan if x == 0 or x != x else math.copysign(math.inf, x) * sign(y)
                return folded(x / y, x, y)
            if y == 1:
                return x
        elif is_constant(x) and x == 0:
            self.alarm(self.compare("eq", "f", y, 0.0))
            return self.fold_to_zero(y)
        result = self.divide(x, y)
        if isinstance(y, FoldedZero):
            self.alarm(True)
        if not is_constant(y) and not self.is_positive(y):
            self.guards.quotients[result] = None
        return result

    def divide(self, x: Any, y: Any) -> str:
        """Quotient without a guard for the sign of a zero divisor."""
        return self._mark_positive(
            self.emit("fdiv double {}, {}", x, y, types="ff"), self.is_positive(x) and self.is_positive(y)
        )

    def neg(self, x: Any) -> Any:
        return folded(-x, x) if is_constant(x) else self.emit(NEGATIVE, x, types="f")

    def _commutative(self, template: str, x: Any, y: Any, types: str = "ff") -> str:
        if isinstance(y, str) and y < x:
            x, y = y, x
        return self.emit(template, x, y, types=types)

    def call(self, function: str, *inputs: Any) -> Any:
        """Call a floating-point intrinsic of LLVM, such as "sqrt"."""
        if len(inputs) == 1:
            result = self.emit(unary_call(function), *inputs, types="f")
            return self._mark_positive(
                result, function in POSITIVE or (function == "sqrt" and self.is_positive(inputs[0]))
            )
        x, y = inputs
        template = f"call contract double @llvm.{function}.f64(double {{}}, double {{}})"
        result = self.emit(template, x, y, types="ff")
        if function == "atan2":
            # The sign of a zero `x` (the sine) selects ±π if the cosine is negative; if both are 0, both signs count.
            lost = self.bit_and(self._zero_of_unknown_sign(x), self.compare("le", "f", y, 0.0))
            zeros = self.bit_and(self.compare("eq", "f", x, 0.0), self._zero_of_unknown_sign(y))
            self.alarm(self.bit_or(lost, zeros), result)
        elif function == "pow":
            self.alarm(self.bit_and(self._zero_of_unknown_sign(x), self.compare("lt", "f", y, 0.0)), result)
        return result

    def next_after(self, x: Any, y: Any) -> Any:
        """The next double after `x` in the direction of `y`."""
        if is_constant(x) and is_constant(y):
            return math.nextafter(x, y)
        return self.emit("call double @nextafter(double {}, double {})", x, y, types="ff")

    def remainder(self, x: Any, y: Any) -> Any:
        """Remainder of a division of doubles, truncated towards zero."""
        if is_constant(x) and is_constant(y) and y != 0 and math.isfinite(x) and math.isfinite(y):
            return folded(math.fmod(x, y), x, y)
        return self.emit("frem double {}, {}", x, y, types="ff")

    # Comparisons, booleans and selections.

    def compare(self, predicate: str, scalar_type: str, x: Any, y: Any) -> Any:
        """`predicate` is eq, ne, lt, le, gt or ge; comparisons with NaN are false, except ne."""
        if is_constant(x) and is_constant(y):
            return _COMPARE[predicate](x, y)
        if scalar_type == "f":
            return self.emit(
                f"fcmp {'une' if predicate == 'ne' else 'o' + predicate} double {{}}, {{}}", x, y, types="ff"
            )
        signed = scalar_type in INTEGERS and INTEGERS[scalar_type].signed
        order = "" if predicate in ("eq", "ne") else "s" if signed else "u"
        return self.emit(f"icmp {order}{predicate} {LLVM_TYPES[scalar_type]} {{}}, {{}}", x, y, types=2 * scalar_type)

    def bit_and(self, x: Any, y: Any) -> Any:
        return self._bits("and", x, y, absorbing=False)

    def bit_or(self, x: Any, y: Any) -> Any:
        return self._bits("or", x, y, absorbing=True)

    def _bits(self, operation: str, x: Any, y: Any, absorbing: bool) -> Any:
        """`and` or `or` of booleans; the result is `absorbing` if either operand is."""
        if is_constant(x):
            x, y = y, x
        if is_constant(y):
            return absorbing if y == absorbing else x
        return x if x == y else self._commutative(f"{operation} i1 {{}}, {{}}", x, y, "bb")

    def bit_xor(self, x: Any, y: Any) -> Any:
        if is_constant(x):
            x, y = y, x
        if is_constant(y):
            return self.bit_not(x) if y else x
        return self.emit("xor i1 {}, {}", x, y, types="bb")

    def bit_not(self, x: Any) -> Any:
        return (not x) if is_constant(x) else self.emit("xor i1 {}, true", x, types="b")

    def select(self, condition: Any, scalar_type: str, yes: Any, no: Any) -> Any:
        if is_constant(condition):
            return yes if condition else no
        if type(yes) is type(no) and value_key(yes) == value_key(no):
            return yes
        if (
            is_constant(yes)
            and is_constant(no)
            and yes == no == 0
            and any(isinstance(x, FoldedZero) for x in (yes, no))
        ):
            return ZERO
        t = LLVM_TYPES[scalar_type]
        result = self.emit(f"select i1 {{}}, {t} {{}}, {t} {{}}", condition, yes, no, types="b" + 2 * scalar_type)
        return self._mark_positive(result, scalar_type == "f" and self.is_positive(yes) and self.is_positive(no))

    # Conversions.

    def to_float(self, x: Any, scalar_type: str) -> Any:
        if is_constant(x):
            return float(x)
        signed = scalar_type in INTEGERS and INTEGERS[scalar_type].signed
        name = self.emit(
            f"{'si' if signed else 'ui'}tofp {LLVM_TYPES[scalar_type]} {{}} to double", x, types=scalar_type
        )
        return self._mark_positive(name, not signed)

    def truncate(self, x: Any, scalar_type: str) -> Any:
        """Convert a double to an integer: truncated towards zero, clipped to the range of the type; NaN becomes 0."""
        width = INTEGERS[scalar_type]
        if is_constant(x):
            if x != x:
                return 0
            return width.smallest if x <= width.smallest else width.largest if x >= width.largest else int(x)
        bits, conversion = width.bits, "si" if width.signed else "ui"
        integer = self.emit(f"call i{bits} @llvm.fpto{conversion}.sat.i{bits}.f64(double {{}})", x, types="f")
        return (
            integer
            if bits == 64
            else self.emit(f"{conversion[0]}ext i{bits} {{}} to i64".replace("uext", "zext"), integer, types="i")
        )


def folded(result: Any, *of: Any) -> Any:
    """A `result` computed from the constants `of`: a zero has no defined sign if one of them was a `FoldedZero`."""
    return ZERO if result == 0 and any(isinstance(x, FoldedZero) for x in of) else result


_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "eq": lambda x, y: x == y,
    "ne": lambda x, y: x != y,
    "lt": lambda x, y: x < y,
    "le": lambda x, y: x <= y,
    "gt": lambda x, y: x > y,
    "ge": lambda x, y: x >= y,
}
