"""Loops that several test files share; functions at the top, so that they are compiled once."""

import jax.numpy as jnp

import bricard as br
from bricard.control import Blended

HANGING = [0.0, 0.0]


def tip(q):
    return q[:1] + 0.9 * jnp.sin(q[1:])


def cart_and_tip(kappa, kp, kd, **parameters):
    """The sliding pendulum's blended servo-constraint, about rest."""
    system = br.gallery.load("sliding-pendulum", **parameters).system
    return system, Blended(system, tip, "cart", [0.0], kp, kd, kappa)


def platform(q):
    return jnp.array([q[1] - 0.5 * (q[3] + q[5]), 0.5 * (q[2] + q[4]), 0.5 * (q[3] + q[5]), q[3] - q[5]])


def platform_by_connector(q):
    return platform(q).at[1].set(q[0])


def acroboter(kappa, kp, kd):
    """The Acroboter's, at its place of rest."""
    example = br.gallery.load("acroboter")
    law = Blended(example.system, platform, platform_by_connector, [0.5, 0.0, -1.5, 0.0], kp, kd, kappa)
    return example, law


class Cart(br.System):
    """A mass with a force on it."""

    coordinates = ("x",)
    m: float = 2.0

    def kinetic_energy(self, q, v, t):
        return 0.5 * self.m * v @ v

    def input_matrix(self, q, t):
        return jnp.ones((1, 1))


class PD(br.control.Controller):
    """`u = −kp q₀ − kd v₀ + integral`: a law with memory, its gain on the integral `ki`."""

    kp: float = 1.0
    kd: float = 1.0
    ki: float = 0.0

    def start(self, t, q, v):
        return {"integral": jnp.zeros(1)}

    def __call__(self, t, q, v, memory):
        return -self.kp * q[:1] - self.kd * v[:1] + memory["integral"]

    def rate(self, t, q, v, memory):
        return {"integral": -self.ki * q[:1]}
