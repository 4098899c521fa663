"""Stewart platforms, planar and spatial: legs of variable length support a platform."""

from __future__ import annotations

from typing import Literal

import numpy as np

from bricard.gallery.example import Example
from bricard.gallery.moving import Coordinates, mechanism_example
from bricard.gallery.ranges import Count
from bricard.mechanism import Mechanism, compound, cylinder, plate, rigid, rod
from bricard.mechanism.description.solids import rotation_about

SOURCE = (
    "N. D. Perreira and J. Lo, Dynamic system modelling techniques applicable to force-controlled Stewart platform "
    "systems, ATLSS report 93-13"
)


def stewart(
    coordinates: Coordinates = "relative",
    legs: Count = 6,
    closure: Literal["short", "platform", "weld"] = "short",
) -> Example:
    """Six legs, each with a universal joint at the base, a prismatic joint, and a spherical joint at the platform.

    In relative coordinates, `closure` selects where the loops are cut: "short" at all spherical joints but one (21
    velocities, 15 constraints), "platform" at all spherical joints, with a free platform (24, 18), or "weld" at fixed
    joints between spherical joints and platform (42, 36). `legs` is the number of legs, at most 6.
    """
    m = Mechanism(gravity=(0, 0, -9.81), name="Stewart platform")
    rotation = rotation_about(2, 0.2) @ rotation_about(1, -0.15) @ rotation_about(0, 0.1)
    centre = np.array(CENTRE)
    m.body("platform", plate(centre, (0.8, 0.8), 5.0, axes=rotation))
    m.free("platform free", m.ground, "platform")
    cut = []
    for i, (at_base, at_platform) in enumerate(zip(BASE_ANGLES[:legs], PLATFORM_ANGLES[:legs], strict=True)):
        foot = _on_circle(1.0, at_base)
        head = centre + rotation @ _on_circle(0.6, at_platform)
        e = (head - foot) / np.linalg.norm(head - foot)
        middle = foot + 0.6 * (head - foot)
        m.body(f"lower {i}", cylinder(foot, middle, 0.03, 2.0))
        m.body(f"upper {i}", cylinder(foot + 0.4 * (head - foot), head, 0.02, 1.0))
        first = np.cross((0, 0, 1), e) / np.linalg.norm(np.cross((0, 0, 1), e))
        m.universal(f"U{i}", m.ground, f"lower {i}", foot, first, np.cross(e, first))
        m.prismatic(f"P{i}", f"lower {i}", f"upper {i}", e, at=foot, at_child=head)
        if closure == "weld":
            m.body(f"ball {i}", rigid(0.0, head.tolist()))
            m.spherical(f"S{i}", f"upper {i}", f"ball {i}", head)
            cut.append(m.fixed(f"W{i}", f"ball {i}", "platform", head))
        else:
            name = m.spherical(f"S{i}", f"upper {i}", "platform", head)
            cut += [name] if closure == "platform" else []
        m.motor(f"leg {i}", f"P{i}", limits=(-500.0, 500.0))
    return mechanism_example(
        m,
        coordinates,
        title="Stewart platform: six legs, six degrees of freedom",
        source=SOURCE,
        t_end=0.3,
        cut=tuple(cut),
    )


def planar_stewart(
    coordinates: Coordinates = "relative", legs: Count = 3, closure: Literal["short", "platform"] = "short"
) -> Example:
    """Three legs, each with a prismatic joint between two revolute joints, support a triangle in a vertical plane.

    `legs=4` adds a redundant leg at the same corner as the third; more are not available.
    """
    m = Mechanism(gravity=(0, -9.81), planar=True, name="planar Stewart platform")
    centre, rotation = np.array([*PLANAR_CENTRE, 0.0]), rotation_about(2, 0.2)
    corners = [centre + rotation @ _on_circle(0.3, a) for a in PLANAR_ANGLES]
    edges = [rod(corners[i][:2], corners[i - 1][:2], 0.5) for i in range(3)]
    m.body("platform", compound(*edges))
    m.free("platform free", m.ground, "platform")
    cut = []
    for i, degrees in enumerate((*PLANAR_ANGLES, EXTRA_ANGLE)[:legs]):
        foot, head = _on_circle(1.0, degrees)[:2], corners[min(i, 2)][:2]
        e = (head - foot) / np.linalg.norm(head - foot)
        m.body(f"lower {i}", rod(foot, foot + 0.6 * (head - foot), 1.0))
        m.body(f"upper {i}", rod(foot + 0.4 * (head - foot), head, 0.5))
        m.revolute(f"A{i}", m.ground, f"lower {i}", foot)
        m.prismatic(f"P{i}", f"lower {i}", f"upper {i}", e, at=foot, at_child=head)
        name = m.revolute(f"B{i}", f"upper {i}", "platform", head)
        cut += [name] if closure == "platform" else []
        m.motor(f"leg {i}", f"P{i}", limits=(-200.0, 200.0))
    return mechanism_example(
        m,
        coordinates,
        title="Planar Stewart platform: three legs, three degrees of freedom",
        source=SOURCE,
        t_end=0.3,
        cut=tuple(cut),
    )


CENTRE, PLANAR_CENTRE = (0.1, -0.05, 1.2), (0.1, 0.05)
"""Centres of the platforms in the reference configuration (m)."""

BASE_ANGLES = (-10, 10, 110, 130, 230, 250)
PLATFORM_ANGLES = (-50, 50, 70, 170, 190, 290)
PLANAR_ANGLES = (90, 210, 330)
EXTRA_ANGLE = 30
"""Angles of the joints on their circles (degrees); the last one is for the redundant leg of the planar platform."""


def _on_circle(radius: float, degrees: float) -> np.ndarray:
    return radius * np.array([np.cos(np.radians(degrees)), np.sin(np.radians(degrees)), 0.0])
