"""The stepping core: one attempted step, and the loop over time of runs that are not differentiated.

`Stepper.attempt` advances a state by one step of a diffrax solver, on the constraints, and says whether the step is
accepted and how long the next one should be. The loop `integrate_forward` serves plain and sampled runs; the event loop
of `bricard.contact` builds on the same attempts. Both avoid `diffrax.diffeqsolve`, which supports adjoints and dense
output and takes twice as long to trace and to compile; runs that need either of these use it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import diffrax
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from bricard.execution.stoppable_loop import stoppable_while_loop
from bricard.simulation.step_size import Steps

CLIP_MARGIN = 1.01
"""A step is extended to a stop that is up to this many step lengths away, so that no very short step follows."""


class StepState(NamedTuple):
    """Memory of the solver and of the step size control between steps."""

    solver: Any
    control: Any


class Attempt(NamedTuple):
    """The outcome of one attempted step."""

    y: Any
    accepted: Bool[Array, ""]
    t0: Float[Array, ""]
    t1: Float[Array, ""]
    """Start and end of the step to attempt next (s)."""
    state: StepState
    solved: diffrax.RESULTS
    """Whether the solver succeeded."""
    controlled: diffrax.RESULTS
    """Whether the step size control found a step to continue with."""


class Stepper(NamedTuple):
    """A solver with its equations and its step size control."""

    term: diffrax.AbstractTerm
    solver: diffrax.AbstractSolver
    control: diffrax.AbstractAdaptiveStepSizeController
    args: Any
    """Passed to the vector field and to the projection."""

    @property
    def order(self) -> Any:
        """Order of the error estimate."""
        return self.solver.error_order(self.term)

    def start(
        self, t: Float[Array, ""], end: Float[Array, ""], y: Any, first: Any
    ) -> tuple[Float[Array, ""], StepState]:
        """End of the first step to attempt (s), `first` seconds long unless the control clips it, and the state."""
        init: Any = self.control.init
        t1, control = init(self.term, t, end, y, first, self.args, self.solver.func, self.order)
        return t1, StepState(self.solver.init(self.term, t, t1, y, self.args), control)

    def attempt(
        self, t0: Float[Array, ""], t1: Float[Array, ""], y: Any, state: StepState, jumped: Bool[Array, ""] | bool
    ) -> Attempt:
        """Step from `y` at `t0` to `t1` (s). `jumped`: whether `y` is not where the last step ended."""
        y1, error, _, solver_state, solved = self.solver.step(self.term, t0, t1, y, self.args, state.solver, jumped)
        error = jax.tree.map(lambda x: jnp.where(jnp.isnan(x), jnp.inf, x), error)
        adapt: Any = self.control.adapt_step_size
        accepted, next_t0, next_t1, _, control_state, controlled = adapt(
            t0, t1, y, y1, self.args, error, self.order, state.control
        )
        return Attempt(
            y=y1,
            accepted=jnp.asarray(accepted),
            t0=next_t0,
            t1=next_t1,
            state=StepState(solver_state, control_state),
            solved=solved,
            controlled=controlled,
        )


class Run(NamedTuple):
    """The saved states and the last state of a run; entries that were not reached are not finite."""

    t: Float[Array, " k"]
    states: Any
    """States at `t`, along the first axis."""
    last_t: Float[Array, ""]
    last: Any
    result: diffrax.RESULTS
    stats: dict[str, Any]
    """Numbers of steps, under the names that diffrax uses."""


class _Carry(NamedTuple):
    t: Float[Array, ""]
    y: Any
    saved: Any
    """Saved states along the first axis; the next row is overwritten until its time is reached."""
    next_stop: Int[Array, ""]
    """Index of the next stop."""
    taken: Int[Array, ""]
    rejected: Int[Array, ""]
    step: Float[Array, ""]
    """Length of the next step (s), unless a stop comes first."""
    state: StepState
    result: diffrax.RESULTS


def integrate_forward(
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
    """Integrate from `y` at the first of `times` (s) to the last, saving at each; the first attempt lasts `first` (s).

    Steps end at `times`, or at `stops` if given, which must contain `times`. `term`, `solver` and `args` are as in
    `diffrax.diffeqsolve`. `stoppable`: whether Ctrl-C ends the loop early.
    """
    success: Any = diffrax.RESULTS.successful
    stepper = Stepper(term, solver, steps.adaptive(), args)
    t, end = times[0], times[-1]
    rows = jnp.arange(times.shape[0]) if stops is None else jnp.searchsorted(times, stops)
    stops = times if stops is None else stops
    zero = jnp.zeros((), dtype=int)
    start = _Carry(
        t=t,
        y=y,
        saved=jax.tree.map(lambda x: jnp.full((times.shape[0], *x.shape), jnp.inf).at[0].set(x), y),
        next_stop=zero + 1,
        taken=zero,
        rejected=zero,
        step=jnp.asarray(first, dtype=float),
        state=stepper.start(t, end, y, first)[1],
        result=success,
    )

    def unfinished(carry: _Carry) -> Bool[Array, ""]:
        return (carry.t < end) & (carry.taken < max_steps) & (carry.result == success)

    def one_step(carry: _Carry) -> _Carry:
        stop = stops[carry.next_stop]
        to_stop = carry.t + CLIP_MARGIN * carry.step >= stop
        t1 = jnp.where(to_stop, stop, carry.t + carry.step)
        tried = stepper.attempt(carry.t, t1, carry.y, carry.state, False)
        accepted = tried.accepted
        # Clipped to a stop, not limited by the error estimate: its small error says little about the next step.
        clipped = accepted & to_stop & (t1 - carry.t < carry.step)
        step = tried.t1 - tried.t0
        y, row = _choose(accepted, tried.y, carry.y), rows[carry.next_stop]
        return _Carry(
            t=jnp.where(accepted, t1, carry.t),
            y=y,
            saved=jax.tree.map(lambda all, x: jax.lax.dynamic_update_index_in_dim(all, x, row, 0), carry.saved, y),
            next_stop=carry.next_stop + (accepted & to_stop),
            taken=carry.taken + 1,
            rejected=carry.rejected + ~accepted,
            step=jnp.where(clipped, jnp.maximum(step, carry.step), step),
            state=StepState(
                _choose(accepted, tried.state.solver, carry.state.solver),
                _choose(~clipped, tried.state.control, carry.state.control),
            ),
            result=diffrax.RESULTS.where(accepted & (tried.solved != success), tried.solved, tried.controlled),
        )

    if stoppable:
        last = stoppable_while_loop(unfinished, one_step, start, lambda carry: carry.taken)
    else:
        last = jax.lax.while_loop(unfinished, one_step, start)
    exhausted: Any = diffrax.RESULTS.max_steps_reached
    reached = times <= last.t
    return Run(
        t=_infinite_unless(reached, times),
        states=jax.tree.map(lambda x: _infinite_unless(reached, x), last.saved),
        last_t=last.t,
        last=last.y,
        result=diffrax.RESULTS.where((last.result == success) & (last.t < end), exhausted, last.result),
        stats={
            "num_steps": last.taken,
            "num_accepted_steps": last.taken - last.rejected,
            "num_rejected_steps": last.rejected,
            "max_steps": max_steps,
        },
    )


def _choose(condition: Bool[Array, ""], new: Any, old: Any) -> Any:
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), new, old)


def _infinite_unless(reached: Bool[Array, " k"], x: Float[Array, "k ..."]) -> Float[Array, "k ..."]:
    return jnp.where(jnp.expand_dims(reached, tuple(range(1, x.ndim))), x, jnp.inf)
