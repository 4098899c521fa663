"""Bodies from shapes: mass, centre of mass and inertia from dimensions, in the reference configuration."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from bricard.errors import ModelError, needs_numbers


@dataclasses.dataclass(frozen=True)
class Shape:
    """A rigid piece of matter, placed in the world: what `Mechanism.body` takes.

    `inertia` (3, 3) in kg m² is about the centre of mass, in world axes. `outline` are polylines (n, 3) to draw.
    """

    mass: float
    com: np.ndarray
    inertia: np.ndarray
    outline: tuple[np.ndarray, ...] = ()

    def about(self, point: np.ndarray) -> np.ndarray:
        """Inertia about another point (Huygens–Steiner)."""
        d = self.com - point
        return self.inertia + self.mass * (d @ d * np.eye(3) - np.outer(d, d))


Number = float | int


@needs_numbers
def rigid(mass: Number, com: Any, inertia: Any = 0.0) -> Shape:
    """A body given by its numbers: `inertia` about the centre of mass as a number, 3 principal ones or (3, 3)."""
    values = np.asarray(inertia, dtype=float)
    matrix = values if values.shape == (3, 3) else np.diag(np.broadcast_to(values, (3,)).astype(float))
    point = _point(com)
    return Shape(float(mass), point, matrix, (point[None],))


@needs_numbers
def point_mass(at: Any, mass: Number) -> Shape:
    """A mass without extension."""
    return rigid(mass, at)


@needs_numbers
def rod(
    start: Any, end: Any, mass: Number | None = None, *, width: Number | None = None, density: Number | None = None
) -> Shape:
    """A straight rod. Slender, without inertia about its own axis, unless it has a square section of `width` (m)."""
    a, b = _point(start), _point(end)
    length = float(np.linalg.norm(b - a))
    if length == 0.0:
        raise ModelError("rod", [f"starts and ends at the same point {a.tolist()}"])
    mass = _mass("rod", mass, density, None if width is None else length * width**2)
    w = 0.0 if width is None else float(width)
    along = (b - a) / length
    axial = mass * w**2 / 6
    transverse = mass * (length**2 + w**2) / 12
    inertia = transverse * (np.eye(3) - np.outer(along, along)) + axial * np.outer(along, along)
    return Shape(mass, (a + b) / 2, inertia, (np.stack([a, b]),))


@needs_numbers
def box(
    center: Any, size: Any, mass: Number | None = None, *, density: Number | None = None, axes: Any = None
) -> Shape:
    """A cuboid with edges `size` (3,) along the columns of `axes` (3, 3), by default the world's."""
    c, e, frame = _point(center), _sizes("box", size, 3), _axes("box", axes)
    mass = _mass("box", mass, density, float(np.prod(e)))
    principal = mass / 12 * (np.sum(e**2) - e**2)
    return Shape(mass, c, frame @ np.diag(principal) @ frame.T, _box_edges(c, e, frame))


@needs_numbers
def plate(
    center: Any, size: Any, mass: Number | None = None, *, density: Number | None = None, axes: Any = None
) -> Shape:
    """A thin rectangle with edges `size` (2,) along the first two columns of `axes`; `density` in kg/m²."""
    c, e, frame = _point(center), _sizes("plate", size, 2), _axes("plate", axes)
    mass = _mass("plate", mass, density, float(np.prod(e)))
    principal = mass / 12 * np.array([e[1] ** 2, e[0] ** 2, e[0] ** 2 + e[1] ** 2])
    u, v = e[0] / 2 * frame[:, 0], e[1] / 2 * frame[:, 1]
    loop = np.stack([c + u + v, c - u + v, c - u - v, c + u - v, c + u + v])
    return Shape(mass, c, frame @ np.diag(principal) @ frame.T, (loop,))


@needs_numbers
def cylinder(
    start: Any, end: Any, radius: Number, mass: Number | None = None, *, density: Number | None = None
) -> Shape:
    """A solid round cylinder between the centres of its faces."""
    a, b = _point(start), _point(end)
    length = float(np.linalg.norm(b - a))
    if length == 0.0:
        raise ModelError("cylinder", [f"starts and ends at the same point {a.tolist()}"])
    (r,) = _sizes("cylinder", [radius], 1)
    mass = _mass("cylinder", mass, density, np.pi * r**2 * length)
    frame = frame_along((b - a) / length)
    across = mass * (3 * r**2 + length**2) / 12
    inertia = frame @ np.diag([across, across, mass * r**2 / 2]) @ frame.T
    turn = np.linspace(0, 2 * np.pi, 25)
    circle = r * (np.cos(turn)[:, None] * frame[:, 0] + np.sin(turn)[:, None] * frame[:, 1])
    return Shape(mass, (a + b) / 2, inertia, (circle + a, circle + b, np.stack([a, b])))


@needs_numbers
def sphere(center: Any, radius: Number, mass: Number | None = None, *, density: Number | None = None) -> Shape:
    """A solid ball."""
    c = _point(center)
    (r,) = _sizes("sphere", [radius], 1)
    mass = _mass("sphere", mass, density, 4 / 3 * np.pi * r**3)
    turn = np.linspace(0, 2 * np.pi, 25)
    cos, sin, zero = r * np.cos(turn), r * np.sin(turn), np.zeros(25)
    circles = tuple(c + np.stack(x, axis=1) for x in ((cos, sin, zero), (cos, zero, sin), (zero, cos, sin)))
    return Shape(mass, c, 0.4 * mass * r**2 * np.eye(3), circles)


def rotation_about(axis: Any, angle: Number) -> np.ndarray:
    """Rotation (3, 3) by `angle` (rad) about a unit vector (Rodrigues); 0, 1, 2 stand for x, y, z."""
    x, y, z = np.eye(3)[axis] if isinstance(axis, int) else axis
    across = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
    return np.eye(3) + np.sin(angle) * across + (1 - np.cos(angle)) * across @ across


@needs_numbers
def compound(*shapes: Shape) -> Shape:
    """Several shapes joined to one body."""
    if not shapes:
        raise ModelError("compound", ["has no parts"])
    mass = sum(s.mass for s in shapes)
    weights = [s.mass / mass if mass else 1 / len(shapes) for s in shapes]
    com = sum((w * s.com for w, s in zip(weights, shapes, strict=True)), np.zeros(3))
    inertia = sum((s.about(com) for s in shapes), np.zeros((3, 3)))
    return Shape(mass, com, inertia, tuple(line for s in shapes for line in s.outline))


def frame_along(axis: np.ndarray) -> np.ndarray:
    """A right-handed frame (3, 3), in columns, whose third column is the unit vector `axis`."""
    helper = np.eye(3)[int(np.argmin(np.abs(axis)))]
    x = np.cross(helper, axis)
    x /= np.linalg.norm(x)
    return np.stack([x, np.cross(axis, x), axis], axis=1)


def _point(value: Any) -> np.ndarray:
    point = np.asarray(value, dtype=float)
    if point.shape == (2,):
        point = np.append(point, 0.0)
    if point.shape != (3,):
        raise ModelError("point", [f"expected 2 or 3 numbers, got {value!r}"])
    return point


def _sizes(name: str, value: Any, n: int) -> np.ndarray:
    sizes = np.asarray(value, dtype=float)
    if sizes.shape != (n,) or not np.all(sizes > 0):
        raise ModelError(name, [f"expected {n} positive size{'s' if n > 1 else ''}, got {value!r}"])
    return sizes


def _axes(name: str, value: Any) -> np.ndarray:
    axes = np.eye(3) if value is None else np.asarray(value, dtype=float)
    if axes.shape != (3, 3) or not np.allclose(axes.T @ axes, np.eye(3), atol=1e-9):
        raise ModelError(name, ["axes must be three orthonormal columns"])
    return axes


def _mass(name: str, mass: Number | None, density: Number | None, amount: float | None) -> float:
    """The mass, given or from the density; its sign is checked with the body's other numbers."""
    if (mass is None) == (density is None):
        raise ModelError(name, ["give either mass or density"])
    if mass is not None:
        return float(mass)
    if amount is None:
        raise ModelError(name, ["a density needs a width"])
    assert density is not None
    return float(density) * amount


def _box_edges(center: np.ndarray, size: np.ndarray, frame: np.ndarray) -> tuple[np.ndarray, ...]:
    square = np.array([[1, 1], [-1, 1], [-1, -1], [1, -1], [1, 1]]) / 2
    ends = [np.column_stack([square, np.full(5, s / 2)]) for s in (1, -1)]
    sides = [np.stack([ends[0][i], ends[1][i]]) for i in range(4)]
    return tuple(center + (line * size) @ frame.T for line in (*ends, *sides))
