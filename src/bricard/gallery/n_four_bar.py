"""Chain of N parallelogram four-bars (IFToMM benchmark A02): all loops are singular at once, twice per turn."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from bricard.gallery.example import Example
from bricard.gallery.ranges import Count, Positive
from bricard.system import System


class NFourBar(System):
    """N + 1 rockers on the ground, joined at their ends by N couplers: uniform slender rods, all of the same length.

    Coordinates are the angles of the rockers, clockwise from the upward vertical, then those of the couplers,
    counterclockwise from the horizontal. When the rockers are horizontal, the mechanism has N + 1 instantaneous degrees
    of freedom; the simulated motion continues as a parallelogram.
    """

    n: int = eqx.field(static=True, default=2)
    """Number of four-bars."""
    m: float = 1.0
    """Mass of every link (kg)."""
    l: float = 1.0
    """Length of every link (m)."""
    g: float = 9.81
    """Gravity (m/s²), along −y."""

    @property
    def coordinates(self):  # pyright: ignore[reportIncompatibleVariableOverride]
        return (*(f"rocker {i}" for i in range(self.n + 1)), *(f"coupler {i}" for i in range(self.n)))

    @property
    def constraint_names(self):  # pyright: ignore[reportIncompatibleVariableOverride]
        return (*(f"loop {i} x" for i in range(self.n)), *(f"loop {i} y" for i in range(self.n)))

    def pins(self, q):
        """Vectors (m) along the rockers, shape (n + 1, 2), and along the couplers, shape (n, 2)."""
        rockers, couplers = q[: self.n + 1], q[self.n + 1 :]
        up = self.l * jnp.stack([jnp.sin(rockers), jnp.cos(rockers)], axis=1)
        along = self.l * jnp.stack([jnp.cos(couplers), jnp.sin(couplers)], axis=1)
        return up, along

    def kinetic_energy(self, q, v, t):
        _, (up, along) = jax.jvp(self.pins, (q,), (v,))
        middle = up[:-1] + 0.5 * along
        # The inertia of a slender rod is m l²/3 about its end and m l²/12 about its centre.
        return 0.5 * self.m * (jnp.sum(up**2) / 3 + jnp.sum(middle**2) + jnp.sum(along**2) / 12)

    def potential_energy(self, q, t):
        up, along = self.pins(q)
        heights = 0.5 * jnp.sum(up[:, 1]) + jnp.sum(up[:-1, 1] + 0.5 * along[:, 1])
        return self.m * self.g * heights

    def constraints(self, q, t):
        up, along = self.pins(q)
        gap = up[:-1] + along - up[1:]
        return jnp.concatenate([gap[:, 0] - self.l, gap[:, 1]])

    def drawing(self, q, t):
        up, along = self.pins(q)
        feet = self.l * jnp.stack([jnp.arange(self.n + 1.0), jnp.zeros(self.n + 1)], axis=1)
        links = {f"rocker {i}": jnp.stack([feet[i], feet[i] + up[i]]) for i in range(self.n + 1)}
        for i in range(self.n):
            start = feet[i] + up[i]
            links[f"coupler {i}"] = jnp.stack([start, start + along[i]])
        return links


def n_four_bar(n: Count = 2, m: Positive = 1.0, l: Positive = 1.0, g: float = 9.81) -> Example:
    """Starts with upright rockers and a pin speed of 1 m/s; passes ten singular positions in ten seconds."""
    zero = np.zeros(n)
    return Example(
        system=NFourBar(n=n, m=m, l=l, g=g),
        title=f"{n} four-bars in a row: all loops become singular at once",
        source="IFToMM library of computational benchmark problems, A02",
        q=np.zeros(2 * n + 1),
        v=np.concatenate([np.full(n + 1, 1.0 / l), zero]),
        t_end=10.0,
    )
