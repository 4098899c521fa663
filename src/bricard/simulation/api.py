"""`br.simulate`, which integrates a system from an initial state and returns the trajectory."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.typing import ArrayLike

from bricard.equations.linalg.sparse import find_structure, missed
from bricard.equations.routes.proximal import DEFAULT
from bricard.equations.routes.route import Route
from bricard.errors import SimulationError, SimulationInterrupted
from bricard.execution.cache import contains_no_tracer
from bricard.execution.compile import record_compilation
from bricard.execution.interrupt import stoppable
from bricard.simulation.arguments import (
    as_numbers,
    check_event_run,
    check_settings,
    check_step_fits,
    make_meter,
    make_steps,
    prepare_solver,
    save_times,
)
from bricard.simulation.controller import Controller, make_controller, may_hide_values
from bricard.simulation.digital import Sampled
from bricard.simulation.events import checked_sources, runner_for
from bricard.simulation.failure import computed_part, failure_reason
from bricard.simulation.integration import Integration, Start, integrate, integrate_with_diffrax
from bricard.simulation.plan import Plan, may_use_structure, plan_run
from bricard.simulation.stabilization import Project, Stabilization
from bricard.simulation.start import check_start, examine_start, find_start
from bricard.simulation.stoppable_adjoint import StoppableForwardMode
from bricard.simulation.trajectory import Trajectory
from bricard.system import System, VectorLike, checked

STRUCTURE_TOLERANCE = 1e-9
"""Largest entry outside the sparsity pattern (found at the start) for which the result of sparse algebra is kept."""


def simulate(
    system: System,
    q: VectorLike,
    v: VectorLike,
    t_end: ArrayLike,
    *,
    u: VectorLike | Callable[..., Any] | None = None,
    controller: Controller | Callable[..., Any] | None = None,
    contacts: Any = (),
    route: Route = DEFAULT,
    stabilization: Stabilization = Project(),  # noqa: B008 (immutable)
    solver: diffrax.AbstractSolver = diffrax.Dopri8(),  # noqa: B008 (immutable)
    rtol: ArrayLike = 1e-10,
    atol: ArrayLike = 1e-10,
    dt: ArrayLike | None = None,
    save: int | VectorLike = 501,
    t0: ArrayLike = 0.0,
    max_steps: int = 1_000_000,
    throw: bool = True,
    progress: bool | diffrax.AbstractProgressMeter = False,
    adjoint: diffrax.AbstractAdjoint | None = None,
    max_events: int = 3_000,
) -> Trajectory:
    """Simulate from `t0` to `t_end` (s), through singular positions and with redundant constraints.

    - `q` (nq,), `v` (nv,): the initial state, as numbers or by name (`{"crank": 0.3}`; names left out keep their
      reference value). It must meet the constraints; `br.assemble` finds a state that does.
    - `u`: constant inputs (nu,), or a function of time. `controller`: a `br.control.Controller`, sampled or not, or a
      function `(t, q, v) -> u`, instead.
    - `contacts`: possible contacts (`br.Contact`, `br.point_contact`, `br.joint_limits`). Impacts are resolved, and
      contacts stay closed while they push. The trajectory lists all `events`; the run stops after `max_events`.
    - `route`: the route to the acceleration. `stabilization`: `Project()`, `Baumgarte(alpha, beta)` or None.
    - `solver`: any diffrax solver; `br.SSPRK104()` for strong dampers, implicit ones (`diffrax.Kvaerno5()`) for
      stiffer systems. Steps adapt to `rtol` and `atol` and end at the times to be saved, unless `dt` (s) fixes them
      (then states saved between steps are interpolated).
    - `save`: number of evenly spaced states to save, or the times (s) to save at.
    - `max_steps`: largest number of attempted steps; a run that needs more fails.
    - `throw`: raise `SimulationError` (with the run so far) on failure, or return the run so far with its status.
    - `progress`: show a progress bar. `adjoint`: how derivatives are computed (diffrax); the default serves `jax.grad`.
    """
    name = type(system).__name__
    q, v = checked(system, q, "q"), checked(system, v, "v")
    times = save_times(name, t0, t_end, save, 4 + system.nq + system.nv)
    check_settings(name, route, stabilization, solver, rtol, atol, dt)
    controller = make_controller(system, u, controller)
    sources = checked_sources(system, contacts)
    if sources:
        check_event_run(name, (system, q, v, times, controller, sources), dt, adjoint)
    meter = make_meter(progress)
    state_known, inputs_known = contains_no_tracer(system, q, v, times), contains_no_tracer(controller)
    if adjoint is None:
        # Concrete values are not being differentiated, and loops that only run forward compile faster.
        forward = bool(sources) or (state_known and inputs_known and not may_hide_values(controller))
        adjoint = diffrax.ForwardMode() if forward else diffrax.RecursiveCheckpointAdjoint()
    stops: Any = None
    if isinstance(controller, Sampled):
        samples, times = controller.times(times)
        stops = np.union1d(times, samples)
        check_step_fits(name, controller, dt)
    first, span = times[0], times[-1] - times[0]
    with record_compilation() as record:
        structure = None
        if not sources and state_known and may_use_structure(route, stabilization):
            structure = find_structure(system, q, first)
        plan = plan_run(
            events=bool(sources),
            adaptive=dt is None,
            progress=meter,
            adjoint=adjoint,
            structure=structure,
        )
        quality = examine_start(system, q, v, first)
        if state_known:
            check_start(system, q, v, stabilization, quality)
            if inputs_known and type(controller).check is not Controller.check:
                controller.check(first, *jax.device_put((q, v)))
        how: dict[str, Any] = {
            "controller": controller,
            "route": route,
            "stabilization": stabilization,
            "solver": prepare_solver(solver, dt is None and isinstance(stabilization, Project), adjoint, rtol, atol),
            "steps": make_steps(solver, rtol, atol, dt, span),
            "dt": as_numbers(1e-4 * span if dt is None else dt),
            "max_steps": max_steps,
            "stops": stops,
        }
        if plan.loop == "diffrax":
            how |= {"progress": meter, "adjoint": adjoint}
        events, failure = None, None
        if plan.loop == "events":
            times, how["stops"], how["dt"] = jax.tree.map(jnp.asarray, (times, stops, how["dt"]))
            how |= {"progress": meter, "max_events": max_events}
            start_state = jnp.asarray(q), jnp.asarray(v)
            run, events, failure, interrupted = runner_for(sources[0]).integrate(
                system, sources, *start_state, times, **how
            )
        else:
            start = find_start(system, q, v, first, stabilization, quality, state_known)
            run, interrupted = _integrated(plan, state_known and inputs_known, system, start, times, how)
    t, states = jax.tree.map(jnp.asarray, (run.t, run.states))  # LLVM returns NumPy arrays
    trajectory = Trajectory(
        system=system,
        route=route,
        stabilization=stabilization,
        controller=controller,
        t=t,
        q=states.q,
        v=states.v,
        work=states.work,
        memory=states.memory,
        result=run.result,
        stats=run.stats,
        record=events,
        settings={
            "solver": type(solver).__name__,
            **({"rtol": f"{rtol}", "atol": f"{atol}"} if dt is None else {"dt": f"{dt}"}),
        },
        execution=plan.describe(record),
    )
    if not interrupted and (isinstance(run.finished, Tracer) or bool(run.finished)):
        return trajectory
    run = jax.tree.map(jnp.asarray, run)
    interruption = f"interrupted at t = {float(run.last_t):.6g} s" if interrupted else None
    reason = interruption or failure or failure_reason(system, route, controller, run)
    trajectory = dataclasses.replace(computed_part(trajectory, run), failure=reason)
    if interrupted:
        raise SimulationInterrupted(f"{name}: {reason}", trajectory, float(run.last_t))
    if throw:
        raise SimulationError(f"{name}: {reason}", trajectory=trajectory, t=float(run.last_t))
    return trajectory


def _integrated(
    plan: Plan, concrete: bool, system: System, start: Callable[[Any], Start], times: Any, how: dict[str, Any]
) -> tuple[Integration, bool]:
    """The run, and whether Ctrl-C ended it. It is repeated with dense algebra if the sparsity pattern did not hold."""
    run_once = integrate if plan.loop == "steps" else integrate_with_diffrax
    structure = plan.structure
    if not concrete:
        return run_once(system, start(structure), times, structure=structure, stoppable=False, **how), False
    if plan.loop == "diffrax" and not how["steps"].adapt and type(how["adjoint"]) is diffrax.ForwardMode:
        how = how | {"adjoint": StoppableForwardMode(), "stoppable": False}
    else:
        how = how | {"stoppable": True}
    with stoppable() as stop:
        run = jax.block_until_ready(run_once(system, start(structure), times, structure=structure, **how))
        if structure is not None and not stop.requested:
            outside = missed(system, structure, run.states.q, run.t)
            if not np.all(outside < STRUCTURE_TOLERANCE):
                run = jax.block_until_ready(run_once(system, start(None), times, structure=None, **how))
    return run, stop.requested
