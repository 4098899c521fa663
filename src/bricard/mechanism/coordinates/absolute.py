"""Absolute coordinates: each body on its own, every joint a constraint.

In the plane a body has `x, y` of its centre of mass and its angle. In space it has the centre of mass and a unit
quaternion; its velocity is that of the centre of mass (world axes) and the angular velocity (body axes), in which
the mass matrix is constant. Both the position and the orientation are relative to the world.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from bricard.mechanism.coordinates.body_coordinates import BodyCoordinates, block_diagonal
from bricard.mechanism.model.compiled_model import Model
from bricard.mechanism.model.frames import Placement
from bricard.spatial import quaternion_from_matrix, quaternion_rate, rotation_matrix

PLANE = ("x", "y", "angle")
SPACE = ("x", "y", "z", "qw", "qx", "qy", "qz")
SPACE_RATES = ("vx", "vy", "vz", "wx", "wy", "wz")


class Absolute(BodyCoordinates):
    """A mechanism in absolute coordinates: 3 per body in the plane, 7 (6 velocities) in space."""

    @property
    def parts(self):
        return PLANE if self.model.planar else SPACE

    @property
    def rate_parts(self):
        return PLANE if self.model.planar else SPACE_RATES

    def place(self, q):
        n = self.model.n
        if self.model.planar:
            x = q[: 3 * n].reshape(n, 3)
            p = jnp.concatenate([x[:, :2], jnp.zeros((n, 1))], axis=1)
            return Placement(p, plane_rotations(x[:, 2]), q[3 * n :])
        x = q[: 7 * n].reshape(n, 7)
        return Placement(x[:, :3], rotation_matrix(x[:, 3:]), q[7 * n :])

    def twists(self, q, v):
        n = self.model.n
        if self.model.planar:
            x = v[: 3 * n].reshape(n, 3)
            return jnp.concatenate([x[:, :2], jnp.zeros((n, 3)), x[:, 2:]], axis=1)
        x = v[: 6 * n].reshape(n, 6)
        return jnp.concatenate([x[:, :3], jnp.einsum("nij,nj->ni", self.place(q).R, x[:, 3:])], axis=1)

    def twist_bias(self, q, v):
        return jnp.zeros((self.model.n, 6))  # d/dt (R ω) = R (ω × ω) = 0

    def pull(self, q, wrenches):
        if self.model.planar:
            local = wrenches[..., np.array([0, 1, 5])]
        else:
            moment = jnp.einsum("nij,...ni->...nj", self.place(q).R, wrenches[..., 3:])
            local = jnp.concatenate([wrenches[..., :3], moment], axis=-1)
        return self.flat(local)

    def body_mass(self, q):
        model = self.model
        blocks = model.inertias[:, PLANE_PART][:, :, PLANE_PART] if model.planar else model.inertias
        return block_diagonal(blocks, len(self.extra))

    @property
    def has_chart(self):
        return not self.model.planar

    def qdot(self, q, v):
        if self.model.planar:
            return v
        n = self.model.n
        x, w = q[: 7 * n].reshape(n, 7), v[: 6 * n].reshape(n, 6)
        rates = quaternion_rate(x[:, 3:], w[:, 3:])
        return jnp.concatenate([jnp.concatenate([w[:, :3], rates], axis=1).reshape(-1), v[6 * n :]])

    def normalize(self, q):
        if self.model.planar:
            return q
        n = self.model.n
        x = q[: 7 * n].reshape(n, 7)
        unit = x[:, 3:] / jnp.linalg.norm(x[:, 3:], axis=1, keepdims=True)
        return jnp.concatenate([jnp.concatenate([x[:, :3], unit], axis=1).reshape(-1), q[7 * n :]])

    def coordinates_of(self, place):
        if self.model.planar:
            angle = jnp.arctan2(place.R[:, 1, 0], place.R[:, 0, 0])
            x = jnp.concatenate([place.p[:, :2], angle[:, None]], axis=1)
        else:
            x = jnp.concatenate([place.p, jax.vmap(quaternion_from_matrix)(place.R)], axis=1)
        return jnp.concatenate([x.reshape(-1), place.turns])

    def velocities_of(self, q, twists):
        place = self.place(q)
        if self.model.planar:
            x = twists[:, PLANE_PART]
        else:
            x = jnp.concatenate([twists[:, :3], jnp.einsum("nij,ni->nj", place.R, twists[:, 3:])], axis=1)
        return jnp.concatenate([x.reshape(-1), self.turn_rates(place, twists)])


PLANE_PART = np.array([0, 1, 5])
"""Of force and moment, what there is in the plane."""


def absolute(model: Model) -> Absolute:
    """The mechanism in absolute coordinates."""
    if model.planar:
        bodies = jnp.concatenate([model.home[:, :2], jnp.zeros((model.n, 1))], axis=1)
    else:
        bodies = jnp.concatenate([model.home, jnp.tile(jnp.eye(4)[0], (model.n, 1))], axis=1)
    return Absolute(model, jnp.concatenate([bodies.reshape(-1), jnp.zeros(len(model.tracked))]))


def plane_rotations(angles: Float[Array, " n"]) -> Float[Array, "n 3 3"]:
    """Rotations about z."""
    c, s, zero, one = jnp.cos(angles), jnp.sin(angles), jnp.zeros_like(angles), jnp.ones_like(angles)
    return jnp.stack([c, -s, zero, s, c, zero, zero, zero, one], axis=1).reshape(-1, 3, 3)
