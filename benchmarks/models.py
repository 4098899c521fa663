"""Description of a mechanism for the peers: a tree of bodies, loops and springs. All peers use the same description.

Points, axes and inertias are given in the world frame at the initial configuration, in SI units.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

GROUND = ""


@dataclass(frozen=True)
class Body:
    """A rigid body, connected to its `parent` by a joint with one coordinate, which is initially zero."""

    name: str
    parent: str
    at: np.ndarray
    """Point on the joint axis, shape (3,)."""
    axis: np.ndarray
    """Unit vector along the joint axis, shape (3,)."""
    mass: float
    centre: np.ndarray
    """Centre of mass, shape (3,)."""
    inertia: np.ndarray
    """Inertia tensor about the centre of mass, shape (3, 3)."""
    slides: bool = False
    """True for a prismatic joint, False for a revolute one."""
    rate: float = 0.0
    """Initial rate of the joint coordinate."""
    force: float = 0.0
    """Constant generalised force of the motor in the joint."""


@dataclass(frozen=True)
class Loop:
    """A loop closure: `points` of the `first` and the `second` body coincide. One is a pin, two are a hinge."""

    first: str
    second: str
    points: tuple[np.ndarray, ...]


@dataclass(frozen=True)
class Spring:
    """Spring and damper between points of two bodies."""

    first: str
    second: str
    at_first: np.ndarray
    at_second: np.ndarray
    stiffness: float
    damping: float
    rest: float
    """Natural length (m)."""


@dataclass(frozen=True)
class Model:
    """A mechanism, and the point whose path is compared."""

    bodies: tuple[Body, ...]
    tracked: tuple[str, np.ndarray]
    """Body and initial position of the compared point."""
    loops: tuple[Loop, ...] = ()
    springs: tuple[Spring, ...] = ()
    gravity: np.ndarray = field(default_factory=lambda: np.array([0.0, -9.81, 0.0]))
    planar: bool = True
    """True if the motion is in the x-y plane."""

    def body(self, name: str) -> Body:
        """The body called `name`."""
        return next(b for b in self.bodies if b.name == name)

    def centre(self, name: str) -> np.ndarray:
        """Initial centre of mass of a body, shape (3,); the origin for the ground."""
        return np.zeros(3) if name == GROUND else self.body(name).centre

    def twists(self) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """Initial angular velocity and velocity of the centre of mass of each body."""
        twists = {GROUND: (np.zeros(3), np.zeros(3))}
        for b in self.bodies:
            omega, velocity = twists[b.parent]
            velocity = velocity + np.cross(omega, b.centre - self.centre(b.parent))
            if b.slides:
                velocity = velocity + b.rate * b.axis
            else:
                omega = omega + b.rate * b.axis
                velocity = velocity + np.cross(b.rate * b.axis, b.centre - b.at)
            twists[b.name] = omega, velocity
        return twists


def slender(start: np.ndarray, end: np.ndarray, mass: float, axial: float = 0.0) -> dict[str, Any]:
    """Mass, centre of mass and inertia of a uniform rod; `axial` is its moment of inertia about its axis."""
    along = end - start
    length = float(np.linalg.norm(along))
    e = np.outer(along, along) / length**2
    inertia = mass * length**2 / 12 * (np.eye(3) - e) + axial * e
    return {"mass": mass, "centre": (start + end) / 2, "inertia": inertia}


def damped(model: Model) -> bool:
    """True if the model dissipates energy, so that its energy is no measure of accuracy."""
    return any(s.damping for s in model.springs)
