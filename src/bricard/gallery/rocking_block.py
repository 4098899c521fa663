"""Rocking of a slender block on its corners (Housner 1963): each impact dissipates a fixed fraction of its energy."""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from bricard.contact import point_contact
from bricard.gallery.example import Example
from bricard.gallery.ranges import NonNegative, Positive
from bricard.system import System


class Block(System):
    """A uniform block, described by the position of its centre (m) and its counterclockwise tilt (rad)."""

    m: float = 1.0
    """Mass (kg)."""
    b: float = 0.2
    """Half of the width (m)."""
    h: float = 0.6
    """Half of the height (m)."""
    g: float = 9.81
    """Gravity (m/s²)."""

    coordinates = ("x", "y", "tilt")

    @property
    def radius(self) -> Float[Array, ""]:
        """Distance from a corner to the centre (m)."""
        return jnp.hypot(self.b, self.h)

    @property
    def slenderness(self) -> Float[Array, ""]:
        """Angle at a corner between the diagonal and the vertical side (rad); at larger tilts the block falls over."""
        return jnp.arctan2(self.b, self.h)

    def corner(self, q, side, up=-1.0):
        """Position (m) of the corner on the left (`side=-1`) or right (1), at the bottom (`up=-1`) or top (1)."""
        c, s = jnp.cos(q[2]), jnp.sin(q[2])
        x, y = side * self.b, up * self.h
        return q[:2] + jnp.stack([c * x - s * y, s * x + c * y])

    def mass_matrix(self, q, t):
        inertia = self.m * (self.b**2 + self.h**2) / 3.0
        return jnp.diag(jnp.stack([self.m, self.m, inertia]))

    def potential_energy(self, q, t):
        return self.m * self.g * q[1]

    def drawing(self, q, t):
        corners = [(-1.0, -1.0), (1.0, -1.0), (1.0, 1.0), (-1.0, 1.0), (-1.0, -1.0)]
        outline = jnp.stack([self.corner(q, *x) for x in corners])
        return {"floor": jnp.array([[-1.0, 0.0], [1.0, 0.0]]), "block": outline}


class Corner(eqx.Module):
    """Function `(q, t)` that returns the position of a lower corner (m)."""

    block: Block
    side: Float[Array, ""]

    def __call__(self, q, t):
        return self.block.corner(q, self.side)


def block_at(block: Block, tilt: float) -> np.ndarray:
    """Coordinates of the block at `tilt` (rad), standing on a corner at the origin.

    It stands on the left corner if `tilt` is positive, else on the right one.
    """
    side = np.sign(-tilt) if tilt else 1.0
    corner = np.asarray(block.corner(jnp.array([0.0, 0.0, tilt]), side))
    return np.array([-corner[0], -corner[1], tilt])


def rocking_block(
    m: Positive = 1.0,
    b: Positive = 0.2,
    h: Positive = 0.6,
    g: float = 9.81,
    tilt: float = 0.1,
    friction: NonNegative = 10.0,
) -> Example:
    """Released at rest at `tilt` (rad) on one corner; the default `friction` coefficient prevents slip."""
    block = Block(m=m, b=b, h=h, g=g)
    sides = (("left corner", -1.0), ("right corner", 1.0))
    contacts = [point_contact(Corner(block, jnp.asarray(s)), friction=friction, name=n) for n, s in sides]
    return Example(
        system=block,
        title="Rocking block: impacts on alternating corners, ever faster",
        source="G. W. Housner, The behavior of inverted pendulum structures during earthquakes, Bulletin of the "
        "Seismological Society of America 53, 1963",
        q=block_at(block, tilt),
        v=np.zeros(3),
        t_end=3.0,
        settings={"contacts": contacts},
    )
