"""Early refusal of large programs, from an upper bound on their number of scalar operations."""

from __future__ import annotations

import math
from typing import Any

from jax.extend.core import Jaxpr

from bricard.execution.llvm.arithmetic import Unsupported
from bricard.execution.llvm.translate import inner_jaxprs, unrolled_copies

MAX_OPERATIONS = 1_500_000
"""Programs with a larger bound are refused: constant folding would not make them small enough."""


def refuse_large(jaxpr: Jaxpr) -> None:
    """Raise `Unsupported` if a program is too large to be translated."""
    if _size(jaxpr) > MAX_OPERATIONS:
        raise Unsupported("too many operations before folding")


def _size(jaxpr: Jaxpr) -> int:
    total = 0
    for equation in jaxpr.eqns:
        inner = inner_jaxprs(equation)
        if inner:
            total += unrolled_copies(equation) * sum(map(_size, inner))
            continue
        operations = sum(math.prod(_shape(v)) for v in equation.outvars)
        if equation.primitive.name == "dot_general":
            (contracted, _), _ = equation.params["dimension_numbers"]
            operations *= math.prod(_shape(equation.invars[0])[axis] for axis in contracted)
        total += operations
    return total


def _shape(variable: Any) -> tuple[int, ...]:
    return getattr(variable.aval, "shape", ())
