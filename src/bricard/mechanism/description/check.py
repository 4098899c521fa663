"""What cannot be right in a description, found when the model is built and told all at once."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from bricard.errors import is_concrete
from bricard.mechanism.description.joint_types import KINDS, ROWS
from bricard.mechanism.description.solids import Shape, rigid
from bricard.mechanism.model.frames import Pair, pair_rows

if TYPE_CHECKING:
    from bricard.mechanism.description.builder import Mechanism
    from bricard.mechanism.description.records import Joint

MEETING_TOLERANCE = 1e-9
"""Frames of a joint meet if they are closer than this many metres, or units of the mechanism's size."""

TRACED = (
    "is being traced by JAX (jit, grad, vmap), and a mechanism is built from numbers: build it outside, and change "
    "numbers of the built system inside with eqx.tree_at"
)


def shown(value: Any) -> str:
    """A value as it was written, in short."""
    try:
        text = repr(value)
    except ValueError:  # an integer of thousands of digits
        text = "a number of thousands of digits"
    return text if len(text) <= 200 else f"{text[:100]}…"


class Problems:
    """Collects what is wrong with arguments as they come, and goes on with something harmless in their place."""

    def __init__(self, name: str, planar: bool):
        self.name, self.planar = name, planar
        self.found: list[str] = []

    def add(self, problem: str) -> None:
        """Note a problem."""
        self.found.append(problem)

    def array(self, where: str, label: str, value: Any) -> np.ndarray:
        """Numbers, or NaN in place of what is none; a tracer is told by its name."""
        if not is_concrete(value):
            self.add(f"{where}: {label} {TRACED}")
            return np.ones(jnp.asarray(value).shape)
        try:
            return np.asarray(value, dtype=float)
        except (OverflowError, TypeError, ValueError):
            return np.full(1, np.nan)

    def number(self, where: str, label: str, value: Any) -> float:
        """One number, or NaN in place of what is none."""
        number = self.array(where, label, value)
        return float(number) if number.ndim == 0 else float("nan")

    def point(self, where: str, label: str, value: Any) -> np.ndarray:
        """A point or vector (3,); in the plane two numbers will do."""
        point = self.array(where, label, value)
        if self.planar and point.shape == (2,):
            point = np.append(point, 0.0)
        if point.shape != (3,) or not np.all(np.isfinite(point)):
            size = "2" if self.planar else "3"
            self.add(f"{where}: {label} must be {size} finite numbers, not {shown(value)}")
            return np.zeros(3)
        if self.planar and label != "value" and point[2] != 0.0 and "axis" not in label:
            self.add(f"{where}: {label} {point.tolist()} is not in the plane z = 0")
        return point

    def axis(self, where: str, value: Any) -> np.ndarray:
        """A unit vector."""
        axis = self.point(where, "axis", value)
        size = np.linalg.norm(axis)
        if size == 0.0:
            self.add(f"{where}: its axis is zero")
            return np.array([0.0, 0.0, 1.0])
        return axis / size

    def positive(self, where: str, label: str, value: Any, allow_negative: bool = False) -> float:
        """A number above zero (or, for a pitch, one that is not zero)."""
        number = self.number(where, label, value)
        good = np.isfinite(number) and (number > 0 or (allow_negative and number != 0))
        if not good:
            self.add(f"{where}: {label} must be {'nonzero' if allow_negative else 'positive'}, not {shown(value)}")
        return number if good else 1.0

    def finite(self, where: str, **values: Any) -> list[float]:
        """Finite numbers."""
        result = []
        for label, value in values.items():
            number = self.number(where, label, value)
            if not np.isfinite(number):
                self.add(f"{where}: {label} must be a finite number, not {shown(value)}")
            result.append(number if np.isfinite(number) else 0.0)
        return result

    def six(self, where: str, value: Any) -> np.ndarray:
        """Six numbers, or one for all."""
        numbers = self.array(where, "value", value)
        if numbers.shape not in ((), (6,)) or not np.all(np.isfinite(numbers)):
            self.add(f"{where}: expected 6 finite numbers, not {shown(value)}")
            return np.zeros(6)
        return np.broadcast_to(numbers, (6,)).astype(float)

    def limits(self, name: str, value: Any) -> tuple[float, float]:
        """Smallest and largest value."""
        if value is None:
            return (-np.inf, np.inf)
        numbers = self.array(repr(name), "limits", value)
        if numbers.shape != (2,) or not numbers[0] <= numbers[1]:
            self.add(f"{name!r}: limits are a smallest and a largest value, not {shown(value)}")
            return (-np.inf, np.inf)
        return float(numbers[0]), float(numbers[1])

    def numbers(self, name: str, mass: Any, com: np.ndarray, inertia: Any) -> Shape:
        """A body from its numbers."""
        values, mass = self.array(f"body {name!r}", "inertia", inertia), self.number(f"body {name!r}", "mass", mass)
        try:
            if values.shape not in ((), (3,), (3, 3)):
                raise ValueError
            if self.planar and values.shape == ():
                values = np.array([0.0, 0.0, float(values)])
            return rigid(mass, com.tolist(), values)
        except (TypeError, ValueError):
            self.add(f"body {name!r}: mass must be a number and inertia 1, 3 or 3×3 numbers")
            return rigid(1.0, (0, 0, 0), 1.0)


def description_problems(m: Mechanism) -> list[str]:
    """Everything that is wrong with a description as a whole."""
    problems = []
    for body in m.bodies.values():
        problems += _body_problems(body.name, body.shape, m.is_planar)
    if not m.bodies:
        problems.append("it has no body")
    problems += _name_problems(m)
    for joint in m.joints:
        if joint.parent == joint.child:
            problems.append(f"joint {joint.name!r} connects {joint.parent!r} with itself")
        else:
            problems += _gap_problems(joint, m.is_planar)
    for wheel in m.wheels:
        steep = wheel.normal - (wheel.normal @ wheel.axis) * wheel.axis
        height = wheel.normal @ (wheel.center - wheel.origin) - wheel.radius * np.linalg.norm(steep)
        if abs(height) > MEETING_TOLERANCE * max(1.0, wheel.radius):
            problems.append(f"rolling {wheel.name!r}: the wheel is {height:.3g} m off its plane")
    return problems + _coordinate_problems(m) + _lonely_problems(m)


def _body_problems(name: str, shape: Shape, planar: bool) -> list[str]:
    numbers = np.concatenate([[shape.mass], shape.com, shape.inertia.ravel()])
    if not np.all(np.isfinite(numbers)):
        return [f"body {name!r}: its mass, centre of mass or inertia is not finite"]
    problems = []
    if shape.mass < 0:
        problems.append(f"body {name!r}: its mass is negative ({shape.mass:g} kg)")
    inertia, size = shape.inertia, np.max(np.abs(shape.inertia), initial=0.0)
    if planar:
        if inertia[2, 2] < 0:
            problems.append(f"body {name!r}: its inertia is negative ({inertia[2, 2]:g} kg m²)")
        if shape.com[2] != 0.0:
            problems.append(f"body {name!r}: its centre of mass {shape.com.tolist()} is not in the plane z = 0")
        return problems
    if np.max(np.abs(inertia - inertia.T)) > 1e-9 * size:
        return [*problems, f"body {name!r}: its inertia is not symmetric"]
    a, b, c = np.linalg.eigvalsh(inertia)
    if a < -1e-9 * size or a + b < c * (1 - 1e-9):
        problems.append(
            f"body {name!r}: no body has the principal inertias {a:.6g}, {b:.6g}, {c:.6g} kg m² "
            "(none may be negative, nor larger than the sum of the two others)"
        )
    return problems


def _name_problems(m: Mechanism) -> list[str]:
    groups = {
        "joint, constraint or gear": [x.name for x in (*m.joints, *m.relations, *m.wheels, *m.user_rows)],
        "input": [x.name for x in (*m.motors, *m.linear_actuators)],
        "force": [x.name for x in (*m.springs, *m.joint_springs, *m.loads)] + [b.joint.name for b in m.bushings],
        "rotor": [x.name for x in m.armatures],
        "sensor": [x.name for x in m.sensors],
    }
    return [
        f"{label} {name!r} is there {count} times"
        for label, names in groups.items()
        for name, count in Counter(names).items()
        if count > 1
    ]


def _gap_problems(joint: Joint, planar: bool) -> list[str]:
    """Whether the frames of a joint meet in the reference configuration."""
    length = joint.length if joint.kind == "distance" else 1.0
    pair = Pair(joint.at, joint.axes, joint.at_child, joint.axes)  # pyright: ignore[reportArgumentType]
    with jax.ensure_compile_time_eval():  # numbers stay numbers where JAX is tracing
        values = np.asarray(pair_rows(pair, joint.thread, length))
    rows = KINDS[joint.kind].rows(planar)
    off = [r for r in rows if abs(values[r]) > MEETING_TOLERANCE * max(1.0, float(np.max(np.abs(joint.at))))]
    if not off:
        return []
    gap = joint.at_child - joint.at
    if joint.kind == "distance":
        return [f"joint {joint.name!r}: its points are {np.linalg.norm(gap):.6g} m apart, not {joint.length:.6g}"]
    held = ", ".join(ROWS[r].split()[-1] for r in off)
    return [
        f"joint {joint.name!r}: its frames do not meet, they are {np.linalg.norm(gap):.6g} m apart "
        f"(along {held} of the joint)"
    ]


def _coordinate_problems(m: Mechanism) -> list[str]:
    """Whether what acts on joint coordinates names joints that have them."""
    uses = [(f"gear or driver {r.name!r}", j, of) for r in m.relations for j, of, _ in r.terms]
    uses += [(f"spring {s.name!r}", s.joint, s.of) for s in m.joint_springs]
    uses += [(f"motor {s.name!r}", s.joint, s.of) for s in m.motors]
    uses += [(f"armature {s.name!r}", s.joint, s.of) for s in m.armatures]
    uses += [(f"sensor {s.name!r}", s.of.joint, s.of.of) for s in m.sensors if s.kind == "joint"]
    kinds = {j.name: j.kind for j in m.joints}
    problems = []
    for where, joint, of in uses:
        if joint not in kinds:
            problems.append(f"{where}: no joint called {joint!r}")
        elif coordinate_of(kinds[joint], of) is None:
            problems.append(f"{where}: the {kinds[joint]} joint {joint!r} has no coordinate {of or 'of its own'}")
    return problems


def coordinate_of(kind: str, of: str | None) -> str | None:
    """Which of "turn" and "slide" is meant; None if the kind of joint has no such coordinate."""
    own = KINDS[kind].coordinate
    if of is None or of == own:
        return own
    return of if kind in ("cylindrical", "helical") and of in ("turn", "slide") else None


def _lonely_problems(m: Mechanism) -> list[str]:
    """Bodies that nothing connects with the ground."""
    if m.user_rows:
        return []  # A constraint of the user's own may hold any body.
    neighbours: dict[str, list[str]] = {}
    for j in (*m.joints, *m.wheels):
        neighbours.setdefault(j.parent, []).append(j.child)
        neighbours.setdefault(j.child, []).append(j.parent)
    reached, waiting = {"ground"}, ["ground"]
    while waiting:
        near = {b for b in neighbours.get(waiting.pop(), ()) if b not in reached}
        reached |= near
        waiting += near
    return [
        f"body {name!r} is attached to nothing (m.free(…) says that it is meant to fly)"
        for name in m.bodies
        if name not in reached
    ]
