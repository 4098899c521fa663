"""A while loop for traced programs that Ctrl-C can end early."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
from jaxtyping import Array, Bool, Int

from bricard.execution.compile import tracing_for_llvm
from bricard.execution.llvm.stop import stop_requested

ROUNDS_BETWEEN_CHECKS = 16
"""Number of iterations between checks for a stop request in programs compiled by XLA."""


def stoppable_while_loop(
    condition: Callable[[Any], Bool[Array, ""]],
    body: Callable[[Any], Any],
    carry: Any,
    count: Callable[[Any], Int[Array, ""]],
) -> Any:
    """`jax.lax.while_loop` that also ends when a stop is requested (`bricard.execution.interrupt`).

    `count(carry)` must increase by one in each iteration.
    """

    def continues(carry: Any) -> Bool[Array, ""]:
        return condition(carry) & ~stop_requested(count(carry))

    if tracing_for_llvm():
        return jax.lax.while_loop(continues, body, carry)

    def several_iterations(carry: Any) -> Any:
        # XLA compiles a loop as one piece only if it contains no calls; the check is a call.
        limit = count(carry) + ROUNDS_BETWEEN_CHECKS
        return jax.lax.while_loop(lambda carry: condition(carry) & (count(carry) < limit), body, carry)

    return jax.lax.while_loop(continues, several_iterations, carry)
