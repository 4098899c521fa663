"""What the three kinds of coordinates have in common: forces, constraints and drawings from where the bodies are."""

from __future__ import annotations

from abc import abstractmethod

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from bricard.execution.cache import cached
from bricard.execution.compile import xla_jit
from bricard.execution.rounding import linear_term_sizes
from bricard.mechanism.model.compiled_model import Model, Wrenches
from bricard.mechanism.model.frames import Placement
from bricard.mechanism.model.joint_measures import spread_rows
from bricard.mechanism.model.sensors import Reading
from bricard.spatial import skew
from bricard.system import Scalar, System, Vector


class MechanismSystem(System):
    """A mechanism in some kind of coordinates, which says where the bodies are (`place`) and how fast (`twists`)."""

    model: Model
    reference: Vector
    """`q` of the reference configuration."""

    # -- what a kind of coordinates gives --------------------------------------------------------------------------

    @abstractmethod
    def place(self, q: Vector) -> Placement:
        """Where the bodies are."""

    @abstractmethod
    def twists(self, q: Vector, v: Vector) -> Wrenches:
        """Velocity of each centre of mass and angular velocity in world axes (n, 6); linear in `v`."""

    @abstractmethod
    def pull(self, q: Vector, wrenches: Float[Array, "*batch n 6"]) -> Float[Array, "*batch nv"]:
        """The generalised force of wrenches on the bodies: the transpose of `twists`."""

    @abstractmethod
    def body_mass(self, q: Vector) -> Float[Array, "nv nv"]:
        """Mass matrix of the bodies, without armatures."""

    @abstractmethod
    def coordinates_of(self, place: Placement) -> Vector:
        """`q` of a placement that this kind of coordinates can describe."""

    @abstractmethod
    def velocities_of(self, q: Vector, twists: Wrenches) -> Vector:
        """`v` of velocities of the bodies that this kind of coordinates can describe."""

    @property
    @abstractmethod
    def own_rows(self) -> tuple[tuple[int, int], ...]:
        """Rows of joints that are constraints in these coordinates."""

    @property
    @abstractmethod
    def turn_columns(self) -> tuple[int, ...]:
        """For each tracked turn, the velocity that is its rate."""

    @property
    @abstractmethod
    def tied(self) -> tuple[int, ...]:
        """Tracked turns that are extra coordinates, without inertia, tied to the bodies by a constraint each."""

    def rigidity(self, q: Vector) -> Float[Array, " k"]:
        """Constraints that keep the bodies rigid."""
        return jnp.zeros(0)

    @property
    def rigidity_names(self) -> tuple[str, ...]:
        """Names of those constraints."""
        return ()

    # -- what follows ----------------------------------------------------------------------------------------------

    @property
    def inputs(self):  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.model.inputs

    @property
    def constraint_names(self):  # pyright: ignore[reportIncompatibleVariableOverride]
        return cached(self, "constraint names", lambda: self._constraint_names())

    def _constraint_names(self) -> tuple[str, ...]:
        model = self.model
        return (
            *self.rigidity_names,
            *model.joint_row_names(self.own_rows),
            *(f"{n}: normal force" for n in model.rolling.names),
            *model.relations.names,
            *model.user_row_names,
            *(f"{model.frames.names[model.tracked[i]]}: angle" for i in self.tied),
            *model.slip_row_names,
        )

    # Counted instead of traced: building a system must not take longer than describing it.

    @property
    def nu(self):
        return len(self.model.inputs)

    @property
    def n_constraints(self):
        return len(self.constraint_names)

    @property
    def n_holonomic(self):
        return len(self.constraint_names) - len(self.model.slip_row_names)

    def reference_configuration(self) -> Vector:
        return self.reference

    def __repr__(self) -> str:
        kind = type(self).__name__.lower()
        bodies = len(self.model.names)
        return f"Mechanism of {bodies} bod{'y' if bodies == 1 else 'ies'} in {kind} coordinates: " + ", ".join(
            super().__repr__().split(": ", 1)[1:]
        )

    def _shape_problems(self):
        return []  # The shapes are right by construction; compile.py has checked the user's functions.

    def kinetic_energy(self, q, v, t):
        place, twists = self.place(q), self.twists(q, v)
        local = jnp.einsum("nji,nj->ni", place.R, twists[:, 3:])
        turning = jnp.einsum("ni,nij,nj->", local, self.model.inertia, local)
        if self.model.armatures:
            rates = jnp.einsum("kni,ni->k", self.model.rotor_rows(place), twists)
            turning += jnp.sum(self.model.rotor_inertia * rates**2)
        return 0.5 * (jnp.sum(self.model.mass[:, None] * twists[:, :3] ** 2) + turning)

    def mass_matrix(self, q, t):
        mass = self.body_mass(q)
        if not self.model.armatures:
            return mass
        rows = self.pull(q, self.model.rotor_rows(self.place(q)))
        return mass + (rows.T * self.model.rotor_inertia[None]) @ rows

    def potential_energy(self, q, t):
        return self.model.potential_energy(self.place(q))

    def bias(self, q, v, t):
        place, twists = self.place(q), self.twists(q, v)
        inertial = self.model.inertia_wrenches(place, twists, self.twist_bias(q, v))
        return self.pull(q, inertial - self.model.potential_wrenches(place))

    def applied_force(self, q, v, t):
        if not self.model.has_applied:
            return jnp.zeros(self.nv)
        return self.pull(q, self.model.applied_wrenches(self.place(q), self.twists(q, v), t))

    def input_matrix(self, q, t):
        if not self.nu:
            return jnp.zeros((self.nv, 0))
        return self.pull(q, self.model.input_wrenches(self.place(q))).T

    def twist_bias(self, q: Vector, v: Vector) -> Wrenches:
        """`d/dt` of `twists` at constant `v`."""
        return jax.jvp(lambda q: self.twists(q, v), (q,), (self.qdot(q, v),))[1]

    def twist_rates(self, q: Vector, v: Vector, acceleration: Vector) -> Wrenches:
        """`d/dt` of `twists` at accelerations `v̇`."""
        return self.twists(q, acceleration) + self.twist_bias(q, v)

    def constraints(self, q, t):
        return jnp.concatenate([self.rigidity(q), self._rows(self.place(q), t)])

    def _rows(self, place: Placement, t: Scalar) -> Float[Array, " m"]:
        """All holonomic constraints but those of rigidity."""
        model = self.model
        blocks = [model.joint_rows(place, self.own_rows)]
        if len(model.rolling):
            blocks.append(model.rolling.heights(place))
        blocks += [model.relation_rows(place, t), model.user_rows(place, t), self._ties(place)]
        return jnp.concatenate(blocks)

    def _ties(self, place: Placement) -> Float[Array, " k"]:
        """`sin(turn − coordinate)` of the turns that are extra coordinates."""
        if not self.tied:
            return jnp.zeros(0)
        pairs = self.model.frames.subset([self.model.tracked[i] for i in self.tied]).world(place)
        c = jnp.swapaxes(pairs.A, 1, 2) @ pairs.B
        turns = place.turns[np.asarray(self.tied, int)]
        return c[:, 1, 0] * jnp.cos(turns) - c[:, 0, 0] * jnp.sin(turns)

    def velocity_constraints(self, q, t):
        if not len(self.model.rolling):
            return jnp.zeros((0, self.nv)), jnp.zeros(0)
        slip = self.pull(q, self.model.rolling_wrenches(self.place(q))[1])
        return slip, jnp.zeros(slip.shape[0])

    # Rates are taken along the motion of the bodies, not of the coordinates: the same numbers, far less to compile.

    def constraint_rate(self, q, v, t):
        place, rates = self._moving(q, v)
        return self._rates(place, rates, self.twists(q, v), jnp.asarray(t, dtype=float))

    def constraint_bias(self, q, v, t):
        t = jnp.asarray(t, dtype=float)
        (place, rates), twists, bias = self._moving(q, v), self.twists(q, v), self.twist_bias(q, v)
        spin, turn = skew(twists[:, 3:]), skew(bias[:, 3:])
        second = Placement(bias[:, :3], (turn + spin @ spin) @ place.R, jnp.zeros_like(place.turns))
        point = (place, rates, twists, t)
        return -jax.jvp(self._rates, point, (rates, second, bias, jnp.ones_like(t)))[1]

    def _moving(self, q: Vector, v: Vector) -> tuple[Placement, Placement]:
        """The placement and its rate."""
        place, twists = self.place(q), self.twists(q, v)
        turns = v[np.asarray(self.turn_columns, int)]
        return place, Placement(twists[:, :3], skew(twists[:, 3:]) @ place.R, turns)

    def _rates(self, place: Placement, rates: Placement, twists: Wrenches, t: Scalar) -> Float[Array, " m"]:
        """Rate of each holonomic constraint, then what each velocity constraint misses."""
        t = jnp.asarray(t, dtype=float)
        holonomic = jax.jvp(self._rows, (place, t), (rates, jnp.ones_like(t)))[1]
        if not len(self.model.rolling):
            return holonomic
        slip = jnp.einsum("kni,ni->k", self.model.rolling_wrenches(place)[1], twists)
        return jnp.concatenate([holonomic, slip])

    def constraint_jacobian(self, q, t):
        if self.tied or self.model.user:
            return super().constraint_jacobian(q, t)
        place, model = self.place(q), self.model
        touch, slip = model.rolling_wrenches(place)
        rows = self.pull(q, jnp.concatenate([model.joint_row_wrenches(place, self.own_rows), touch]))
        return jnp.concatenate([rows, self._relation_matrix(q, place), self.pull(q, slip)])

    def constraint_sizes(self, q, t):
        # `A = C T`: `C` acts on the velocities of the bodies, `T` maps `v` to them. Their norms, with moments and
        # angular velocities at the size of the mechanism, do not vanish where the product does.
        model, place, matrix = self.model, self.place(q), self.constraint_jacobian(q, t)
        length, reach = model.scale, self.reach(q)
        touch, slip = model.rolling_wrenches(place)
        joints = _wrench_norms(model.joint_row_wrenches(place, self.own_rows), length) @ reach
        blocks = [jnp.zeros((len(self.rigidity_names), self.nv)), joints, _wrench_norms(touch, length) @ reach]
        if len(model.relations):
            related = model.related
            each = spread_rows(related.wrenches(place), related.bodies, model.n)
            blocks.append(jnp.abs(model.relations.coefficients) @ (_wrench_norms(each, length) @ reach))
        if model.user:
            sizes = linear_term_sizes(lambda w, place: model.user_rates(place, w.reshape(-1, 6), t), 6 * model.n, place)
            blocks.append(_wrench_norms(sizes.reshape(-1, model.n, 6), length) @ reach)
        blocks += [jnp.zeros((len(self.tied), self.nv)), _wrench_norms(slip, length) @ reach]
        return jnp.maximum(jnp.concatenate(blocks), jnp.abs(matrix))

    def reach(self, q: Vector) -> Float[Array, "n nv"]:
        """Speed of each body for a unit of each velocity (m/s), turning counted at the size of the mechanism."""
        n = self.model.n
        rates = self.pull(q, jnp.eye(6 * n).reshape(6 * n, n, 6)).reshape(n, 6, -1)
        return _wrench_norms(jnp.swapaxes(rates, 1, 2), 1.0 / self.model.scale)

    def _relation_matrix(self, q: Vector, place: Placement) -> Float[Array, "r nv"]:
        model = self.model
        if not len(model.relations):
            return jnp.zeros((0, self.nv))
        coordinates = model.related
        rates = self.pull(q, spread_rows(coordinates.wrenches(place), coordinates.bodies, model.n))
        known = coordinates.is_turn & np.array([i is not None for i in coordinates.turn_of], dtype=bool)
        own = np.zeros((len(coordinates), self.nv))  # a tracked turn is a coordinate itself
        own[np.flatnonzero(known), [self.turn_columns[i] for i in np.array(coordinates.turn_of)[known]]] = 1.0
        return model.relations.coefficients @ jnp.where(known[:, None], own, rates)

    def turn_rates(self, place: Placement, twists: Wrenches) -> Float[Array, " k"]:
        """Rates of the tracked turns."""
        if not self.model.tracked:
            return jnp.zeros(0)
        where = [self.model.coordinates.index((j, "turn")) for j in self.model.tracked]
        return self.model.joint_coordinates(tuple(where)).rates(place, twists)

    def measure(self, q: Vector, v: Vector) -> dict[str, Reading]:
        """What the sensors read: `measure(q, v)["tip"].value` and `.rate`."""
        return self.model.read(self.place(q), self.twists(q, v))

    def drawing(self, q, t):
        place, model = self.place(q), self.model
        width = 2 if model.planar else 3
        lines = {}
        for i, (name, outline) in enumerate(zip(model.names, model.outlines, strict=True)):
            for k, line in enumerate(outline):
                label = name if k == 0 else f"{name} {k}"
                lines[label] = (place.p[i][None] + line @ place.R[i].T)[:, :width]
        return lines


def _wrench_norms(wrenches: Float[Array, "*batch 6"], length: Scalar) -> Float[Array, "*batch"]:
    """Norms of wrenches as forces, with moments at an arm of `length` (m)."""
    return jnp.sqrt(jnp.sum(wrenches[..., :3] ** 2, axis=-1) + jnp.sum((wrenches[..., 3:] / length) ** 2, axis=-1))


@xla_jit
def measure_along(system: MechanismSystem, q: Float[Array, "k nq"], v: Float[Array, "k nv"]) -> dict[str, Reading]:
    """What the sensors read at `k` states."""
    return jax.vmap(system.measure)(q, v)
