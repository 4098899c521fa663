"""Relative coordinates: the joints of a spanning tree are coordinates, the others constraints.

The zero of a turn is the reference configuration. Tree joints are exact: they have no constraint that could be
violated. Poses are composed by pointer doubling (each pass joins twice as many links), velocities and forces by one
matrix product, so that neither unrolls with the number of bodies.
"""

from __future__ import annotations

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from bricard.execution.cache import cached
from bricard.execution.compile import xla_jit
from bricard.execution.lapack import lstsq
from bricard.mechanism.coordinates.mechanism_system import MechanismSystem
from bricard.mechanism.coordinates.tree import Link, Tree, spanning_tree
from bricard.mechanism.model.compiled_model import Model
from bricard.mechanism.model.frames import Placement
from bricard.spatial import cross, quaternion_from_matrix, quaternion_rate, rotation_matrix, turn_matrix
from bricard.system import Vector


class Relative(MechanismSystem):
    """A mechanism in joint coordinates; loops are closed by the constraints of the joints that were cut.

    A ball joint has the unit quaternion of the outer body relative to the inner one (seen from the ground) and, as
    velocity, the angular velocity in the outer frame.
    """

    tree: Tree = eqx.field(static=True)
    extra: tuple[str, ...] = eqx.field(static=True)
    """Names of tracked turns of joints that were cut; they come last."""

    # -- what the coordinates are called ---------------------------------------------------------------------------

    @property
    def coordinates(self):  # pyright: ignore[reportIncompatibleVariableOverride]
        return cached(self, "coordinates", lambda: self._names(("qw", "qx", "qy", "qz")) + self.extra)

    @property
    def velocities(self):  # pyright: ignore[reportIncompatibleVariableOverride]
        return cached(self, "velocities", lambda: self._names(("wx", "wy", "wz")) + self.extra)

    def _names(self, ball: tuple[str, ...]) -> tuple[str, ...]:
        names = []
        for link in self.tree.links:
            if link.motion is not None:
                parts = ball if link.motion.axis is None else (link.motion.name,)
                names += [f"{self.model.frames.names[link.joint]} {p}".strip() for p in parts]
        return tuple(names)

    @property
    def own_rows(self):
        cut = set(self.tree.cut)
        return tuple((j, r) for j, r in self.model.rows if j in cut)

    @property
    def tied(self):
        cut = set(self.tree.cut)
        return tuple(i for i, j in enumerate(self.model.tracked) if j in cut)

    @property
    def turn_columns(self):
        return self._turn_places(3)

    def _turn_places(self, ball: int) -> tuple[int, ...]:
        """Where each tracked turn is, among the coordinates (`ball` = 4) or among the velocities (3)."""
        start, count = _starts(self.tree.links, ball)
        places, extra = [], count
        for j in self.model.tracked:
            if j in self.tree.cut:
                places.append(extra)
                extra += 1
            else:
                places.append(next(start[i] for i, k in enumerate(self.tree.links) if k.joint == j and _turns(k)))
        return tuple(places)

    # -- motion ----------------------------------------------------------------------------------------------------

    def _links(self, q: Vector) -> tuple[Float[Array, "L 3"], Float[Array, "L 3 3"]]:
        """Where each link is: origin and orientation of its frame."""
        links = self.tree.links
        inner, outer = self._joint_frames()
        p, R = self._motions(q)
        p = inner[0] + jnp.einsum("lij,lj->li", inner[1], p)
        R = inner[1] @ R @ jnp.swapaxes(outer[1], 1, 2)
        p = p - jnp.einsum("lij,lj->li", R, outer[0])
        n = len(links)
        above = np.array([*(link.parent for link in links), n])
        while np.any(above[:n] != n):
            p0 = jnp.concatenate([p, jnp.zeros((1, 3))])[above[:n]]
            R0 = jnp.concatenate([R, jnp.eye(3)[None]])[above[:n]]
            p, R = p0 + jnp.einsum("lij,lj->li", R0, p), R0 @ R
            above = above[above]
        return p, R

    def _joint_frames(self):
        """Frames of each link's motion on the link before it and on itself (origins, axes); unity inside a joint."""
        links, frames = self.tree.links, self.model.frames
        joint = np.array([link.joint for link in links], dtype=int)
        forward = np.array([link.forward for link in links])
        first = np.array([link.first for link in links])
        last = np.array([link.last for link in links])

        def choose(mask, use_parent):
            p = jnp.where(use_parent[:, None], frames.pa[joint], frames.pb[joint])
            R = jnp.where(use_parent[:, None, None], frames.A[joint], frames.B[joint])
            return jnp.where(mask[:, None], p, 0.0), jnp.where(mask[:, None, None], R, jnp.eye(3)[None])

        return choose(first, forward), choose(last, ~forward)

    def _rates_of_links(self) -> tuple[Float[Array, " L"], Float[Array, " L"]]:
        """Radians and metres per unit of the coordinate of each link, outer against inner; zero if it is no screw."""
        links = self.tree.links
        sign = np.array([1.0 if k.forward else -1.0 for k in links])
        turn = sign * np.array([k.motion.turn if k.motion else 0.0 for k in links])
        slide = sign * np.array([k.motion.slide if k.motion else 0.0 for k in links])
        thread = self.model.frames.thread[np.array([k.joint for k in links], dtype=int)]
        pitch = jnp.where(thread == 0.0, 0.0, 1.0 / jnp.where(thread == 0.0, 1.0, thread))
        return jnp.asarray(turn), jnp.asarray(slide) + turn * pitch

    def _motions(self, q: Vector) -> tuple[Float[Array, "L 3"], Float[Array, "L 3 3"]]:
        """Displacement and rotation of each link's elementary motion, in its joint frame."""
        start, _ = _starts(self.tree.links, 4)
        ball = np.array([_is_ball(k) for k in self.tree.links])
        axis = np.array([k.motion.axis if k.motion and k.motion.axis is not None else 2 for k in self.tree.links])
        turn, slide = self._rates_of_links()
        # Links that are no screws read the zero after the coordinates, those that are no balls also the one.
        padded = jnp.concatenate([q, np.array([0.0, 1.0])])
        moves = np.array([k.motion is not None for k in self.tree.links])
        s = padded[np.where(moves & ~ball, start, self.nq)]
        e = np.eye(3)[axis]
        p, R = (slide * s)[:, None] * e, turn_matrix(jnp.asarray(e), turn * s)
        if np.any(ball):
            unity = self.nq + np.array([1, 0, 0, 0])
            quaternion = padded[np.where(ball[:, None], start[:, None] + np.arange(4), unity)]
            R = R @ rotation_matrix(quaternion)
        return p, R

    def place(self, q):
        turns = q[np.asarray(self._turn_places(4), int)] if self.model.tracked else jnp.zeros(0)
        return Placement(*self._kinematics(q)[:2], turns)

    def _jacobian(self, q: Vector) -> Float[Array, "n 6 k"]:
        return self._kinematics(q)[2]

    # Used many times over in the equations of motion: traced once.
    @xla_jit
    def _kinematics(self, q: Vector):
        """Of the bodies: centres of mass, orientations, velocities for a unit of each joint velocity (n, 6, k).

        Of the joint velocities: turn and slide of the link (k, 3) in world axes, and a point on the axis. The extra
        turns are left out.
        """
        p, R = self._links(q)
        body = np.asarray(self.tree.body_link, int)
        _, outer = self._joint_frames()
        link_of, axis_of = _owners(self.tree.links)
        point = (p + jnp.einsum("lij,lj->li", R, outer[0]))[link_of]
        turn, slide = self._rates_of_links()
        ball = np.array([_is_ball(k) for k in self.tree.links])[link_of]
        along = (R @ outer[1])[link_of, :, axis_of]
        turning = jnp.where(ball, 1.0, turn[link_of])[:, None] * along
        sliding = slide[link_of][:, None] * along
        arm = p[body][:, None, :] - point[None]
        turns = jnp.broadcast_to(turning[None], arm.shape)
        both = jnp.concatenate([sliding[None] + cross(turns, arm), turns], axis=2)
        jacobian = jnp.swapaxes(both * self._moves()[:, :, None], 1, 2)
        return p[body], R[body], jacobian, turning, sliding, point

    def _moves(self) -> Float[Array, "n k"]:
        """(n, k): one where a joint velocity moves a body."""
        return jnp.asarray(self.tree.ancestors[list(self.tree.body_link)][:, _owners(self.tree.links)[0]], float)

    def twists(self, q, v):
        jacobian = self._jacobian(q)
        return jacobian @ v[: jacobian.shape[2]]

    def twist_bias(self, q, v):
        # As motions of the whole space, (velocity at the origin, angular velocity): there the screw of a joint
        # changes by the motion of its own link alone, Ṡ = V × S.
        p, _, _, turning, sliding, point = self._kinematics(q)
        v = v[: turning.shape[0]]
        linear = sliding + cross(point, turning)
        owner = _owners(self.tree.links)[0]
        both = jnp.asarray(self.tree.ancestors[owner][:, owner], float)
        w, w0 = both @ (turning * v[:, None]), both @ (linear * v[:, None])
        turning_rate = cross(w, turning) * v[:, None]
        linear_rate = (cross(w, linear) + cross(w0, turning)) * v[:, None]
        moves, twists = self._moves(), self.twists(q, v)
        alpha = moves @ turning_rate
        return jnp.concatenate(
            [moves @ linear_rate + cross(alpha, p) + cross(twists[:, 3:], twists[:, :3]), alpha], axis=1
        )

    def pull(self, q, wrenches):
        force = jnp.einsum("nik,...ni->...k", self._jacobian(q), wrenches)
        return jnp.concatenate([force, jnp.zeros((*force.shape[:-1], len(self.extra)))], axis=-1)

    def body_mass(self, q):
        jacobian, R = self._jacobian(q), self.place(q).R
        # Into body axes, where mass and inertia are constant.
        local = jnp.concatenate([jacobian[:, :3], jnp.swapaxes(R, 1, 2) @ jacobian[:, 3:]], axis=1)
        weighted = self.model.inertias @ local
        k = local.shape[2]
        mass = local.reshape(-1, k).T @ weighted.reshape(-1, k)
        return jnp.pad(0.5 * (mass + mass.T), (0, len(self.extra)))

    # -- chart -----------------------------------------------------------------------------------------------------

    @property
    def has_chart(self):
        return self._ball_columns(4).size > 0

    def qdot(self, q, v):
        quaternions, spins = self._ball_columns(4), self._ball_columns(3)
        if not quaternions.size:
            return v
        rates = quaternion_rate(q[quaternions], v[spins])
        return jnp.concatenate([v, rates.reshape(-1)])[self._mixed(self.nv, 3)]

    def normalize(self, q):
        columns = self._ball_columns(4)
        if not columns.size:
            return q
        unit = q[columns] / jnp.linalg.norm(q[columns], axis=1, keepdims=True)
        return jnp.concatenate([q, unit.reshape(-1)])[self._mixed(self.nq, 4)]

    def _ball_columns(self, ball: int) -> np.ndarray:
        """(balls, 4 or 3): where the numbers of each ball joint are."""
        start, _ = _starts(self.tree.links, ball)
        balls = [i for i, k in enumerate(self.tree.links) if _is_ball(k)]
        return start[np.array(balls, dtype=int)][:, None] + np.arange(ball)

    def _mixed(self, size: int, ball: int) -> np.ndarray:
        """Where each coordinate is in `size` numbers (with `ball` for a ball joint) followed by the quaternions."""
        start, count = _starts(self.tree.links, ball)
        index, quaternion = [], size
        for i, link in enumerate(self.tree.links):
            if _is_ball(link):
                index += range(quaternion, quaternion + 4)
                quaternion += 4
            elif link.motion is not None:
                index.append(int(start[i]))
        return np.array([*index, *range(count, size)], dtype=int)

    def coordinates_of(self, place):
        frames = self.model.frames
        pairs = frames.world(place)
        d = jnp.einsum("jki,jk->ji", pairs.A, pairs.pb - pairs.pa)
        c = jnp.swapaxes(pairs.A, 1, 2) @ pairs.B
        turn = jnp.arctan2(c[:, 1, 0], c[:, 0, 0])
        turn = jnp.where(frames.thread == 0.0, turn, d[:, 2] * frames.thread)
        first, second = jnp.arctan2(c[:, 2, 1], c[:, 1, 1]), jnp.arctan2(c[:, 0, 2], c[:, 0, 0])
        ball = jax.vmap(quaternion_from_matrix)(c)
        back = ball * np.array([[1.0, -1.0, -1.0, -1.0]])
        # Everything that could be a coordinate of a joint, of which each link picks its own.
        values = jnp.concatenate([d, turn[:, None], first[:, None], second[:, None], ball, back], axis=1)
        picked = [(k.joint, i) for k in self.tree.links for i in _choices(k, frames.kinds[k.joint])]
        joint, column = np.array(picked, dtype=int).reshape(-1, 2).T
        q = jnp.concatenate([values[joint, column], jnp.zeros(len(self.extra))])
        if self.model.tracked:
            q = q.at[np.asarray(self._turn_places(4), int)].set(place.turns)
        return q

    def velocities_of(self, q, twists):
        jacobian = self._jacobian(q)
        v = lstsq(jacobian.reshape(-1, jacobian.shape[2]), twists.reshape(-1))
        extra = self.turn_rates(self.place(q), twists)[np.asarray(self.tied, int)]
        return jnp.concatenate([v, extra])


def relative(model: Model, cut: Sequence[str] = ()) -> Relative:
    """The mechanism in joint coordinates; joints named in `cut` become constraints."""
    tree = spanning_tree(model, cut)
    extra = tuple(f"{model.frames.names[j]} angle" for j in model.tracked if j in tree.cut)
    return Relative(model, _reference(model, tree, len(extra)), tree, extra)


def _reference(model: Model, tree: Tree, extra: int) -> Vector:
    """Coordinates of the reference configuration: only slides may differ from zero."""
    frames = model.frames
    origin = np.concatenate([model.home, np.zeros((1, 3))])
    gap = origin[list(frames.child)] + frames.pb - origin[list(frames.parent)] - frames.pa
    d = np.einsum("jki,jk->ji", frames.A, gap)
    start, count = _starts(tree.links, 4)
    q = np.zeros(count + extra)
    for i, link in enumerate(tree.links):
        if link.motion is not None and link.motion.axis is None:
            q[start[i]] = 1.0
        elif link.motion is not None and link.motion.turn == 0.0:
            q[start[i]] = d[link.joint, link.motion.axis]
    return jnp.asarray(q)


def _starts(links: Sequence[Link], ball: int) -> tuple[np.ndarray, int]:
    """Where the coordinates of each link begin, and how many there are; a ball joint has `ball` of them."""
    sizes = [0 if k.motion is None else ball if k.motion.axis is None else 1 for k in links]
    ends = np.cumsum([0, *sizes])
    return ends[:-1], int(ends[-1])


def _owners(links: Sequence[Link]) -> tuple[np.ndarray, np.ndarray]:
    """The link of each velocity, and the axis of its frame."""
    owners = [
        (i, axis)
        for i, k in enumerate(links)
        if k.motion is not None
        for axis in (range(3) if k.motion.axis is None else (k.motion.axis,))
    ]
    link, axis = np.array(owners, dtype=int).reshape(-1, 2).T
    return link, axis


def _is_ball(link: Link) -> bool:
    return link.motion is not None and link.motion.axis is None


def _turns(link: Link) -> bool:
    return link.motion is not None and link.motion.axis == 2 and link.motion.turn != 0.0


def _choices(link: Link, kind: str) -> tuple[int, ...]:
    """Which columns of (d, turn, two angles of a cross, quaternion, inverse quaternion) are the link's coordinates."""
    motion = link.motion
    if motion is None:
        return ()
    if motion.axis is None:
        return tuple(range(6, 10)) if link.forward else tuple(range(10, 14))
    if motion.turn == 0.0:
        return (motion.axis,)
    return (4 + motion.axis,) if kind == "universal" else (3,)
