"""Forces on bodies: gravity, springs and dampers along measures, loads at points."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from bricard.mechanism.model.frames import Placement
from bricard.mechanism.model.joint_measures import Measure
from bricard.spatial import cross
from bricard.system import Scalar


class Springs(eqx.Module):
    """Linear springs with dampers: `force = −stiffness (x − rest) − damping ẋ` along each entry of a measure."""

    stiffness: Float[Array, " k"]
    damping: Float[Array, " k"]
    rest: Float[Array, " k"]

    def energy(self, measure: Measure, place: Placement) -> Float[Array, ""]:
        """Elastic energy (J)."""
        return 0.5 * jnp.sum(self.stiffness * (measure.values(place) - self.rest) ** 2)

    def elastic(self, measure: Measure, place: Placement) -> Float[Array, "n 6"]:
        """Wrench on each body of the springs alone."""
        return measure.spread(place, -self.stiffness * (measure.values(place) - self.rest))

    def viscous(self, measure: Measure, place: Placement, twists: Float[Array, "n 6"]) -> Float[Array, "n 6"]:
        """Wrench on each body of the dampers alone."""
        return measure.spread(place, -self.damping * measure.rates(place, twists))


class Load(eqx.Module):
    """A force (N) or a moment (N m) on one body, in world axes: constant, or a function of time, place and velocity."""

    body: int = eqx.field(static=True)
    point: Float[Array, " 3"]
    """Where it acts, from the centre of mass, in the body frame."""
    value: Float[Array, " 3"] | Callable[..., Any]
    """`value(t, x, v)` gets the point's position (m) and velocity (m/s) in the world."""
    is_moment: bool = eqx.field(static=True, default=False)

    def add(
        self, wrenches: Float[Array, "n 6"], place: Placement, twists: Float[Array, "n 6"], t: Scalar
    ) -> Float[Array, "n 6"]:
        """`wrenches` with this load added."""
        arm = place.R[self.body] @ self.point
        value = self.value
        if callable(value):
            v, w = twists[self.body, :3], twists[self.body, 3:]
            value = jnp.asarray(value(t, place.p[self.body] + arm, v + cross(w, arm)), dtype=float)
        if self.is_moment:
            return wrenches.at[self.body, 3:].add(value)
        return wrenches.at[self.body].add(jnp.concatenate([value, cross(arm, value)]))


def gravity_energy(mass: Float[Array, " n"], gravity: Float[Array, " 3"], place: Placement) -> Float[Array, ""]:
    """Potential energy (J), zero at the origin."""
    return -jnp.sum(mass * (place.p @ gravity))


def gravity_wrenches(mass: Float[Array, " n"], gravity: Float[Array, " 3"]) -> Float[Array, "n 6"]:
    """Weight of each body."""
    return jnp.concatenate([mass[:, None] * gravity[None], jnp.zeros((mass.shape[0], 3))], axis=1)


def inertia_wrenches(
    mass: Float[Array, " n"],
    inertia: Float[Array, "n 3 3"],
    place: Placement,
    twists: Float[Array, "n 6"],
    rates: Float[Array, "n 6"],
) -> Float[Array, "n 6"]:
    """Rate of momentum and of angular momentum about the centre of mass (Newton, Euler); `rates` of `twists`."""
    world = place.R @ inertia @ jnp.swapaxes(place.R, 1, 2)
    w, alpha = twists[:, 3:], rates[:, 3:]
    moment = jnp.einsum("nij,nj->ni", world, alpha) + cross(w, jnp.einsum("nij,nj->ni", world, w))
    return jnp.concatenate([mass[:, None] * rates[:, :3], moment], axis=1)
