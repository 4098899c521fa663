"""Outlines shared by several drawings; all lengths in metres."""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Float


def box(
    centre: Float[Array, " 2"], width: Float[Array, ""] | float, height: Float[Array, ""] | float
) -> Float[Array, "5 2"]:
    """Closed outline of an axis-aligned rectangle."""
    corners = jnp.array([[-0.5, -0.5], [0.5, -0.5], [0.5, 0.5], [-0.5, 0.5], [-0.5, -0.5]])
    return centre[None] + corners * jnp.array([[width, height]])


def spring(start: Float[Array, " 2"], end: Float[Array, " 2"], width: Float[Array, ""] | float) -> Float[Array, "12 2"]:
    """Zigzag line from `start` to `end` with eight peaks; its `width` does not depend on its length."""
    along = jnp.concatenate([jnp.array([0.0]), jnp.linspace(0.1, 0.9, 10), jnp.array([1.0])])
    across = jnp.array([0, 0, 1, -1, 1, -1, 1, -1, 1, -1, 0, 0]) * 0.5 * width
    axis = end - start
    normal = jnp.array([-axis[1], axis[0]]) / jnp.linalg.norm(axis)
    return start[None] + along[:, None] * axis[None] + across[:, None] * normal[None]


def circle(radius: Float[Array, ""] | float, sides: int = 48) -> tuple[Float[Array, " n"], Float[Array, " n"]]:
    """The two coordinates of a closed polygon that approximates a circle about the origin."""
    angle = jnp.linspace(0.0, 2.0 * jnp.pi, sides + 1)
    return radius * jnp.cos(angle), radius * jnp.sin(angle)
