"""Rigid bodies in maximal coordinates, in NumPy: an oracle that shares no code with bricard.

Everything is written for a batch of states at once (leading axis). A constraint is a function of the motion of two
bodies, differentiated along the motion with constant twists by the product rule: a `Jet` holds value, first and second
derivative. `A` follows from unit twists, the bias of the acceleration constraint from the twists of the state; then
`v̇ = A⁺b + N w`, `NᵀMN w = Nᵀ(f − M A⁺b)` by singular value decomposition.
"""

from typing import NamedTuple

import numpy as np

RANK = 1e-7
"""Singular values below this fraction of the largest are zero (rows and columns have about unit size)."""


class Jet(NamedTuple):
    """A vector (…, 3) or scalar (…, 1) with its first two derivatives along the motion."""

    x: np.ndarray
    d: np.ndarray
    dd: np.ndarray

    def __add__(self, other):
        return Jet(*(a + b for a, b in zip(self, other, strict=True)))

    def __sub__(self, other):
        return Jet(*(a - b for a, b in zip(self, other, strict=True)))


def product(a, b, by):
    """The jet of a bilinear product."""
    return Jet(by(a.x, b.x), by(a.d, b.x) + by(a.x, b.d), by(a.dd, b.x) + 2 * by(a.d, b.d) + by(a.x, b.dd))


def cross(a, b):
    return product(a, b, np.cross)


def dot(a, b):
    return product(a, b, lambda x, y: np.sum(x * y, axis=-1, keepdims=True))


class Bodies(NamedTuple):
    """Positions, velocities, angular velocities (…, n, 3), orientations (…, n, 3, 3); the last body is the ground."""

    p: np.ndarray
    R: np.ndarray
    v: np.ndarray
    w: np.ndarray
    home: np.ndarray

    def direction(self, i, d):
        """A direction fixed in body `i`, given in the reference configuration."""
        a = np.einsum("...ij,...j->...i", self.R[..., i, :, :], d)
        w = np.broadcast_to(self.w[..., i, :], np.broadcast_shapes(a.shape, self.w[..., i, :].shape))
        return Jet(a, np.cross(w, a), np.cross(w, np.cross(w, a)))

    def point(self, i, x):
        """A point fixed in body `i`, given in the reference configuration."""
        arm = self.direction(i, x - self.home[..., i, :])
        return Jet(self.p[..., i, :] + arm.x, self.v[..., i, :] + arm.d, arm.dd)

    def spin(self, a, b, axis):
        """Relative angular velocity about an axis of body `a`, its rate at constant twists; the angle is left out."""
        along, w = self.direction(a, axis), self.w[..., b, :] - self.w[..., a, :]
        rate = np.sum(along.x * w, axis=-1, keepdims=True)
        return Jet(np.zeros_like(rate), rate, np.sum(along.d * w, axis=-1, keepdims=True))


def _times(jet, factor):
    return Jet(*(factor * x for x in jet))


def rows(bodies, joint):
    """The constraint of one joint as jets, in a redundant form of our own: cross products in place of frames."""
    kind, a, b, data = joint.kind, joint.parent, joint.child, joint.data
    if kind == "gear":
        total = None
        for part, coefficient in data["parts"]:
            term = _times(coordinate(bodies, part), coefficient[..., None])
            total = term if total is None else total + term
        return [total]
    at = data.get("at")
    gap = bodies.point(b, data.get("at_child", at)) - bodies.point(a, at) if at is not None else None
    found = []
    if kind in ("revolute", "spherical", "fixed", "universal", "coincident"):
        found.append(gap)
    if kind in ("prismatic", "cylindrical", "helical", "point_on_line"):
        found.append(cross(gap, bodies.direction(a, data["axis"])))
    if kind in ("planar", "point_on_plane"):
        found.append(dot(gap, bodies.direction(a, data["axis"])))
    if kind in ("revolute", "cylindrical", "planar", "parallel", "helical"):
        found.append(cross(bodies.direction(a, data["axis"]), bodies.direction(b, data["axis"])))
    if kind in ("fixed", "prismatic"):
        for axis in np.eye(3)[:2]:
            found.append(cross(bodies.direction(a, axis), bodies.direction(b, axis)))
    if kind == "universal":
        found.append(dot(bodies.direction(a, data["axis"]), bodies.direction(b, data["second"])))
    if kind == "helical":
        slide = dot(gap, bodies.direction(a, data["axis"]))
        thread = 2 * np.pi / data["pitch"]
        found.append(bodies.spin(a, b, data["axis"]) - _times(slide, thread[..., None]))
        found[-1] = found[-1]._replace(x=np.zeros_like(found[-1].x))
    if kind == "distance":
        found.append(dot(gap, gap))
        found[-1] = found[-1]._replace(x=found[-1].x - data["length"][..., None] ** 2)
    if kind == "in_plane":
        z = np.array([0.0, 0.0, 1.0])
        zero = np.zeros_like(bodies.p[..., a, :1])
        found.append(Jet(bodies.p[..., a, 2:], bodies.v[..., a, 2:], zero))
        found.append(cross(bodies.direction(a, z), bodies.direction(-1, z)))
    return found


def coordinate(bodies, joint):
    """Rate of the coordinate of a hinge (rad/s) or slide (m/s), and its rate at constant twists."""
    a, b, data = joint.parent, joint.child, joint.data
    if joint.kind == "revolute":
        return bodies.spin(a, b, data["axis"])
    gap = bodies.point(b, data["at"]) - bodies.point(a, data["at"])
    slide = dot(gap, bodies.direction(a, data["axis"]))
    return slide._replace(x=np.zeros_like(slide.x))


def constraints(bodies, joints):
    """All rows stacked: a jet with a last axis of `m`."""
    parts = [jet for joint in joints for jet in rows(bodies, joint)]
    batch = bodies.p.shape[:-2]
    return Jet(
        *(np.concatenate([np.broadcast_to(j[k], (*batch, j[k].shape[-1])) for j in parts], -1) for k in range(3))
    )


class Solution(NamedTuple):
    """Accelerations (batch, n, 6) and what they rest on."""

    acceleration: np.ndarray
    position_error: np.ndarray
    velocity_error: np.ndarray
    dof: np.ndarray
    weakest: np.ndarray
    """Smallest singular value that counts, relative to the largest."""
    strongest_dropped: np.ndarray
    inertia: np.ndarray
    """Smallest inertia of an admissible motion, relative to the largest."""


def solve(p, R, v, w, home, joints, mass, inertia, force, length):
    """Accelerations of the bodies at a batch of states (batch, n, …); `length` (batch,) is the unit of lengths.

    `force` (batch, n, 6) are the applied forces and moments about the centres of mass.
    """
    batch, n = p.shape[:2]
    ground = (np.zeros((batch, 1, 3)), np.broadcast_to(np.eye(3), (batch, 1, 3, 3)))
    p, home, v, w = (np.concatenate([x, ground[0]], axis=1) for x in (p, home, v, w))
    R = np.concatenate([R, ground[1]], axis=1)
    state = constraints(Bodies(p, R, v, w, home), joints)
    columns = []
    for i in range(n):
        for k in range(6):
            unit = np.zeros((batch, n + 1, 6))
            unit[:, i, k] = 1.0
            moved = Bodies(p, R, unit[..., :3], unit[..., 3:], home)
            columns.append(constraints(moved, joints).d)
    A, b = np.stack(columns, axis=-1), -state.dd
    # Columns in units of lengths, rows in their natural size: the largest of all rows of the batch member.
    units = np.tile(np.repeat([1.0, 0.0], 3), n)
    scale = np.where(units == 1.0, length[:, None], 1.0)  # v = scale * v_hat
    A = A * scale[:, None, :]
    size = np.linalg.norm(A, axis=2)
    size = np.where(size > 1e-9 * np.max(size, axis=1, keepdims=True), size, np.max(size, axis=1, keepdims=True))
    A, b = A / size[:, :, None], b / size
    world = np.einsum("bnij,bnjk,bnlk->bnil", R[:, :n], inertia, R[:, :n])
    gyro = np.cross(w[:, :n], np.einsum("bnij,bnj->bni", world, w[:, :n]))
    f = (force - np.concatenate([np.zeros_like(gyro), gyro], axis=2)).reshape(batch, 6 * n) * scale
    M = np.zeros((batch, 6 * n, 6 * n))
    for i in range(n):
        s = slice(6 * i, 6 * i + 3), slice(6 * i + 3, 6 * i + 6)
        M[:, s[0], s[0]] = mass[:, i, None, None] * np.eye(3) * length[:, None, None] ** 2
        M[:, s[1], s[1]] = world[:, i]
    left, sizes, right = np.linalg.svd(A)
    rank = np.sum(sizes > RANK * sizes[:, :1], axis=1)
    result = np.zeros((batch, 6 * n))
    weakest, dropped, lightest = np.ones(batch), np.zeros(batch), np.ones(batch)
    for k in range(batch):
        r = rank[k]
        particular = right[k, :r].T @ ((left[k, :, :r].T @ b[k]) / sizes[k, :r])
        null = right[k, r:].T
        reduced = null.T @ M[k] @ null
        free = np.linalg.solve(reduced, null.T @ (f[k] - M[k] @ particular)) if null.shape[1] else np.zeros(0)
        result[k] = particular + null @ free
        weakest[k] = sizes[k, r - 1] / sizes[k, 0] if r else 1.0
        dropped[k] = sizes[k, r] / sizes[k, 0] if r < sizes.shape[1] else 0.0
        if null.shape[1]:
            values = np.linalg.eigvalsh(reduced)
            lightest[k] = values[0] / np.max(np.linalg.eigvalsh(M[k]))
    return Solution(
        (result * scale).reshape(batch, n, 6),
        np.max(np.abs(state.x) / size, axis=1),
        np.max(np.abs(state.d) / size, axis=1),
        6 * n - rank,
        weakest,
        dropped,
        lightest,
    )
