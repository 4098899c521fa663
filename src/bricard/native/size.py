"""How many numbers a program would compute, if none could be left out."""

from __future__ import annotations

import math
from typing import Any

from jax.extend.core import Jaxpr

from bricard.native.code import Unsupported
from bricard.native.translate import inner, rounds_written_out

MOST = 1_500_000
"""Of more, too many are left for sure: it is not worth to begin."""


def refuse_large(jaxpr: Jaxpr) -> None:
    """`Unsupported` if it is hopeless."""
    if _size(jaxpr) > MOST:
        raise Unsupported("too many operations, at a glance")


def _size(jaxpr: Jaxpr) -> int:
    total = 0
    for equation in jaxpr.eqns:
        parts = inner(equation)
        if parts:
            total += rounds_written_out(equation) * sum(map(_size, parts))
            continue
        numbers = sum(math.prod(_shape(v)) for v in equation.outvars)
        if equation.primitive.name == "dot_general":
            (summed, _), _ = equation.params["dimension_numbers"]
            numbers *= math.prod(_shape(equation.invars[0])[axis] for axis in summed)
        total += numbers
    return total


def _shape(variable: Any) -> tuple[int, ...]:
    return getattr(variable.aval, "shape", ())
