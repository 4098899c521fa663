"""Spatial rotations. Quaternions are unit quaternions `(w, x, y, z)` that map body vectors to world vectors."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

_EPSILON = np.zeros((3, 3, 3))
"""Levi-Civita symbol: `(a × b)_i = ε_ijk a_j b_k`."""
for _i, _j, _k in ((0, 1, 2), (1, 2, 0), (2, 0, 1)):
    _EPSILON[_i, _j, _k], _EPSILON[_i, _k, _j] = 1.0, -1.0

# A rotation matrix is quadratic in its quaternion, |q|² R_ij = _ROTATION_ijab q_a q_b. One einsum compiles fast.
_ROTATION = np.zeros((3, 3, 4, 4))
_ROTATION[:, :, 0, 0] = np.eye(3)
for _a in range(3):
    _ROTATION[:, :, 0, _a + 1] = _ROTATION[:, :, _a + 1, 0] = -_EPSILON[:, :, _a]
    for _b in range(3):
        _ROTATION[_a, _b, _a + 1, _b + 1] += 1.0
        _ROTATION[_a, _b, _b + 1, _a + 1] += 1.0
    _ROTATION[:, :, _a + 1, _a + 1] -= np.eye(3)

# q̇_i = _RATE_iab q_a ω_b, with ω in the body frame.
_RATE = np.zeros((4, 4, 3))
for _a in range(3):
    _RATE[0, _a + 1, _a] = -0.5
    _RATE[_a + 1, 0, _a] = 0.5
_RATE[1:, 1:, :] = 0.5 * _EPSILON


def skew(a: Float[Array, "*batch 3"]) -> Float[Array, "*batch 3 3"]:
    """Skew-symmetric matrix of the cross product: `skew(a) @ b == cross(a, b)`."""
    return -jnp.einsum("ijk,...k->...ij", _EPSILON, a)


def cross(a: Float[Array, "*#batch 3"], b: Float[Array, "*#batch 3"]) -> Float[Array, "*#batch 3"]:
    """Cross product along the last axis."""
    return jnp.einsum("ijk,...j,...k->...i", _EPSILON, a, b)


def rotation_matrix(quaternion: Float[Array, "*batch 4"]) -> Float[Array, "*batch 3 3"]:
    """Rotation matrix from the body frame to the world; the quaternion is normalised."""
    square = jnp.sum(quaternion**2, axis=-1)[..., None, None]
    return jnp.einsum("ijab,...a,...b->...ij", _ROTATION, quaternion, quaternion) / square


def quaternion_rate(quaternion: Float[Array, "*batch 4"], omega: Float[Array, "*batch 3"]) -> Float[Array, "*batch 4"]:
    """Time derivative of a unit quaternion; `omega` is the angular velocity in the body frame (rad/s)."""
    return jnp.einsum("iab,...a,...b->...i", _RATE, quaternion, omega)


def axis_angle(axis: Float[Array, " 3"], angle: Float[Array, ""] | float) -> Float[Array, " 4"]:
    """Unit quaternion of the rotation by `angle` (rad) about `axis`, which need not be a unit vector."""
    direction = axis / jnp.linalg.norm(axis)
    return jnp.concatenate([jnp.cos(angle / 2)[None], jnp.sin(angle / 2) * direction])


def quaternion_product(p: Float[Array, " 4"], q: Float[Array, " 4"]) -> Float[Array, " 4"]:
    """Product `p q`: the rotation `q` followed by the rotation `p`."""
    w, a = p[0], p[1:]
    s, b = q[0], q[1:]
    return jnp.concatenate([(w * s - a @ b)[None], w * b + s * a + jnp.cross(a, b)])


def quaternion_from_matrix(rotation: Float[Array, "3 3"]) -> Float[Array, " 4"]:
    """Unit quaternion of a rotation matrix; its component of largest magnitude is positive."""
    r = rotation
    # Each row is 4 q_i times the quaternion; the row with the largest |q_i| is the most accurate one.
    candidates = jnp.array(
        [
            [1 + r[0, 0] + r[1, 1] + r[2, 2], r[2, 1] - r[1, 2], r[0, 2] - r[2, 0], r[1, 0] - r[0, 1]],
            [r[2, 1] - r[1, 2], 1 + r[0, 0] - r[1, 1] - r[2, 2], r[1, 0] + r[0, 1], r[0, 2] + r[2, 0]],
            [r[0, 2] - r[2, 0], r[1, 0] + r[0, 1], 1 - r[0, 0] + r[1, 1] - r[2, 2], r[2, 1] + r[1, 2]],
            [r[1, 0] - r[0, 1], r[0, 2] + r[2, 0], r[2, 1] + r[1, 2], 1 - r[0, 0] - r[1, 1] + r[2, 2]],
        ]
    )
    best = candidates[jnp.argmax(jnp.diagonal(candidates))]
    return best / jnp.linalg.norm(best)


def turn_matrix(axis: Float[Array, "*batch 3"], angle: Float[Array, " *batch"]) -> Float[Array, "*batch 3 3"]:
    """Rotation matrix for the `angle` (rad) about the unit vector `axis` (Rodrigues' formula)."""
    k = skew(axis)
    sin, cos = jnp.sin(angle)[..., None, None], jnp.cos(angle)[..., None, None]
    return jnp.broadcast_to(jnp.eye(3), k.shape) + sin * k + (1 - cos) * (k @ k)
