"""Sarrus's linkage: six revolute joints that guide a plate straight up and down."""

from __future__ import annotations

import numpy as np

from bricard.gallery.example import Example
from bricard.gallery.moving import Coordinates, mechanism_example
from bricard.mechanism import Mechanism, plate, rod


def sarrus(coordinates: Coordinates = "relative", angle: float = 0.6) -> Example:
    """Two folding limbs at right angles, with links of 0.3 m at `angle` (rad) from the vertical; released at rest."""
    m = Mechanism(gravity=(0, 0, -9.81), name="Sarrus")
    length, reach = 0.3, 0.2
    rise, out = length * np.cos(angle), length * np.sin(angle)
    top = 2 * rise
    m.body("plate", plate((0, 0, top), (2 * reach, 2 * reach), 1.0))
    for name, direction, axis in (("x", (1.0, 0, 0), (0, 1.0, 0)), ("y", (0, 1.0, 0), (1.0, 0, 0))):
        e = np.array(direction)
        foot, knee, head = reach * e, (reach + out) * e + [0, 0, rise], reach * e + [0, 0, top]
        m.body(f"lower {name}", rod(foot, knee, 0.3, width=0.02))
        m.body(f"upper {name}", rod(knee, head, 0.3, width=0.02))
        m.revolute(f"foot {name}", m.ground, f"lower {name}", foot, axis)
        m.revolute(f"knee {name}", f"lower {name}", f"upper {name}", knee, axis)
        m.revolute(f"head {name}", f"upper {name}", "plate", head, axis)
    m.point_sensor("centre", "plate", (0, 0, top))
    return mechanism_example(
        m,
        coordinates,
        title="Sarrus's linkage: spatial straight-line motion with revolute joints, one redundant constraint",
        source="P. F. Sarrus, 1853",
        t_end=0.25,
    )
