"""A slender block that rocks on its corners (Housner 1963): each impact takes a fixed share of its energy."""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from bricard.gallery.example import Example
from bricard.gallery.ranges import NonNegative, Positive
from bricard.simulate import point_contact
from bricard.system import System


class Block(System):
    """A uniform block by the position of its centre and its tilt (counterclockwise)."""

    m: float = 1.0
    """Mass (kg)."""
    b: float = 0.2
    """Half its width (m)."""
    h: float = 0.6
    """Half its height (m)."""
    g: float = 9.81
    """Gravity (m/s²)."""

    coordinates = ("x", "y", "tilt")

    @property
    def radius(self) -> Float[Array, ""]:
        """From a corner to the centre (m)."""
        return jnp.hypot(self.b, self.h)

    @property
    def slenderness(self) -> Float[Array, ""]:
        """Angle at a corner between the centre and the side (rad): tilted by more, it falls over."""
        return jnp.arctan2(self.b, self.h)

    def corner(self, q, side, up=-1.0):
        """The corner on the left (−1) or right (1) `side`, below (−1) or above (1)."""
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
    """Position of a lower corner."""

    block: Block
    side: Float[Array, ""]

    def __call__(self, q, t):
        return self.block.corner(q, self.side)


def block_at(block: Block, tilt: float) -> np.ndarray:
    """The block tilted by `tilt` (rad), on its right corner at the origin if negative, else on its left one."""
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
    """Let go at `tilt` (rad) on one corner; `friction` is enough for the corners not to slip."""
    block = Block(m=m, b=b, h=h, g=g)
    sides = (("left corner", -1.0), ("right corner", 1.0))
    contacts = [point_contact(Corner(block, jnp.asarray(s)), friction=friction, name=n) for n, s in sides]
    return Example(
        system=block,
        title="Rocking block: from corner to corner, ever faster",
        source="G. W. Housner, The behavior of inverted pendulum structures during earthquakes, Bulletin of the "
        "Seismological Society of America 53, 1963",
        q=block_at(block, tilt),
        v=np.zeros(3),
        t_end=3.0,
        settings={"contacts": contacts},
    )
