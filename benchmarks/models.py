"""What the peers are told: bodies in a tree, loops, springs. One description, so that all simulate the same thing.

Points, axes and inertias are in the world frame in the reference configuration, which is also the start; SI units.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

GROUND = ""


@dataclass(frozen=True)
class Body:
    """A rigid body, on its `parent` by a joint with one coordinate, which is zero at the start."""

    name: str
    parent: str
    at: np.ndarray
    """A point of the joint's axis (3,)."""
    axis: np.ndarray
    """Unit vector (3,)."""
    mass: float
    centre: np.ndarray
    """Centre of mass (3,)."""
    inertia: np.ndarray
    """About the centre of mass (3, 3)."""
    slides: bool = False
    """Along the axis, instead of turning about it."""
    rate: float = 0.0
    """Of the coordinate, at the start."""
    force: float = 0.0
    """Constant generalised force of a motor in the joint."""


@dataclass(frozen=True)
class Loop:
    """Points of the `first` body that stay at the same points of the `second`: one is a pin, two are a hinge."""

    first: str
    second: str
    points: tuple[np.ndarray, ...]


@dataclass(frozen=True)
class Spring:
    """Spring and damper between two points."""

    first: str
    second: str
    at_first: np.ndarray
    at_second: np.ndarray
    stiffness: float
    damping: float
    rest: float


@dataclass(frozen=True)
class Model:
    """A mechanism, and the point that is compared."""

    bodies: tuple[Body, ...]
    tracked: tuple[str, np.ndarray]
    """Body, and its point in the reference configuration."""
    loops: tuple[Loop, ...] = ()
    springs: tuple[Spring, ...] = ()
    gravity: np.ndarray = field(default_factory=lambda: np.array([0.0, -9.81, 0.0]))
    planar: bool = True
    """Whether all happens in the x, y plane."""

    def body(self, name: str) -> Body:
        """The body of that name."""
        return next(b for b in self.bodies if b.name == name)

    def centre(self, name: str) -> np.ndarray:
        """Centre of mass at the start (3,); of the ground, the origin."""
        return np.zeros(3) if name == GROUND else self.body(name).centre

    def twists(self) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """Angular velocity and velocity of the centre of mass of each body at the start."""
        twists = {GROUND: (np.zeros(3), np.zeros(3))}
        for b in self.bodies:
            turn, speed = twists[b.parent]
            speed = speed + np.cross(turn, b.centre - self.centre(b.parent))
            if b.slides:
                speed = speed + b.rate * b.axis
            else:
                turn = turn + b.rate * b.axis
                speed = speed + np.cross(b.rate * b.axis, b.centre - b.at)
            twists[b.name] = turn, speed
        return twists


def slender(start: np.ndarray, end: np.ndarray, mass: float, axial: float = 0.0) -> dict[str, Any]:
    """Mass, centre and inertia of a uniform rod, with `axial` inertia about itself."""
    along = end - start
    length = float(np.linalg.norm(along))
    e = np.outer(along, along) / length**2
    inertia = mass * length**2 / 12 * (np.eye(3) - e) + axial * e
    return {"mass": mass, "centre": (start + end) / 2, "inertia": inertia}


def damped(model: Model) -> bool:
    """Whether energy is lost, so that a peer's energy says nothing about its accuracy."""
    return any(s.damping for s in model.springs)
