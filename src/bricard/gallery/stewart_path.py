"""Stewart platforms that follow a path: the leg forces that do it, and with a leg too many the smallest ones."""

from __future__ import annotations

import dataclasses

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from bricard.control import ProjectedInverseDynamics, Waypoints
from bricard.control.output import Output
from bricard.gallery.example import Example
from bricard.gallery.ranges import Positive
from bricard.gallery.stewart import CENTRE, PLANAR_CENTRE, planar_stewart, stewart
from bricard.mechanism.base import MechanismSystem
from bricard.spatial import skew
from bricard.system import System, Vector


class PlanarPose(Output):
    """Centre of mass (m) and angle (rad) of a body of a planar mechanism, from the reference configuration."""

    body: str = eqx.field(static=True)

    @property
    def names(self):
        return tuple(f"{self.body} {n}" for n in ("x", "y", "angle"))

    def value(self, system, q, t):
        position, rotation, _ = _moving(system, self.body, q, jnp.zeros(system.nv))
        return jnp.append(position[:2], jnp.arctan2(rotation[1, 0], rotation[0, 0]))

    def rate(self, system, q, v, t):
        return _moving(system, self.body, q, v)[2][np.array([0, 1, 5])]


class Pose(Output):
    """Centre of mass (m) and turn of a body from the reference configuration: the axis, as long as the angle's sine."""

    body: str = eqx.field(static=True)

    @property
    def names(self):
        return tuple(f"{self.body} {n}" for n in ("x", "y", "z", "about x", "about y", "about z"))

    def value(self, system, q, t):
        position, rotation, _ = _moving(system, self.body, q, jnp.zeros(system.nv))
        return jnp.concatenate([position, _turn(rotation)])

    def rate(self, system, q, v, t):
        _, rotation, twist = _moving(system, self.body, q, v)
        return jnp.concatenate([twist[:3], _turn(skew(twist[3:]) @ rotation)])


def _turn(matrix: Float[Array, "3 3"]) -> Float[Array, " 3"]:
    """The skew part of a matrix as a vector; linear, so that it serves rotations and their rates."""
    twice = matrix - matrix.T
    return 0.5 * jnp.stack([twice[2, 1], twice[0, 2], twice[1, 0]])


def _moving(
    system: System, body: str, q: Vector, v: Vector
) -> tuple[Float[Array, " 3"], Float[Array, "3 3"], Float[Array, " 6"]]:
    """Centre of mass, rotation, and velocity with angular velocity of a body."""
    assert isinstance(system, MechanismSystem)
    place, i = system.place(q), system.model.names.index(body)
    return place.p[i], place.R[i], system.twists(q, v)[i]


def planar_stewart_path(duration: Positive = 2.0, kp: float = 100.0, kd: float = 20.0) -> Example:
    """Four legs for three degrees of freedom: the platform goes round and turns, with the least leg forces.

    Of all leg forces that give this motion, `uᵀu` of these is the smallest at every moment.
    """
    moves = 0.1 * np.array([[0, 0, 0], [1, 1, 2], [0, 2, 0], [-1, 1, -2], [0, 0, 0]])
    return _following(
        planar_stewart(legs=4),
        PlanarPose("platform"),
        np.append(PLANAR_CENTRE, 0.0) + moves,
        duration,
        kp,
        kd,
        title="Planar Stewart platform with four legs, following a path with least leg force",
    )


def stewart_path(duration: Positive = 2.0, kp: float = 100.0, kd: float = 20.0) -> Example:
    """Six legs for six degrees of freedom: the platform goes round, up and down while it tilts."""
    round_about = [[0.1, 0.0, 0.05, 0.1, 0.0, 0.0], [0.0, 0.1, 0.1, 0.0, 0.1, 0.1], [-0.1, 0.0, 0.05, -0.1, 0.0, 0.0]]
    moves = np.array([np.zeros(6), *round_about, np.zeros(6)])
    return _following(
        stewart(),
        Pose("platform"),
        np.append(CENTRE, np.zeros(3)) + moves,
        duration,
        kp,
        kd,
        title="Stewart platform following a path with all six degrees of freedom",
    )


def _following(
    example: Example, output: Output, poses: np.ndarray, duration: float, kp: float, kd: float, title: str
) -> Example:
    """From rest through `poses` (k, p) to rest."""
    reference = Waypoints(np.linspace(0.0, duration, len(poses)), poses)
    law = ProjectedInverseDynamics(example.system, output, reference, kp, kd)
    return dataclasses.replace(example, title=title, t_end=duration, settings={"controller": law})
