"""The pendulum in three kinds of coordinates: its angle, the position of its mass, and position and angle together.

With equal parameters all three move alike. More coordinates cost more constraints and give more forces: the angle
alone gives none, `x, y` the force in the rod, `x, y, angle` both components of the force in the pivot.
"""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

from bricard.gallery.example import Example
from bricard.gallery.ranges import NonNegative, Positive
from bricard.system import System


class Pendulum(System):
    """Pendulum about the origin; `angle` counts from the downward vertical, counterclockwise."""

    m: float = 1.0
    """Mass (kg)."""
    l: float = 1.0
    """Distance of the centre of mass from the pivot (m)."""
    g: float = 9.81
    """Gravity (m/s²), along −y."""
    J: float = 0.0
    """Inertia about the centre of mass (kg m²): zero for a point mass, `m l²/3` for a uniform rod of length `2 l`."""

    coordinates = ("angle",)
    inputs = ("pivot torque",)

    def kinetic_energy(self, q, v, t):
        return 0.5 * (self.m * self.l**2 + self.J) * v[0] ** 2

    def potential_energy(self, q, t):
        return -self.m * self.g * self.l * jnp.cos(q[0])

    def input_matrix(self, q, t):
        return jnp.ones((1, 1))

    def drawing(self, q, t):
        return _drawing(self.l, self.l * jnp.array([jnp.sin(q[0]), -jnp.cos(q[0])]))


class PendulumXY(System):
    """Point mass on a massless rod about the origin, by the position of the mass.

    The multiplier is the force of the rod on the mass (N), positive outwards: tension is negative.
    """

    m: float = 1.0
    """Mass (kg)."""
    l: float = 1.0
    """Length of the rod (m)."""
    g: float = 9.81
    """Gravity (m/s²), along −y."""

    coordinates = ("x", "y")
    constraint_names = ("rod",)

    def kinetic_energy(self, q, v, t):
        return 0.5 * self.m * v @ v

    def potential_energy(self, q, t):
        return self.m * self.g * q[1]

    def constraints(self, q, t):
        # In metres near the circle, with a row (x, y)/l of length one; its slope is linear, so Newton goes straight.
        return jnp.array([(q @ q - self.l**2) / (2.0 * self.l)])

    def drawing(self, q, t):
        return _drawing(self.l, q)


class PendulumXYT(System):
    """Rigid pendulum about the origin, by position and angle of its centre; driven by a torque at the pivot.

    The multipliers are the force of the pivot on the pendulum (N). Several formulas for them in the source have slips
    (constraint on y, signs of the centrifugal terms, one entry of its matrix K); the numbers here are re-derived.
    """

    m: float = 1.0
    """Mass (kg)."""
    l: float = 1.0
    """Distance of the centre of mass from the pivot (m)."""
    g: float = 9.81
    """Gravity (m/s²), along −y."""
    J: float = 1.0 / 3.0
    """Inertia about the centre of mass (kg m²); a uniform rod of length `2 l` has `m l²/3`."""

    coordinates = ("x", "y", "angle")
    constraint_names = ("pivot x", "pivot y")
    inputs = ("pivot torque",)

    def kinetic_energy(self, q, v, t):
        return 0.5 * self.m * (v[0] ** 2 + v[1] ** 2) + 0.5 * self.J * v[2] ** 2

    def potential_energy(self, q, t):
        return self.m * self.g * q[1]

    def constraints(self, q, t):
        return jnp.array([q[0] - self.l * jnp.sin(q[2]), q[1] + self.l * jnp.cos(q[2])])

    def input_matrix(self, q, t):
        return jnp.array([[0.0], [0.0], [1.0]])

    def drawing(self, q, t):
        return _drawing(self.l, q[:2])


def _drawing(l, mass):
    return {
        "ground": jnp.array([[-0.3, 0.0], [0.3, 0.0]]) * l,
        "rod": jnp.stack([jnp.zeros(2), mass]),
        "mass": mass[None],
    }


def pendulum(m: Positive = 1.0, l: Positive = 1.0, g: float = 9.81, J: NonNegative = 0.0) -> Example:
    """Let go from rest at 1 rad."""
    return Example(
        system=Pendulum(m=m, l=l, g=g, J=J),
        title="Pendulum by its angle: no constraints",
        source="Textbook",
        q=np.array([1.0]),
        v=np.zeros(1),
        t_end=10.0,
    )


def pendulum_xy(m: Positive = 1.0, l: Positive = 1.0, g: float = 9.81) -> Example:
    """Let go from rest, level with the pivot."""
    return Example(
        system=PendulumXY(m=m, l=l, g=g),
        title="Pendulum by the position of its mass: one constraint, the force in the rod",
        source="IFToMM library of computational benchmark problems, A01",
        q=np.array([-l, 0.0]),
        v=np.zeros(2),
        t_end=10.0,
    )


def pendulum_xyt(m: Positive = 1.0, l: Positive = 1.0, g: float = 9.81, J: NonNegative | None = None) -> Example:
    """Let go from rest at 1 rad; without `J` it is a uniform rod."""
    return Example(
        system=PendulumXYT(m=m, l=l, g=g, J=m * l**2 / 3 if J is None else J),
        title="Pendulum by position and angle: two constraints, the force in the pivot",
        source="N. D. Perreira and J. Lo, Dynamic system modelling techniques applicable to force-controlled Stewart "
        "platform systems, ATLSS report 93-13",
        q=np.array([l * np.sin(1.0), -l * np.cos(1.0), 1.0]),
        v=np.zeros(3),
        t_end=10.0,
    )
