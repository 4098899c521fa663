"""Stewart platforms that follow a path; with a redundant leg, the leg forces have minimum norm."""

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
from bricard.mechanism.coordinates.mechanism_system import MechanismSystem
from bricard.spatial import skew
from bricard.system import System, Vector


class PlanarPose(Output):
    """Centre of mass (m) of a body of a planar mechanism, and its angle (rad) from the reference configuration."""

    body: str = eqx.field(static=True)

    @property
    def names(self):
        return tuple(f"{self.body} {n}" for n in ("x", "y", "angle"))

    def value(self, system, q, t):
        position, rotation, _ = _body_motion(system, self.body, q, jnp.zeros(system.nv))
        return jnp.append(position[:2], jnp.arctan2(rotation[1, 0], rotation[0, 0]))

    def rate(self, system, q, v, t):
        return _body_motion(system, self.body, q, v)[2][np.array([0, 1, 5])]


class Pose(Output):
    """Centre of mass (m) of a body, and its rotation from the reference configuration as a vector.

    The vector is the rotation axis times the sine of the rotation angle.
    """

    body: str = eqx.field(static=True)

    @property
    def names(self):
        return tuple(f"{self.body} {n}" for n in ("x", "y", "z", "about x", "about y", "about z"))

    def value(self, system, q, t):
        position, rotation, _ = _body_motion(system, self.body, q, jnp.zeros(system.nv))
        return jnp.concatenate([position, _skew_part(rotation)])

    def rate(self, system, q, v, t):
        _, rotation, twist = _body_motion(system, self.body, q, v)
        return jnp.concatenate([twist[:3], _skew_part(skew(twist[3:]) @ rotation)])


def _skew_part(matrix: Float[Array, "3 3"]) -> Float[Array, " 3"]:
    """Vector of the skew-symmetric part of a matrix; it is linear, so it applies to rotations and to their rates."""
    twice = matrix - matrix.T
    return 0.5 * jnp.stack([twice[2, 1], twice[0, 2], twice[1, 0]])


def _body_motion(
    system: System, body: str, q: Vector, v: Vector
) -> tuple[Float[Array, " 3"], Float[Array, "3 3"], Float[Array, " 6"]]:
    """Centre of mass (m), rotation matrix, and velocity (m/s) with angular velocity (rad/s) of a body."""
    assert isinstance(system, MechanismSystem)
    place, i = system.place(q), system.model.names.index(body)
    return place.p[i], place.R[i], system.twists(q, v)[i]


def planar_stewart_path(duration: Positive = 2.0, kp: float = 100.0, kd: float = 20.0) -> Example:
    """Four legs for three degrees of freedom: the platform moves on a closed path and rotates.

    Of all leg forces that produce this motion, those with minimum `uᵀu` are used at every instant. The motion takes
    `duration` seconds.
    """
    moves = 0.1 * np.array([[0, 0, 0], [1, 1, 2], [0, 2, 0], [-1, 1, -2], [0, 0, 0]])
    return _with_path(
        planar_stewart(legs=4),
        PlanarPose("platform"),
        np.append(PLANAR_CENTRE, 0.0) + moves,
        duration,
        kp,
        kd,
        title="Planar Stewart platform with four legs, following a path with minimum leg forces",
    )


def stewart_path(duration: Positive = 2.0, kp: float = 100.0, kd: float = 20.0) -> Example:
    """Six legs for six degrees of freedom: the platform moves on a closed path and tilts, within `duration` seconds."""
    waypoints = [[0.1, 0.0, 0.05, 0.1, 0.0, 0.0], [0.0, 0.1, 0.1, 0.0, 0.1, 0.1], [-0.1, 0.0, 0.05, -0.1, 0.0, 0.0]]
    moves = np.array([np.zeros(6), *waypoints, np.zeros(6)])
    return _with_path(
        stewart(),
        Pose("platform"),
        np.append(CENTRE, np.zeros(3)) + moves,
        duration,
        kp,
        kd,
        title="Stewart platform following a path in all six degrees of freedom",
    )


def _with_path(
    example: Example, output: Output, poses: np.ndarray, duration: float, kp: float, kd: float, title: str
) -> Example:
    """The example with a controller that moves the output from rest through `poses`, shape (k, p), to rest."""
    reference = Waypoints(np.linspace(0.0, duration, len(poses)), poses)
    law = ProjectedInverseDynamics(example.system, output, reference, kp, kd)
    return dataclasses.replace(example, title=title, t_end=duration, settings={"controller": law})
