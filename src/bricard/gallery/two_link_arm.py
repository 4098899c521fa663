"""Two-link arm in a horizontal plane with weak motors (Bencsik, section 6.2): its tip is to go round a circle."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from bricard.gallery.example import Example
from bricard.gallery.prr import rod_energy
from bricard.system import System


class TwoLinkArm(System):
    """Two uniform rods, hinged to the ground and to each other; `elbow` counts from the first rod."""

    l1: float = 0.4
    """Length of the first rod (m)."""
    l2: float = 0.4
    """Length of the second rod (m)."""
    m1: float = 0.2
    """Mass of the first rod (kg)."""
    m2: float = 0.2
    """Mass of the second rod (kg)."""

    coordinates = ("shoulder", "elbow")
    inputs = ("shoulder torque", "elbow torque")

    def points(self, q):
        """Elbow and tip (m)."""
        elbow = self.l1 * jnp.array([jnp.cos(q[0]), jnp.sin(q[0])])
        return elbow, elbow + self.l2 * jnp.array([jnp.cos(q[0] + q[1]), jnp.sin(q[0] + q[1])])

    def tip(self, q):
        """Free end (m)."""
        return self.points(q)[1]

    def kinetic_energy(self, q, v, t):
        _, (elbow, tip) = jax.jvp(self.points, (q,), (v,))
        return rod_energy(self.m1, jnp.zeros(2), elbow) + rod_energy(self.m2, elbow, tip)

    def input_matrix(self, q, t):
        return jnp.eye(2)

    def drawing(self, q, t):
        elbow, tip = self.points(q)
        return {
            "hinge": jnp.zeros((1, 2)),
            "first rod": jnp.stack([jnp.zeros(2), elbow]),
            "second rod": jnp.stack([elbow, tip]),
            "tip": tip[None],
        }


def two_link_arm(l1: float = 0.4, l2: float = 0.4, m1: float = 0.2, m2: float = 0.2) -> Example:
    """The arm is folded by a kick at the elbow and turns on without friction or weight."""
    return Example(
        system=TwoLinkArm(l1=l1, l2=l2, m1=m1, m2=m2),
        title="Two-link arm in a horizontal plane",
        source="L. Bencsik, Dynamic analysis and tracking control of underactuated multibody systems, PhD thesis, "
        "Budapest 2017, section 6.2",
        q=np.array([0.4, 1.1]),
        v=np.array([0.7, -0.5]),
        t_end=10.0,
    )
