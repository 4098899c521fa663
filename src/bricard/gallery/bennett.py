"""Bennett's linkage: a spatial loop of four revolute joints, mobile although Grübler's formula predicts rigidity."""

from __future__ import annotations

import numpy as np

from bricard.gallery.example import Example
from bricard.gallery.moving import ALWAYS_REDUNDANT, Coordinates, mechanism_example
from bricard.mechanism import Mechanism, rod
from bricard.mechanism.description.solids import rotation_about


def bennett_mechanism(angle: float = 1.2) -> Mechanism:
    """Opposite links are equal, and link lengths are proportional to the sines of the twists: `a / sin α = b / sin β`.

    `angle` (rad) is the angle of the first joint in the reference configuration. Three of the 20 constraints are
    redundant.
    """
    alpha, beta, a = 0.7, 1.1, 0.4
    b = a * np.sin(beta) / np.sin(alpha)
    # tan(θ₁/2) tan(θ₂/2) = sin((β + α)/2) / sin((β − α)/2); opposite joint angles have opposite signs.
    ratio = np.sin((beta + alpha) / 2) / np.sin((beta - alpha) / 2)
    second = 2 * np.arctan(ratio / np.tan(angle / 2))
    turns = (angle, second, -angle, -second)
    links = ((a, alpha), (b, beta), (a, alpha), (b, beta))
    m = Mechanism(gravity=(0, 0, -9.81), name="Bennett")
    frame, origin, points, axes = np.eye(3), np.zeros(3), [], []
    for turn, (length, twist) in zip(turns, links, strict=True):
        points.append(origin)
        axes.append(frame[:, 2])
        frame = frame @ rotation_about(2, turn)
        origin = origin + length * frame[:, 0]
        frame = frame @ rotation_about(0, twist)
    names = ("ground", "crank", "coupler", "rocker")
    for i in (1, 2, 3):  # link 0 is the ground
        m.body(names[i], rod(points[i], points[(i + 1) % 4], 1.0, width=0.02))
    for i in range(4):
        m.revolute("ABCD"[i], names[i - 1], names[i], points[i], axes[i])
    return m


def bennett(coordinates: Coordinates = "relative", angle: float = 1.2) -> Example:
    """Starts with 3 rad/s in joint B, between ground and crank; `angle` as in `bennett_mechanism`."""
    return mechanism_example(
        bennett_mechanism(angle),
        coordinates,
        title="Bennett's linkage: mobile contrary to Grübler's formula, three redundant constraints",
        source="G. T. Bennett, A new mechanism, Engineering 76 (1903)",
        t_end=2.0,
        rates={"B": 3.0},
        settings=ALWAYS_REDUNDANT,
    )
