"""One run as a compiled program, which returns states on the constraints at the times to be saved.

`integrate` uses the stepping core. `integrate_with_diffrax` uses `diffrax.diffeqsolve`, for runs that are
differentiated, that interpolate between steps of fixed length, or that show a progress meter of diffrax.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import diffrax
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from bricard.equations.linalg.sparse import Structure
from bricard.equations.routes.route import Route
from bricard.execution.compile import compiled, xla_jit
from bricard.simulation.controller import Controller
from bricard.simulation.digital import Sampled
from bricard.simulation.solvers import ProjectedSolver
from bricard.simulation.stabilization import Stabilization
from bricard.simulation.step_size import Steps
from bricard.simulation.stepping import integrate_forward
from bricard.simulation.vector_field import Setting, State, vector_field
from bricard.system import System, Vector


class Start(NamedTuple):
    """The initial state; it lies on the constraints if the run projects its states."""

    q: Vector
    v: Vector
    variation: Float[Array, "m n"]
    """Variation of the constraint rows, from `row_variation`."""


class Integration(NamedTuple):
    """The outcome of a run; entries that were not reached are not finite."""

    t: Float[Array, " k"]
    states: State
    last_t: Float[Array, ""]
    last: State
    result: diffrax.RESULTS
    finished: Bool[Array, ""]
    stats: dict[str, Any]


@compiled
def integrate(
    system: System,
    start: Start,
    times: Float[Array, " k"],
    *,
    controller: Controller,
    route: Route,
    stabilization: Stabilization,
    structure: Structure | None,
    solver: diffrax.AbstractSolver,
    steps: Steps,
    stops: Float[Array, " s"] | None,
    dt: Float[Array, ""],
    max_steps: int,
    stoppable: bool,
) -> Integration:
    """Integrate from `times[0]` to `times[-1]`, saving at `times`; steps end there and at `stops`.

    `dt` (s) is the first step to attempt. `stoppable`: whether Ctrl-C ends the run early, as one that failed.
    """
    setting, y0 = _prepare(system, start, times, controller, route, stabilization, structure)
    term: Any = diffrax.ODETerm(vector_field)  # pyright: ignore[reportArgumentType]
    run = integrate_forward(term, ProjectedSolver(solver), y0, setting, times, stops, steps, dt, max_steps, stoppable)
    finished = run.result == diffrax.RESULTS.successful
    return Integration(run.t, run.states, run.last_t, run.last, run.result, finished, run.stats)


@xla_jit
def integrate_with_diffrax(
    system: System,
    start: Start,
    times: Float[Array, " k"],
    *,
    controller: Controller,
    route: Route,
    stabilization: Stabilization,
    structure: Structure | None,
    solver: diffrax.AbstractSolver,
    steps: Steps,
    stops: Float[Array, " s"] | None,
    dt: Float[Array, ""],
    max_steps: int,
    stoppable: bool,
    progress: diffrax.AbstractProgressMeter,
    adjoint: diffrax.AbstractAdjoint,
) -> Integration:
    """Like `integrate`, with `diffrax.diffeqsolve`. Derivatives follow `adjoint`; `dt` (s) may be the fixed step."""
    setting, y0 = _prepare(system, start, times, controller, route, stabilization, structure)
    solution = diffrax.diffeqsolve(
        diffrax.ODETerm(vector_field),  # pyright: ignore[reportArgumentType]
        ProjectedSolver(solver, saves_ends=steps.adapt, stoppable=stoppable),
        t0=times[0],
        t1=times[-1],
        dt0=dt,
        y0=y0,
        args=setting,
        saveat=diffrax.SaveAt(subs=[diffrax.SubSaveAt(ts=times), diffrax.SubSaveAt(t1=True)]),
        stepsize_controller=steps.controller(times if stops is None else stops),
        max_steps=max_steps,
        progress_meter=progress,
        adjoint=adjoint,
        throw=False,
    )
    (t, last_t), (states, last) = solution.ts, solution.ys  # pyright: ignore[reportGeneralTypeIssues]
    if not steps.adapt:
        states = jax.lax.map(lambda at: setting.project(*at), (t, states))
    if isinstance(controller, Sampled):
        states = jax.lax.map(lambda at: setting.sample(*at), (t, states))
    finished = solution.result == diffrax.RESULTS.successful
    last = jax.tree.map(lambda x: x[0], last)
    return Integration(t, states, last_t[0], last, solution.result, finished, solution.stats)


def _prepare(
    system: System,
    start: Start,
    times: Float[Array, " k"],
    controller: Controller,
    route: Route,
    stabilization: Stabilization,
    structure: Structure | None,
) -> tuple[Setting, State]:
    setting = Setting(system, route, stabilization, controller, start.variation, structure)
    y0 = State(start.q, start.v, jnp.zeros(3), controller.start(times[0], start.q, start.v))
    return setting.ready(times[0], y0), y0
