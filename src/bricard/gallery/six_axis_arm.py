"""Six-axis arm: an open chain of revolute joints, each with a motor."""

from __future__ import annotations

from bricard.gallery.example import Example
from bricard.gallery.moving import Coordinates, mechanism_example
from bricard.mechanism import Mechanism, box, cylinder, rod

FRICTION = (5.0, 10.0, 3.0, 0.05, 0.05, 0.01)
"""Viscous friction coefficient of the gear in each joint (N m s/rad)."""


def six_axis_arm(coordinates: Coordinates = "relative") -> Example:
    """Waist, shoulder, elbow and a wrist with three axes; starts with the arm stretched out, moving in all joints.

    Without motor torques, the arm sinks slowly against the viscous friction of its gears (`FRICTION`).
    """
    m = Mechanism(gravity=(0, 0, -9.81), name="six-axis arm")
    links = {
        "waist": (cylinder((0, 0, 0), (0, 0, 0.4), 0.08, 10.0), (0, 0, 0), (0, 0, 1)),
        "upper arm": (rod((0, 0, 0.4), (0.4, 0, 0.4), 6.0, width=0.08), (0, 0, 0.4), (0, 1, 0)),
        "forearm": (rod((0.4, 0, 0.4), (0.6, 0, 0.4), 3.0, width=0.06), (0.4, 0, 0.4), (0, 1, 0)),
        "wrist roll": (cylinder((0.6, 0, 0.4), (0.7, 0, 0.4), 0.03, 1.0), (0.6, 0, 0.4), (1, 0, 0)),
        "wrist pitch": (cylinder((0.7, 0, 0.4), (0.76, 0, 0.4), 0.03, 0.6), (0.7, 0, 0.4), (0, 1, 0)),
        "hand": (box((0.8, 0, 0.4), (0.06, 0.1, 0.02), 0.3), (0.76, 0, 0.4), (1, 0, 0)),
    }
    parent = m.ground
    for i, (name, (shape, at, axis)) in enumerate(links.items()):
        body = m.body(name, shape)
        m.revolute(f"J{i + 1}", parent, body, at, axis, limits=(-2.8, 2.8))
        m.motor(f"motor {i + 1}", f"J{i + 1}", limits=(-100.0, 100.0))
        m.joint_spring(f"gear {i + 1}", f"J{i + 1}", stiffness=0.0, damping=FRICTION[i])
        parent = body
    m.point_sensor("tool", "hand", (0.83, 0, 0.4))
    return mechanism_example(
        m,
        coordinates,
        title="Six-axis arm: an open chain with a motor in every joint",
        source="proportions of a common industrial arm",
        t_end=1.0,
        rates={f"J{i + 1}": r for i, r in enumerate((0.5, -0.4, 0.8, 1.0, -1.5, 2.0))},
    )
