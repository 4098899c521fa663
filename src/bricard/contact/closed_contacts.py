"""A system some of whose contacts are closed: these are constraints as long as they push.

Which contacts are closed, stick or slide is data (`Modes`), not structure: one compiled program serves all of them.
"""

from __future__ import annotations

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from bricard.contact.force_distribution import Loads, share_load
from bricard.contact.gap import MAX_FRICTION, Contact, existing_rows, gap_rates, gaps, slip_size, slips
from bricard.equations.load_dependent import LoadDependentSystem
from bricard.equations.problem import Problem, Scales, equilibrate
from bricard.execution.lapack import cho_solve, cholesky
from bricard.system import Scalar, System, Vector

STARTING = 1e-7
"""Below this speed of slip (m/s) the direction in which it began counts too: rounding would decide it otherwise."""


class Modes(NamedTuple):
    """What each of `c` contacts does; ones and zeros."""

    closed: Float[Array, "*k c"]
    """It pushes."""
    stuck: Float[Array, "*k c"]
    """It is closed and does not slip."""
    direction: Float[Array, "*k c slips"]
    """Unit vector of its slip when it began to slide with friction; zero if it does not."""


class Touching(LoadDependentSystem):
    """`system` with rows for its contacts: all gaps after its own holonomic rows, all slips at the end.

    The rows of open contacts are zero; redundant rows are normal.
    """

    system: System
    contacts: tuple[Contact, ...]
    modes: Modes
    slips: int = eqx.field(static=True)

    @classmethod
    def of(cls, system: System, contacts: tuple[Contact, ...], modes: Modes) -> Touching:
        """With as many rows of slip as the contacts need."""
        return cls(system, contacts, modes, slip_size(system, contacts))

    # -- as the system itself --------------------------------------------------------------------------------------

    @property
    def coordinates(self):  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.system.coordinates

    @property
    def velocities(self):  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.system.velocities

    @property
    def inputs(self):  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.system.inputs

    @property
    def has_chart(self):
        return self.system.has_chart

    @property
    def weakest_constraint(self):  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.system.weakest_constraint

    @property
    def nu(self):
        return self.system.nu

    def kinetic_energy(self, q, v, t):
        return self.system.kinetic_energy(q, v, t)

    def potential_energy(self, q, t):
        return self.system.potential_energy(q, t)

    def mass_matrix(self, q, t):
        return self.system.mass_matrix(q, t)

    def bias(self, q, v, t):
        return self.system.bias(q, v, t)

    def applied_force(self, q, v, t):
        return self.system.applied_force(q, v, t)

    def input_matrix(self, q, t):
        return self.system.input_matrix(q, t)

    def qdot(self, q, v):
        return self.system.qdot(q, v)

    def normalize(self, q):
        return self.system.normalize(q)

    def _problems(self) -> list[str]:
        return []  # The system and the contacts have been checked.

    # -- with the rows of the contacts -----------------------------------------------------------------------------

    @property
    def n_holonomic(self):
        return self.system.n_holonomic + len(self.contacts)

    @property
    def n_constraints(self):
        return self.system.n_constraints + len(self.contacts) * (1 + self.slips)

    def _joined(self, own: Array, normal: Array, tangent: Array) -> Array:
        at = self.system.n_holonomic
        return jnp.concatenate([own[:at], normal, own[at:], tangent])

    def constraints(self, q, t):
        return jnp.concatenate([self.system.constraints(q, t), self.modes.closed * gaps(self.contacts, q, t)])

    def _contact_rate(self, q: Vector, v: Vector, t: Scalar) -> tuple[Array, Array]:
        normal = self.modes.closed * gap_rates(self.system, self.contacts, q, v, t)
        return normal, (self.modes.stuck[:, None] * self.slip_velocity(q, v, t)).reshape(-1)

    def slip_velocity(self, q: Vector, v: Vector, t: Scalar) -> Float[Array, "c slips"]:
        """Of all contacts, open ones too."""
        return slips(self.system, self.contacts, q, v, t, self.slips)

    def constraint_rate(self, q, v, t):
        return self._joined(self.system.constraint_rate(q, v, t), *self._contact_rate(q, v, t))

    def constraint_jacobian(self, q, t):
        rows = jax.jacfwd(lambda v: self._contact_rate(q, v, t))(jnp.zeros(self.nv))
        return self._joined(self.system.constraint_jacobian(q, t), *rows)

    def constraint_bias(self, q, v, t):
        t = jnp.asarray(t, dtype=float)
        along = (self.qdot(q, v), jnp.ones_like(t))
        normal, tangent = jax.jvp(lambda q, t: self._contact_rate(q, v, t), (q, t), along)[1]
        return self._joined(self.system.constraint_bias(q, v, t), -normal, -tangent)

    def split(self, rows: Float[Array, " m"]) -> tuple[Float[Array, " own"], Float[Array, "c rows"]]:
        """Values for all rows as those of the system's own and those of each contact (normal, slips)."""
        c, at = len(self.contacts), self.system.n_holonomic
        end = self.system.n_constraints + c
        own = jnp.concatenate([rows[:at], rows[at + c : end]])
        return own, jnp.concatenate([rows[at : at + c, None], rows[end:].reshape(c, self.slips)], axis=1)

    # -- friction --------------------------------------------------------------------------------------------------

    @property
    def friction(self) -> Float[Array, " c"]:
        """Coefficient of each contact."""
        return jnp.minimum(jnp.stack([jnp.asarray(c.friction) for c in self.contacts]), MAX_FRICTION)

    def sliding_direction(self, q: Vector, v: Vector, t: Scalar) -> Float[Array, "c slips"]:
        """Unit vector of the slip of each sliding contact; where it would reverse, the one it had at the beginning.

        A contact that begins to slip has the direction of its acceleration. Its velocity has this direction too, but
        too small to be known: an error of a step that is far below the tolerances would turn the friction.
        """
        slip, first = self.slip_velocity(q, v, t), self.modes.direction
        square = jnp.sum(slip**2, axis=1)
        forward = (jnp.sum(slip * first, axis=1) > 0.0) & (square > 0.0)
        speed = jnp.sqrt(jnp.where(forward, square, 1.0))
        way = slip + jnp.maximum(STARTING - speed, 0.0)[:, None] * first
        length = jnp.sqrt(jnp.where(forward, jnp.sum(way**2, axis=1), 1.0))
        return jnp.where(forward[:, None], way / length[:, None], first)

    def rubbing(self, q: Vector, v: Vector, t: Scalar) -> Float[Array, "c nv"]:
        """The generalised friction of each sliding contact under a unit normal force."""
        rows = jax.jacfwd(lambda v: self.slip_velocity(q, v, t))(jnp.zeros(self.nv))
        along = (self.modes.closed * self.friction)[:, None] * self.sliding_direction(q, v, t)
        return -jnp.einsum("ca,can->cn", along, rows)

    def load_dependent_force(self, problem: Problem, q: Vector, v: Vector, t: Scalar) -> Vector:
        """Friction of sliding contacts: in proportion to their normal forces, which depend on it in turn.

        `M v̇ = force + Bᵀλ`, `A v̇ = b`, where the normal rows of `B` are those of `A` plus their friction. Where normal
        forces are not unique, the motion may depend on how they share the load: the least admissible ones are taken.
        """
        if self.slips == 0:
            return jnp.zeros(self.nv)

        def solve() -> Vector:
            rubbing = self.rubbing(q, v, t)
            scaled, units = equilibrate(problem)
            pushed = self._pushed(scaled, units, rubbing)
            factor = cholesky(scaled.mass)
            missing = scaled.target - scaled.matrix @ cho_solve(factor, scaled.force)
            effect = scaled.matrix @ cho_solve(factor, pushed.T)
            return rubbing.T @ self._share(effect, missing, units, q, v, t).force[:, 0]

        return jax.lax.cond(jnp.any(self.modes.direction != 0.0), solve, lambda: jnp.zeros(self.nv))

    def _pushed(self, scaled: Problem, units: Scales, rubbing: Float[Array, "c nv"]) -> Float[Array, "m nv"]:
        """The rows along which constraints and contacts push, in good units: with the friction of sliding contacts."""
        own = jnp.zeros((self.system.n_constraints, self.nv))
        coupling = self._joined(own, rubbing, jnp.zeros((rubbing.shape[0] * self.slips, self.nv)))
        return scaled.matrix + coupling * units.columns[None, :] / units.rows[:, None]

    def _share(
        self, columns: Float[Array, "n m"], load: Float[Array, " n"], units: Scales, q: Vector, v: Vector, t: Scalar
    ) -> Loads:
        own, contacts = jax.vmap(self.split)(columns)
        drag = -(self.modes.closed * self.friction)[:, None] * self.sliding_direction(q, v, t)
        modes = (self.modes.closed, self.modes.stuck)
        exists = existing_rows(self.system, self.contacts)
        return share_load(own, contacts, load, *self.split(units.rows), *modes, drag, self.friction, exists)

    def loads(self, problem: Problem, friction: Vector, acceleration: Vector, q: Vector, v: Vector, t: Scalar) -> Loads:
        """Forces of own constraints and contacts; `problem` contains `friction`, the force of sliding contacts."""
        scaled, units = equilibrate(problem)
        load = (problem.mass @ acceleration - problem.force + friction) * units.columns
        return self._share(self._pushed(scaled, units, self.rubbing(q, v, t)).T, load, units, q, v, t)
