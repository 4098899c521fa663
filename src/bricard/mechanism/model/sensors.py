"""What can be read from a mechanism: points, orientations, joint coordinates, distances, and their rates."""

from __future__ import annotations

from abc import abstractmethod
from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from bricard.mechanism.model.frames import Placement
from bricard.mechanism.model.joint_measures import Measure
from bricard.spatial import cross


class Reading(NamedTuple):
    """A value and its rate."""

    value: Float[Array, ...]
    rate: Float[Array, ...]


class Sensor(eqx.Module):
    """Reads something of a placement and the bodies' velocities `twists` (n, 6)."""

    @abstractmethod
    def read(self, place: Placement, twists: Float[Array, "n 6"]) -> Reading:
        """The value and its rate."""


class PointSensor(Sensor):
    """Position (m) and velocity (m/s) of a point: (3,), in the plane (2,)."""

    point: Float[Array, " 3"]
    body: int = eqx.field(static=True)
    planar: bool = eqx.field(static=True)

    def read(self, place, twists):
        arm = place.R[self.body] @ self.point
        position = place.p[self.body] + arm
        velocity = twists[self.body, :3] + cross(twists[self.body, 3:], arm)
        size = 2 if self.planar else 3
        return Reading(position[:size], velocity[:size])


class OrientationSensor(Sensor):
    """Rotation matrix (3, 3) from the reference configuration and angular velocity (3,); in the plane two numbers."""

    body: int = eqx.field(static=True)
    planar: bool = eqx.field(static=True)

    def read(self, place, twists):
        rotation, omega = place.R[self.body], twists[self.body, 3:]
        if self.planar:
            return Reading(jnp.arctan2(rotation[1, 0], rotation[0, 0]), omega[2])
        return Reading(rotation, omega)


class MeasureSensor(Sensor):
    """The only entry of a measure: a distance or a joint coordinate."""

    measure: Measure

    def read(self, place, twists):
        return Reading(self.measure.values(place)[0], self.measure.rates(place, twists)[0])
