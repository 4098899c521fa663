"""`br.Mechanism`: bodies, joints, springs and motors in; a `System` in any of three kinds of coordinates out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from bricard.errors import ModelError
from bricard.extensions import extension
from bricard.mechanism.coordinates.mechanism_system import MechanismSystem
from bricard.mechanism.description.connections import Connections
from bricard.mechanism.description.elements import AnyBody, Limits, Number, Point
from bricard.mechanism.description.records import BushingPart, Joint, OnJoint, SensorPart


class Mechanism(Connections):
    """A description of a mechanism, in SI units and radians, placed in a reference configuration.

    Points and axes are given in world coordinates, as they are in the reference configuration; there every joint
    coordinate is zero (a slide: the distance of its two frames). With `planar=True` everything is in the x-y plane,
    points have two numbers, and turns are about z. `gravity` (m/s²) is 9.81 downwards by
    default, along -z, or along -y in the plane; `gravity=(0, 0, 0)` switches it off.

    Nothing is raised while describing: `system` checks everything and lists all problems at once.
    """

    # -- forces ----------------------------------------------------------------------------------------------------

    def spring(
        self,
        name: str,
        a: AnyBody,
        b: AnyBody,
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
        self, name: str, joint: str, stiffness: Number, damping: Number = 0.0, rest: Number = 0.0, of: str | None = None
    ) -> str:
        """A torsional (N m/rad) or linear (N/m) spring with a damper in a joint; `rest` is the coordinate at rest."""
        k, c, x = self.problems.finite(f"spring {name!r}", stiffness=stiffness, damping=damping, rest=rest)
        self.joint_springs.append(OnJoint(name, joint, of, k, c, x))
        return name

    def bushing(
        self, name: str, a: AnyBody, b: AnyBody, at: Point, stiffness: Any, damping: Any = 0.0, axes: Any = None
    ) -> str:
        """An elastic joint: `stiffness` and `damping` (6 each) for three displacements and three small turns."""
        where = f"bushing {name!r}"
        frame = np.eye(3) if axes is None else np.asarray(axes, dtype=float)
        point = self.problems.point(where, "at", at)
        joint = Joint(name, "free", self._named(where, a), self._named(where, b), point, point, frame)
        six = [self.problems.six(where, x) for x in (stiffness, damping)]
        self.bushings.append(BushingPart(joint, *six))
        return name

    def force(self, name: str, body: AnyBody, at: Point, value: Point | Callable[..., Any]) -> str:
        """A force (N, world axes) at a point: constant, or `value(t, x, v)` of time and the point's motion."""
        return self._load(name, body, at, value, False)

    def torque(self, name: str, body: AnyBody, value: Any) -> str:
        """A moment (N m, world axes) on a body, constant or `value(t, x, v)`; in the plane a number will do."""
        if self.is_planar and not callable(value) and np.ndim(value) == 0:
            value = (0.0, 0.0, float(value))
        return self._load(name, body, None, value, True)

    # -- actuators -------------------------------------------------------------------------------------------------

    def motor(self, name: str, joint: str, limits: Limits = None, of: str | None = None, *, gear: Number = 1.0) -> str:
        """An input: torque (N m) or force (N) along a joint coordinate, on the child; the parent gets the opposite.

        With a `gear`, the input is on the motor's side and `gear` times as much acts on the joint.
        """
        ratio = self.problems.positive(f"motor {name!r}", "gear", gear, allow_negative=True)
        self.motors.append(OnJoint(name, joint, of, limits=self.problems.limits(name, limits), gear=ratio))
        return name

    def armature(self, name: str, joint: str, inertia: Number, of: str | None = None) -> str:
        """Inertia (kg m²; kg for a slide) of a motor that turns with a joint coordinate: "armature" elsewhere.

        It is that felt at the joint, the rotor's own times the square of the gear. Its spin in space is left out.
        """
        value = self.problems.positive(f"armature {name!r}", "inertia", inertia)
        self.armatures.append(OnJoint(name, joint, of, inertia=value))
        return name

    def linear_actuator(
        self, name: str, a: AnyBody, b: AnyBody, at: Point, at_child: Point, limits: Limits = None
    ) -> str:
        """An input: force (N) along the line between two points, positive when it pushes them apart."""
        line = self._line(name, a, b, at, at_child, 0.0, 0.0, None, self.problems.limits(name, limits))
        self.linear_actuators.append(line)
        return name

    # -- sensors ---------------------------------------------------------------------------------------------------

    def point_sensor(self, name: str, body: AnyBody, at: Point) -> str:
        """Reads the position and the velocity of a point of a body."""
        where = f"sensor {name!r}"
        self.sensors.append(SensorPart(name, "point", (self._named(where, body), self.problems.point(where, "at", at))))
        return name

    def orientation_sensor(self, name: str, body: AnyBody) -> str:
        """Reads the orientation (rotation matrix; in the plane the angle) and the angular velocity of a body."""
        self.sensors.append(SensorPart(name, "orientation", self._named(f"sensor {name!r}", body)))
        return name

    def joint_sensor(self, name: str, joint: str, of: str | None = None) -> str:
        """Reads a joint coordinate and its rate."""
        self.sensors.append(SensorPart(name, "joint", OnJoint(name, joint, of)))
        return name

    def distance_sensor(self, name: str, a: AnyBody, b: AnyBody, at: Point, at_child: Point) -> str:
        """Reads the distance of two points and its rate."""
        line = self._line(name, a, b, at, at_child, 0.0, 0.0, None)
        self.sensors.append(SensorPart(name, "distance", line))
        return name

    # -- out -------------------------------------------------------------------------------------------------------

    def system(self, coordinates: str = "relative", *, cut: Sequence[str] = ()) -> MechanismSystem:
        """The mechanism as a `System`, or a `ModelError` with everything that is wrong with it.

        `coordinates`: "relative" (joints of a spanning tree; `cut` names joints that must not be in it), "absolute"
        (3 or 6 per body) or "natural" (points and directions, 4 or 12 per body). Motion and reactions are the same.
        """
        from bricard.mechanism.coordinates.absolute import absolute
        from bricard.mechanism.coordinates.natural import natural
        from bricard.mechanism.coordinates.relative import relative
        from bricard.mechanism.model.compile_model import compile_model

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
        return extension("MJCF document")(self)

    def check(self) -> None:
        """Raise a `ModelError` that lists all problems of the description, if there are any."""
        from bricard.mechanism.description.check import description_problems

        problems = [*self.problems.found, *description_problems(self)]
        if problems:
            raise ModelError(self.name, problems)
