"""A variant of `diffrax.ForwardMode` for runs with fixed steps, which Ctrl-C can end early."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import diffrax
import jax.numpy as jnp
from equinox.internal import while_loop

from bricard.execution.llvm.stop import stop_requested
from bricard.execution.stoppable_loop import ROUNDS_BETWEEN_CHECKS


class StoppableForwardMode(diffrax.ForwardMode):
    """`diffrax.ForwardMode` with a loop that checks for a stop request once in `ROUNDS_BETWEEN_CHECKS` steps.

    With a check in each step, XLA could not fuse the loop, and runs of small systems would take twice as long.
    """

    @property
    def _loop(self) -> Callable[..., Any]:
        usual = super()._loop
        return lambda **settings: usual(**(settings | {"outer_while_loop": _stoppable_while_loop}))


def _stoppable_while_loop(
    condition: Callable[..., Any], step: Callable[..., Any], start: Any, *, max_steps: int, buffers: Any
) -> Any:
    """Like `equinox.internal.while_loop`, for the carry of the loop of diffrax."""

    def several_steps(state: Any) -> Any:
        until = jnp.minimum(state.num_steps + ROUNDS_BETWEEN_CHECKS, max_steps)
        return while_loop(lambda s: condition(s) & (s.num_steps < until), step, state, buffers=buffers, kind="lax")

    def unfinished(state: Any) -> Any:
        return condition(state) & (state.num_steps < max_steps) & ~stop_requested(state.num_steps)

    return while_loop(unfinished, several_steps, start, kind="lax")
