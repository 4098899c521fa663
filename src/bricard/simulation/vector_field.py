"""The vector field that is integrated, and the projection of its states onto the constraints."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from bricard.equations.linalg.sparse import Structure, sparse_acceleration
from bricard.equations.load_dependent import add_load_dependent_force
from bricard.equations.problem import equilibrate
from bricard.equations.routes.route import Route
from bricard.execution.hoist import hoist
from bricard.simulation.controller import Controller, Memory
from bricard.simulation.digital import Sampled
from bricard.simulation.stabilization import Project, Stabilization, stabilized_problem
from bricard.system import Scalar, System, Vector

NORMAL_ERROR_WEIGHT = 1e-3
"""Weight of the error normal to the constraints in the step size control, relative to the error along them."""


class State(NamedTuple):
    """The integrated quantities."""

    q: Vector
    v: Vector
    work: Float[Array, " 3"]
    """Work done (J) by the inputs, by other applied forces, and by moving constraints and explicit time."""
    memory: Memory
    """Memory of the controller."""


class Setting(NamedTuple):
    """The constants of a run: the system and its numerical settings."""

    system: System
    route: Route
    stabilization: Stabilization
    controller: Controller
    variation: Float[Array, "m n"]
    """Variation of the constraint rows, from `row_variation`."""
    structure: Structure | None = None
    """Sparsity of a large system; None for dense algebra."""
    rates: Callable[..., State] | None = None
    """`rates_of_change` with its constant part hoisted out of the loop."""
    projection: Callable[..., tuple[State, State]] | None = None
    """`projected` with its constant part hoisted out of the loop."""

    @property
    def projects(self) -> bool:
        """Whether states are projected onto the constraints."""
        return isinstance(self.stabilization, Project) and self.system.n_constraints > 0

    def ready(self, t: Scalar, y: State) -> Setting:
        """A copy that evaluates terms independent of time and state once; `t`, `y` are examples of its arguments."""
        ready = self._replace(rates=hoist(partial(rates_of_change, self), t, y))
        return ready._replace(projection=hoist(partial(projected, self), t, y, y)) if self.projects else ready

    def project(self, t: Scalar, y: State) -> State:
        """The state, projected onto the constraints if the run uses `Project`."""
        return self.project_step(t, y, None)[0]

    def project_step(self, t: Scalar, y: State, error: State | None) -> tuple[State, State | None]:
        """A step and its error estimate after projection."""
        if not self.projects:
            return y, error
        project = self.projection or partial(projected, self)
        y, smaller = project(jnp.asarray(t, dtype=float), y, y if error is None else error)
        return y, None if error is None else smaller

    def sample(self, t: Scalar, y: State) -> State:
        """The state after the sample of a digital controller, if one is due at `t`."""
        if not isinstance(self.controller, Sampled):
            return y
        return y._replace(memory=self.controller.sample_if_due(t, y.q, y.v, y.memory))


def vector_field(t: Scalar, y: State, setting: Setting) -> State:
    """Time derivative of the state, in the form that diffrax expects."""
    rates = setting.rates or partial(rates_of_change, setting)
    return rates(jnp.asarray(t, dtype=float), y)


def projected(setting: Setting, t: Scalar, y: State, error: State) -> tuple[State, State]:
    """The state projected onto the constraints, and its reduced error estimate."""
    system, how = setting.system, setting.stabilization
    assert isinstance(how, Project)
    q, v, correction = how.project(system, y.q, y.v, t, setting.variation, setting.structure)
    # The projection removes the normal part of the error. It keeps a small weight, because it indicates where the
    # equations are ill-conditioned (next to singular positions).
    removed = 1.0 - NORMAL_ERROR_WEIGHT
    off_constraints = jax.jvp(lambda q: system.constraints(system.normalize(q), t), (q,), (error.q,))[1]
    normal = correction(jnp.concatenate([off_constraints, jnp.zeros(system.n_constraints - system.n_holonomic)]))
    error = error._replace(
        q=error.q - removed * system.qdot(q, normal), v=error.v - removed * correction.normal(error.v)
    )
    return y._replace(q=q, v=v), error


def rates_of_change(setting: Setting, t: Scalar, y: State) -> State:
    """Time derivatives of coordinates, velocities, work and memory."""
    system, (q, v, _, memory) = setting.system, y
    u = setting.controller(t, q, v, memory)
    if setting.structure is None:
        problem = stabilized_problem(system, q, v, u, t, setting.stabilization, setting.variation)
        problem, friction = add_load_dependent_force(system, problem, q, v, t)
        scaled, units = equilibrate(problem)
        acceleration = setting.route.acceleration(scaled) * units.columns
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
