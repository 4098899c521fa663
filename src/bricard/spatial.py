"""Rotations in space. Quaternions are unit, `(w, x, y, z)`, and turn body vectors into world vectors."""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Float


def skew(a: Float[Array, " 3"]) -> Float[Array, "3 3"]:
    """The matrix of the cross product: `skew(a) @ b == cross(a, b)`."""
    zero = jnp.zeros_like(a[0])
    return jnp.array([[zero, -a[2], a[1]], [a[2], zero, -a[0]], [-a[1], a[0], zero]])


def rotation_matrix(quaternion: Float[Array, " 4"]) -> Float[Array, "3 3"]:
    """Rotation matrix, body to world; a quaternion off the unit sphere is read as its direction."""
    w, x, y, z = quaternion / jnp.linalg.norm(quaternion)
    return jnp.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
    )


def quaternion_rate(quaternion: Float[Array, " 4"], omega: Float[Array, " 3"]) -> Float[Array, " 4"]:
    """Rate of a unit quaternion, from the angular velocity `omega` in the body frame (rad/s)."""
    w, x, y, z = quaternion
    a, b, c = omega
    return 0.5 * jnp.array(
        [-x * a - y * b - z * c, w * a + y * c - z * b, w * b + z * a - x * c, w * c + x * b - y * a]
    )


def axis_angle(axis: Float[Array, " 3"], angle: Float[Array, ""] | float) -> Float[Array, " 4"]:
    """Unit quaternion of the rotation by `angle` (rad) about `axis`, which need not be a unit vector."""
    direction = axis / jnp.linalg.norm(axis)
    return jnp.concatenate([jnp.cos(angle / 2)[None], jnp.sin(angle / 2) * direction])


def quaternion_product(p: Float[Array, " 4"], q: Float[Array, " 4"]) -> Float[Array, " 4"]:
    """Composition of rotations: first `q`, then `p`."""
    w, a = p[0], p[1:]
    s, b = q[0], q[1:]
    return jnp.concatenate([(w * s - a @ b)[None], w * b + s * a + jnp.cross(a, b)])
