"""Two masses in a row (Bencsik, underactuated multibody systems), joined by a spring (2.8) or by a rigid rod (3.10).

With the spring it is the smallest underactuated system: a force acts on one mass, and the other is to be positioned.
The relative degree is 2 for the position of the first mass (collocated) and 4 for that of the second (flat output).
With the rod it is the smallest system in dependent coordinates; its linearisation has two spurious eigenvalues. Table
3.1 of the source lists them for detection parameters of 10, not of 1 as its text says.
"""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

from bricard.gallery.drawings import box, spring
from bricard.gallery.example import Example
from bricard.gallery.ranges import NonNegative, Positive
from bricard.system import System

_SOURCE = (
    "L. Bencsik, Dynamic analysis and tracking control of underactuated multibody systems, PhD thesis, Budapest 2017"
)


class TwoMass(System):
    """Two masses on a horizontal floor with a spring between them and a force on the first.

    The coordinates are displacements from the equilibrium (m).
    """

    m1: float = 1.0
    """Mass of the driven block (kg)."""
    m2: float = 1.0
    """Mass of the other block (kg)."""
    k: float = 1.0
    """Stiffness of the spring (N/m)."""

    coordinates = ("x1", "x2")
    inputs = ("force on 1",)

    def kinetic_energy(self, q, v, t):
        return 0.5 * (self.m1 * v[0] ** 2 + self.m2 * v[1] ** 2)

    def potential_energy(self, q, t):
        return 0.5 * self.k * (q[0] - q[1]) ** 2

    def input_matrix(self, q, t):
        return jnp.array([[1.0], [0.0]])

    def drawing(self, q, t):
        height = 0.2
        first, second = jnp.array([q[0], height]), jnp.array([q[1] + 2.0, height])
        half = jnp.array([0.2, 0.0])
        return {
            "floor": jnp.array([[-2.0, 0.0], [4.0, 0.0]]),
            "mass 1": box(first, 0.4, 0.4),
            "mass 2": box(second, 0.4, 0.4),
            "spring": spring(first + half, second - half, 0.15),
        }


class TwoMassJoined(System):
    """Two masses on a horizontal floor joined by a rigid rod; a spring and a damper connect the first to a wall.

    The multiplier is the force of the rod on the first mass (N), positive along +x. With `k = b = 0` and a sampled PD
    controller this is also system (3.18) of the source.
    """

    m1: float = 1.0
    """Mass of the first block (kg)."""
    m2: float = 1.0
    """Mass of the second block (kg)."""
    k: float = 1.0
    """Stiffness of the spring at the first block (N/m), which is relaxed at `x1 = 0`."""
    b: float = 1.0
    """Damping coefficient at the first block (N s/m)."""
    d0: float = -1.5
    """`x1 − x2` as fixed by the rod (m); negative if the second block is on the right."""

    coordinates = ("x1", "x2")
    constraint_names = ("rod",)
    inputs = ("force on 1",)

    def kinetic_energy(self, q, v, t):
        return 0.5 * (self.m1 * v[0] ** 2 + self.m2 * v[1] ** 2)

    def potential_energy(self, q, t):
        return 0.5 * self.k * q[0] ** 2

    def applied_force(self, q, v, t):
        return jnp.stack([-self.b * v[0], jnp.zeros_like(v[0])])

    def constraints(self, q, t):
        return jnp.array([q[0] - q[1] - self.d0])

    def input_matrix(self, q, t):
        return jnp.array([[1.0], [0.0]])

    def drawing(self, q, t):
        height = 0.2
        first, second = jnp.array([q[0], height]), jnp.array([q[1], height])
        half, wall = jnp.array([0.2, 0.0]), jnp.array([-2.0, height])
        return {
            "floor": jnp.array([[-2.0, 0.0], [3.5, 0.0]]),
            "wall": jnp.array([[-2.0, 0.0], [-2.0, 0.6]]),
            "spring": spring(wall, first - half, 0.15),
            "mass 1": box(first, 0.4, 0.4),
            "rod": jnp.stack([first + half, second - half]),
            "mass 2": box(second, 0.4, 0.4),
        }


def two_mass(m1: Positive = 1.0, m2: Positive = 1.0, k: NonNegative = 1.0) -> Example:
    """Released at rest with a stretched spring; the masses oscillate against each other."""
    return Example(
        system=TwoMass(m1=m1, m2=m2, k=k),
        title="Two masses joined by a spring, a force on one of them: underactuated",
        source=f"{_SOURCE}, (2.8)",
        q=np.array([-0.5, 0.5]),
        v=np.zeros(2),
        t_end=20.0,
    )


def two_mass_joined(
    m1: Positive = 1.0, m2: Positive = 1.0, k: NonNegative = 1.0, b: float = 1.0, d0: float = -1.5
) -> Example:
    """Released at rest at 1 m from the equilibrium; both masses perform a damped oscillation."""
    return Example(
        system=TwoMassJoined(m1=m1, m2=m2, k=k, b=b, d0=d0),
        title="Two masses joined by a rod: one constraint, two spurious eigenvalues",
        source=f"{_SOURCE}, (3.10)",
        q=np.array([1.0, 1.0 - d0]),
        v=np.zeros(2),
        t_end=20.0,
    )
