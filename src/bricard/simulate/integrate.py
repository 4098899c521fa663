"""The integration itself: equations of motion in, states on the constraints out (diffrax inside)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import diffrax
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from bricard.equations.problem import equilibrate
from bricard.equations.route import Route
from bricard.equations.sparse import Structure, sparse_acceleration
from bricard.native import Unsupported
from bricard.simulate.controller import Controller, Memory
from bricard.simulate.forward import go_forward
from bricard.simulate.hoist import hoist
from bricard.simulate.sampling import Sampled
from bricard.simulate.solver import ProjectedSolver
from bricard.simulate.stabilize import Project, Stabilization
from bricard.simulate.steps import Steps
from bricard.simulate.touching import problem_with_friction
from bricard.system import Scalar, System, Vector
from bricard.tracing import compiled, for_llvm

NORMAL_ERROR_WEIGHT = 1e-3
"""How much the error across the constraints counts in the choice of steps, against the error along them."""


class State(NamedTuple):
    """What is integrated."""

    q: Vector
    v: Vector
    work: Float[Array, " 3"]
    """Work done (J) by the inputs, by other applied forces, and by moving constraints and explicit time."""
    memory: Memory
    """Of the controller."""


class Start(NamedTuple):
    """Where a run starts: on the constraints, if it is to stay there."""

    q: Vector
    v: Vector
    variation: Float[Array, "m n"]
    """Of `row_variation`."""


class Setting(NamedTuple):
    """What stays the same during a run."""

    system: System
    method: Route
    stabilization: Stabilization
    controller: Controller
    variation: Float[Array, "m n"]
    structure: Structure | None = None
    """Of a large system."""
    rates: Callable[..., State] | None = None
    """`rates_of_change` of this setting, ready for the loop."""
    projection: Callable[..., tuple[State, State]] | None = None
    """`projected` of this setting, ready for the loop."""

    @property
    def projects(self) -> bool:
        """Whether states are put back onto constraints."""
        return isinstance(self.stabilization, Project) and self.system.n_constraints > 0

    def ready(self, t: Scalar, y: State) -> Setting:
        """With all that does not depend on time and state done once; `t`, `y` like those to come."""
        ready = self._replace(rates=hoist(partial(rates_of_change, self), t, y))
        return ready._replace(projection=hoist(partial(projected, self), t, y, y)) if self.projects else ready

    def project(self, t: Scalar, y: State) -> State:
        """The state on the constraints, if that is how the run stays on them."""
        return self.project_step(t, y, None)[0]

    def project_step(self, t: Scalar, y: State, error: State | None) -> tuple[State, State | None]:
        """A step and its error estimate after projection."""
        if not self.projects:
            return y, error
        project = self.projection or partial(projected, self)
        y, smaller = project(jnp.asarray(t, dtype=float), y, y if error is None else error)
        return y, None if error is None else smaller

    def sample(self, t: Scalar, y: State) -> State:
        """The state after a digital controller looked at it, if it is due to."""
        if not isinstance(self.controller, Sampled):
            return y
        return y._replace(memory=self.controller.sample_if_due(t, y.q, y.v, y.memory))


def vector_field(t: Scalar, y: State, setting: Setting) -> State:
    """What diffrax integrates."""
    rates = setting.rates or partial(rates_of_change, setting)
    return rates(jnp.asarray(t, dtype=float), y)


def projected(setting: Setting, t: Scalar, y: State, error: State) -> tuple[State, State]:
    """A state on the constraints, and the error estimate that is left."""
    system, how = setting.system, setting.stabilization
    assert isinstance(how, Project)
    q, v, correction = how.project(system, y.q, y.v, t, setting.variation, setting.structure)
    # What the projection removes is no error of the result; it counts a little, since it shows where the equations are
    # hard to evaluate (next to singular positions).
    removed = 1.0 - NORMAL_ERROR_WEIGHT
    missed = jax.jvp(lambda q: system.constraints(system.normalize(q), t), (q,), (error.q,))[1]
    across = correction(jnp.concatenate([missed, jnp.zeros(system.n_constraints - system.n_holonomic)]))
    error = error._replace(
        q=error.q - removed * system.qdot(q, across), v=error.v - removed * correction.normal(error.v)
    )
    return y._replace(q=q, v=v), error


def rates_of_change(setting: Setting, t: Scalar, y: State) -> State:
    """Rates of coordinates, velocities, work and memory."""
    system, (q, v, _, memory) = setting.system, y
    u = setting.controller(t, q, v, memory)
    if setting.structure is None:
        problem, friction = problem_with_friction(system, q, v, u, t, setting.stabilization, setting.variation)
        scaled, units = equilibrate(problem)
        acceleration = setting.method.acceleration(scaled) * units.columns
        by_constraints = v @ (problem.mass @ acceleration - problem.force)
    else:
        acceleration, force = sparse_acceleration(system, setting.structure, q, v, u, t, setting.variation)
        friction, by_constraints = jnp.zeros(system.nv), v @ force

    def lagrangian(t: Scalar) -> Float[Array, ""]:
        return system.kinetic_energy(q, v, t) - system.potential_energy(q, t)

    by_time = -jax.jvp(lagrangian, (t,), (jnp.ones_like(t),))[1]
    by_inputs = v @ (system.input_matrix(q, t) @ u) if u.shape[0] else jnp.zeros(())
    power = jnp.stack([by_inputs, v @ (system.applied_force(q, v, t) + friction), by_constraints + by_time])
    return State(system.qdot(q, v), acceleration, power, setting.controller.rate(t, q, v, memory))


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
    method: Route,
    stabilization: Stabilization,
    structure: Structure | None,
    solver: diffrax.AbstractSolver,
    steps: Steps,
    stops: Float[Array, " s"] | None,
    dt: Float[Array, ""],
    max_steps: int,
    progress: diffrax.AbstractProgressMeter,
    adjoint: diffrax.AbstractAdjoint,
    stoppable: bool,
) -> Integration:
    """Integrate from `times[0]` to `times[-1]`, saving at `times`; steps that adapt end there, and at `stops`.

    `stoppable`: it ends early, as one that failed, if asked to (`bricard.interrupt`).
    """
    forward = steps.adapt and isinstance(adjoint, diffrax.ForwardMode) and isinstance(progress, diffrax.NoProgressMeter)
    if for_llvm() and not forward:
        raise Unsupported("diffeqsolve, which calls back into Python")
    setting = Setting(system, method, stabilization, controller, start.variation, structure)
    y0 = State(start.q, start.v, jnp.zeros(3), controller.start(times[0], start.q, start.v))
    setting = setting.ready(times[0], y0)

    term: Any = diffrax.ODETerm(vector_field)  # pyright: ignore[reportArgumentType]
    wrapped = ProjectedSolver(solver, saves_ends=steps.adapt, stoppable=stoppable and not forward)
    if forward:
        run = go_forward(term, wrapped, y0, setting, times, stops, steps, dt, max_steps, stoppable)
        finished = run.result == diffrax.RESULTS.successful
        return Integration(run.t, run.states, run.last_t, run.last, run.result, finished, run.stats)
    solution = diffrax.diffeqsolve(
        term,
        wrapped,
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
