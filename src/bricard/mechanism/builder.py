"""`br.Mechanism`: bodies, joints, springs and motors in; a `System` in any of three kinds of coordinates out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from bricard.errors import ModelError
from bricard.mechanism.base import MechanismSystem
from bricard.mechanism.check import Problems
from bricard.mechanism.kinds import KINDS
from bricard.mechanism.parts import (
    Body,
    BushingPart,
    Joint,
    Line,
    LoadPart,
    OnJoint,
    Relation,
    SensorPart,
    UserRows,
    Wheel,
)
from bricard.mechanism.shapes import Shape, frame_along, rigid

Point = Any
"""2 or 3 numbers in any form; checked with everything else."""
Number = float | int
Limits = Sequence[Number] | None


class Mechanism:
    """A description of a mechanism, in SI units and radians, placed in a reference configuration.

    Points and axes are given in world coordinates, as they are in the reference configuration; there every joint
    coordinate is zero (a slide: the distance of its two frames). With `planar=True` everything is in the x-y plane,
    points have two numbers, and turns are about z. `gravity` (m/s²) is zero by default.

    Nothing is raised while describing: `system` checks everything and lists all problems at once.
    """

    def __init__(self, gravity: Point | None = None, planar: bool = False, name: str = "mechanism"):
        self.name = name
        self.is_planar = bool(planar)
        self.problems = Problems(name, self.is_planar)
        self.gravity = np.zeros(3) if gravity is None else self.problems.point(name, "gravity", gravity)
        self.ground = Body("ground", rigid(0.0, (0, 0, 0)))
        self.bodies: dict[str, Body] = {}
        self.joints: list[Joint] = []
        self.relations: list[Relation] = []
        self.wheels: list[Wheel] = []
        self.user_rows: list[UserRows] = []
        self.springs: list[Line] = []
        self.joint_springs: list[OnJoint] = []
        self.bushings: list[BushingPart] = []
        self.loads: list[LoadPart] = []
        self.motors: list[OnJoint] = []
        self.line_actuators: list[Line] = []
        self.sensors: list[SensorPart] = []
        self.notes: list[str] = []

    # -- bodies ----------------------------------------------------------------------------------------------------

    def body(
        self,
        name: str,
        shape: Shape | None = None,
        *,
        mass: Number | None = None,
        com: Point | None = None,
        inertia: Any = 0.0,
    ) -> Body:
        """Add a body: a shape (`br.rod`, `br.box`, …), or mass (kg), centre of mass and inertia (kg m²) about it."""
        if (shape is None) == (mass is None):
            self.problems.add(f"body {name!r}: give either a shape or a mass")
            shape = rigid(1.0, (0, 0, 0), 1.0)
        if shape is None:
            assert mass is not None
            at = self.problems.point(f"body {name!r}", "com", (0.0, 0.0, 0.0) if com is None else com)
            shape = self.problems.numbers(name, mass, at, inertia)
        body = Body(name, shape)
        if name == "ground" or name in self.bodies:
            self.problems.add(f"body {name!r}: there is another body of this name")
        self.bodies[name] = body
        return body

    # -- joints ----------------------------------------------------------------------------------------------------

    def revolute(
        self,
        name: str,
        parent: Body | str,
        child: Body | str,
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
        parent: Body | str,
        child: Body | str,
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
        parent: Body | str,
        child: Body | str,
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
        parent: Body | str,
        child: Body | str,
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

    def spherical(
        self, name: str, parent: Body | str, child: Body | str, at: Point, *, at_child: Point | None = None
    ) -> str:
        """A ball joint."""
        return self._joint(name, "spherical", parent, child, at, None, at_child, None)

    def planar(self, name: str, parent: Body | str, child: Body | str, normal: Point, at: Point | None = None) -> str:
        """The child slides in a plane of the parent and turns about its `normal`."""
        return self._joint(name, "planar", parent, child, at, normal, None, None)

    def helical(
        self,
        name: str,
        parent: Body | str,
        child: Body | str,
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
        self,
        name: str,
        parent: Body | str,
        child: Body | str,
        at: Point | None = None,
        *,
        at_child: Point | None = None,
    ) -> str:
        """A weld."""
        return self._joint(name, "fixed", parent, child, at, None, at_child, None)

    def free(self, name: str, parent: Body | str, child: Body | str) -> str:
        """No joint at all; says that the child is meant to move freely."""
        return self._joint(name, "free", parent, child, None, None, None, None)

    # -- constraints -----------------------------------------------------------------------------------------------

    def coincident(self, name: str, a: Body | str, b: Body | str, at: Point, *, at_child: Point | None = None) -> str:
        """A point of one body stays at a point of another (a ball joint that is always a constraint)."""
        return self._joint(name, "coincident", a, b, at, None, at_child, None)

    def distance(
        self,
        name: str,
        a: Body | str,
        b: Body | str,
        at: Point,
        at_child: Point,
        *,
        length: Number | None = None,
    ) -> str:
        """A massless rod with ball ends, from `at` on `a` to `at_child` on `b`; `length` is that of the reference."""
        where = f"joint {name!r}"
        start, end = self.problems.point(where, "at", at), self.problems.point(where, "at_child", at_child)
        gap = float(np.linalg.norm(end - start))
        if gap == 0.0 or (length is not None and not length > 0):
            self.problems.add(f"{where}: the two points coincide" if gap == 0.0 else f"{where}: length {length}")
            gap = 1.0
        length = gap if length is None else float(length)
        return self._joint(name, "distance", a, b, start, None, end, None, length=length)

    def point_on_line(self, name: str, line: Body | str, point: Body | str, at: Point, direction: Point) -> str:
        """The point `at` of one body stays on a line of another, through `at` along `direction`."""
        return self._joint(name, "point_on_line", line, point, at, direction, None, None)

    def point_on_plane(self, name: str, plane: Body | str, point: Body | str, at: Point, normal: Point) -> str:
        """The point `at` of one body stays in a plane of another, through `at`."""
        return self._joint(name, "point_on_plane", plane, point, at, normal, None, None)

    def parallel(self, name: str, a: Body | str, b: Body | str, axis: Point) -> str:
        """A direction of one body stays parallel to a direction of another; both are `axis` in the reference."""
        return self._joint(name, "parallel", a, b, None, axis, None, None)

    def gear(self, name: str, coefficients: Mapping[Any, Number], offset: Number | None = None) -> str:
        """`Σ coefficient · joint coordinate = offset`: gears, belts, racks, mimic joints.

        Keys are joints, or `(joint, "turn")` and `(joint, "slide")` for cylindrical ones. By default the relation
        holds as it does in the reference configuration.
        """
        keys = [k if isinstance(k, tuple) else (k, None) for k in coefficients]
        terms = tuple((j, of, float(c)) for (j, of), c in zip(keys, coefficients.values(), strict=True))
        self.relations.append(Relation(name, terms, offset))
        return name

    def drive(self, name: str, joint: str, motion: Callable[[Any], Any] | Number, of: str | None = None) -> str:
        """Prescribe a joint coordinate: `motion(t)` in metres or radians, written in `jax.numpy`, or a constant."""
        if callable(motion):
            self.relations.append(Relation(name, ((joint, of, 1.0),), 0.0, motion))
        else:
            self.relations.append(Relation(name, ((joint, of, 1.0),), float(motion)))
        return name

    def rolling(
        self,
        name: str,
        wheel: Body | str,
        radius: Number,
        *,
        center: Point | None = None,
        axis: Point | None = None,
        on: Body | str = "ground",
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

    # -- forces ----------------------------------------------------------------------------------------------------

    def spring(
        self,
        name: str,
        a: Body | str,
        b: Body | str,
        at: Point,
        at_child: Point,
        stiffness: Number,
        damping: Number = 0.0,
        length: Number | None = None,
    ) -> str:
        """A spring (N/m) with a damper (N s/m) between two points; `length` at rest, by default as in the reference."""
        self.springs.append(self._line(name, a, b, at, at_child, stiffness, damping, length))
        return name

    def joint_spring(
        self,
        name: str,
        joint: str,
        stiffness: Number,
        damping: Number = 0.0,
        rest: Number = 0.0,
        of: str | None = None,
    ) -> str:
        """A torsional (N m/rad) or linear (N/m) spring with a damper in a joint; `rest` is the coordinate at rest."""
        k, c, x = self.problems.finite(f"spring {name!r}", stiffness=stiffness, damping=damping, rest=rest)
        self.joint_springs.append(OnJoint(name, joint, of, k, c, x))
        return name

    def bushing(
        self,
        name: str,
        a: Body | str,
        b: Body | str,
        at: Point,
        stiffness: Any,
        damping: Any = 0.0,
        axes: Any = None,
    ) -> str:
        """An elastic joint: `stiffness` and `damping` (6 each) for three displacements and three small turns."""
        where = f"bushing {name!r}"
        frame = np.eye(3) if axes is None else np.asarray(axes, dtype=float)
        point = self.problems.point(where, "at", at)
        joint = Joint(name, "free", self._named(where, a), self._named(where, b), point, point, frame)
        six = [self.problems.six(where, x) for x in (stiffness, damping)]
        self.bushings.append(BushingPart(joint, *six))
        return name

    def force(self, name: str, body: Body | str, at: Point, value: Point | Callable[..., Any]) -> str:
        """A force (N, world axes) at a point: constant, or `value(t, x, v)` of time and the point's motion."""
        return self._load(name, body, at, value, False)

    def torque(self, name: str, body: Body | str, value: Any) -> str:
        """A moment (N m, world axes) on a body, constant or `value(t, x, v)`; in the plane a number will do."""
        if self.is_planar and not callable(value) and np.ndim(value) == 0:
            value = (0.0, 0.0, float(value))
        return self._load(name, body, None, value, True)

    # -- actuators -------------------------------------------------------------------------------------------------

    def motor(self, name: str, joint: str, limits: Limits = None, of: str | None = None) -> str:
        """An input: torque (N m) or force (N) along a joint coordinate, on the child; the parent gets the opposite."""
        self.motors.append(OnJoint(name, joint, of, limits=self.problems.limits(name, limits)))
        return name

    def line_actuator(
        self, name: str, a: Body | str, b: Body | str, at: Point, at_child: Point, limits: Limits = None
    ) -> str:
        """An input: force (N) along the line between two points, positive when it pushes them apart."""
        line = self._line(name, a, b, at, at_child, 0.0, 0.0, None, self.problems.limits(name, limits))
        self.line_actuators.append(line)
        return name

    # -- sensors ---------------------------------------------------------------------------------------------------

    def point_sensor(self, name: str, body: Body | str, at: Point) -> str:
        """Reads the position and the velocity of a point of a body."""
        where = f"sensor {name!r}"
        self.sensors.append(SensorPart(name, "point", (self._named(where, body), self.problems.point(where, "at", at))))
        return name

    def orientation_sensor(self, name: str, body: Body | str) -> str:
        """Reads the orientation (rotation matrix; in the plane the angle) and the angular velocity of a body."""
        self.sensors.append(SensorPart(name, "orientation", self._named(f"sensor {name!r}", body)))
        return name

    def joint_sensor(self, name: str, joint: str, of: str | None = None) -> str:
        """Reads a joint coordinate and its rate."""
        self.sensors.append(SensorPart(name, "joint", OnJoint(name, joint, of)))
        return name

    def distance_sensor(self, name: str, a: Body | str, b: Body | str, at: Point, at_child: Point) -> str:
        """Reads the distance of two points and its rate."""
        line = self._line(name, a, b, at, at_child, 0.0, 0.0, None)
        self.sensors.append(SensorPart(name, "distance", line))
        return name

    # -- out -------------------------------------------------------------------------------------------------------

    def system(
        self,
        coordinates: str = "relative",
        *,
        cut: Sequence[str] = (),
    ) -> MechanismSystem:
        """The mechanism as a `System`, or a `ModelError` with everything that is wrong with it.

        `coordinates`: "relative" (joints of a spanning tree; `cut` names joints that must not be in it), "absolute"
        (3 or 6 per body) or "natural" (points and directions, 4 or 12 per body). Motion and reactions are the same.
        """
        from bricard.mechanism.absolute import absolute
        from bricard.mechanism.compile import compile_model
        from bricard.mechanism.natural import natural
        from bricard.mechanism.relative import relative

        kinds = ("relative", "absolute", "natural")
        if coordinates not in kinds:
            raise ModelError(self.name, [f"coordinates are {', '.join(kinds)}, not {coordinates!r}"])
        self.check()
        model = compile_model(self)
        if coordinates == "relative":
            return relative(model, cut)
        return absolute(model) if coordinates == "absolute" else natural(model)

    def to_mjcf(self) -> str:
        """The mechanism as an MJCF document for MuJoCo; what it cannot express is refused by name."""
        from bricard.mechanism.mjcf import mjcf

        return mjcf(self)

    def check(self) -> None:
        """Raise a `ModelError` that lists all problems of the description, if there are any."""
        from bricard.mechanism.check import description_problems

        problems = [*self.problems.found, *description_problems(self)]
        if problems:
            raise ModelError(self.name, problems)

    # -- inside ----------------------------------------------------------------------------------------------------

    def _named(self, where: str, body: Body | str) -> str:
        """The name of a body that is known here."""
        name = body.name if isinstance(body, Body) else body
        if name != "ground" and (not isinstance(name, str) or name not in self.bodies):
            self.problems.add(f"{where}: no body called {name!r}")
        elif isinstance(body, Body) and body is not self.bodies.get(name, self.ground):
            self.problems.add(f"{where}: body {name!r} belongs to another mechanism")
        return str(name)

    def _com(self, name: str) -> np.ndarray:
        return self.bodies[name].shape.com if name in self.bodies else np.zeros(3)

    def _joint(
        self,
        name: str,
        kind: str,
        parent: Body | str,
        child: Body | str,
        at: Point | None,
        axis: Point | None,
        at_child: Point | None,
        limits: Limits,
        *,
        axes: np.ndarray | None = None,
        thread: Number = 0.0,
        length: Number = 1.0,
    ) -> str:
        where = f"joint {name!r}"
        first, second = self._named(where, parent), self._named(where, child)
        point = self._com(second) if at is None else self.problems.point(where, "at", at)
        other = point if at_child is None else self.problems.point(where, "at_child", at_child)
        if self.is_planar and KINDS[kind].plane is None:
            self.problems.add(f"{where}: a {kind} joint is not possible in the plane")
        if axes is None:
            axes = np.eye(3) if axis is None else self._frame(where, kind, axis)
        bounds = None if limits is None else self.problems.limits(name, limits)
        self.joints.append(Joint(name, kind, first, second, point, other, axes, float(thread), float(length), bounds))
        return name

    def _frame(self, where: str, kind: str, axis: Point) -> np.ndarray:
        z = self.problems.axis(where, axis)
        if not self.is_planar:
            return frame_along(z)
        if kind in ("revolute", "spherical", "planar"):
            if abs(abs(z[2]) - 1.0) > 1e-9:
                self.problems.add(f"{where}: in the plane the axis is z, not {z.tolist()}")
            return np.eye(3) if z[2] >= 0 else np.diag([1.0, -1.0, -1.0])
        if abs(z[2]) > 1e-9:
            self.problems.add(f"{where}: its axis {z.tolist()} leaves the plane")
        out = np.array([0.0, 0.0, 1.0])
        return np.stack([np.cross(out, z), out, z], axis=1)

    def _line(self, name, a, b, at, at_child, stiffness, damping, rest, limits=(-np.inf, np.inf)) -> Line:
        where = f"line {name!r}"
        ends = self.problems.point(where, "at", at), self.problems.point(where, "at_child", at_child)
        if np.array_equal(*ends):
            self.problems.add(f"{where}: the two points coincide, so that it has no direction")
        k, c = self.problems.finite(where, stiffness=stiffness, damping=damping)
        rest = None if rest is None else self.problems.finite(where, length=rest)[0]
        return Line(name, self._named(where, a), self._named(where, b), *ends, k, c, rest, limits)

    def _load(self, name: str, body: Body | str, at: Point | None, value: Any, is_moment: bool) -> str:
        where = f"load {name!r}"
        label = self._named(where, body)
        point = self._com(label) if at is None else self.problems.point(where, "at", at)
        if not callable(value):
            value = self.problems.point(where, "value", value)
        self.loads.append(LoadPart(name, label, point, value, is_moment))
        return name
