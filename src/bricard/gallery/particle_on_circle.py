"""Particle on a circle (Aghili, projection matrix formulation, section 5.4): which part of a force moves it."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

from bricard.gallery.example import Example
from bricard.gallery.ranges import Positive
from bricard.gallery.shapes import circle
from bricard.system import System


class ParticleOnCircle(System):
    """A point mass on a circular wire, pushed by a force in its plane: the smallest constrained system.

    The part of the force along the wire moves the particle, the part across it is carried by the wire. The source
    prints `m q̈ = f∥` for the motion; the centripetal part `−m‖q̇‖²/ρ` of `m q̈`, across the wire, is missing there.
    """

    m: float = 1.0
    """Mass (kg)."""
    rho: float = 1.0
    """Radius of the circle (m), whose centre is the origin."""

    coordinates = ("x", "y")
    constraint_names = ("on the circle",)
    inputs = ("force x", "force y")

    def kinetic_energy(self, q, v, t):
        return 0.5 * self.m * v @ v

    def constraints(self, q, t):
        return jnp.array([jnp.sqrt(q @ q) - self.rho])

    def input_matrix(self, q, t):
        return jnp.eye(2)

    def drawing(self, q, t):
        return {"circle": jnp.stack(circle(self.rho), axis=1), "particle": q[None]}


def particle_on_circle(m: Positive = 1.0, rho: Positive = 1.0) -> Example:
    """Pushed along −y by a constant force, fast enough to go round and round."""
    angle, rate = 0.7, -4.0
    return Example(
        system=ParticleOnCircle(m=m, rho=rho),
        title="Particle on a circle: one part of a force moves it, the other only loads the circle",
        source="F. Aghili, Control and simulation of motion of constrained multibody systems based on projection "
        "matrix formulation, section 5.4",
        q=rho * np.array([np.cos(angle), np.sin(angle)]),
        v=rho * rate * np.array([-np.sin(angle), np.cos(angle)]),
        t_end=5.0,
        settings={"u": np.array([0.0, -3.0 * m * rho])},
    )
