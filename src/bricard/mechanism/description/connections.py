"""Joints and constraints of a mechanism: what may connect two bodies."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from bricard.mechanism.description.elements import AnyBody, Description, Limits, Number, Point
from bricard.mechanism.description.records import Relation, UserRows, Wheel
from bricard.mechanism.description.solids import frame_along


class Connections(Description):
    """The part of `Mechanism` that connects bodies; points and axes are those of the reference configuration."""

    # -- joints ----------------------------------------------------------------------------------------------------

    def revolute(
        self,
        name: str,
        parent: AnyBody,
        child: AnyBody,
        at: Point,
        axis: Point = (0, 0, 1),
        *,
        at_child: Point | None = None,
        limits: Limits = None,
    ) -> str:
        """A hinge at the point `at` about `axis`; turns are positive by the right-hand rule, child against parent."""
        return self._joint(name, "revolute", parent, child, at, axis, at_child, limits)

    def prismatic(
        self,
        name: str,
        parent: AnyBody,
        child: AnyBody,
        axis: Point,
        at: Point | None = None,
        *,
        at_child: Point | None = None,
        limits: Limits = None,
    ) -> str:
        """A slide along `axis` through `at` (by default the child's centre of mass)."""
        return self._joint(name, "prismatic", parent, child, at, axis, at_child, limits)

    def cylindrical(
        self,
        name: str,
        parent: AnyBody,
        child: AnyBody,
        at: Point,
        axis: Point,
        *,
        at_child: Point | None = None,
        limits: Limits = None,
    ) -> str:
        """Slides along and turns about `axis`."""
        return self._joint(name, "cylindrical", parent, child, at, axis, at_child, limits)

    def universal(
        self,
        name: str,
        parent: AnyBody,
        child: AnyBody,
        at: Point,
        axis_parent: Point,
        axis_child: Point,
        *,
        at_child: Point | None = None,
    ) -> str:
        """A cross joint: a turn about `axis_parent`, fixed in the parent, then about `axis_child`, at right angles."""
        first = self.problems.axis(f"joint {name!r}", axis_parent)
        second = self.problems.axis(f"joint {name!r}", axis_child)
        if abs(first @ second) > 1e-9:
            self.problems.add(
                f"joint {name!r}: its axes are not at right angles ({np.degrees(np.arccos(first @ second)):.3g}°)"
            )
            second = frame_along(first)[:, 0]
        axes = np.stack([first, second, np.cross(first, second)], axis=1)
        return self._joint(name, "universal", parent, child, at, None, at_child, None, axes=axes)

    def spherical(self, name: str, parent: AnyBody, child: AnyBody, at: Point, *, at_child: Point | None = None) -> str:
        """A ball joint."""
        return self._joint(name, "spherical", parent, child, at, None, at_child, None)

    def planar(self, name: str, parent: AnyBody, child: AnyBody, normal: Point, at: Point | None = None) -> str:
        """The child slides in a plane of the parent and turns about its `normal`."""
        return self._joint(name, "planar", parent, child, at, normal, None, None)

    def helical(
        self,
        name: str,
        parent: AnyBody,
        child: AnyBody,
        at: Point,
        axis: Point,
        pitch: Number,
        *,
        limits: Limits = None,
    ) -> str:
        """A screw: advances `pitch` metres along `axis` per turn."""
        pitch = self.problems.positive(f"joint {name!r}", "pitch", pitch, allow_negative=True)
        return self._joint(name, "helical", parent, child, at, axis, None, limits, thread=2 * np.pi / pitch)

    def fixed(
        self, name: str, parent: AnyBody, child: AnyBody, at: Point | None = None, *, at_child: Point | None = None
    ) -> str:
        """A weld."""
        return self._joint(name, "fixed", parent, child, at, None, at_child, None)

    def free(self, name: str, parent: AnyBody, child: AnyBody) -> str:
        """No joint at all; says that the child is meant to move freely."""
        return self._joint(name, "free", parent, child, None, None, None, None)

    # -- constraints -----------------------------------------------------------------------------------------------

    def coincident(self, name: str, a: AnyBody, b: AnyBody, at: Point, *, at_child: Point | None = None) -> str:
        """A point of one body stays at a point of another (a ball joint that is always a constraint)."""
        return self._joint(name, "coincident", a, b, at, None, at_child, None)

    def distance(
        self, name: str, a: AnyBody, b: AnyBody, at: Point, at_child: Point, *, length: Number | None = None
    ) -> str:
        """A massless rod with ball ends, from `at` on `a` to `at_child` on `b`; `length` is that of the reference."""
        where = f"joint {name!r}"
        start, end = self.problems.point(where, "at", at), self.problems.point(where, "at_child", at_child)
        gap = float(np.linalg.norm(end - start))
        if gap == 0.0:
            self.problems.add(f"{where}: the two points coincide")
            gap = 1.0
        length = gap if length is None else self.problems.positive(where, "length", length)
        return self._joint(name, "distance", a, b, start, None, end, None, length=length)

    def point_on_line(self, name: str, line: AnyBody, point: AnyBody, at: Point, direction: Point) -> str:
        """The point `at` of one body stays on a line of another, through `at` along `direction`."""
        return self._joint(name, "point_on_line", line, point, at, direction, None, None)

    def point_on_plane(self, name: str, plane: AnyBody, point: AnyBody, at: Point, normal: Point) -> str:
        """The point `at` of one body stays in a plane of another, through `at`."""
        return self._joint(name, "point_on_plane", plane, point, at, normal, None, None)

    def parallel(self, name: str, a: AnyBody, b: AnyBody, axis: Point) -> str:
        """A direction of one body stays parallel to a direction of another; both are `axis` in the reference."""
        return self._joint(name, "parallel", a, b, None, axis, None, None)

    def gear(self, name: str, coefficients: Mapping[Any, Number], offset: Number | None = None) -> str:
        """`Σ coefficient · joint coordinate = offset`: gears, belts, racks, mimic joints.

        Keys are joints, or `(joint, "turn")` and `(joint, "slide")` for cylindrical ones. By default the relation
        holds as it does in the reference configuration.
        """
        keys = [k if isinstance(k, tuple) else (k, None) for k in coefficients]
        factors = self.problems.finite(
            f"gear {name!r}", **{f"coefficient {i + 1}": c for i, c in enumerate(coefficients.values())}
        )
        terms = tuple((j, of, c) for (j, of), c in zip(keys, factors, strict=True))
        if offset is not None:
            (offset,) = self.problems.finite(f"gear {name!r}", offset=offset)
        self.relations.append(Relation(name, terms, offset))
        return name

    def drive(self, name: str, joint: str, motion: Callable[[Any], Any] | Number, of: str | None = None) -> str:
        """Prescribe a joint coordinate: `motion(t)` in metres or radians, written in `jax.numpy`, or a constant."""
        if callable(motion):
            self.relations.append(Relation(name, ((joint, of, 1.0),), 0.0, motion))
        else:
            (value,) = self.problems.finite(f"driver {name!r}", motion=motion)
            self.relations.append(Relation(name, ((joint, of, 1.0),), value))
        return name

    def rolling(
        self,
        name: str,
        wheel: AnyBody,
        radius: Number,
        *,
        center: Point | None = None,
        axis: Point | None = None,
        on: AnyBody = "ground",
        point: Point = (0, 0, 0),
        normal: Point = (0, 0, 1),
    ) -> str:
        """A thin wheel (with an `axis`) or a ball rolls without slip on the plane through `point` of the body `on`."""
        where = f"rolling {name!r}"
        body = self._named(where, wheel)
        middle = self.bodies[body].shape.com if center is None and body in self.bodies else center
        self.wheels.append(
            Wheel(
                name,
                self._named(where, on),
                body,
                self.problems.point(where, "point", point),
                self.problems.axis(where, normal),
                self.problems.point(where, "center", (0.0, 0.0, 0.0) if middle is None else middle),
                np.zeros(3) if axis is None else self.problems.axis(where, axis),
                self.problems.positive(where, "radius", radius),
            )
        )
        return name

    def constraint(self, name: str, function: Callable[..., Any], size: int = 1) -> str:
        """A constraint of your own: `function(view, t)` returns `size` numbers, zero when it is met.

        `view.point(body, at)` and `view.direction(body, along)` say where points and directions of bodies are.
        """
        self.user_rows.append(UserRows(name, function, int(size)))
        return name
