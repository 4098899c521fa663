"""Planar four-bar: crank, coupler and rocker, with a motor at the crank."""

from __future__ import annotations

import numpy as np

from bricard.contact import joint_limits
from bricard.gallery.example import Example
from bricard.gallery.moving import Coordinates, mechanism_example
from bricard.gallery.ranges import Fraction
from bricard.mechanism import Mechanism, rod


def four_bar_mechanism(
    crank: float = 0.1,
    coupler: float = 0.3,
    rocker: float = 0.25,
    base: float = 0.3,
    angle: float = 1.0,
    rocker_limits: tuple[float, float] | None = None,
) -> Mechanism:
    """Four-bar with the given link lengths (m), made of uniform rods of 1 kg/m.

    `angle` (rad) is the crank angle in the reference configuration. `rocker_limits` (rad) bounds the rotation of the
    rocker from there.
    """
    m = Mechanism(gravity=(0, -9.81), planar=True, name="four-bar")
    a, d = np.zeros(2), np.array([base, 0.0])
    b = crank * np.array([np.cos(angle), np.sin(angle)])
    c = meet(b, coupler, d, rocker)
    for name, start, end in (("crank", a, b), ("coupler", b, c), ("rocker", d, c)):
        m.body(name, rod(start, end, float(np.linalg.norm(end - start))))
    m.revolute("A", m.ground, "crank", a)
    m.revolute("B", "crank", "coupler", b)
    m.revolute("C", "coupler", "rocker", c)
    m.revolute("D", m.ground, "rocker", d, limits=rocker_limits)
    m.motor("crank torque", "A", limits=(-5.0, 5.0))
    m.point_sensor("coupler point", "coupler", (b + c) / 2)
    return m


def four_bar_stop(torque: float = 0.5, restitution: Fraction = 0.3, stop: float = 0.5) -> Example:
    """A constant crank `torque` (N m) drives the rocker against a joint limit at `stop` (rad) and holds it there."""
    m = four_bar_mechanism(rocker_limits=(-np.inf, stop))
    system = m.system("relative")
    return mechanism_example(
        m,
        "relative",
        title="Four-bar against a stop: a closed loop with a joint limit",
        source="common in clamps and presses",
        t_end=1.0,
        settings={"u": [torque], "contacts": joint_limits(system, restitution)},
    )


def meet(p: np.ndarray, r: float, q: np.ndarray, s: float) -> np.ndarray:
    """Intersection of the circles about `p` (radius `r`) and `q` (radius `s`), on the left of the vector `q − p`."""
    offset = q - p
    d = float(np.linalg.norm(offset))
    along = (d**2 + r**2 - s**2) / (2 * d)
    across = np.sqrt(r**2 - along**2)
    e = offset / d
    return p + along * e + across * np.array([-e[1], e[0]])


def four_bar(coordinates: Coordinates = "relative") -> Example:
    """A crank-rocker that starts with a crank speed of 10 rad/s."""
    return mechanism_example(
        four_bar_mechanism(),
        coordinates,
        title="Four-bar: the simplest closed loop",
        source="Textbook; Grashof's condition holds, so the crank can make full turns",
        t_end=2.0,
        rates={"A": 10.0},
    )
