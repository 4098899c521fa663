"""A mechanism as an MJCF file, for MuJoCo: tree joints as joints, loops as equalities (which MuJoCo softens).

Bodies are axis-aligned with the world in the reference configuration and have their origin in the centre of mass, so
that MuJoCo's joint coordinates are those of `system("relative")`, but for the zero of slides and for ball joints that
lead to the ground.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING
from xml.etree import ElementTree

import numpy as np

from bricard.errors import ModelError
from bricard.mechanism.coordinates.tree import Tree, spanning_tree
from bricard.mechanism.description.check import coordinate_of
from bricard.mechanism.description.joint_types import KINDS
from bricard.mechanism.model.compile_model import compile_model
from bricard.mechanism.model.compiled_model import Model

if TYPE_CHECKING:
    from bricard.mechanism.description.builder import Mechanism


def mjcf(m: Mechanism) -> str:
    """The XML text. What MJCF cannot express is refused by name."""
    m.check()
    model = compile_model(m)
    tree = spanning_tree(model)
    _refuse(m, model, tree)
    root = ElementTree.Element("mujoco", model=m.name)
    ElementTree.SubElement(root, "compiler", angle="radian", autolimits="true")
    ElementTree.SubElement(root, "option", gravity=_words(model.gravity))
    _bodies(model, tree, ElementTree.SubElement(root, "worldbody"), _on_joints(m))
    _equalities(model, tree, root)
    _actuators(m, root)
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode")


Settings = dict[tuple[str, str], dict[str, str]]
"""Attributes by joint and coordinate ("turn" or "slide")."""


def _on_joints(m: Mechanism) -> Settings:
    """Springs, dampers and armatures as attributes of the joints that they act on."""
    kinds = {j.name: j for j in m.joints}
    settings: Settings = {}
    for part in (*m.joint_springs, *m.armatures):
        joint = kinds[part.joint]
        what = coordinate_of(joint.kind, part.of) or ""
        values = {"armature": part.inertia, "stiffness": part.stiffness, "damping": part.damping}
        if part.stiffness:
            # A slide is zero in MuJoCo's reference configuration, and a distance here.
            start = float(joint.axes[:, 2] @ (joint.at_child - joint.at)) if what == "slide" else 0.0
            values["springref"] = part.rest - start
        chosen = {k: _words(x) for k, x in values.items() if x}
        settings.setdefault((part.joint, what), {}).update(chosen)
    return settings


def _bodies(model: Model, tree: Tree, world: ElementTree.Element, own: Settings) -> None:
    """Body elements, nested as in the tree."""
    frames, n = model.frames, model.n
    elements = {n: world}
    home = np.concatenate([np.asarray(model.home), np.zeros((1, 3))])
    owner = {link: body for body, link in enumerate(tree.body_link)}
    for i, link in enumerate(tree.links):
        if not link.last:
            continue
        body, joint = owner[i], link.joint
        parent = frames.parent[joint] if link.forward else frames.child[joint]
        element = ElementTree.SubElement(
            elements[parent], "body", name=model.names[body], pos=_words(home[body] - home[parent])
        )
        elements[body] = element
        _inertial(element, model, body)
        _joints(element, model, joint, link.forward, own)


def _inertial(element: ElementTree.Element, model: Model, body: int) -> None:
    inertia = _inertia(model, body)
    ElementTree.SubElement(
        element,
        "inertial",
        pos="0 0 0",
        mass=repr(float(model.mass[body])),
        fullinertia=_words(inertia[[0, 1, 2, 0, 0, 1], [0, 1, 2, 1, 2, 2]]),
    )


def _inertia(model: Model, body: int) -> np.ndarray:
    """Inertia (3, 3) about the centre of mass; in the plane any that is right about z."""
    inertia = np.asarray(model.inertia[body])
    return inertia[2, 2] * np.eye(3) if model.planar else inertia


def _joints(element: ElementTree.Element, model: Model, joint: int, forward: bool, own: Settings) -> None:
    """The elementary motions of a joint, in order; against its direction, backwards along opposite axes."""
    frames = model.frames
    name, sign = frames.names[joint], 1.0 if forward else -1.0
    point, axes = (frames.pb[joint], frames.B[joint]) if forward else (frames.pa[joint], frames.A[joint])
    if frames.kinds[joint] == "free" and not model.planar:
        ElementTree.SubElement(element, "freejoint", name=name)
        return
    for motion in KINDS[frames.kinds[joint]].elements(model.planar)[:: 1 if forward else -1]:
        label = f"{name} {motion.name}".strip()
        if motion.axis is None:
            ElementTree.SubElement(element, "joint", name=label, type="ball", pos=_words(point))
            continue
        settings = {
            "type": "hinge" if motion.turn else "slide",
            "axis": _words(sign * np.asarray(axes)[:, motion.axis]),
        }
        limits = model.joint_limits[joint]
        if limits is not None:
            settings["range"] = _words(limits)
        if motion.axis == 2:
            settings |= own.get((name, "turn" if motion.turn else "slide"), {})
        ElementTree.SubElement(element, "joint", {"name": label, "pos": _words(point), **settings})


def _equalities(model: Model, tree: Tree, root: ElementTree.Element) -> None:
    """Cut joints: a ball joint is one `connect`, a hinge two on its axis, a weld a `weld`."""
    frames = model.frames
    if not tree.cut:
        return
    section = ElementTree.SubElement(root, "equality")
    for j in tree.cut:
        kind = frames.kinds[j]
        names = [model.names[i] if i < model.n else "world" for i in (frames.parent[j], frames.child[j])]
        anchors = [np.asarray(frames.pa[j])]
        if kind == "revolute" and not model.planar:
            anchors.append(anchors[0] + float(model.scale) * np.asarray(frames.A[j])[:, 2])
        if kind == "fixed":
            ElementTree.SubElement(section, "weld", name=frames.names[j], body1=names[0], body2=names[1])
            continue
        for i, anchor in enumerate(anchors):
            label = frames.names[j] if i == 0 else f"{frames.names[j]} axis"
            # MuJoCo wants the anchor in the frame of body1; the world's is the ground's.
            ElementTree.SubElement(
                section, "connect", name=label, body1=names[0], body2=names[1], anchor=_words(anchor)
            )


def _actuators(m: Mechanism, root: ElementTree.Element) -> None:
    if not m.motors:
        return
    section = ElementTree.SubElement(root, "actuator")
    kinds = {j.name: j.kind for j in m.joints}
    for motor in m.motors:
        settings = {"ctrlrange": _words(motor.limits)} if np.all(np.isfinite(motor.limits)) else {}
        if motor.gear != 1.0:
            settings["gear"] = _words(motor.gear)
        kind = kinds[motor.joint]
        several = len(KINDS[kind].motions) > 1
        joint = f"{motor.joint} {coordinate_of(kind, motor.of)}" if several else motor.joint
        ElementTree.SubElement(section, "motor", {"name": motor.name, "joint": joint, **settings})


def _refuse(m: Mechanism, model: Model, tree: Tree) -> None:
    problems = []
    cut = set(tree.cut)
    for i, name in enumerate(model.names):
        if model.mass[i] <= 0 or np.linalg.eigvalsh(_inertia(model, i))[0] <= 0:
            problems.append(f"body {name!r}: MuJoCo needs mass, and inertia about every axis")
    for link in tree.links:
        name, kind = model.frames.names[link.joint], model.frames.kinds[link.joint]
        to_ground = model.frames.parent[link.joint] == model.n
        if kind == "helical" or (kind == "free" and not (link.forward and to_ground)):
            problems.append(f"joint {name!r}: MJCF has no such {kind} joint")
    for j in sorted(cut):
        if model.frames.kinds[j] not in ("revolute", "spherical", "coincident", "fixed"):
            name, kind = model.frames.names[j], model.frames.kinds[j]
            problems.append(f"joint {name!r} closes a loop: MJCF has no {kind} equality")
    for label, parts in (
        ("gear or driver", m.relations),
        ("rolling", m.wheels),
        ("constraint", m.user_rows),
        ("spring", m.springs),
        ("load", m.loads),
        ("line actuator", m.linear_actuators),
    ):
        problems += [f"{label} {p.name!r} cannot be written yet" for p in parts]
    loops = {model.frames.names[j] for j in cut}
    for label, parts in (("joint spring", m.joint_springs), ("rotor", m.armatures), ("motor", m.motors)):
        problems += [f"{label} {p.name!r} acts on a joint that closes a loop" for p in parts if p.joint in loops]
        used = Counter((p.joint, p.of) for p in parts)
        if label != "motor":
            problems += [f"joint {j!r} has {k} {label}s" for (j, _), k in used.items() if k > 1]
    problems += [f"bushing {b.joint.name!r} cannot be written yet" for b in m.bushings]
    if problems:
        raise ModelError(f"{m.name} as MJCF", sorted(set(problems)))


def _words(values) -> str:
    return " ".join(repr(float(x)) for x in np.asarray(values).reshape(-1))
