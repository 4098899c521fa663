"""Particle on a circle (Aghili, projection matrix formulation, section 5.4): decomposition of an applied force."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

from bricard.gallery.drawings import circle
from bricard.gallery.example import Example
from bricard.gallery.ranges import Positive
from bricard.system import System


class ParticleOnCircle(System):
    """A point mass on a circular wire with an applied force in its plane: the smallest constrained system.

    The tangential component of the force accelerates the particle, the wire carries the normal component. The source
    prints `m q̈ = f∥` for the motion, without the centripetal part `−m‖q̇‖²/ρ` of `m q̈` normal to the wire.
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
    """A constant force acts along −y; the particle starts fast enough for full revolutions."""
    angle, rate = 0.7, -4.0
    return Example(
        system=ParticleOnCircle(m=m, rho=rho),
        title="Particle on a circle: the tangential force moves it, the normal force loads the wire",
        source="F. Aghili, Control and simulation of motion of constrained multibody systems based on projection "
        "matrix formulation, section 5.4",
        q=rho * np.array([np.cos(angle), np.sin(angle)]),
        v=rho * rate * np.array([-np.sin(angle), np.cos(angle)]),
        t_end=5.0,
        settings={"u": np.array([0.0, -3.0 * m * rho])},
    )
