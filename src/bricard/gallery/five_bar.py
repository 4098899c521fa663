"""Planar five-bar: two motors on the ground position a point in the plane."""

from __future__ import annotations

import numpy as np

from bricard.gallery.example import Example
from bricard.gallery.four_bar import meet
from bricard.gallery.moving import Coordinates, mechanism_example
from bricard.mechanism import Mechanism, rod


def five_bar(coordinates: Coordinates = "relative") -> Example:
    """Arms of 0.2 m, forearms of 0.3 m, bases 0.2 m apart; released at rest under gravity."""
    m = Mechanism(gravity=(0, -9.81), planar=True, name="five-bar")
    left, right = np.array([-0.1, 0.0]), np.array([0.1, 0.0])
    elbow_left = left + 0.2 * np.array([np.cos(2.4), np.sin(2.4)])
    elbow_right = right + 0.2 * np.array([np.cos(0.9), np.sin(0.9)])
    tip = meet(elbow_left, 0.3, elbow_right, 0.3)
    m.body("left arm", rod(left, elbow_left, 0.4))
    m.body("right arm", rod(right, elbow_right, 0.4))
    m.body("left forearm", rod(elbow_left, tip, 0.3))
    m.body("right forearm", rod(elbow_right, tip, 0.3))
    m.revolute("left base", m.ground, "left arm", left)
    m.revolute("right base", m.ground, "right arm", right)
    m.revolute("left elbow", "left arm", "left forearm", elbow_left)
    m.revolute("right elbow", "right arm", "right forearm", elbow_right)
    m.revolute("tip", "left forearm", "right forearm", tip)
    m.motor("left torque", "left base", limits=(-3.0, 3.0))
    m.motor("right torque", "right base", limits=(-3.0, 3.0))
    m.point_sensor("tip", "left forearm", tip)
    return mechanism_example(
        m,
        coordinates,
        title="Five-bar: a parallel robot with two degrees of freedom",
        source="common teaching example of a parallel robot",
        t_end=1.0,
    )
