"""What JAX' operations do to single numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jax.lax import RoundingMethod

from bricard.native.code import Code, Unsupported, folded, known
from bricard.native.instructions import FoldedZero
from bricard.native.kinds import KINDS


def _arithmetic(operation: str) -> Callable[..., Any]:
    def choose(code: Code, params: Any, kinds: Sequence[str]) -> Any:
        if kinds[0] == "f":
            return getattr(code, operation)
        if kinds[0] == "b":
            return {"add": code.either, "mul": code.both}[operation]
        return lambda x, y: code.int_op(operation, x, y, kinds[0])

    return choose


def _comparison(how: str) -> Callable[..., Any]:
    return lambda code, params, kinds: lambda x, y: code.compare(how, kinds[0], x, y)


def _before(code: Code, params: Any, kinds: Sequence[str]) -> Any:
    """Whether a number comes first in an order with NaN last."""

    def operation(x: Any, y: Any) -> Any:
        less = code.compare("lt", kinds[0], x, y)
        if kinds[0] != "f":
            return less
        return code.either(less, code.both(code.compare("eq", "f", x, x), code.compare("ne", "f", y, y)))

    return operation


def _not_after(code: Code, params: Any, kinds: Sequence[str]) -> Any:
    before = _before(code, params, kinds)
    return lambda x, y: code.invert(before(y, x))


def _division(whole: str, operation: str) -> Callable[..., Any]:
    def choose(code: Code, params: Any, kinds: Sequence[str]) -> Any:
        return getattr(code, operation) if kinds[0] == "f" else lambda x, y: code.divided(whole, x, y, kinds[0])

    return choose


def _extreme(how: str, function: str, pick: Callable[..., Any]) -> Callable[..., Any]:
    def choose(code: Code, params: Any, kinds: Sequence[str]) -> Any:
        def operation(x: Any, y: Any) -> Any:
            if known(x) and known(y):
                return math.nan if x != x or y != y else folded(pick(x, y), x, y) if kinds[0] == "f" else pick(x, y)
            if kinds[0] == "f":
                return code.call(function, x, y)
            return code.select(code.compare(how, kinds[0], x, y), kinds[0], x, y)

        return operation

    return choose


def _function(name: str, of: Callable[..., float] | None = None) -> Callable[..., Any]:
    """A function of doubles that is called."""

    def choose(code: Code, params: Any, kinds: Sequence[str]) -> Any:
        if kinds[0] != "f":
            raise Unsupported(f"{name} of integers")

        def operation(*x: Any) -> Any:
            if (
                of is not None
                and all(map(known, x))
                and not (name == "atan2" and any(isinstance(z, FoldedZero) for z in x))
            ):
                try:
                    return folded(of(*x), *x)
                except (ValueError, OverflowError):
                    pass
            return code.call(name, *x)

        return operation

    return choose


def _negative(code: Code, params: Any, kinds: Sequence[str]) -> Any:
    return code.neg if kinds[0] == "f" else lambda x: code.int_op("sub", 0, x, kinds[0])


def _power(code: Code, params: Any, kinds: Sequence[str]) -> Any:
    y = params["y"]
    times = _arithmetic("mul")(code, params, kinds)
    if y < 0 and kinds[0] != "f":
        raise Unsupported("an integer to a negative power")

    def operation(x: Any) -> Any:
        result, square, n = 1.0 if kinds[0] == "f" else 1, x, abs(y)
        while n:
            result = times(result, square) if n & 1 else result
            n >>= 1
            square = times(square, square) if n else square
        return code.div(1.0, result) if y < 0 else result

    return operation


def _square(code: Code, params: Any, kinds: Sequence[str]) -> Any:
    return _power(code, {"y": 2}, kinds)


def _convert(code: Code, params: Any, kinds: Sequence[str]) -> Any:
    have, want = kinds[0], KINDS.get(np.dtype(params["new_dtype"]))
    if want is None:
        raise Unsupported(f"numbers of type {params['new_dtype']}")
    if have == want:
        return lambda x: x
    if want == "f":
        return lambda x: code.to_float(x, have)
    if want == "b":
        return lambda x: code.compare("ne", have, x, 0.0 if have == "f" else 0)
    if have == "b":
        return code.to_int
    return lambda x: code.cut(x, want) if have == "f" else code.narrow(x, want)


def _bitwise(bits: str, operation: str) -> Callable[..., Any]:
    def choose(code: Code, params: Any, kinds: Sequence[str]) -> Any:
        return getattr(code, bits) if kinds[0] == "b" else lambda x, y: code.bitwise(operation, x, y, kinds[0])

    return choose


def _inverted(code: Code, params: Any, kinds: Sequence[str]) -> Any:
    return code.invert if kinds[0] == "b" else lambda x: code.complement(x, kinds[0])


def _shift(operation: str) -> Callable[..., Any]:
    return lambda code, params, kinds: lambda x, y: code.shift(operation, x, y, kinds[0])


def _count(function: str) -> Callable[..., Any]:
    return lambda code, params, kinds: lambda x: code.count_bits(function, x, kinds[0])


def _finite(code: Code, params: Any, kinds: Sequence[str]) -> Any:
    def operation(x: Any) -> Any:
        return math.isfinite(x) if known(x) else code.compare("lt", "f", code.call("fabs", x), math.inf)

    return operation


def _absolute(code: Code, params: Any, kinds: Sequence[str]) -> Any:
    def operation(x: Any) -> Any:
        if known(x):
            return abs(x) if kinds[0] == "f" else code.narrow(abs(x), kinds[0])
        if kinds[0] == "f":
            return code.call("fabs", x)
        kind = kinds[0]
        return code.select(code.compare("lt", kind, x, 0), kind, code.int_op("sub", 0, x, kind), x)

    return operation


def _sign(code: Code, params: Any, kinds: Sequence[str]) -> Any:
    kind = kinds[0]
    zero, one = (0.0, 1.0) if kind == "f" else (0, 1)

    def operation(x: Any) -> Any:
        down = code.select(code.compare("lt", kind, x, zero), kind, -one, x)  # zero and NaN are their own
        return code.select(code.compare("gt", kind, x, zero), kind, one, down)

    return operation


def _to_the_power(code: Code, params: Any, kinds: Sequence[str]) -> Any:
    if kinds[0] != "f":
        raise Unsupported("powers of integers")
    return lambda x, y: code.call("pow", x, y if kinds[1] == "f" else code.to_float(y, kinds[1]))


def _round(code: Code, params: Any, kinds: Sequence[str]) -> Any:
    even = params["rounding_method"] == RoundingMethod.TO_NEAREST_EVEN
    return lambda x: code.call("roundeven" if even else "round", x)


def _inverse_root(code: Code, params: Any, kinds: Sequence[str]) -> Any:
    return lambda x: code.div(1.0, code.call("sqrt", x))


UNCHANGED = ("copy", "copy_p", "stop_gradient", "optimization_barrier", "nonbatchable")
"""Operations that change nothing but what JAX thinks of a value."""

NUMBERWISE: dict[str, Callable[..., Any]] = {
    "add": _arithmetic("add"),
    "add_any": _arithmetic("add"),
    "sub": _arithmetic("sub"),
    "mul": _arithmetic("mul"),
    "div": _division("div", "div"),
    "rem": _division("rem", "remainder"),
    "neg": _negative,
    "max": _extreme("gt", "maximum", max),
    "min": _extreme("lt", "minimum", min),
    "abs": _absolute,
    "sign": _sign,
    "sqrt": _function("sqrt", math.sqrt),
    "rsqrt": _inverse_root,
    "sin": _function("sin", math.sin),
    "cos": _function("cos", math.cos),
    "exp": _function("exp", math.exp),
    "log": _function("log", lambda x: math.log(x)),
    **{name: _function(name, getattr(math, name)) for name in ("tan", "asin", "acos", "atan", "sinh", "cosh", "tanh")},
    "atan2": _function("atan2", math.atan2),
    "pow": _to_the_power,
    "round": _round,
    "floor": _function("floor", lambda x: float(np.floor(x))),  # of NumPy: -0.5 becomes -0
    "ceil": _function("ceil", lambda x: float(np.ceil(x))),
    "integer_pow": _power,
    "square": _square,
    "convert_element_type": _convert,
    "is_finite": _finite,
    "and": _bitwise("both", "and"),
    "or": _bitwise("either", "or"),
    "xor": _bitwise("differ", "xor"),
    "not": _inverted,
    "shift_left": _shift("shl"),
    "shift_right_logical": _shift("lshr"),
    "shift_right_arithmetic": _shift("ashr"),
    "population_count": _count("ctpop"),
    "clz": _count("ctlz"),
    "lt_to": _before,
    "le_to": _not_after,
    "nextafter": lambda code, params, kinds: code.next_after,
    **{how: _comparison(how) for how in ("eq", "ne", "lt", "le", "gt", "ge")},
}
"""Name of the operation -> function of the code, its parameters and the kinds of its arguments, which gives a function
of numbers."""
