"""From a description to stacked arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np

from bricard.errors import ModelError
from bricard.mechanism.description.check import coordinate_of
from bricard.mechanism.description.joint_types import KINDS
from bricard.mechanism.description.records import Body, Joint, Line
from bricard.mechanism.model.compiled_model import Model, Relations, UserConstraint, View
from bricard.mechanism.model.forces import Load, Springs
from bricard.mechanism.model.frames import Frames, Placement
from bricard.mechanism.model.joint_measures import Lines
from bricard.mechanism.model.rolling import Rolling
from bricard.mechanism.model.sensors import OrientationSensor, PointSensor

if TYPE_CHECKING:
    from bricard.mechanism.description.builder import Mechanism


def compile_model(m: Mechanism) -> Model:
    """The arrays of a description that has been checked."""
    names = tuple(m.bodies)
    shapes = [b.shape for b in m.bodies.values()]
    index = {name: i for i, name in enumerate(names)} | {"ground": len(names)}
    home = np.stack([s.com for s in shapes])
    origin = np.concatenate([home, np.zeros((1, 3))])
    joints = [*m.joints, *_free_bodies(m)]
    coordinates = _Coordinates(joints)
    inertia = np.stack([s.inertia for s in shapes])
    if m.is_planar:
        inertia = inertia * np.diag([0.0, 0.0, 1.0])
    kinds = [KINDS[j.kind].rows(m.is_planar) for j in joints]
    relations = _relations(m, coordinates)
    sprung = tuple(coordinates.place(s.joint, s.of) for s in m.joint_springs)
    readers = _readers(m, coordinates, index, origin)
    tracked = tuple(j for j, what in coordinates.table if what == "turn")
    motors = tuple(coordinates.place(s.joint, s.of) for s in m.motors)  # these do not need the angle,
    armatures = tuple(coordinates.place(s.joint, s.of) for s in m.armatures)  # nor do these
    model = Model(
        mass=_array([s.mass for s in shapes]),
        inertia=_array(inertia, 3, 3),
        home=_array(home, 3),
        gravity=_array(m.gravity),
        frames=_frames(joints, index, origin),
        rolling=_rolling(m, index, origin),
        readers=readers,
        relations=relations,
        user=tuple(UserConstraint(u.function, u.size, u.name) for u in m.user_rows),
        spring_lines=_lines(m.springs, index, origin),
        line_springs=Springs(
            _array([s.stiffness for s in m.springs]),
            _array([s.damping for s in m.springs]),
            _array([_span(s) if s.rest is None else s.rest for s in m.springs]),
        ),
        joint_springs=Springs(
            _array([s.stiffness for s in m.joint_springs]),
            _array([s.damping for s in m.joint_springs]),
            _array([s.rest for s in m.joint_springs]),
        ),
        gears=_array([s.gear for s in m.motors]),
        rotor_inertia=_array([s.inertia for s in m.armatures]),
        bushing_frames=_frames([b.joint for b in m.bushings], index, origin),
        bushings=Springs(
            _array([b.stiffness for b in m.bushings]).reshape(-1),
            _array([b.damping for b in m.bushings]).reshape(-1),
            jnp.zeros(6 * len(m.bushings)),
        ),
        loads=tuple(
            Load(
                index[p.body],
                _array(p.at - origin[index[p.body]]),
                p.value if callable(p.value) else _array(p.value),
                p.is_moment,
            )
            for p in m.loads
        ),
        actuator_lines=_lines(m.linear_actuators, index, origin),
        outlines=tuple(tuple(_array(line - b.shape.com, 3) for line in _outline(m, b)) for b in m.bodies.values()),
        scale=_array(_size(m, home)),
        names=names,
        planar=m.is_planar,
        rows=tuple((j, r) for j, rows in enumerate(kinds) for r in rows),
        coordinates=tuple(coordinates.table),
        tracked=tracked,
        sprung=sprung,
        motors=motors,
        armatures=armatures,
        inputs=tuple(x.name for x in (*m.motors, *m.linear_actuators)),
        limits=tuple(x.limits for x in (*m.motors, *m.linear_actuators)),
        joint_limits=tuple(j.limits for j in joints),
        sensor_names=tuple(s.name for s in m.sensors),
    )
    _check_functions(model, m.name)
    return model


class _Coordinates:
    """The joint coordinates that something acts on, each once."""

    def __init__(self, joints: Sequence[Joint]):
        self.joints = {j.name: (i, j) for i, j in enumerate(joints)}
        self.table: list[tuple[int, str]] = []

    def place(self, joint: str, of: str | None) -> int:
        """Where the coordinate is in the table."""
        i, part = self.joints[joint]
        what = coordinate_of(part.kind, of)
        assert what is not None
        if (i, what) not in self.table:
            self.table.append((i, what))
        return self.table.index((i, what))

    def reference(self, place: int) -> float:
        """Its value in the reference configuration."""
        i, what = self.table[place]
        joint = next(j for k, j in self.joints.values() if k == i)
        return 0.0 if what == "turn" else float(joint.axes[:, 2] @ (joint.at_child - joint.at))


def _relations(m: Mechanism, coordinates: _Coordinates) -> Relations:
    """Over the joint coordinates in the table so far, which are theirs."""
    rows, offsets = [], []
    for relation in m.relations:
        terms = [(coordinates.place(j, of), c) for j, of, c in relation.terms]
        rows.append(terms)
        start = sum(c * coordinates.reference(i) for i, c in terms)
        offsets.append(start if relation.offset is None else relation.offset)
    matrix = np.zeros((len(rows), len(coordinates.table)))
    for r, terms in enumerate(rows):
        for i, c in terms:
            matrix[r, i] += c
    drives = tuple(r.drive for r in m.relations)
    return Relations(jnp.asarray(matrix), _array(offsets), drives, tuple(r.name for r in m.relations))


def _readers(m: Mechanism, coordinates: _Coordinates, index: dict[str, int], origin: np.ndarray) -> tuple:
    readers = []
    for sensor in m.sensors:
        if sensor.kind == "joint":
            readers.append(coordinates.place(sensor.of.joint, sensor.of.of))
        elif sensor.kind == "distance":
            readers.append(_lines([sensor.of], index, origin))
        elif sensor.kind == "orientation":
            readers.append(OrientationSensor(index[sensor.of], m.is_planar))
        else:
            body, at = sensor.of
            readers.append(PointSensor(_array(at - origin[index[body]]), index[body], m.is_planar))
    return tuple(readers)


def _check_functions(model: Model, name: str) -> None:
    """Call the user's functions once, with shapes only; list those that fail."""
    place = Placement(model.home, jnp.tile(jnp.eye(3), (model.n, 1, 1)), jnp.zeros(len(model.tracked)))
    view = View(place, model.home, model.names)
    time = jnp.zeros(())
    calls = [(f"constraint {c.name!r}", lambda c=c: c.function(view, time), c.size) for c in model.user]
    drives = zip(model.relations.names, model.relations.drives, strict=True)
    calls += [(f"drive {n!r}", lambda f=f: f(time), 1) for n, f in drives if f is not None]
    for load in model.loads:
        if callable(load.value):
            calls.append((f"load on {model.names[load.body]!r}", lambda f=load.value: f(time, *jnp.zeros((2, 3))), 3))
    problems = []
    for label, call, size in calls:
        try:
            result = jax.eval_shape(lambda call=call: jnp.asarray(call(), dtype=float))
            if int(np.prod(result.shape)) != size:
                problems.append(f"{label} returns an array of shape {result.shape} instead of {size} numbers")
        except Exception as error:
            problems.append(f"{label} fails: {type(error).__name__}: {error}")
    if problems:
        raise ModelError(name, problems)


def _free_bodies(m: Mechanism) -> list[Joint]:
    """A free joint for each group of bodies that no joint connects with the ground."""
    links = [(j.parent, j.child) for j in m.joints if KINDS[j.kind].is_joint]
    reached, added = {"ground"}, []
    for name in ["ground", *m.bodies]:
        if name not in reached:
            com = m.bodies[name].shape.com
            added.append(Joint(f"{name} free", "free", "ground", name, com, com, np.eye(3)))
            reached.add(name)
        while more := ({b for a, b in links if a in reached} | {a for a, b in links if b in reached}) - reached:
            reached |= more
    return added


def _frames(joints: Sequence[Joint], index: dict[str, int], origin: np.ndarray) -> Frames:
    parent = tuple(index[j.parent] for j in joints)
    child = tuple(index[j.child] for j in joints)
    axes = _array([j.axes for j in joints], 3, 3)
    # A free joint's coordinates are those of the body in the world.
    starts = [np.zeros(3) if j.kind == "free" and j.parent == "ground" else j.at for j in joints]
    return Frames(
        pa=_array([p - origin[i] for p, i in zip(starts, parent, strict=True)], 3),
        A=axes,
        pb=_array([j.at_child - origin[i] for j, i in zip(joints, child, strict=True)], 3),
        B=axes,
        thread=_array([j.thread for j in joints]),
        length=_array([j.length for j in joints]),
        names=tuple(j.name for j in joints),
        kinds=tuple(j.kind for j in joints),
        parent=parent,
        child=child,
    )


def _lines(lines: Sequence[Line], index: dict[str, int], origin: np.ndarray) -> Lines:
    first, second = tuple(index[x.parent] for x in lines), tuple(index[x.child] for x in lines)
    return Lines(
        _array([x.at - origin[i] for x, i in zip(lines, first, strict=True)], 3),
        _array([x.at_child - origin[i] for x, i in zip(lines, second, strict=True)], 3),
        first,
        second,
    )


def _rolling(m: Mechanism, index: dict[str, int], origin: np.ndarray) -> Rolling:
    first, second = tuple(index[w.parent] for w in m.wheels), tuple(index[w.child] for w in m.wheels)
    planes = []
    for wheel in m.wheels:
        n = wheel.normal
        out = np.array([0.0, 0.0, 1.0])
        tangent = np.cross(n, out) if m.is_planar else np.cross(n, np.eye(3)[int(np.argmin(np.abs(n)))])
        tangent = tangent / np.linalg.norm(tangent)
        planes.append(np.stack([n, tangent, np.cross(n, tangent)], axis=1))
    return Rolling(
        _array([w.origin - origin[i] for w, i in zip(m.wheels, first, strict=True)], 3),
        _array(planes, 3, 3),
        _array([w.center - origin[i] for w, i in zip(m.wheels, second, strict=True)], 3),
        _array([w.axis for w in m.wheels], 3),
        _array([w.radius for w in m.wheels]),
        tuple(w.name for w in m.wheels),
        first,
        second,
    )


def _outline(m: Mechanism, body: Body) -> tuple[np.ndarray, ...]:
    """Lines to draw; a body without a shape is drawn as sticks from its centre of mass to its joints."""
    shape = body.shape
    if any(len(line) > 1 for line in shape.outline):
        return shape.outline
    joints = [j for j in m.joints if body.name in (j.parent, j.child)]
    ends = [j.at if j.parent == body.name else j.at_child for j in joints]
    sticks = tuple(np.stack([shape.com, end]) for end in ends if not np.allclose(end, shape.com, rtol=0, atol=1e-9))
    return sticks or shape.outline


def _span(line: Line) -> float:
    return float(np.linalg.norm(line.at_child - line.at))


def _size(m: Mechanism, home: np.ndarray) -> float:
    """A length to compare forces with moments: how far the joints are from each other."""
    points = np.concatenate([home, *(np.stack([j.at, j.at_child]) for j in m.joints)])
    size = float(np.max(np.ptp(points, axis=0)))
    return size if size > 0 else 1.0


def _array(values, *shape: int):
    array = np.asarray(values, dtype=float)
    return jnp.asarray(array.reshape(-1, *shape) if shape else array)
