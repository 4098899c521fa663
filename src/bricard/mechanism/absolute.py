"""Absolute coordinates: each body on its own, every joint a constraint.

In the plane a body has `x, y` of its centre of mass and its angle. In space it has the centre of mass and a unit
quaternion; its velocity is that of the centre of mass (world axes) and the angular velocity (body axes), in which
the mass matrix is constant. Both the position and the orientation are relative to the world.
"""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from bricard.mechanism.base import MechanismSystem
from bricard.mechanism.frames import Placement
from bricard.mechanism.model import Model
from bricard.spatial import quaternion_from_matrix, quaternion_rate, rotation_matrix

PLANE = ("x", "y", "angle")
SPACE = ("x", "y", "z", "qw", "qx", "qy", "qz")
SPACE_RATES = ("vx", "vy", "vz", "wx", "wy", "wz")


class Absolute(MechanismSystem):
    """A mechanism in absolute coordinates: 3 per body in the plane, 7 (6 velocities) in space."""

    extra: tuple[str, ...] = eqx.field(static=True)
    """Names of tracked turns, which come after the bodies."""

    @property
    def coordinates(self):  # pyright: ignore[reportIncompatibleVariableOverride]
        return body_names(PLANE if self.model.planar else SPACE, self.model.names) + self.extra

    @property
    def velocities(self):  # pyright: ignore[reportIncompatibleVariableOverride]
        return body_names(PLANE if self.model.planar else SPACE_RATES, self.model.names) + self.extra

    @property
    def own_rows(self):
        return self.model.rows

    @property
    def tied(self):
        return tuple(range(len(self.extra)))

    @property
    def turn_columns(self):
        width = 3 if self.model.planar else 6
        return tuple(width * self.model.n + i for i in self.tied)

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
        batch, width = wrenches.shape[:-2], self.nv - len(self.extra)
        if self.model.planar:
            local = wrenches[..., np.array([0, 1, 5])]
        else:
            moment = jnp.einsum("nij,...ni->...nj", self.place(q).R, wrenches[..., 3:])
            local = jnp.concatenate([wrenches[..., :3], moment], axis=-1)
        return jnp.concatenate([local.reshape(*batch, width), jnp.zeros((*batch, len(self.extra)))], axis=-1)

    def mass_matrix(self, q, t):
        model, k = self.model, len(self.extra)
        blocks = model.inertias[:, PLANE_PART][:, :, PLANE_PART] if model.planar else model.inertias
        return block_diagonal(blocks, k)

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
    extra = tuple(f"{model.frames.names[j]} angle" for j in model.tracked)
    if model.planar:
        bodies = jnp.concatenate([model.home[:, :2], jnp.zeros((model.n, 1))], axis=1)
    else:
        bodies = jnp.concatenate([model.home, jnp.tile(jnp.eye(4)[0], (model.n, 1))], axis=1)
    return Absolute(model, jnp.concatenate([bodies.reshape(-1), jnp.zeros(len(extra))]), extra)


def body_names(parts: tuple[str, ...], names: tuple[str, ...]) -> tuple[str, ...]:
    """Names of the coordinates of each body, such as "crank x"."""
    return tuple(f"{n} {p}" for n in names for p in parts)


def plane_rotations(angles: Float[Array, " n"]) -> Float[Array, "n 3 3"]:
    """Rotations about z."""
    c, s, zero, one = jnp.cos(angles), jnp.sin(angles), jnp.zeros_like(angles), jnp.ones_like(angles)
    return jnp.stack([c, -s, zero, s, c, zero, zero, zero, one], axis=1).reshape(-1, 3, 3)


def block_diagonal(blocks: Float[Array, "n k k"], extra: int = 0) -> Float[Array, "m m"]:
    """Square blocks along the diagonal, and `extra` zeros after them."""
    n, k, _ = blocks.shape
    spaced = blocks[:, :, None, :] * np.eye(n)[:, None, :, None]
    return jnp.pad(spaced.reshape(n * k, n * k), (0, extra))
