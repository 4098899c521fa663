"""`br.simulate`: from a state to a trajectory."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from equinox.internal import while_loop
from jax.core import Tracer
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from bricard.equations.dynamics import refuse_undetermined
from bricard.equations.multipliers import Multipliers
from bricard.equations.problem import equilibrate, state_problem
from bricard.equations.proximal import DEFAULT
from bricard.equations.rank import rank
from bricard.equations.route import Route
from bricard.equations.scaled import ScaledMatrices, scaled_matrices
from bricard.equations.sparse import Structure, find_structure, missed
from bricard.errors import AssemblyError, ModelError, SimulationError, SimulationInterrupted, is_concrete
from bricard.interrupt import stoppable
from bricard.native.stop import stop_requested
from bricard.simulate.assemble import residuals
from bricard.simulate.contact import Unilateral, checked_contacts
from bricard.simulate.controller import Controller, make_controller, may_hide_values
from bricard.simulate.events import integrate_with_contacts
from bricard.simulate.forward import UNASKED
from bricard.simulate.hoist import hoist
from bricard.simulate.integrate import Integration, Start, integrate
from bricard.simulate.linear_solver import DenseSolver
from bricard.simulate.memory import check_memory
from bricard.simulate.sampling import Sampled
from bricard.simulate.solver import ShortDopri8
from bricard.simulate.stabilize import Baumgarte, Project, Stabilization
from bricard.simulate.steps import Steps
from bricard.simulate.trajectory import Trajectory
from bricard.system import Numbers, Scalar, System, Vector, VectorLike, checked
from bricard.tracing import can_be_looked_at, compiled, remembered

FORWARD, NO_METER = diffrax.ForwardMode(), diffrax.NoProgressMeter()

STRUCTURE_TOLERANCE = 1e-9
"""The structure of a large system is found by trial; if it misses more than this at a saved state, it is not used."""

COPIES = 4
"""Of the saved states in memory at the same time: those of the program, of JAX, and what is computed from them."""

START_TOLERANCE = 1e-6
"""A start may miss the constraints by this many metres or radians (per second); it is then moved onto them."""
ROUNDING = 1e-14
"""A start that misses them by less, as a part of its coordinates or velocities, is taken as it is."""


def simulate(
    system: System,
    q: VectorLike,
    v: VectorLike,
    t_end: ArrayLike,
    *,
    u: VectorLike | Callable[..., Any] | None = None,
    controller: Controller | Callable[..., Any] | None = None,
    contacts: Unilateral | Sequence[Any] = (),
    method: Route = DEFAULT,
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

    - `q` (nq,), `v` (nv,): the start. It must meet the constraints; `br.assemble` finds a start that does.
    - `u`: constant inputs (nu,), or a function of time. `controller`: a `br.control.Controller`, sampled or not, or a
      function `(t, q, v) -> u`, instead.
    - `contacts`: what can touch (`br.Unilateral`, `br.point_contact`, `br.joint_limits`). Impacts are resolved, and
      contacts stay closed while they push; `events` of the trajectory says what happened, `max_events` times at most.
    - `method`: the route to the acceleration. `stabilization`: `Project()`, `Baumgarte(alpha, beta)` or None.
    - `solver`: any diffrax solver; `br.SSPRK104()` for strong dampers, implicit ones (`diffrax.Kvaerno5()`) for
      systems that are stiffer still. Steps adapt to `rtol` and `atol`, and onto the times to be saved, unless `dt`
      fixes them (then what is saved between steps is interpolated).
    - `save`: how many evenly spaced states to keep, or the times to keep.
    - `throw`: raise `SimulationError` (with the run so far) on failure, or return what there is with its status.
    - `progress`: show it. `adjoint`: how derivatives are taken (diffrax); the default serves `jax.grad`.
    """
    name = type(system).__name__
    q, v = _state(system, q, v)
    times = _save_times(name, t0, t_end, save, 4 + system.nq + system.nv)
    _check_settings(name, method, stabilization, solver, rtol, atol, dt)
    controller = make_controller(system, u, controller)
    touching = checked_contacts(system, contacts)
    if touching:
        _check_contact_run(name, (system, q, v, times, controller, touching), dt, adjoint)
        adjoint = FORWARD
    known, seen = can_be_looked_at(system, q, v, times), can_be_looked_at(controller)
    if adjoint is None:
        # Values that can be looked at are not being differentiated; loops that only run forward compile faster.
        forward = known and seen and not may_hide_values(controller)
        adjoint = FORWARD if forward else diffrax.RecursiveCheckpointAdjoint()
    stops: Any = None
    if isinstance(controller, Sampled):
        samples, times = controller.times(times)
        stops = np.union1d(times, samples)
        _check_step_fits(name, controller, dt)
    first, span = times[0], times[-1] - times[0]
    structure = None
    if not touching and known and _may_use_structure(method, stabilization):
        structure = find_structure(system, q, first)
    quality = _look(system, q, v, first)
    if known:
        _check_start(system, q, v, stabilization, quality)
        if seen and type(controller).check is not Controller.check:
            controller.check(first, *jax.device_put((q, v)))
    start = _start(system, q, v, first, stabilization, quality, known)
    how: dict[str, Any] = {
        "controller": controller,
        "method": method,
        "stabilization": stabilization,
        "solver": _prepared(solver, dt is None and isinstance(stabilization, Project), adjoint, rtol, atol),
        "steps": _steps(solver, rtol, atol, dt, span),
        "dt": _numbers(1e-4 * span if dt is None else dt),
        "max_steps": max_steps,
    }
    modes, events, failure, interrupted = None, (), None, False
    if touching:
        times, stops, how["dt"] = jax.tree.map(jnp.asarray, (times, stops, how["dt"]))
        how |= {"stops": stops, "progress": _meter(progress), "max_events": max_events}
        start_at = (jnp.asarray(q), jnp.asarray(v))
        run, modes, events, failure, interrupted = integrate_with_contacts(system, touching, *start_at, times, **how)
    else:
        how |= {"stops": stops, "progress": _meter(progress), "adjoint": adjoint}
        run, interrupted = _integrated(known and seen, system, start, structure, times, how)
    t, states = jax.tree.map(jnp.asarray, (run.t, run.states))  # they may be NumPy's
    trajectory = Trajectory(
        system=system,
        method=method,
        stabilization=stabilization,
        controller=controller,
        t=t,
        q=states.q,
        v=states.v,
        work=states.work,
        memory=states.memory,
        result=run.result,
        stats=run.stats,
        contacts=touching,
        modes=modes,
        events=events,
        settings={
            "solver": type(solver).__name__,
            **({"rtol": f"{rtol}", "atol": f"{atol}"} if dt is None else {"dt": f"{dt}"}),
        },
    )
    if not interrupted and (isinstance(run.finished, Tracer) or bool(run.finished)):
        return trajectory
    run = jax.tree.map(jnp.asarray, run)
    interruption = f"interrupted at t = {float(run.last_t):.6g} s" if interrupted else None
    reason = interruption or failure or _reason(system, method, controller, run)
    trajectory = dataclasses.replace(_what_there_is(trajectory, run), failure=reason)
    if interrupted:
        raise SimulationInterrupted(f"{name}: {reason}", trajectory, float(run.last_t))
    if throw:
        raise SimulationError(f"{name}: {reason}", trajectory=trajectory, t=float(run.last_t))
    return trajectory


class _Asking(diffrax.ForwardMode):
    """The loop of diffrax, which asks once in `UNASKED` steps whether it is to stop.

    XLA would not compile a loop that asks in each step as one piece, and small systems would take twice as long.
    """

    @property
    def _loop(self) -> Callable[..., Any]:
        usual = super()._loop
        return lambda **settings: usual(**(settings | {"outer_while_loop": _asking_loop}))


ASKING = _Asking()


def _asking_loop(on: Callable[..., Any], step: Callable[..., Any], start: Any, *, max_steps: int, buffers: Any) -> Any:
    """As `equinox.internal.while_loop`, for the states of diffrax's loop."""

    def several_steps(state: Any) -> Any:
        until = jnp.minimum(state.num_steps + UNASKED, max_steps)
        return while_loop(lambda s: on(s) & (s.num_steps < until), step, state, buffers=buffers, kind="lax")

    def go_on(state: Any) -> Any:
        return on(state) & (state.num_steps < max_steps) & ~stop_requested(state.num_steps)

    return while_loop(go_on, several_steps, start, kind="lax")


def _integrated(
    concrete: bool, system: System, start: Callable[[Structure | None], Start], structure: Any, times: Any, how: Any
) -> tuple[Integration, bool]:
    """The run, and whether it was interrupted; if the structure of a large system missed something, without it."""
    if not concrete:
        return integrate(system, start(structure), times, structure=structure, stoppable=False, **how), False
    asking = not how["steps"].adapt and type(how["adjoint"]) is diffrax.ForwardMode
    how = how | ({"adjoint": ASKING, "stoppable": False} if asking else {"stoppable": True})
    with stoppable() as stop:
        run = jax.block_until_ready(integrate(system, start(structure), times, structure=structure, **how))
        if structure is not None and not stop.requested and _misses(system, structure, run):
            run = jax.block_until_ready(integrate(system, start(None), times, structure=None, **how))
    return run, stop.requested


def _misses(system: System, structure: Structure, run: Integration) -> bool:
    """Whether a run left the part of the state space in which the structure is right."""
    return not np.all(missed(system, structure, run.states.q, run.t) < STRUCTURE_TOLERANCE)


def _state(system: System, q: VectorLike, v: VectorLike) -> tuple[Numbers, Numbers]:
    """The start, checked; of NumPy if it can be."""
    return checked(system, q, "q"), checked(system, v, "v")


def _may_use_structure(method: Route, stabilization: Stabilization) -> bool:
    """Large systems are solved by their structure in place of the default route, not of one that was asked for."""
    is_default = method is DEFAULT or method == DEFAULT
    return is_default and isinstance(stabilization, Project) and stabilization.metric == "mass"


def _check_contact_run(name: str, values: Any, dt: Any, adjoint: Any) -> None:
    problems = []
    if not is_concrete(values):
        problems.append(
            "contacts: what happens when depends on values, so these runs cannot be jitted or differentiated"
        )
    if dt is not None:
        problems.append("dt: a run with contacts chooses its steps, so as to end them where something happens")
    if adjoint is not None:
        problems.append("adjoint: a run with contacts is not differentiated")
    if problems:
        raise ModelError(name, problems)


def _numbers(value: Any) -> Any:
    """An array, of NumPy if it can be: it is faster, and numbers stay numbers under `jit`."""
    return (np if is_concrete(value) else jnp).asarray(value, dtype=float)


def _save_times(name: str, t0: Any, t_end: Any, save: Any, size: int) -> Any:
    """The times to keep, always from `t0` to `t_end`; numbers stay numbers under `jit`: digital controllers need it.

    `size`: numbers that are kept of each state.
    """
    if is_concrete(t0, t_end) and not (np.isfinite(t0) and np.isfinite(t_end) and t_end > t0):
        raise ModelError(name, [f"t_end must be after the start at t = {t0:g} s, not {t_end}"])
    if isinstance(save, (int, np.integer)) and not isinstance(save, bool):
        if save < 2:
            raise ModelError(name, [f"save: at least 2 states (the first and the last), not {save}"])
        needed, label = 8 * COPIES * size * int(save), str(save) if save < 10**15 else "more than 1e15"
        check_memory(name, needed, f"save: {label} states", "keep fewer of them, or give the times to keep")
        linspace = np.linspace if is_concrete(t0, t_end) else jnp.linspace
        return linspace(t0, t_end, int(save), dtype=float)
    known = is_concrete(save, t0, t_end)
    try:
        times = _numbers(save)
        if times.ndim != 1 or times.shape[0] < 1:
            raise ValueError("no list")
    except (TypeError, ValueError) as error:
        raise ModelError(name, [f"save: a number of states or a list of times, not {save!r}"]) from error
    if known:
        if not np.all(np.isfinite(times)) or np.any(np.diff(times) <= 0):
            raise ModelError(name, ["save: the times must be finite and increasing"])
        if times[0] < t0 or times[-1] > t_end:
            raise ModelError(name, [f"save: times must lie between {t0:g} and {t_end:g} s"])
        ends = [x for x in (t0,) if times[0] > x], [x for x in (t_end,) if times[-1] < x]
        times = np.concatenate([np.array(ends[0], float), times, np.array(ends[1], float)])
    return times


def _check_settings(name: str, method, stabilization, solver, rtol, atol, dt) -> None:
    problems = []
    if not isinstance(method, Route):
        problems.append(f"method: a route such as br.Proximal(), not {method!r}")
    if not (stabilization is None or isinstance(stabilization, (Project, Baumgarte))):
        problems.append(f"stabilization: br.Project(), br.Baumgarte(alpha, beta) or None, not {stabilization!r}")
    if not isinstance(solver, diffrax.AbstractSolver):
        problems.append(f"solver: a diffrax solver such as diffrax.Dopri8(), not {solver!r}")
    for label, value in (("rtol", rtol), ("atol", atol), ("dt", dt)):
        if value is not None and is_concrete(value) and not (np.isfinite(value) and value > 0):
            problems.append(f"{label} must be positive, not {value}")
    if dt is None and not problems and not isinstance(solver, diffrax.AbstractAdaptiveSolver):
        problems.append(f"{type(solver).__name__} cannot choose its steps: give dt")
    if problems:
        raise ModelError(name, problems)


class _Quality(NamedTuple):
    """What a start is like: its matrices, and what it misses."""

    matrices: ScaledMatrices
    position: Float[Array, " m"]
    velocity: Float[Array, " m"]
    """Misses of the constraints, in units of the coordinates."""
    chart: Vector
    """What `System.normalize` would add to the coordinates."""


@compiled
def _look(system: System, q: Vector, v: Vector, t: Scalar) -> _Quality:
    """In one program, since all of it needs the same matrices."""

    def look(q: Vector, v: Vector, t: Scalar) -> _Quality:
        matrices = scaled_matrices(system, q, t)
        return _Quality(matrices, *residuals(system, q, v, t, matrices.variation), system.normalize(q) - q)

    return hoist(look, q, v, t)(q, v, t)  # less to compile


def _start(
    system: System, q: Numbers, v: Numbers, t: Any, stabilization: Stabilization, quality: _Quality, known: bool
) -> Callable[[Structure | None], Start]:
    """Where the run starts, found with the structure of a large system or without."""
    given: Any = q, v  # arrays of JAX in the program that it is for
    as_given = Start(given[0], given[1], quality.matrices.variation)
    if not (isinstance(stabilization, Project) and system.n_constraints) or (known and _is_met(q, v, quality)):
        return lambda structure: as_given
    return lambda structure: _put_onto(system, as_given, t, stabilization, structure)


@compiled
def _put_onto(system: System, start: Start, t: Scalar, stabilization: Project, structure: Structure | None) -> Start:
    """The start on its constraints."""
    q, v, _ = stabilization.project(system, start.q, start.v, t, start.variation, structure)
    return start._replace(q=q, v=v)


def _is_met(q: Numbers, v: Numbers, quality: _Quality) -> bool:
    """Whether a start is as good as one that has been put onto the constraints."""
    pairs = ((quality.position, q), (quality.chart, q), (quality.velocity, v))
    return all(_largest(off) <= ROUNDING * (1.0 + _largest(of)) for off, of in pairs)


def _largest(x: Any) -> float:
    return float(np.max(np.abs(np.asarray(x)), initial=0.0))


def _check_start(system: System, q: Numbers, v: Numbers, stabilization: Stabilization, quality: _Quality) -> None:
    refuse_undetermined(system, q, quality.matrices)
    if isinstance(stabilization, Baumgarte) or stabilization is None:
        return  # A run that does not promise to stay on the constraints may start beside them.
    position, velocity = (np.abs(np.asarray(x)) for x in (quality.position, quality.velocity))
    speed = 1.0 + float(np.max(np.abs(np.asarray(v)), initial=0.0))
    if np.all(position < START_TOLERANCE) and np.all(velocity < START_TOLERANCE * speed):
        return
    level, off = ("position", position) if np.any(position >= START_TOLERANCE) else ("velocity", velocity)
    table = dict(zip(system.row_names, (float(x) for x in off), strict=True))
    worst = max(table, key=lambda n: table[n])
    raise AssemblyError(
        f"{type(system).__name__}: the start is off the constraints: the {level} misses {worst} by {table[worst]:.3g}. "
        "br.assemble(system, q, v) finds the nearest start that meets them.",
        residuals=table,
        q=jnp.asarray(q),
        v=jnp.asarray(v),
    )


def _prepared(solver: Any, short: bool, adjoint: Any, rtol: Any, atol: Any) -> Any:
    """What `diffrax.diffeqsolve` does to a solver, unless it is wrapped: loops that suit the adjoint, tolerances.

    `short`: without evaluations that a projected step does not use.
    """
    kind = {diffrax.ForwardMode: "lax", diffrax.DirectAdjoint: "bounded"}.get(type(adjoint))

    def with_loops() -> Any:
        chosen = ShortDopri8(scan_kind=solver.scan_kind) if short and type(solver) is diffrax.Dopri8 else solver
        if kind is None or getattr(chosen, "scan_kind", "") is not None:
            return chosen
        return eqx.tree_at(lambda s: s.scan_kind, chosen, kind, is_leaf=lambda x: x is None)

    prepared = remembered(solver, f"for loops of kind {kind}{', short' if short else ''}", with_loops)
    if isinstance(prepared, diffrax.AbstractImplicitSolver) and not eqx.is_array_like(
        getattr(prepared.root_finder, "rtol", 0.0)
    ):
        # diffrax's own finders take their tolerances from the steps; one that was given with numbers keeps them.
        finder: Any = diffrax.VeryChord
        rtol, atol = (jnp.asarray(x, float) for x in (rtol, atol))
        prepared = eqx.tree_at(
            lambda s: s.root_finder, prepared, finder(rtol=rtol, atol=atol, linear_solver=DenseSolver())
        )
    return prepared


def _check_step_fits(name: str, controller: Sampled, dt: Any) -> None:
    if dt is None or not is_concrete(dt):
        return
    steps = float(controller.period) / float(dt)
    if abs(steps - round(steps)) > 1e-9 * steps or round(steps) < 1:
        raise ModelError(name, [f"dt = {dt} s does not divide the sampling period of {float(controller.period):g} s"])


def _steps(
    solver: diffrax.AbstractSolver, rtol: ArrayLike, atol: ArrayLike, dt: ArrayLike | None, span: ArrayLike
) -> Steps:
    growth = getattr(solver, "growth", 10.0)
    if all(isinstance(x, (int, float)) for x in (rtol, atol, span)):
        return _known_steps(float(rtol), float(atol), float(span), dt is None, growth)  # pyright: ignore[reportArgumentType]
    return Steps(_numbers([rtol, atol, 1e-13 * span]), adapt=dt is None, growth=growth)


@functools.lru_cache(maxsize=64)
def _known_steps(rtol: float, atol: float, span: float, adapt: bool, growth: float) -> Steps:
    """Made once for many runs alike."""
    return Steps(np.array([rtol, atol, 1e-13 * span]), adapt=adapt, growth=growth)


def _meter(progress: bool | diffrax.AbstractProgressMeter) -> diffrax.AbstractProgressMeter:
    if isinstance(progress, bool):
        return diffrax.TextProgressMeter() if progress else NO_METER
    return progress


def _what_there_is(trajectory: Trajectory, run: Integration) -> Trajectory:
    """The run until it failed, with the last good state at its end."""
    good = np.isfinite(run.t) & np.all(np.isfinite(run.states.q), axis=1) & np.all(np.isfinite(run.states.v), axis=1)
    kept = jax.tree.map(lambda x: x[good], (run.t, run.states))
    modes = jax.tree.map(lambda x: x[good], trajectory.modes)
    last = (run.last_t, run.last)
    finite = all(np.all(np.isfinite(x)) for x in jax.tree.leaves(last))
    if finite and (kept[0].size == 0 or float(last[0]) > float(kept[0][-1])):
        kept = jax.tree.map(lambda x, y: jnp.concatenate([x, jnp.asarray(y)[None]]), kept, last)
        modes = jax.tree.map(lambda x: jnp.concatenate([x, x[-1:]]), modes)
    t, states = kept
    return dataclasses.replace(
        trajectory, t=t, q=states.q, v=states.v, work=states.work, memory=states.memory, modes=modes
    )


def _reason(system: System, method: Route, controller: Controller, run: Integration) -> str:
    """Why a run stopped, and what to do."""
    t = float(run.last_t)
    where = f"stopped at t = {t:.6g} s: "
    if bool(run.result == diffrax.RESULTS.max_steps_reached):
        return (
            where + "the maximum number of steps was reached. Raise max_steps, loosen rtol and atol, "
            "or try a solver for stiff systems: br.SSPRK104() or diffrax.Kvaerno5()."
        )
    for ahead in np.concatenate([[0.0], np.geomspace(1e-12, 1e-2, 11) * (1.0 + abs(t))]):
        q, v = run.last.q + ahead * system.qdot(run.last.q, run.last.v), run.last.v
        u = controller(t + ahead, q, v, run.last.memory)
        if not np.all(np.isfinite(u)):
            return where + "the controller's inputs became NaN or infinite there. Look at its demands and limits."
        problem = state_problem(system, q, v, u, t + ahead)
        parts = {
            "the mass matrix": problem.mass,
            "the force": problem.force,
            "the constraints": jnp.concatenate([problem.matrix.ravel(), problem.target, problem.position_error]),
        }
        for label, value in parts.items():
            if not np.all(np.isfinite(value)):
                return where + f"{label} became NaN or infinite there. Look at the model at the last state."
        if isinstance(method, Multipliers) and int(rank(equilibrate(problem)[0].matrix)) < problem.matrix.shape[0]:
            return where + "the constraints became dependent, which Multipliers cannot bear; br.Proximal() can."
    if bool(run.result == diffrax.RESULTS.nonlinear_divergence):
        return where + "the next step could not be solved. Try a smaller dt, none at all, or looser rtol and atol."
    return (
        where + "the step size became too small. The motion may blow up here, or be too stiff for this solver: "
        "try br.SSPRK104() or diffrax.Kvaerno5(), or looser rtol and atol."
    )
