"""Slider-crank with equal links, which coincide twice per turn: a singular position in which many simulators fail."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from bricard.gallery.example import Example
from bricard.gallery.ranges import Positive
from bricard.system import System

SOURCE = (
    "F. Aghili, Control and simulation of motion of constrained multibody systems based on projection matrix "
    "formulation, section 8"
)


class SliderCrank(System):
    """Two massless links of equal length with point masses at their ends; the outer end slides along the x axis.

    `crank` is the angle of the first link from the x axis, `rod` that of the second link from the first (rad). At
    `crank = ±π/2` the links coincide, the constraint Jacobian vanishes, and a second branch of motion begins in which
    the folded links rotate together.
    """

    m: float = 1.0
    """Mass at the crank pin and at the slider (kg)."""
    l: float = 1.0
    """Length of both links (m)."""
    g: float = 9.81
    """Gravity (m/s²), along −y."""

    coordinates = ("crank", "rod")
    constraint_names = ("slider on its guide",)
    inputs = ("crank torque",)

    def points(self, q):
        """Positions of the crank pin and the slider (m)."""
        crank, rod = q[0], q[0] + q[1]
        pin = self.l * jnp.array([jnp.cos(crank), jnp.sin(crank)])
        return pin, pin + self.l * jnp.array([jnp.cos(rod), jnp.sin(rod)])

    def kinetic_energy(self, q, v, t):
        _, (pin, slider) = jax.jvp(self.points, (q,), (v,))
        return 0.5 * self.m * (pin @ pin + slider @ slider)

    def potential_energy(self, q, t):
        pin, slider = self.points(q)
        return self.m * self.g * (pin[1] + slider[1])

    def constraints(self, q, t):
        return self.points(q)[1][1:]

    def input_matrix(self, q, t):
        return jnp.array([[1.0], [0.0]])

    def drawing(self, q, t):
        pin, slider = self.points(q)
        return {
            "guide": jnp.array([[-2.2, 0.0], [2.2, 0.0]]) * self.l,
            "crank": jnp.stack([jnp.zeros(2), pin]),
            "rod": jnp.stack([pin, slider]),
            "slider": slider[None],
        }


def slider_crank(m: Positive = 1.0, l: Positive = 1.0, g: float = 9.81) -> Example:
    """Starts fast enough to pass eight singular positions in ten seconds."""
    return Example(
        system=SliderCrank(m=m, l=l, g=g),
        title="Slider-crank with equal links: passes a singular position twice per turn",
        source=SOURCE,
        q=np.array([0.3, -0.6]),
        v=np.array([4.0, -8.0]),
        t_end=10.0,
    )
