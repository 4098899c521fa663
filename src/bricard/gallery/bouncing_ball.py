"""Bouncing ball: infinitely many impacts in a finite time."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

from bricard.contact import Contact
from bricard.gallery.example import Example
from bricard.gallery.ranges import Fraction, Positive
from bricard.system import System


class Ball(System):
    """A point mass above a floor."""

    m: float = 1.0
    """Mass (kg)."""
    g: float = 9.81
    """Gravity (m/s²)."""

    coordinates = ("height",)

    def mass_matrix(self, q, t):
        return self.m * jnp.eye(1)

    def potential_energy(self, q, t):
        return self.m * self.g * q[0]

    def drawing(self, q, t):
        return {"floor": jnp.array([[-1.0, 0.0], [1.0, 0.0]]), "ball": jnp.stack([jnp.zeros(()), q[0]])[None]}


def floor_gap(q, t):
    """Height above the floor (m)."""
    return q[0]


def bouncing_ball(m: Positive = 1.0, g: float = 9.81, restitution: Fraction = 0.8, height: Positive = 1.0) -> Example:
    """Dropped from `height` (m); comes to rest after `(1+e)/(1−e)` times the duration of the first fall.

    `e` is the coefficient of `restitution`.
    """
    return Example(
        system=Ball(m=m, g=g),
        title="Bouncing ball: infinitely many impacts in finite time, then rest",
        source="Textbook",
        q=np.array([height]),
        v=np.zeros(1),
        t_end=5.0,
        settings={"contacts": [Contact(floor_gap, restitution=restitution, name="floor")]},
    )
