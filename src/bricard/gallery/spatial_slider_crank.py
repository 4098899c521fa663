"""Spatial slider-crank: revolute, spherical, universal and prismatic joint in one loop."""

from __future__ import annotations

import numpy as np

from bricard.gallery.example import Example
from bricard.gallery.moving import Coordinates, mechanism_example
from bricard.mechanism import Mechanism, rigid, rod
from bricard.mechanism.description.solids import Shape


def spatial_slider_crank_mechanism() -> Mechanism:
    """A crank of 0.08 m about the x axis, a rod of 0.3 m and a slider along the x axis."""
    m = Mechanism(gravity=(0, 0, -9.81), name="spatial slider-crank")
    pivot, pin, slide = np.array([0, 0.1, 0.12]), np.array([0, 0.1, 0.2]), np.array([0.2, 0, 0])
    e = (slide - pin) / 0.3
    inertia = 4e-4 * np.outer(e, e) + 4e-3 * (np.eye(3) - np.outer(e, e))
    m.body("crank", Shape(0.12, (pivot + pin) / 2, 1e-4 * np.eye(3), rod(pivot, pin, 1.0).outline))
    m.body("rod", Shape(0.5, (pin + slide) / 2, inertia, rod(pin, slide, 1.0).outline))
    m.body("slider", rigid(2.0, slide.tolist(), 1e-3))
    m.revolute("A", m.ground, "crank", pivot, axis=(1, 0, 0))
    m.spherical("B", "crank", "rod", pin)
    m.universal("C", "slider", "rod", slide, (1, 0, 0), np.cross((1, 0, 0), e))
    m.prismatic("D", m.ground, "slider", (1, 0, 0), at=(0, 0, 0), at_child=slide)
    return m


def spatial_slider_crank(coordinates: Coordinates = "relative") -> Example:
    """Starts with an upright crank that turns at 6 rad/s."""
    return mechanism_example(
        spatial_slider_crank_mechanism(),
        coordinates,
        title="Spatial slider-crank: a closed loop with four types of joints",
        source="E. J. Haug, Computer Aided Kinematics and Dynamics of Mechanical Systems (1989), 12.2",
        t_end=5.0,
        rates={"A": 6.0},
    )
