"""Double pendulum: two point masses on massless rods; small oscillations are regular, large ones chaotic."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from bricard.gallery.example import Example
from bricard.gallery.ranges import Positive
from bricard.system import System


class DoublePendulum(System):
    """Double pendulum; both angles are measured counterclockwise from the downward vertical."""

    m1: float = 1.0
    """Upper mass (kg)."""
    m2: float = 1.0
    """Lower mass (kg)."""
    l1: float = 1.0
    """Length of the upper rod (m)."""
    l2: float = 1.0
    """Length of the lower rod (m)."""
    g: float = 9.81
    """Gravity (m/s²), along −y."""

    coordinates = ("upper", "lower")
    inputs = ("pivot torque", "elbow torque")

    def points(self, q):
        """Positions of the upper and the lower mass (m)."""
        upper = self.l1 * jnp.array([jnp.sin(q[0]), -jnp.cos(q[0])])
        return upper, upper + self.l2 * jnp.array([jnp.sin(q[1]), -jnp.cos(q[1])])

    def kinetic_energy(self, q, v, t):
        _, (upper, lower) = jax.jvp(self.points, (q,), (v,))
        return 0.5 * (self.m1 * upper @ upper + self.m2 * lower @ lower)

    def potential_energy(self, q, t):
        upper, lower = self.points(q)
        return self.g * (self.m1 * upper[1] + self.m2 * lower[1])

    def input_matrix(self, q, t):
        # The elbow motor acts between the rods, so its reaction acts on the upper rod.
        return jnp.array([[1.0, -1.0], [0.0, 1.0]])

    def drawing(self, q, t):
        upper, lower = self.points(q)
        return {
            "ground": jnp.array([[-0.3, 0.0], [0.3, 0.0]]) * self.l1,
            "upper rod": jnp.stack([jnp.zeros(2), upper]),
            "lower rod": jnp.stack([upper, lower]),
            "upper mass": upper[None],
            "lower mass": lower[None],
        }


def double_pendulum(
    m1: Positive = 1.0, m2: Positive = 1.0, l1: Positive = 1.0, l2: Positive = 1.0, g: float = 9.81
) -> Example:
    """Released at rest with both rods horizontal, on the same side."""
    return Example(
        system=DoublePendulum(m1=m1, m2=m2, l1=l1, l2=l2, g=g),
        title="Double pendulum: chaotic motion, sensitive to integration errors",
        source="Textbook",
        q=np.array([np.pi / 2, np.pi / 2]),
        v=np.zeros(2),
        t_end=10.0,
    )
