"""Bricard's linkage (IFToMM benchmark A04): a loop of six revolute joints with one redundant constraint."""

from __future__ import annotations

import numpy as np

from bricard.gallery.example import Example
from bricard.gallery.moving import ALWAYS_REDUNDANT, Coordinates, mechanism_example
from bricard.gallery.ranges import Positive
from bricard.mechanism import Mechanism, rod

POINTS = np.array([[0, 0, 0], [1, 0, 0], [1, -1, 0], [1, -1, 1], [0, -1, 1], [0, 0, 1.0]])
AXES = "yzxyzx"


def bricard(coordinates: Coordinates = "relative", width: Positive | None = None) -> Example:
    """Five rods of 1 m and 1 kg along the edges of a cube, released at rest.

    By default they have no inertia about their own axes, as in the benchmark; `width` (m) gives them a square section.
    """
    m = Mechanism(gravity=(0, -9.81, 0), name="Bricard")
    parent = m.ground
    for i in range(6):
        body = m.ground if i == 5 else m.body(f"rod {i}", rod(POINTS[i], POINTS[i + 1], 1.0, width=width))
        m.revolute(f"P{i}", parent, body, POINTS[i], np.eye(3)["xyz".index(AXES[i])])
        parent = body
    m.point_sensor("P2", "rod 1", POINTS[2])
    m.point_sensor("P3", "rod 2", POINTS[3])
    return mechanism_example(
        m,
        coordinates,
        title="Bricard's linkage: overconstrained in every position, yet mobile",
        source="IFToMM library of computational benchmark problems, A04; R. Bricard, 1897",
        t_end=10.0,
        settings=ALWAYS_REDUNDANT,
    )
