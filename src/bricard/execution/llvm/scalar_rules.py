"""Rules for elementwise primitives of JAX: how to emit them for one element."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jax.lax import RoundingMethod

from bricard.execution.llvm.arithmetic import Code, Unsupported, folded, is_constant
from bricard.execution.llvm.instructions import FoldedZero
from bricard.execution.llvm.scalar_types import SCALAR_TYPES


def _arithmetic(operation: str) -> Callable[..., Any]:
    def specialise(code: Code, params: Any, types: Sequence[str]) -> Any:
        if types[0] == "f":
            return getattr(code, operation)
        if types[0] == "b":
            return {"add": code.bit_or, "mul": code.bit_and}[operation]
        return lambda x, y: code.int_op(operation, x, y, types[0])

    return specialise


def _comparison(predicate: str) -> Callable[..., Any]:
    return lambda code, params, types: lambda x, y: code.compare(predicate, types[0], x, y)


def _total_order_less(code: Code, params: Any, types: Sequence[str]) -> Any:
    """`x < y` in the total order that puts NaN last."""

    def operation(x: Any, y: Any) -> Any:
        less = code.compare("lt", types[0], x, y)
        if types[0] != "f":
            return less
        return code.bit_or(less, code.bit_and(code.compare("eq", "f", x, x), code.compare("ne", "f", y, y)))

    return operation


def _total_order_less_equal(code: Code, params: Any, types: Sequence[str]) -> Any:
    before = _total_order_less(code, params, types)
    return lambda x, y: code.bit_not(before(y, x))


def _division(int_operation: str, float_operation: str) -> Callable[..., Any]:
    def specialise(code: Code, params: Any, types: Sequence[str]) -> Any:
        return (
            getattr(code, float_operation)
            if types[0] == "f"
            else lambda x, y: code.int_divide(int_operation, x, y, types[0])
        )

    return specialise


def _extreme(predicate: str, function: str, evaluate: Callable[..., Any]) -> Callable[..., Any]:
    def specialise(code: Code, params: Any, types: Sequence[str]) -> Any:
        def operation(x: Any, y: Any) -> Any:
            if is_constant(x) and is_constant(y):
                return (
                    math.nan
                    if x != x or y != y
                    else folded(evaluate(x, y), x, y)
                    if types[0] == "f"
                    else evaluate(x, y)
                )
            if types[0] == "f":
                return code.call(function, x, y)
            return code.select(code.compare(predicate, types[0], x, y), types[0], x, y)

        return operation

    return specialise


def _function(name: str, evaluate: Callable[..., float] | None = None) -> Callable[..., Any]:
    """An intrinsic function of doubles; `evaluate` computes it for constants."""

    def specialise(code: Code, params: Any, types: Sequence[str]) -> Any:
        if types[0] != "f":
            raise Unsupported(f"{name} of integers")

        def operation(*x: Any) -> Any:
            if (
                evaluate is not None
                and all(map(is_constant, x))
                and not (name == "atan2" and any(isinstance(z, FoldedZero) for z in x))
            ):
                try:
                    return folded(evaluate(*x), *x)
                except (ValueError, OverflowError):
                    pass
            return code.call(name, *x)

        return operation

    return specialise


def _negative(code: Code, params: Any, types: Sequence[str]) -> Any:
    return code.neg if types[0] == "f" else lambda x: code.int_op("sub", 0, x, types[0])


def _integer_power(code: Code, params: Any, types: Sequence[str]) -> Any:
    y = params["y"]
    multiply = _arithmetic("mul")(code, params, types)
    if y < 0 and types[0] != "f":
        raise Unsupported("an integer to a negative power")

    def operation(x: Any) -> Any:
        result, square, n = 1.0 if types[0] == "f" else 1, x, abs(y)
        while n:
            result = multiply(result, square) if n & 1 else result
            n >>= 1
            square = multiply(square, square) if n else square
        return code.div(1.0, result) if y < 0 else result

    return operation


def _square(code: Code, params: Any, types: Sequence[str]) -> Any:
    return _integer_power(code, {"y": 2}, types)


def _convert(code: Code, params: Any, types: Sequence[str]) -> Any:
    source, target = types[0], SCALAR_TYPES.get(np.dtype(params["new_dtype"]))
    if target is None:
        raise Unsupported(f"numbers of type {params['new_dtype']}")
    if source == target:
        return lambda x: x
    if target == "f":
        return lambda x: code.to_float(x, source)
    if target == "b":
        return lambda x: code.compare("ne", source, x, 0.0 if source == "f" else 0)
    if source == "b":
        return code.to_int
    return lambda x: code.truncate(x, target) if source == "f" else code.narrow(x, target)


def _bitwise(bool_operation: str, int_operation: str) -> Callable[..., Any]:
    def specialise(code: Code, params: Any, types: Sequence[str]) -> Any:
        return (
            getattr(code, bool_operation)
            if types[0] == "b"
            else lambda x, y: code.bitwise(int_operation, x, y, types[0])
        )

    return specialise


def _not(code: Code, params: Any, types: Sequence[str]) -> Any:
    return code.bit_not if types[0] == "b" else lambda x: code.complement(x, types[0])


def _shift(operation: str) -> Callable[..., Any]:
    return lambda code, params, types: lambda x, y: code.shift(operation, x, y, types[0])


def _count(function: str) -> Callable[..., Any]:
    return lambda code, params, types: lambda x: code.count_bits(function, x, types[0])


def _is_finite(code: Code, params: Any, types: Sequence[str]) -> Any:
    def operation(x: Any) -> Any:
        return math.isfinite(x) if is_constant(x) else code.compare("lt", "f", code.call("fabs", x), math.inf)

    return operation


def _absolute(code: Code, params: Any, types: Sequence[str]) -> Any:
    def operation(x: Any) -> Any:
        if is_constant(x):
            return abs(x) if types[0] == "f" else code.narrow(abs(x), types[0])
        if types[0] == "f":
            return code.call("fabs", x)
        scalar_type = types[0]
        return code.select(code.compare("lt", scalar_type, x, 0), scalar_type, code.int_op("sub", 0, x, scalar_type), x)

    return operation


def _sign(code: Code, params: Any, types: Sequence[str]) -> Any:
    scalar_type = types[0]
    zero, one = (0.0, 1.0) if scalar_type == "f" else (0, 1)

    def operation(x: Any) -> Any:
        # Zeros and NaN are returned unchanged.
        nonpositive = code.select(code.compare("lt", scalar_type, x, zero), scalar_type, -one, x)
        return code.select(code.compare("gt", scalar_type, x, zero), scalar_type, one, nonpositive)

    return operation


def _power(code: Code, params: Any, types: Sequence[str]) -> Any:
    if types[0] != "f":
        raise Unsupported("powers of integers")
    return lambda x, y: code.call("pow", x, y if types[1] == "f" else code.to_float(y, types[1]))


def _round(code: Code, params: Any, types: Sequence[str]) -> Any:
    even = params["rounding_method"] == RoundingMethod.TO_NEAREST_EVEN
    return lambda x: code.call("roundeven" if even else "round", x)


def _rsqrt(code: Code, params: Any, types: Sequence[str]) -> Any:
    return lambda x: code.div(1.0, code.call("sqrt", x))


IDENTITIES = ("copy", "copy_p", "stop_gradient", "optimization_barrier", "nonbatchable")
"""Primitives that return their operands unchanged."""

SCALAR_RULES: dict[str, Callable[..., Any]] = {
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
    "rsqrt": _rsqrt,
    "sin": _function("sin", math.sin),
    "cos": _function("cos", math.cos),
    "exp": _function("exp", math.exp),
    "log": _function("log", lambda x: math.log(x)),
    **{name: _function(name, getattr(math, name)) for name in ("tan", "asin", "acos", "atan", "sinh", "cosh", "tanh")},
    "atan2": _function("atan2", math.atan2),
    "pow": _power,
    "round": _round,
    "floor": _function("floor", lambda x: float(np.floor(x))),
    "ceil": _function("ceil", lambda x: float(np.ceil(x))),  # unlike `math.ceil`, NumPy returns -0 for -0.5
    "integer_pow": _integer_power,
    "square": _square,
    "convert_element_type": _convert,
    "is_finite": _is_finite,
    "and": _bitwise("bit_and", "and"),
    "or": _bitwise("bit_or", "or"),
    "xor": _bitwise("bit_xor", "xor"),
    "not": _not,
    "shift_left": _shift("shl"),
    "shift_right_logical": _shift("lshr"),
    "shift_right_arithmetic": _shift("ashr"),
    "population_count": _count("ctpop"),
    "clz": _count("ctlz"),
    "lt_to": _total_order_less,
    "le_to": _total_order_less_equal,
    "nextafter": lambda code, params, types: code.next_after,
    **{predicate: _comparison(predicate) for predicate in ("eq", "ne", "lt", "le", "gt", "ge")},
}
"""Primitive -> function of the `Code`, the parameters and the scalar types of the arguments, which returns a function
that emits the operation on scalars."""
