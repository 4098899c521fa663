"""Rolling without slip: the material point in contact does not slide.

A ball or a thin wheel touches a plane that is fixed in another body. Staying in touch is a holonomic row, not slipping
two velocity rows (one in the plane). The multipliers are the components of the contact force on the wheel.
"""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from bricard.mechanism.model.frames import Placement
from bricard.spatial import cross


class Rolling(eqx.Module):
    """`k` wheels; the plane belongs to the first body, the wheel to the second; body `n` is the ground."""

    origin: Float[Array, "k 3"]
    """A point of the plane, in the first body."""
    plane: Float[Array, "k 3 3"]
    """Normal, out of the plane to the wheel's side, and two tangents, in columns, in the first body."""
    center: Float[Array, "k 3"]
    """Centre of the wheel, in the second body."""
    axis: Float[Array, "k 3"]
    """Axis of a thin wheel, in the second body; zero for a ball."""
    radius: Float[Array, " k"]
    names: tuple[str, ...] = eqx.field(static=True)
    first: tuple[int, ...] = eqx.field(static=True)
    second: tuple[int, ...] = eqx.field(static=True)

    def __len__(self) -> int:
        return len(self.names)

    @property
    def bodies(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Bodies of the plane and of the wheel."""
        return self.first, self.second

    def _world(self, place: Placement):
        p = jnp.concatenate([place.p, jnp.zeros((1, 3))])
        R = jnp.concatenate([place.R, jnp.eye(3)[None]])
        a, b = np.asarray(self.first, int), np.asarray(self.second, int)
        origin = p[a] + jnp.einsum("kij,kj->ki", R[a], self.origin)
        plane = R[a] @ self.plane
        center = p[b] + jnp.einsum("kij,kj->ki", R[b], self.center)
        axis = jnp.einsum("kij,kj->ki", R[b], self.axis)
        normal = plane[:, :, 0]
        # Steepest direction in the wheel: straight down for a ball, in the wheel's plane for a wheel.
        steep = normal - jnp.sum(normal * axis, axis=1, keepdims=True) * axis
        steepness = jnp.linalg.norm(steep, axis=1)
        contact = center - self.radius[:, None] * steep / steepness[:, None]
        height = jnp.sum(normal * (center - origin), axis=1) - self.radius * steepness
        return contact, height, plane, p[a], p[b]

    def heights(self, place: Placement) -> Float[Array, " k"]:
        """How far each wheel is above its plane (m): zero in contact."""
        return self._world(place)[1]

    def contacts(self, place: Placement) -> Float[Array, "k 3"]:
        """The points of contact (m)."""
        return self._world(place)[0]

    def wrenches(self, place: Placement) -> Float[Array, "k 3 2 6"]:
        """Wrenches on both bodies of unit contact forces on the wheel along the normal and the tangents."""
        contact, _, plane, pa, pb = self._world(place)
        force = jnp.swapaxes(plane, 1, 2)

        def about(point):
            return jnp.concatenate([force, cross((contact - point)[:, None, :], force)], axis=2)

        return jnp.stack([-about(pa), about(pb)], axis=2)
