"""Flyball governor (IFToMM benchmark A05): stiff springs in a rotating mechanism without loops."""

from __future__ import annotations

import numpy as np

from bricard.gallery.example import Example
from bricard.gallery.moving import Coordinates, mechanism_example
from bricard.mechanism import Mechanism, box, compound, point_mass, rod
from bricard.simulation import SSPRK104


def flyball_governor(coordinates: Coordinates = "relative") -> Example:
    """A shaft with two arms and a collar, connected by springs of 8·10⁵ N/m; starts at one revolution per second."""
    m = Mechanism(gravity=(0, 0, -9.81), name="governor")
    m.body("shaft", box((0, 0, 0.5), (0.01, 0.01, 1.0), density=3000.0))
    m.body("collar", box((0, 0, 0.5), (0.1, 0.1, 0.1), density=3000.0))
    m.revolute("spin", m.ground, "shaft", (0, 0, 0), axis=(0, 0, 1))
    m.prismatic("slide", "shaft", "collar", (0, 0, 1), at=(0, 0, 0), at_child=(0, 0, 0.5))
    for side, name in ((1.0, "right"), (-1.0, "left")):
        hinge = np.array([0.05 * side, 0, 1.0])
        along = np.array([side * np.cos(np.pi / 6), 0, -np.sin(np.pi / 6)])
        arm = compound(rod(hinge, hinge + along, 0.3, width=0.01), point_mass(hinge + along, 5.0))
        m.body(f"{name} arm", arm)
        # The axis is chosen so that the angle increases when the arm rises.
        m.revolute(f"{name} hinge", "shaft", f"{name} arm", hinge, axis=(0, -side, 0))
        foot = (0.05 * side, 0, 0.5)
        m.spring(f"{name} spring", "collar", f"{name} arm", foot, hinge + along / 2, 8e5, 4e4, 0.5)
    m.point_sensor("collar", "collar", (0, 0, 0.5))
    return mechanism_example(
        m,
        coordinates,
        title="Flyball governor: stiff springs and slow motion",
        source="IFToMM library of computational benchmark problems, A05",
        t_end=10.0,
        rates={"spin": 2 * np.pi, "slide": 0.0, "right hinge": 0.0, "left hinge": 0.0},
        settings={"solver": SSPRK104(), "rtol": 1e-6, "atol": 1e-6},
    )
