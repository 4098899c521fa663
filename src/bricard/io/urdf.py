"""URDF reader: links and joints of a tree, mimic joints and transmissions. Closed loops are added by `loops`.

The root link is fixed to the ground. A link without `<inertial>` has no mass, as the format specifies. Visual and
collision geometry is ignored, so no mesh file is needed.
"""

from __future__ import annotations

from collections import Counter, deque
from pathlib import Path
from typing import NamedTuple

import numpy as np

from bricard.io.loops import Loops, add_loops
from bricard.io.markup import Document, Element
from bricard.io.text_files import LARGEST_NUMBER
from bricard.mechanism import Mechanism, rigid
from bricard.mechanism.description.solids import rotation_about

TYPES = ("revolute", "continuous", "prismatic", "fixed", "floating", "planar")
DRIVEN = ("revolute", "continuous", "prismatic")
"""Joint types with one coordinate, which can have a motor, damping or a mimic relation."""
_DRIVEN_TEXT = "revolute, continuous or prismatic joint"


def read_urdf(file: Path, document: Document, loops: Loops) -> tuple[Mechanism, list[str]]:
    """Return the mechanism and a list of problems: errors in the file, and features that are not supported."""
    root = document.root
    reader = _Reader(root, Mechanism(gravity=(0, 0, -9.81), name=root.get("name") or file.stem), loops)
    return reader.mechanism(), reader.problems


class _Joint(NamedTuple):
    """A `<joint>` element.

    `origin` (m) and `rotation` are the pose of the joint frame in the parent link, `axis` is a unit vector in the joint
    frame, and `mimic` is the name of the other joint, the multiplier and the offset (rad, m).
    """

    name: str
    kind: str
    parent: str
    child: str
    origin: np.ndarray
    rotation: np.ndarray
    axis: np.ndarray
    element: Element
    mimic: tuple[str, float, float] | None


class _Reader:
    def __init__(self, root: Element, m: Mechanism, loops: Loops):
        self.root, self.m, self.loops = root, m, loops
        self.problems: list[str] = []
        self.reference: dict[str, float] = {}  # joint coordinates (rad, m) in the reference configuration
        self.links = {x.get("name", ""): x for x in root.findall("link")}
        self.joints = {j.name: j for j in (self._parse_joint(x) for x in root.findall("joint"))}

    def mechanism(self) -> Mechanism:
        """Return the mechanism, which is incomplete if there are `problems`."""
        self._check_names()
        order = self._tree_order()
        if not self.problems:
            self._compute_reference()
        if self.problems:
            return self.m
        poses = self._poses(order)
        for name, link in self.links.items():
            self._add_body(name, link, *poses[name])
        base = order[0].parent if order else next(iter(self.links))
        self.m.fixed(f"{base} fixed", self.m.ground, base)
        for joint in order:
            self._add_joint(joint, *poses[joint.child])
        for joint in order:
            if joint.mimic is not None:
                other, multiplier, _ = joint.mimic
                self.m.gear(f"{joint.name} mimics {other}", {joint.name: 1.0, other: -multiplier})
        for transmission in self.root.findall("transmission"):
            self._add_motor(transmission)
        self.problems += add_loops(self.m, self.loops, poses)
        self._add_notes(base)
        return self.m

    # -- reading ---------------------------------------------------------------------------------------------------

    def _numbers(self, where: str, element: Element | None, key: str, default: str) -> np.ndarray:
        """Numbers of the attribute `key`; the default determines how many are required."""
        text = default if element is None else element.get(key, default)
        try:
            numbers = np.array([float(x) for x in text.split()])
        except ValueError:
            numbers = np.full(1, np.nan)
        count = len(default.split())
        if len(numbers) != count or not np.all(np.abs(numbers) < LARGEST_NUMBER):
            self.problems.append(f"{where}: {key} must be {count} finite number{'s'[: count - 1]}, not {text[:60]!r}")
            return np.zeros(count)
        return numbers

    def _pose(self, where: str, element: Element | None) -> tuple[np.ndarray, np.ndarray]:
        """Point (m) and rotation matrix of the `<origin xyz rpy>` of an element."""
        origin = None if element is None else element.find("origin")
        roll, pitch, yaw = (
            rotation_about(axis, a) for axis, a in enumerate(self._numbers(where, origin, "rpy", "0 0 0"))
        )
        return self._numbers(where, origin, "xyz", "0 0 0"), yaw @ pitch @ roll

    def _parse_joint(self, element: Element) -> _Joint:
        name = element.get("name", "")
        where, kind = f"joint {name!r}", element.get("type", "")
        if kind not in TYPES:
            self.problems.append(f"{where}: the type must be one of {', '.join(TYPES)}, not {kind!r}")
        ends = []
        for end in ("parent", "child"):
            found = element.find(end)
            ends.append("" if found is None else found.get("link", ""))
            if ends[-1] not in self.links:
                self.problems.append(f"{where}: its {end} {ends[-1]!r} is not a link of the file")
        axis = self._numbers(where, element.find("axis"), "xyz", "1 0 0")
        if not np.any(axis):
            self.problems.append(f"{where}: the axis must not be zero")
            axis = np.array([1.0, 0.0, 0.0])
        mimic = element.find("mimic")
        relation = None
        if mimic is not None:
            ratio, offset = (
                float(self._numbers(where, mimic, k, d)[0]) for k, d in (("multiplier", "1"), ("offset", "0"))
            )
            relation = (mimic.get("joint", ""), ratio, offset)
        origin, rotation = self._pose(where, element)
        return _Joint(name, kind, ends[0], ends[1], origin, rotation, axis / np.linalg.norm(axis), element, relation)

    def _check_names(self) -> None:
        for label in ("link", "joint"):
            counts = Counter(x.get("name", "") for x in self.root.findall(label))
            self.problems += [f"{label} {n!r} is defined {k} times" for n, k in counts.items() if k > 1]
            self.problems += [f"a {label} has no name"] * ("" in counts)
        if not self.links:
            self.problems.append("the file contains no link")
        for joint in self.joints.values():
            if joint.mimic is not None:
                kinds = [self.joints[n].kind for n in (joint.name, joint.mimic[0]) if n in self.joints]
                if len(kinds) < 2 or not set(kinds) <= set(DRIVEN):
                    advice = f"both must be a {_DRIVEN_TEXT}"
                    self.problems.append(f"joint {joint.name!r}: cannot mimic {joint.mimic[0]!r}; {advice}")
        for name in self.loops.reference:
            if name not in self.joints or self.joints[name].kind not in DRIVEN:
                self.problems.append(f"{self.loops.source}: 'reference' names {name!r}, which is not a {_DRIVEN_TEXT}")

    def _tree_order(self) -> list[_Joint]:
        """Joints ordered from the root link outwards; reports links that are not connected to the root."""
        counts = Counter(j.child for j in self.joints.values())
        advice = "describe loops in a .loops.json file"
        self.problems += [f"link {n!r} is the child of {k} joints; {advice}" for n, k in counts.items() if k > 1]
        roots = [n for n in self.links if n not in counts]
        if self.links and len(roots) != 1:
            names = f" ({', '.join(roots)})" if roots else ""
            self.problems.append(f"there must be one root link (not a child of any joint), not {len(roots)}{names}")
        outgoing: dict[str, list[_Joint]] = {}
        for joint in self.joints.values():
            outgoing.setdefault(joint.parent, []).append(joint)
        reached, order, queue = set(roots), [], deque(roots)
        while queue:
            joints = [j for j in outgoing.get(queue.popleft(), ()) if j.child not in reached]
            order += joints
            queue += [j.child for j in joints]
            reached |= {j.child for j in joints}
        if len(roots) == 1:
            unreached = [n for n in self.links if n not in reached]
            self.problems += [f"link {n!r} is not connected to the root link" for n in unreached]
        return order

    # -- building --------------------------------------------------------------------------------------------------

    def _compute_reference(self) -> None:
        """Set the joint coordinates in the reference configuration, following mimic relations."""
        for joint in self.joints.values():
            chain, names = [joint], {joint.name}
            while chain[-1].mimic is not None and chain[-1].name not in self.reference:
                other = self.joints[chain[-1].mimic[0]]
                if other.name in names:
                    self.problems.append(f"joint {other.name!r} mimics itself")
                    return
                chain.append(other)
                names.add(other.name)
            for each in reversed(chain):
                if each.name in self.reference:
                    continue
                if each.mimic is None:
                    self.reference[each.name] = self.loops.reference.get(each.name, 0.0)
                else:
                    other, multiplier, offset = each.mimic
                    self.reference[each.name] = multiplier * self.reference[other] + offset
                    if not abs(self.reference[each.name]) < LARGEST_NUMBER:
                        self.problems.append(f"joint {each.name!r}: its coordinate from {other!r} is not finite")
                        return

    def _poses(self, order: list[_Joint]) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """Origin (m) and rotation matrix of each link frame in the reference configuration."""
        poses = {order[0].parent if order else next(iter(self.links)): (np.zeros(3), np.eye(3))}
        for joint in order:
            p, R = poses[joint.parent]
            p, R = p + R @ joint.origin, R @ joint.rotation
            coordinate = self.reference[joint.name]
            if joint.kind == "prismatic":
                p = p + R @ joint.axis * coordinate
            else:
                R = R @ rotation_about(joint.axis, coordinate)
            poses[joint.child] = (p, R)
        return poses

    def _add_body(self, name: str, link: Element, p: np.ndarray, R: np.ndarray) -> None:
        inertial, where = link.find("inertial"), f"link {name!r}"
        if inertial is None:
            self.m.body(name, rigid(0.0, p))
            return
        com, frame = self._pose(where, inertial)
        mass = float(self._numbers(where, inertial.find("mass"), "value", "0")[0])
        element = inertial.find("inertia")
        keys = ("ixx", "ixy", "ixz", "iyy", "iyz", "izz")
        xx, xy, xz, yy, yz, zz = (float(self._numbers(where, element, key, "0")[0]) for key in keys)
        inertia = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
        axes = R @ frame
        self.m.body(name, rigid(mass, p + R @ com, axes @ inertia @ axes.T))

    def _add_joint(self, joint: _Joint, p: np.ndarray, R: np.ndarray) -> None:
        """Add the joint with its damping; `p` (m) and `R` are the pose of the child link."""
        m, where, coordinate = self.m, f"joint {joint.name!r}", self.reference[joint.name]
        pair, axis = (joint.name, joint.parent, joint.child), R @ joint.axis
        limit = joint.element.find("limit")
        limits = None
        if limit is not None and joint.kind in ("revolute", "prismatic"):
            ends = [float(self._numbers(where, limit, key, "0")[0]) for key in ("lower", "upper")]
            # Only revolute coordinates are relative to the reference configuration.
            limits = [x - coordinate if joint.kind == "revolute" else x for x in ends]
        if joint.kind in ("revolute", "continuous"):
            m.revolute(*pair, p, axis, limits=limits)
        elif joint.kind == "prismatic":
            m.prismatic(*pair, axis, p - coordinate * axis, at_child=p, limits=limits)
        elif joint.kind == "planar":
            m.planar(*pair, axis, p)
        elif joint.kind == "fixed":
            m.fixed(*pair, p)
        else:
            m.free(*pair)
        dynamics = joint.element.find("dynamics")
        damping, friction = (float(self._numbers(where, dynamics, key, "0")[0]) for key in ("damping", "friction"))
        if friction:
            self.problems.append(f"{where}: friction is not supported")
        if damping and joint.kind in DRIVEN:
            m.joint_spring(f"{joint.name} damper", joint.name, 0.0, damping)
        elif damping:
            self.problems.append(f"{where}: damping of a {joint.kind} joint is not supported")

    def _add_motor(self, transmission: Element) -> None:
        """Add the motor of a transmission: the joint effort is the actuator effort times the reduction."""
        name = transmission.get("name") or "transmission"
        joint, actuator = transmission.find("joint"), transmission.find("actuator")
        driven = self.joints.get("" if joint is None else joint.get("name", ""))
        is_multiple = max(len(transmission.findall(x)) for x in ("joint", "actuator")) > 1
        if is_multiple or driven is None or driven.kind not in DRIVEN:
            self.problems.append(f"transmission {name!r}: only one actuator on one {_DRIVEN_TEXT} is supported")
            return
        reduction = None if actuator is None else actuator.find("mechanicalReduction")
        try:
            gear = 1.0 if reduction is None else float(reduction.text or "")
        except ValueError:
            gear = 0.0
        if not 1.0 / LARGEST_NUMBER < abs(gear) < LARGEST_NUMBER:
            self.problems.append(f"transmission {name!r}: mechanicalReduction must be a nonzero number")
            return
        limit = driven.element.find("limit")
        effort = float(self._numbers(f"joint {driven.name!r}", limit, "effort", "0")[0]) / abs(gear)
        label = actuator.get("name") if actuator is not None else None
        self.m.motor(label or name, driven.name, (-effort, effort) if effort else None, gear=gear)

    def _add_notes(self, base: str) -> None:
        self.m.notes.append(f"link {base!r} is fixed to the ground")
        if any(link.find("collision") is not None for link in self.links.values()):
            self.m.notes.append("collision geometry is ignored: bodies can pass through each other")
        if not self.m.motors:
            self.m.notes.append("the file has no <transmission>, so no joint is driven: add motors with m.motor(…)")
