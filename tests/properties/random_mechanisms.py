"""Random mechanisms: a seed fixes the topology, each draw has its own geometry, orientation, offset, scale and masses.

`Sketch` describes a mechanism to bricard and, in other terms, to the oracle of `maximal.py`.
"""

from typing import Any, NamedTuple

import numpy as np

import bricard as br

DRAWS = 16
"""Geometries of each topology."""


class Joint(NamedTuple):
    """What the oracle knows of a joint; body `-1` is the ground."""

    kind: str
    parent: int
    child: int
    data: dict[str, Any]


class Spring(NamedTuple):
    a: int
    b: int
    at: np.ndarray
    at_child: np.ndarray
    stiffness: np.ndarray
    damping: np.ndarray


class Sketch:
    """A mechanism in a random place: local geometry of about unit size, rotated, scaled and moved into the world."""

    def __init__(self, topology, geometry, planar=False):
        self.topology, self.geometry, self.planar = topology, geometry, planar
        self.scale = 10.0 ** geometry.uniform(-1.5, 1.5)
        if planar:
            angle = geometry.uniform(-np.pi, np.pi)
            self.Q = np.array([[np.cos(angle), -np.sin(angle), 0], [np.sin(angle), np.cos(angle), 0], [0, 0, 1]])
            self.offset = self.scale * np.array([*geometry.normal(size=2), 0.0]) * 10
            self.gravity = np.array([*geometry.normal(size=2) * 5, 0.0])
        else:
            self.Q = np.linalg.qr(geometry.normal(size=(3, 3)))[0]
            self.Q *= np.sign(np.linalg.det(self.Q))
            self.offset = self.scale * geometry.normal(size=3) * 10
            self.gravity = geometry.normal(size=3) * 5
        self.m = br.Mechanism(gravity=self._w(self.gravity), planar=planar)
        self.joints, self.springs, self.motors = [], [], []
        self.mass, self.home, self.inertia = [], [], []

    # -- geometry --------------------------------------------------------------------------------------------------

    def _w(self, x):
        """As the description takes vectors: two numbers in the plane."""
        return x[:2] if self.planar else x

    def point(self, at=None):
        """A random local point, near `at`."""
        x = self.geometry.normal(size=3) if at is None else at + 0.7 * self.geometry.normal(size=3)
        return x * np.array([1, 1, 0]) if self.planar else x

    def direction(self, normal_to=None):
        d = self.geometry.normal(size=3)
        if normal_to is not None:
            d = d - (d @ normal_to) * normal_to / (normal_to @ normal_to)
        return d / np.linalg.norm(d)

    def world(self, x):
        return self.offset + self.scale * (self.Q @ x)

    def chance(self, p):
        return self.topology.random() < p

    # -- parts -----------------------------------------------------------------------------------------------------

    def body(self, com, massless=False):
        """A body with random mass and inertia; its number."""
        root = self.geometry.normal(size=(3, 3)) * 0.4
        mass = 10.0 ** self.geometry.uniform(-1, 1) * (0.0 if massless else 1.0)
        inertia = mass * self.scale**2 * (np.trace(root @ root.T) * np.eye(3) - root @ root.T)
        name = f"b{len(self.mass)}"
        com = self.world(com)
        self.m.body(name, mass=mass, com=self._w(com), inertia=inertia[2, 2] if self.planar else inertia)
        self.mass.append(mass), self.home.append(com), self.inertia.append(inertia)
        if self.planar:
            self.joints.append(Joint("in_plane", len(self.mass) - 1, -1, {}))
        return len(self.mass) - 1

    def _name(self, i):
        return "ground" if i < 0 else f"b{i}"

    def joint(self, kind, a, b, at, axis=None, second=None, pitch=None, at_child=None):
        """Any joint or constraint of `maximal.rows`; points and axes are local."""
        name = f"j{len(self.joints)}"
        x = self.world(at)
        data = {"at": x}
        pair = (name, self._name(a), self._name(b))
        if axis is not None:
            data["axis"] = self.Q @ axis
        if kind in ("revolute", "cylindrical"):
            getattr(self.m, kind)(*pair, self._w(x), *([] if self.planar else [data["axis"]]))
            data.setdefault("axis", np.array([0.0, 0.0, 1.0]))
        elif kind in ("spherical", "fixed", "coincident"):
            getattr(self.m, kind)(*pair, self._w(x))
        elif kind == "prismatic":
            self.m.prismatic(*pair, self._w(data["axis"]), self._w(x))
        elif kind == "planar":
            self.m.planar(*pair, data["axis"], x)
        elif kind == "universal":
            data["second"] = self.Q @ second
            self.m.universal(*pair, x, data["axis"], data["second"])
        elif kind == "helical":
            data["pitch"] = np.array(pitch * self.scale)
            self.m.helical(*pair, x, data["axis"], float(data["pitch"]))
        elif kind == "distance":
            data["at_child"] = self.world(at_child)
            data["length"] = np.array(np.linalg.norm(data["at_child"] - x))
            self.m.distance(*pair, self._w(x), self._w(data["at_child"]))
        elif kind in ("point_on_line", "point_on_plane"):
            getattr(self.m, kind)(*pair, self._w(x), self._w(data["axis"]))
        else:
            assert kind == "parallel"
            del data["at"]
            self.m.parallel(*pair, self._w(data["axis"]))
        self.joints.append(Joint(kind, a, b, data))
        return len(self.joints) - 1

    def gear(self, first, second):
        ratio = np.array(self.geometry.uniform(0.3, 3.0) * self.geometry.choice([-1, 1]))
        if self.joints[first].kind == "prismatic":
            ratio = ratio / self.scale
        if self.joints[second].kind == "prismatic":
            ratio = ratio * self.scale
        self.m.gear(f"g{len(self.joints)}", {f"j{first}": float(ratio), f"j{second}": 1.0})
        parts = [(self.joints[first], ratio), (self.joints[second], np.array(1.0))]
        self.joints.append(Joint("gear", -1, -1, {"parts": parts}))

    def spring(self, a, b, at, at_child):
        k, c = 10.0 ** self.geometry.uniform(0, 2), self.geometry.uniform(0, 2)
        x, y = self.world(at), self.world(at_child)
        self.m.spring(
            f"s{len(self.springs)}", self._name(a), self._name(b), self._w(x), self._w(y), k, c, length=0.8 * self.scale
        )
        self.springs.append(Spring(a, b, x, y, np.array(k), np.array(c)))

    def motor(self, joint):
        self.m.motor(f"m{len(self.motors)}", f"j{joint}")
        self.motors.append(self.joints[joint])


# -- families of topologies --------------------------------------------------------------------------------------------

TREE = ("revolute", "prismatic", "cylindrical", "universal", "spherical", "planar", "helical", "fixed", "revolute")


def random_joint(s, kind, a, b, at, axis=None):
    """A joint with a random axis, and how to place the same joint again without changing the motion."""
    axis = s.direction() if axis is None else axis
    second = s.direction(normal_to=axis) if kind == "universal" else None
    pitch = s.geometry.uniform(0.3, 2.0) if kind == "helical" else None
    one = s.joint(kind, a, b, at, axis, second, pitch)

    def again():
        shift = s.geometry.uniform(0.5, 2.0)
        place = {
            "revolute": at + shift * axis,
            "cylindrical": at + shift * axis,
            "helical": at + shift * axis,
            "prismatic": s.point(at),
            "fixed": s.point(at),
            "planar": at + shift * s.direction(normal_to=axis),
        }.get(kind, at)
        s.joint(kind, a, b, place, axis, second, pitch)

    def implied():
        """A constraint that the joint implies."""
        if kind in ("revolute", "prismatic", "cylindrical", "planar", "helical", "fixed"):
            if s.chance(0.5) or kind in ("planar", "fixed"):
                s.joint("parallel", a, b, at, axis)
            else:
                s.joint("point_on_line", a, b, at + s.geometry.uniform(-1, 1) * axis, axis)
        else:
            s.joint("coincident", a, b, at)

    return one, again, implied


def tree(s):
    """A random tree of all types of joints, some of them doubled or repeated by a constraint."""
    last = []
    for _ in range(s.topology.integers(2, 4)):
        parent = int(s.topology.integers(-1, len(s.mass)))
        at = s.point()
        child = s.body(s.point(at))
        kind = str(s.topology.choice(TREE))
        one, again, implied = random_joint(s, kind, parent, child, at)
        if s.chance(0.5):
            again()
        if s.chance(0.4):
            implied()
        if kind in ("revolute", "prismatic"):
            last.append(one)
            if s.chance(0.5):
                s.motor(one)
    if len(last) >= 2 and s.chance(0.6):
        s.gear(last[0], last[1])
    s.spring(-1, child, s.point(), s.point())


CLOSING = (
    *("revolute", "revolute", "cylindrical", "spherical", "coincident", "universal"),
    *("point_on_line", "distance", "point_on_plane", "planar", "parallel"),
)


def planar_loop(s):
    """A chain that moves in a plane at random, closed again and again by joints that the plane makes redundant."""
    normal = s.direction()
    count = int(s.topology.integers(3, 5))
    massless = int(s.topology.integers(1, count - 1)) if count == 3 and s.chance(0.4) else None
    before = -1
    for i in range(count):
        at = s.point()
        child = s.body(s.point(at), massless=i == massless)
        kind = "prismatic" if i and s.chance(0.25) else "revolute"
        one, again, _ = random_joint(
            s, kind, before, child, at, normal if kind == "revolute" else s.direction(normal_to=normal)
        )
        if s.chance(0.3):
            again()
        if i == 0:
            s.motor(one)
        before = child
    close = "revolute" if massless is not None else str(s.topology.choice(CLOSING))
    _close_in_plane(s, close, before, normal)
    if massless is None and s.chance(0.4):
        _close_in_plane(s, str(s.topology.choice(("parallel", "planar", "point_on_plane"))), before, normal)
    s.spring(-1, before, s.point(), s.point())


def _close_in_plane(s, kind, body, normal):
    at = s.point()
    if kind == "distance":
        s.joint(kind, -1, body, at, at_child=at + s.geometry.uniform(0.5, 2.0) * s.direction(normal_to=normal))
    elif kind == "universal":
        s.joint(kind, -1, body, at, normal, s.direction(normal_to=normal))
    elif kind == "point_on_line":
        s.joint(kind, -1, body, at, s.direction(normal_to=normal))
    else:
        s.joint(kind, -1, body, at, normal)


def spherical_loop(s):
    """Hinges whose axes meet in a point: a loop with three rows too many."""
    center, before = s.point(), -1
    for i in range(int(s.topology.integers(3, 5))):
        axis = s.direction()
        child = s.body(s.point(center))
        one = s.joint("revolute", before, child, center + s.geometry.uniform(0.5, 1.5) * axis, axis)
        if i == 0:
            s.motor(one)
        before = child
    axis = s.direction()
    s.joint("revolute", -1, before, center + s.geometry.uniform(0.5, 1.5) * axis, axis)
    if s.chance(0.5):
        s.joint("spherical", -1, before, center)


def spatial_loop(s):
    """A loop of joints in general position: mobile if they have more than six freedoms, else locked."""
    freedoms = {"revolute": 1, "prismatic": 1, "helical": 1, "cylindrical": 2, "universal": 2, "spherical": 3}
    count, before, total = int(s.topology.integers(2, 4)), -1, 0
    for i in range(count):
        kind = str(s.topology.choice(list(freedoms))) if i else "revolute"
        at = s.point()
        child = s.body(s.point(at))
        one, again, implied = random_joint(s, kind, before, child, at)
        if s.chance(0.3):
            s.topology.choice([again, implied])()
        if i == 0:
            s.motor(one)
        total += freedoms[kind]
        before = child
    random_joint(s, "spherical" if total < 5 or s.chance(0.5) else "cylindrical", -1, before, s.point())
    s.spring(-1, 0, s.point(), s.point())


def platform(s):
    """A platform on rods and legs, some of them one too many."""
    top = s.body(s.point())
    rods = int(s.topology.integers(2, 5))
    for _ in range(rods):
        s.joint("distance", -1, top, s.point(), at_child=s.point())
    at = s.point()
    leg = s.body(s.point(at))
    s.joint("universal", -1, leg, at, axis := s.direction(), s.direction(normal_to=axis))
    s.joint("spherical", leg, top, s.point())
    if s.chance(0.4):
        s.joint("point_on_plane", -1, top, s.point(), s.direction())


def flat(s):
    """A mechanism described in the plane."""
    before = -1
    hinges = []
    for i in range(int(s.topology.integers(3, 5))):
        at = s.point()
        child = s.body(s.point(at))
        slides = i > 0 and s.chance(0.3)
        axis = s.direction(normal_to=np.array([0.0, 0, 1])) if slides else None
        hinges.append(s.joint("prismatic" if slides else "revolute", before, child, at, axis))
        if i == 0:
            s.motor(hinges[0])
        before = child
    close = str(s.topology.choice(("revolute", "distance", "coincident", "point_on_line")))
    axis = s.direction(normal_to=np.array([0.0, 0, 1])) if close == "point_on_line" else None
    s.joint(close, -1, before, s.point(), axis, at_child=s.point() if close == "distance" else None)
    if s.chance(0.4):
        s.gear(hinges[0], hinges[1])
    s.spring(-1, before, s.point(), s.point())


FAMILIES = (planar_loop, tree, spherical_loop, flat, spatial_loop, planar_loop, platform, tree)


def sketch(seed, draw):
    """One draw of a topology."""
    family = FAMILIES[seed % len(FAMILIES)]
    s = Sketch(np.random.default_rng(seed), np.random.default_rng([seed, draw, 7]), planar=family is flat)
    family(s)
    return s
