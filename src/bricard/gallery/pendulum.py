"""The pendulum in three choices of coordinates: its angle, the position of its mass, or position and angle.

With equal parameters, all three describe the same motion. More coordinates need more constraints and give more
constraint forces: the angle alone gives none, `x, y` the force in the rod, and `x, y, angle` both components of the
pivot force.
"""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

from bricard.gallery.example import Example
from bricard.gallery.ranges import NonNegative, Positive
from bricard.system import System


class Pendulum(System):
    """Pendulum about the origin; `angle` is measured counterclockwise from the downward vertical."""

    m: float = 1.0
    """Mass (kg)."""
    l: float = 1.0
    """Distance of the centre of mass from the pivot (m)."""
    g: float = 9.81
    """Gravity (m/s²), along −y."""
    J: float = 0.0
    """Moment of inertia about the centre of mass (kg m²): 0 for a point mass, `m l²/3` for a rod of length `2 l`."""

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
    """Point mass on a massless rod about the origin, described by the position of the mass.

    The multiplier is the force of the rod on the mass (N), positive outwards, so tension is negative.
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
        # Scaled to metres: the Jacobian (x, y)/l has unit norm on the circle, and no square root is needed.
        return jnp.array([(q @ q - self.l**2) / (2.0 * self.l)])

    def drawing(self, q, t):
        return _drawing(self.l, q)


class PendulumXYT(System):
    """Rigid pendulum about the origin, described by the position of its centre and its angle, with a pivot torque.

    The multipliers are the force of the pivot on the pendulum (N). Several formulas for them in the source contain
    errors (constraint on y, signs of the centrifugal terms, one entry of its matrix K); the model here is re-derived.
    """

    m: float = 1.0
    """Mass (kg)."""
    l: float = 1.0
    """Distance of the centre of mass from the pivot (m)."""
    g: float = 9.81
    """Gravity (m/s²), along −y."""
    J: float = 1.0 / 3.0
    """Moment of inertia about the centre of mass (kg m²); a uniform rod of length `2 l` has `m l²/3`."""

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
    """Released at rest at 1 rad."""
    return Example(
        system=Pendulum(m=m, l=l, g=g, J=J),
        title="Pendulum described by its angle: no constraints",
        source="Textbook",
        q=np.array([1.0]),
        v=np.zeros(1),
        t_end=10.0,
    )


def pendulum_xy(m: Positive = 1.0, l: Positive = 1.0, g: float = 9.81) -> Example:
    """Released at rest at the height of the pivot."""
    return Example(
        system=PendulumXY(m=m, l=l, g=g),
        title="Pendulum described by the position of its mass: one constraint gives the rod force",
        source="IFToMM library of computational benchmark problems, A01",
        q=np.array([-l, 0.0]),
        v=np.zeros(2),
        t_end=10.0,
    )


def pendulum_xyt(m: Positive = 1.0, l: Positive = 1.0, g: float = 9.81, J: NonNegative | None = None) -> Example:
    """Released at rest at 1 rad; without `J` it is a uniform rod."""
    return Example(
        system=PendulumXYT(m=m, l=l, g=g, J=m * l**2 / 3 if J is None else J),
        title="Pendulum described by position and angle: two constraints give the pivot force",
        source="N. D. Perreira and J. Lo, Dynamic system modelling techniques applicable to force-controlled Stewart "
        "platform systems, ATLSS report 93-13",
        q=np.array([l * np.sin(1.0), -l * np.cos(1.0), 1.0]),
        v=np.zeros(3),
        t_end=10.0,
    )
