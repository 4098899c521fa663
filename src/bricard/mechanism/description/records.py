"""What a mechanism is made of, as plain data: what `Mechanism` collects and `compile.py` turns into arrays."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from bricard.mechanism.description.solids import Shape


@dataclasses.dataclass(frozen=True)
class Body:
    """A rigid body; pass it, or its name, where a body is asked for."""

    name: str
    shape: Shape


@dataclasses.dataclass(frozen=True)
class Joint:
    """A joint or a constraint between a frame on `parent` and one on `child`, in the reference configuration."""

    name: str
    kind: str
    parent: str
    child: str
    at: np.ndarray
    at_child: np.ndarray
    axes: np.ndarray
    """Axes of both frames in columns; the third is the joint's axis."""
    thread: float = 0.0
    length: float = 1.0
    limits: tuple[float, float] | None = None


@dataclasses.dataclass(frozen=True)
class Relation:
    """`Σ coefficient · joint coordinate = offset + drive(t)`."""

    name: str
    terms: tuple[tuple[str, str | None, float], ...]
    """Joint, "turn" or "slide" (None: the joint's only one), coefficient."""
    offset: float | None
    """None: whatever it is in the reference configuration."""
    drive: Callable[..., Any] | None = None


@dataclasses.dataclass(frozen=True)
class Wheel:
    """A ball or wheel of `child` on a plane of `parent`."""

    name: str
    parent: str
    child: str
    origin: np.ndarray
    normal: np.ndarray
    center: np.ndarray
    axis: np.ndarray
    radius: float


@dataclasses.dataclass(frozen=True)
class UserRows:
    """A user-defined constraint."""

    name: str
    function: Callable[..., Any]
    size: int


@dataclasses.dataclass(frozen=True)
class Line:
    """A spring-damper, an actuator or a sensor between two points."""

    name: str
    parent: str
    child: str
    at: np.ndarray
    at_child: np.ndarray
    stiffness: float = 0.0
    damping: float = 0.0
    rest: float | None = None
    limits: tuple[float, float] = (-np.inf, np.inf)


@dataclasses.dataclass(frozen=True)
class OnJoint:
    """A spring-damper, a motor, a rotor or a sensor of a joint coordinate."""

    name: str
    joint: str
    of: str | None
    stiffness: float = 0.0
    damping: float = 0.0
    rest: float = 0.0
    limits: tuple[float, float] = (-np.inf, np.inf)
    gear: float = 1.0
    """Of a motor: force along the coordinate per unit of input."""
    inertia: float = 0.0
    """Of a rotor."""


@dataclasses.dataclass(frozen=True)
class BushingPart:
    """An elastic joint."""

    joint: Joint
    stiffness: np.ndarray
    damping: np.ndarray


@dataclasses.dataclass(frozen=True)
class LoadPart:
    """A force or moment on a body."""

    name: str
    body: str
    at: np.ndarray
    value: Any
    is_moment: bool


@dataclasses.dataclass(frozen=True)
class SensorPart:
    """Something to be read: `kind` "point", "orientation", "distance" or "joint"."""

    name: str
    kind: str
    of: Any
