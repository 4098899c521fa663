"""A mechanism compiled to arrays: everything that does not depend on the kind of coordinates.

All quantities are functions of a `Placement` (where the bodies are) and of `twists` (n, 6): the velocity of each centre
of mass and the angular velocity, in world axes. A wrench (n, 6) is a force and a moment about the centre of mass.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from bricard.mechanism.description.joint_types import ROWS
from bricard.mechanism.model.forces import Load, Springs, gravity_energy, gravity_wrenches, inertia_wrenches
from bricard.mechanism.model.frames import Frames, Placement
from bricard.mechanism.model.joint_measures import Bushing, JointCoordinates, Lines, Measure, spread_rows
from bricard.mechanism.model.rolling import Rolling
from bricard.mechanism.model.sensors import MeasureSensor, OrientationSensor, PointSensor, Reading
from bricard.spatial import skew
from bricard.system import Scalar

Wrenches = Float[Array, "n 6"]


class Relations(eqx.Module):
    """Linear relations of joint coordinates, `coefficients @ x = offset + drive(t)`: gears, racks, drivers."""

    coefficients: Float[Array, "r c"]
    offset: Float[Array, " r"]
    drives: tuple[Callable[[Scalar], Any] | None, ...]
    names: tuple[str, ...] = eqx.field(static=True)

    def __len__(self) -> int:
        return len(self.names)

    def target(self, t: Scalar) -> Float[Array, " r"]:
        """Right sides at time `t`."""
        driven = [jnp.zeros(()) if f is None else jnp.asarray(f(t), dtype=float) for f in self.drives]
        return self.offset + jnp.stack(driven)


class View(NamedTuple):
    """What a user-defined constraint may look at: points and directions of bodies, given in the reference."""

    place: Placement
    home: Float[Array, "n 3"]
    names: tuple[str, ...]

    def point(self, body: str, at: Any) -> Float[Array, " 3"]:
        """Where the material point that was at `at` (m) in the reference configuration is now."""
        i = self.names.index(body)
        return self.place.p[i] + self.place.R[i] @ (_vector(at) - self.home[i])

    def direction(self, body: str, along: Any) -> Float[Array, " 3"]:
        """Where the direction `along` of the reference configuration points to now."""
        return self.place.R[self.names.index(body)] @ _vector(along)


class UserConstraint(eqx.Module):
    """`function(view, t)` returns `size` numbers that are zero when the constraint is met."""

    function: Callable[[View, Scalar], Any]
    size: int = eqx.field(static=True)
    name: str = eqx.field(static=True)


class Model(eqx.Module):
    """Bodies, joints, constraints and forces as stacked arrays; names and topology are static."""

    mass: Float[Array, " n"]
    inertia: Float[Array, "n 3 3"]
    """About the centres of mass, in body axes."""
    home: Float[Array, "n 3"]
    """Centres of mass in the reference configuration."""
    gravity: Float[Array, " 3"]
    frames: Frames
    rolling: Rolling
    relations: Relations
    user: tuple[UserConstraint, ...]
    spring_lines: Lines
    line_springs: Springs
    joint_springs: Springs
    bushing_frames: Frames
    bushings: Springs
    loads: tuple[Load, ...]
    gears: Float[Array, " motors"]
    """Of each motor: force along the joint coordinate per unit of input."""
    rotor_inertia: Float[Array, " armatures"]
    actuator_lines: Lines
    outlines: tuple[tuple[Float[Array, "_ 3"], ...], ...]
    """Polylines of each body, from its centre of mass, to be drawn."""
    readers: tuple[PointSensor | OrientationSensor | Lines | int, ...]
    """Sensors; a joint coordinate by its number, a distance by its line."""
    scale: Float[Array, ""]
    """Size of the mechanism (m)."""
    names: tuple[str, ...] = eqx.field(static=True)
    planar: bool = eqx.field(static=True)
    rows: tuple[tuple[int, int], ...] = eqx.field(static=True)
    """Which rows of which joint are there."""
    coordinates: tuple[tuple[int, str], ...] = eqx.field(static=True)
    """Joint coordinates that something acts on: (joint, "turn" or "slide")."""
    tracked: tuple[int, ...] = eqx.field(static=True)
    """Joints whose unwrapped angle is a coordinate of every system, since a force or a constraint depends on it."""
    sprung: tuple[int, ...] = eqx.field(static=True)
    """Joint coordinates with springs."""
    sensor_names: tuple[str, ...] = eqx.field(static=True)
    motors: tuple[int, ...] = eqx.field(static=True)
    """Joint coordinates with motors."""
    armatures: tuple[int, ...] = eqx.field(static=True)
    """Joint coordinates with armatures."""
    inputs: tuple[str, ...] = eqx.field(static=True)
    """Names of motors, then of actuators along lines."""
    limits: tuple[tuple[float, float], ...] = eqx.field(static=True)
    """Smallest and largest force of each input."""
    joint_limits: tuple[tuple[float, float] | None, ...] = eqx.field(static=True)
    """Of each joint, how far its coordinate may go; kept for later use."""

    @property
    def n(self) -> int:
        """Number of bodies, the ground not counted."""
        return len(self.names)

    @property
    def inertias(self) -> Float[Array, "n 6 6"]:
        """Mass and inertia of each body as a (6, 6) matrix, in body axes."""
        blocks = jnp.zeros((self.n, 6, 6)).at[:, 3:, 3:].set(self.inertia)
        return blocks.at[:, :3, :3].set(self.mass[:, None, None] * jnp.eye(3)[None])

    def joint_coordinates(self, which: tuple[int, ...]) -> JointCoordinates:
        """Some of the joint coordinates that something acts on."""
        joints = [self.coordinates[i][0] for i in which]
        is_turn = tuple(self.coordinates[i][1] == "turn" for i in which)
        turn_of = tuple(self.tracked.index(j) if j in self.tracked else None for j in joints)
        return JointCoordinates(self.frames.subset(joints), is_turn, turn_of)

    @property
    def related(self) -> JointCoordinates:
        """Those that take part in relations: the first ones."""
        return self.joint_coordinates(tuple(range(self.relations.coefficients.shape[1])))

    # -- forces ----------------------------------------------------------------------------------------------------

    def _springs(self) -> list[tuple[Measure, Springs]]:
        pairs: list[tuple[Measure, Springs]] = [
            (self.spring_lines, self.line_springs),
            (self.joint_coordinates(self.sprung), self.joint_springs),
            (Bushing(self.bushing_frames), self.bushings),
        ]
        return [(m, s) for m, s in pairs if len(m)]

    def potential_energy(self, place: Placement) -> Float[Array, ""]:
        """Of gravity and springs (J)."""
        energy = gravity_energy(self.mass, self.gravity, place)
        return sum((s.energy(m, place) for m, s in self._springs()), energy)

    def potential_wrenches(self, place: Placement) -> Wrenches:
        """Of gravity and springs."""
        weight = gravity_wrenches(self.mass, self.gravity)
        return sum((s.elastic(m, place) for m, s in self._springs()), weight)

    @property
    def has_applied(self) -> bool:
        """Whether there is any damper or load."""
        return bool(self.loads or self._springs())

    def applied_wrenches(self, place: Placement, twists: Wrenches, t: Scalar) -> Wrenches:
        """Of dampers and loads."""
        total = sum((s.viscous(m, place, twists) for m, s in self._springs()), jnp.zeros((self.n, 6)))
        for load in self.loads:
            total = load.add(total, place, twists, t)
        return total

    def input_wrenches(self, place: Placement) -> Float[Array, "nu n 6"]:
        """Of a unit of each input."""
        motors, lines = (
            spread_rows(m.wrenches(place), m.bodies, self.n) if len(m) else jnp.zeros((0, self.n, 6))
            for m in (self.joint_coordinates(self.motors), self.actuator_lines)
        )
        return jnp.concatenate([self.gears[:, None, None] * motors, lines])

    def inertia_wrenches(self, place: Placement, twists: Wrenches, rates: Wrenches) -> Wrenches:
        """Rate of momentum of each body, and what it takes to speed up the armatures; `rates` of `twists`."""
        bodies = inertia_wrenches(self.mass, self.inertia, place, twists, rates)
        return bodies + self.rotor_wrenches(place, twists, rates) if self.armatures else bodies

    def rotor_wrenches(self, place: Placement, twists: Wrenches, rates: Wrenches) -> Wrenches:
        """What it takes to speed up the armatures, on the two bodies of their joints."""
        armatures = self.joint_coordinates(self.armatures)
        moving = Placement(twists[:, :3], skew(twists[:, 3:]) @ place.R, jnp.zeros_like(place.turns))
        _, turning = jax.jvp(lambda x: armatures.rates(x, twists), (place,), (moving,))
        return armatures.spread(place, self.rotor_inertia * (armatures.rates(place, rates) + turning))

    def rotor_rows(self, place: Placement) -> Float[Array, "k n 6"]:
        """Rate of each rotor's coordinate as a row over the bodies' velocities."""
        armatures = self.joint_coordinates(self.armatures)
        return spread_rows(armatures.wrenches(place), armatures.bodies, self.n)

    def read(self, place: Placement, twists: Wrenches) -> dict[str, Reading]:
        """All sensors by name."""
        readings = {}
        for name, reader in zip(self.sensor_names, self.readers, strict=True):
            if isinstance(reader, int):
                reader = MeasureSensor(self.joint_coordinates((reader,)))
            elif isinstance(reader, Lines):
                reader = MeasureSensor(reader)
            readings[name] = reader.read(place, twists)
        return readings

    # -- constraints -----------------------------------------------------------------------------------------------

    def joint_rows(self, place: Placement, rows: tuple[tuple[int, int], ...]) -> Float[Array, " m"]:
        """Values of some rows of joints."""
        frames, (joint, row) = self._frames_of(rows)
        return frames.rows(place)[joint, row] if rows else jnp.zeros(0)

    def joint_row_wrenches(self, place: Placement, rows: tuple[tuple[int, int], ...]) -> Float[Array, "m n 6"]:
        """Wrenches on all bodies of a unit multiplier of some rows of joints: their Jacobian."""
        if not rows:
            return jnp.zeros((0, self.n, 6))
        frames, (joint, row) = self._frames_of(rows)
        pairs = frames.row_wrenches(place)[joint, row]
        bodies = tuple(frames.parent[j] for j in joint), tuple(frames.child[j] for j in joint)
        return spread_rows(pairs, bodies, self.n)

    def _frames_of(self, rows: tuple[tuple[int, int], ...]):
        used = sorted({j for j, _ in rows})
        index = np.array([(used.index(j), r) for j, r in rows], dtype=int).reshape(-1, 2).T
        return self.frames.subset(used), index

    def relation_rows(self, place: Placement, t: Scalar) -> Float[Array, " r"]:
        """Values of the relations of joint coordinates."""
        if not len(self.relations):
            return jnp.zeros(0)
        x = self.related.values(place)
        return self.relations.coefficients @ x - self.relations.target(t)

    def user_rows(self, place: Placement, t: Scalar) -> Float[Array, " s"]:
        """Values of the user's own constraints."""
        view = View(place, self.home, self.names)
        values = [jnp.asarray(c.function(view, t), dtype=float).reshape(c.size) for c in self.user]
        return jnp.concatenate(values) if values else jnp.zeros(0)

    def rolling_wrenches(self, place: Placement) -> tuple[Float[Array, "k n 6"], Float[Array, "s n 6"]]:
        """Jacobians of the rows that keep wheels in touch, and of those that keep them from slipping."""
        if not len(self.rolling):
            return jnp.zeros((0, self.n, 6)), jnp.zeros((0, self.n, 6))
        wrenches, bodies = self.rolling.wrenches(place), self.rolling.bodies
        tangents = 1 if self.planar else 2
        twice = tuple(tuple(i for i in side for _ in range(tangents)) for side in bodies)
        slip = wrenches[:, 1 : 1 + tangents].reshape(-1, 2, 6)
        return spread_rows(wrenches[:, 0], bodies, self.n), spread_rows(slip, (twice[0], twice[1]), self.n)

    def all_row_wrenches(self, place: Placement, t: Scalar) -> Float[Array, "m n 6"]:
        """The Jacobian of every constraint in the space of body velocities; order as in `all_row_names`."""
        touch, slip = self.rolling_wrenches(place)
        coordinates = self.related
        blocks = [self.joint_row_wrenches(place, self.rows), touch]
        if len(self.relations):
            each = spread_rows(coordinates.wrenches(place), coordinates.bodies, self.n)
            blocks.append(jnp.tensordot(self.relations.coefficients, each, 1))
        if self.user:
            blocks.append(self.user_row_wrenches(place, t))
        return jnp.concatenate([*blocks, slip])

    def user_row_wrenches(self, place: Placement, t: Scalar) -> Float[Array, "s n 6"]:
        """The Jacobian of the user's own constraints in the space of body velocities."""
        return jax.jacrev(lambda twists: self.user_rates(place, twists, t))(jnp.zeros((self.n, 6)))

    def user_rates(self, place: Placement, twists: Wrenches, t: Scalar) -> Float[Array, " s"]:
        """Rates of the user's own constraints due to the motion of the bodies."""
        moving = Placement(twists[:, :3], jax.vmap(skew)(twists[:, 3:]) @ place.R, jnp.zeros_like(place.turns))
        return jax.jvp(lambda place: self.user_rows(place, t), (place,), (moving,))[1]

    @property
    def all_row_names(self) -> tuple[str, ...]:
        """Names of all constraints: joints, touching wheels, relations, the user's own, wheels that do not slip."""
        return (
            *self.joint_row_names(self.rows),
            *(f"{n}: normal force" for n in self.rolling.names),
            *self.relations.names,
            *self.user_row_names,
            *self.slip_row_names,
        )

    def joint_row_names(self, rows: tuple[tuple[int, int], ...]) -> tuple[str, ...]:
        """Names such as "A: force x"."""
        return tuple(f"{self.frames.names[j]}: {ROWS[r]}" for j, r in rows)

    @property
    def user_row_names(self) -> tuple[str, ...]:
        """Names of the rows of the user's own constraints."""
        return tuple(f"{c.name} {i}" if c.size > 1 else c.name for c in self.user for i in range(c.size))

    @property
    def slip_row_names(self) -> tuple[str, ...]:
        """Names of the rows that keep wheels from slipping."""
        tangents = ("1",) if self.planar else ("1", "2")
        return tuple(f"{n}: friction {i}" for n in self.rolling.names for i in tangents)


def _vector(value: Any) -> Float[Array, " 3"]:
    vector = jnp.asarray(value, dtype=float)
    return jnp.concatenate([vector, jnp.zeros(1)]) if vector.shape == (2,) else vector
