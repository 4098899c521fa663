"""The loop over time of runs that only go forward. Solvers and the sizes of their steps are diffrax's.

`diffrax.diffeqsolve` can do more (adjoints, interpolation), which takes twice as long to trace and to compile.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import diffrax
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from bricard.native.stop import stop_requested
from bricard.simulate.steps import Steps
from bricard.tracing import for_llvm

NEARLY = 1.01
"""A step ends at a stop that is up to this many of its lengths away, so as not to leave a very short one to do."""


UNASKED = 16
"""Programs by XLA ask once in so many steps whether they are to stop."""


class Run(NamedTuple):
    """How far a run came, and what was saved on the way: entries that were not reached are not finite."""

    t: Float[Array, " k"]
    states: Any
    """At `t`, along the first axis."""
    last_t: Float[Array, ""]
    last: Any
    result: diffrax.RESULTS
    stats: dict[str, Any]
    """Numbers of steps, under diffrax's names."""


class _Loop(NamedTuple):
    """What changes from step to step."""

    t: Float[Array, ""]
    y: Any
    saved: Any
    """Along the first axis; the next one is written over until its time has come."""
    next: Int[Array, ""]
    """The stop that is next."""
    taken: Int[Array, ""]
    rejected: Int[Array, ""]
    step: Float[Array, ""]
    """Length of the next step (s), unless a stop comes first."""
    solver_state: Any
    control_state: Any
    result: diffrax.RESULTS


def go_forward(
    term: diffrax.AbstractTerm,
    solver: diffrax.AbstractSolver,
    y: Any,
    args: Any,
    times: Float[Array, " k"],
    stops: Float[Array, " s"] | None,
    steps: Steps,
    first: Float[Array, ""],
    max_steps: int,
    stoppable: bool = False,
) -> Run:
    """From `y` at the first of `times` (s) to the last, saving at each; the first step that is tried is `first` (s).

    Steps end at `times`; if `stops` are given, at these, which `times` are among. `term`, `solver`, `args` are those
    of `diffrax.diffeqsolve`. `stoppable`: end early if asked to (`stop_requested`).
    """
    good: Any = diffrax.RESULTS.successful
    control = steps.adaptive()
    order: Any = solver.error_order(term)
    t, end = times[0], times[-1]
    rows = jnp.arange(times.shape[0]) if stops is None else jnp.searchsorted(times, stops)
    stops = times if stops is None else stops
    zero = jnp.zeros((), dtype=int)
    start = _Loop(
        t=t,
        y=y,
        saved=jax.tree.map(lambda x: jnp.full((times.shape[0], *x.shape), jnp.inf).at[0].set(x), y),
        next=zero + 1,
        taken=zero,
        rejected=zero,
        step=jnp.asarray(first, dtype=float),
        solver_state=solver.init(term, t, t + first, y, args),
        control_state=control.init(term, t, end, y, first, args, solver.func, order)[1],
        result=good,
    )

    def on(loop: _Loop) -> Bool[Array, ""]:
        return (loop.t < end) & (loop.taken < max_steps) & (loop.result == good)

    def on_unless_stopped(loop: _Loop) -> Bool[Array, ""]:
        return on(loop) & ~stop_requested(loop.taken)

    def one_step(loop: _Loop) -> _Loop:
        stop = stops[loop.next]
        to_stop = loop.t + NEARLY * loop.step >= stop
        t1 = jnp.where(to_stop, stop, loop.t + loop.step)
        y1, error, _, solver_state, solved = solver.step(term, loop.t, t1, loop.y, args, loop.solver_state, False)
        error = jax.tree.map(lambda x: jnp.where(jnp.isnan(x), jnp.inf, x), error)
        kept, next_t0, next_t1, _, control_state, controlled = control.adapt_step_size(
            loop.t, t1, loop.y, y1, args, error, order, loop.control_state
        )
        keep = jnp.asarray(kept)
        # The error of a step that was cut short says little about the next.
        cut = keep & to_stop & (t1 - loop.t < loop.step)
        step = next_t1 - next_t0
        y, row = _chosen(keep, y1, loop.y), rows[loop.next]
        return _Loop(
            t=jnp.where(keep, t1, loop.t),
            y=y,
            saved=jax.tree.map(lambda all, x: jax.lax.dynamic_update_index_in_dim(all, x, row, 0), loop.saved, y),
            next=loop.next + (keep & to_stop),
            taken=loop.taken + 1,
            rejected=loop.rejected + ~keep,
            step=jnp.where(cut, jnp.maximum(step, loop.step), step),
            solver_state=_chosen(keep, solver_state, loop.solver_state),
            control_state=_chosen(~cut, control_state, loop.control_state),
            result=diffrax.RESULTS.where(keep & (solved != good), solved, controlled),
        )

    def several_steps(loop: _Loop) -> _Loop:
        until = loop.taken + UNASKED
        return jax.lax.while_loop(lambda loop: on(loop) & (loop.taken < until), one_step, loop)

    if not stoppable:
        last = jax.lax.while_loop(on, one_step, start)
    else:  # XLA would not compile a loop that asks as one piece.
        last = jax.lax.while_loop(on_unless_stopped, one_step if for_llvm() else several_steps, start)
    spent: Any = diffrax.RESULTS.max_steps_reached
    reached = times <= last.t
    return Run(
        t=_finite_where(reached, times),
        states=jax.tree.map(lambda x: _finite_where(reached, x), last.saved),
        last_t=last.t,
        last=last.y,
        result=diffrax.RESULTS.where((last.result == good) & (last.t < end), spent, last.result),
        stats={
            "num_steps": last.taken,
            "num_accepted_steps": last.taken - last.rejected,
            "num_rejected_steps": last.rejected,
            "max_steps": max_steps,
        },
    )


def _chosen(condition: Bool[Array, ""], new: Any, old: Any) -> Any:
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), new, old)


def _finite_where(reached: Bool[Array, " k"], x: Float[Array, "k ..."]) -> Float[Array, "k ..."]:
    return jnp.where(jnp.expand_dims(reached, tuple(range(1, x.ndim))), x, jnp.inf)
