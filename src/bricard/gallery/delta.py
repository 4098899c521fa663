"""Delta robot: three motors at the base move a platform that does not rotate."""

from __future__ import annotations

import numpy as np

from bricard.gallery.example import Example
from bricard.gallery.moving import Coordinates, mechanism_example
from bricard.mechanism import Mechanism, plate, rod


def delta(coordinates: Coordinates = "relative") -> Example:
    """Arms of 0.2 m at 0.1 m from the centre and pairs of parallel rods of 0.4 m; the platform hangs below the base."""
    m = Mechanism(gravity=(0, 0, -9.81), name="Delta robot")
    base, arm, forearm, platform, half, tilt = 0.1, 0.2, 0.4, 0.04, 0.05, 0.3
    reach = base + arm * np.cos(tilt) - platform
    drop = -arm * np.sin(tilt) - np.sqrt(forearm**2 - reach**2)
    m.body("platform", plate((0, 0, drop), (2 * platform, 2 * platform), 0.2))
    for i in range(3):
        angle = 2 * np.pi * i / 3
        out, side, up = (
            np.array([np.cos(angle), np.sin(angle), 0]),
            np.array([-np.sin(angle), np.cos(angle), 0]),
            np.eye(3)[2],
        )
        shoulder = base * out
        elbow = shoulder + arm * (np.cos(tilt) * out - np.sin(tilt) * up)
        m.body(f"arm {i}", rod(shoulder, elbow, 0.2, width=0.02))
        m.revolute(f"shoulder {i}", m.ground, f"arm {i}", shoulder, axis=side)
        m.motor(f"torque {i}", f"shoulder {i}", limits=(-10.0, 10.0))
        for sign, name in ((1.0, "a"), (-1.0, "b")):
            top, bottom = elbow + sign * half * side, platform * out + sign * half * side + drop * up
            e = (bottom - top) / forearm
            m.body(f"rod {i}{name}", rod(top, bottom, 0.05, width=0.008))
            m.universal(f"U{i}{name}", f"arm {i}", f"rod {i}{name}", top, side, np.cross(e, side))
            m.spherical(f"S{i}{name}", f"rod {i}{name}", "platform", bottom)
    m.point_sensor("platform", "platform", (0, 0, drop))
    m.orientation_sensor("attitude", "platform")
    return mechanism_example(
        m,
        coordinates,
        title="Delta robot: three translational degrees of freedom",
        source="R. Clavel, Delta, a fast robot with parallel geometry (1988)",
        t_end=0.3,
    )
