"""Two-link arm in a horizontal plane (Bencsik, section 6.2): its tip follows a circle with saturated motors."""

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
    """Two uniform rods in a horizontal plane; `shoulder` is measured from the x axis, `elbow` from the first rod."""

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
        """Positions of elbow and tip (m)."""
        elbow = self.l1 * jnp.array([jnp.cos(q[0]), jnp.sin(q[0])])
        return elbow, elbow + self.l2 * jnp.array([jnp.cos(q[0] + q[1]), jnp.sin(q[0] + q[1])])

    def tip(self, q):
        """Position of the tip (m)."""
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
    """Starts with both joints moving; there are no motor torques, no friction and no gravity."""
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
    """The tip is to follow a circle once, for which the motors are too weak (torque `limit`, N m).

    `method` selects what happens at saturation: "switching" (`SaturationSwitching` with its arguments `cycle` and
    `renew`) or "clipping" of the torques. `period` is the sampling period (s).

    The source claims that switching is better than clipping, but does not specify its circle. On the circle used here
    it is better: the root-mean-square error over 5.2 s is 16.7 mm, with clipping 17.5 mm. For the circle of radius
    0.4 m about (0, 0.1) m, with four starting points (right, left, top, bottom) and two directions, it is better in
    three of the eight cases.
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
        raise ModelError("two-link-arm-saturated", [f"method must be 'switching' or 'clipping', not {method!r}"])
    return Example(
        system=system,
        title="Two-link arm with saturated motors: outputs controlled in turn",
        source=_SOURCE,
        q=_inverse_kinematics(system, np.asarray(reference(jnp.zeros(())))),
        v=np.zeros(2),
        t_end=5.2,
        settings={"controller": Sampled(digital, period)},
    )


def _inverse_kinematics(system: TwoLinkArm, point: np.ndarray) -> np.ndarray:
    """Joint angles (rad) with the tip at `point` (m) and a positive elbow angle."""
    distance = np.hypot(*point)
    elbow = np.arccos((distance**2 - system.l1**2 - system.l2**2) / (2.0 * system.l1 * system.l2))
    offset = np.arctan2(system.l2 * np.sin(elbow), system.l1 + system.l2 * np.cos(elbow))
    return np.array([np.arctan2(point[1], point[0]) - offset, elbow])
