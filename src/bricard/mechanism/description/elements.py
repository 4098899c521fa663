"""What a description holds, and how its parts are checked as they come in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from bricard.mechanism.description.check import Problems
from bricard.mechanism.description.joint_types import KINDS
from bricard.mechanism.description.records import (
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
from bricard.mechanism.description.solids import Shape, frame_along, rigid

Point = Any
"""2 or 3 numbers in any form; checked with everything else."""
STANDARD_GRAVITY = 9.81
"""m/s², downwards along z, or along y in the plane."""
AnyBody = Body | str
"""A body of the mechanism, or its name."""
Number = float | int | np.number | jax.Array
"""One number; a traced one is refused with an error that names it."""
Limits = Sequence[Number] | None


class Description:
    """The parts of a mechanism, as plain data; `Mechanism` is what users see of it."""

    def __init__(self, gravity: Point | None = None, planar: bool = False, name: str = "mechanism"):
        self.name = name
        self.is_planar = bool(planar)
        self.problems = Problems(name, self.is_planar)
        self.gravity = self.problems.point(name, "gravity", self._default_gravity if gravity is None else gravity)
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
        self.armatures: list[OnJoint] = []
        self.linear_actuators: list[Line] = []
        self.sensors: list[SensorPart] = []
        self.notes: list[str] = []

    @property
    def _default_gravity(self) -> tuple[float, ...]:
        return (0.0, -STANDARD_GRAVITY) if self.is_planar else (0.0, 0.0, -STANDARD_GRAVITY)

    def __repr__(self) -> str:
        counts = ((len(self.bodies), "body", "bodies"), (len(self.joints), "joint", "joints"))
        listed = ", ".join(f"{n} {one if n == 1 else many}" for n, one, many in counts)
        actuators = len(self.motors) + len(self.linear_actuators)
        listed += f", {actuators} actuator{'' if actuators == 1 else 's'}"
        return f"Mechanism {self.name!r} ({'planar' if self.is_planar else 'spatial'}): {listed}"

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

    # -- inside ----------------------------------------------------------------------------------------------------

    def _named(self, where: str, body: AnyBody) -> str:
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
        parent: AnyBody,
        child: AnyBody,
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

    def _load(self, name: str, body: AnyBody, at: Point | None, value: Any, is_moment: bool) -> str:
        where = f"load {name!r}"
        label = self._named(where, body)
        point = self._com(label) if at is None else self.problems.point(where, "at", at)
        if not callable(value):
            value = self.problems.point(where, "value", value)
        self.loads.append(LoadPart(name, label, point, value, is_moment))
        return name
