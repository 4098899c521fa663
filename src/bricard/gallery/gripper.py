"""Gripper: one slider closes two fingers, which parallelogram linkages keep upright."""

from __future__ import annotations

import numpy as np

from bricard.gallery.example import Example
from bricard.gallery.moving import Coordinates, mechanism_example
from bricard.mechanism import Mechanism, box, rod


def gripper(coordinates: Coordinates = "relative") -> Example:
    """A parallelogram guides each finger; links from a common slider turn the parallelograms in opposite directions."""
    m = Mechanism(gravity=(0, -9.81), planar=True, name="gripper")
    m.body("slide", box((0, 0.02, 0), (0.03, 0.02, 0.02), 0.1))
    m.prismatic("guide", m.ground, "slide", (0, 1), at=(0, 0), at_child=(0, 0.02))
    m.motor("push", "guide", limits=(-50.0, 50.0))
    for sign, side in ((1.0, "right"), (-1.0, "left")):
        inner, outer = np.array([0.03 * sign, 0.06]), np.array([0.055 * sign, 0.05])
        arm = 0.06 * np.array([sign * np.sin(0.5), np.cos(0.5)])
        pin = np.array([0.015 * sign, 0.02])
        lug = inner + 0.03 * np.array([sign * np.sin(1.5), np.cos(1.5)])
        m.body(f"{side} crank", rod(inner, inner + arm, 0.03))
        m.body(f"{side} follower", rod(outer, outer + arm, 0.03))
        finger = box((*((inner + outer) / 2 + arm + [0, 0.03]), 0.0), (0.03, 0.06, 0.01), 0.05)
        m.body(f"{side} finger", finger)
        m.body(f"{side} link", rod(pin, lug, 0.01))
        m.revolute(f"{side} inner", m.ground, f"{side} crank", inner)
        m.revolute(f"{side} outer", m.ground, f"{side} follower", outer)
        m.revolute(f"{side} finger inner", f"{side} crank", f"{side} finger", inner + arm)
        m.revolute(f"{side} finger outer", f"{side} follower", f"{side} finger", outer + arm)
        m.revolute(f"{side} pin", "slide", f"{side} link", pin)
        m.revolute(f"{side} lug", f"{side} link", f"{side} crank", lug)
        m.orientation_sensor(f"{side} finger", f"{side} finger")
    m.joint_spring("return", "guide", stiffness=200.0, damping=2.0, rest=0.02)
    return mechanism_example(
        m,
        coordinates,
        title="Gripper: one input, two fingers, four loops",
        source="common form of a parallel-jaw gripper",
        t_end=1.0,
        settings={"u": [5.0]},
    )
