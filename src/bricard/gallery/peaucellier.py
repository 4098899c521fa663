"""Peaucellier's inversor: revolute joints only, but one point moves on an exact straight line."""

from __future__ import annotations

import numpy as np

from bricard.gallery.example import Example
from bricard.gallery.moving import Coordinates, mechanism_example
from bricard.mechanism import Mechanism, rod


def peaucellier(coordinates: Coordinates = "relative") -> Example:
    """Two long bars of 0.5 m from O, a rhombus of 0.2 m, and a crank of 0.2 m with its pivot Q at 0.2 m from O.

    B moves on a circle through O, so its inverse D moves on the vertical line `x = (0.5² − 0.2²) / 0.4`.
    """
    m = Mechanism(gravity=(0, 0), planar=True, name="Peaucellier")
    long, side, crank, angle = 0.5, 0.2, 0.2, -0.6
    o, q = np.zeros(2), np.array([crank, 0.0])
    b = q + crank * np.array([np.cos(angle), np.sin(angle)])
    near = float(np.linalg.norm(b))
    e = b / near
    # A and C lie on the perpendicular bisector of the diagonal BD of the rhombus BADC.
    far = (long**2 - side**2) / near
    half = (far - near) / 2
    height = np.sqrt(side**2 - half**2)
    n = np.array([-e[1], e[0]])
    a, c, d = (near + half) * e + height * n, (near + half) * e - height * n, far * e
    bars = {"OA": (o, a), "OC": (o, c), "QB": (q, b), "AB": (a, b), "CB": (c, b), "AD": (a, d), "CD": (c, d)}
    for name, (start, end) in bars.items():
        m.body(name, rod(start, end, float(np.linalg.norm(end - start))))
    pins = {"O1": ("ground", "OA", o), "O2": ("ground", "OC", o), "Q": ("ground", "QB", q)}
    pins |= {"A1": ("OA", "AB", a), "A2": ("OA", "AD", a), "C1": ("OC", "CB", c), "C2": ("OC", "CD", c)}
    pins |= {"B1": ("QB", "AB", b), "B2": ("QB", "CB", b), "D": ("AD", "CD", d)}
    for name, (parent, child, at) in pins.items():
        m.revolute(name, parent, child, at)
    m.point_sensor("D", "AD", d)
    return mechanism_example(
        m,
        coordinates,
        title="Peaucellier's inversor: exact straight-line motion with revolute joints only",
        source="C.-N. Peaucellier, 1864",
        t_end=1.0,
        rates={"Q": 1.0},
    )
