"""Pairs of frames on two bodies: the one batched evaluation behind all joints and frame constraints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from bricard.spatial import cross


class Placement(NamedTuple):
    """Where everything is: what each kind of coordinates is turned into."""

    p: Float[Array, "n 3"]
    """Centres of mass (m)."""
    R: Float[Array, "n 3 3"]
    """Orientations, body to world; the identity in the reference configuration."""
    turns: Float[Array, " k"]
    """Unwrapped angles of the joints whose angle matters beyond a turn (`Model.tracked`)."""


class Pair(NamedTuple):
    """Frames of one joint in the world: origin and axes on the parent, then on the child."""

    pa: Float[Array, " 3"]
    A: Float[Array, "3 3"]
    pb: Float[Array, " 3"]
    B: Float[Array, "3 3"]


class Frames(eqx.Module):
    """Two frames for each of `j` joints, fixed in their bodies; body `n` is the ground."""

    pa: Float[Array, "j 3"]
    A: Float[Array, "j 3 3"]
    pb: Float[Array, "j 3"]
    B: Float[Array, "j 3 3"]
    thread: Float[Array, " j"]
    """Radians per metre of a helical joint, zero for others."""
    length: Float[Array, " j"]
    """Distance to keep (m), 1 where there is none."""
    names: tuple[str, ...] = eqx.field(static=True)
    kinds: tuple[str, ...] = eqx.field(static=True)
    parent: tuple[int, ...] = eqx.field(static=True)
    child: tuple[int, ...] = eqx.field(static=True)

    def __len__(self) -> int:
        return len(self.names)

    def subset(self, which: Sequence[int]) -> Frames:
        """Only some of the joints."""
        index = np.asarray(which, dtype=int)
        return Frames(
            self.pa[index],
            self.A[index],
            self.pb[index],
            self.B[index],
            self.thread[index],
            self.length[index],
            tuple(self.names[i] for i in which),
            tuple(self.kinds[i] for i in which),
            tuple(self.parent[i] for i in which),
            tuple(self.child[i] for i in which),
        )

    def world(self, place: Placement) -> Pair:
        """Origins (j, 3) and axes (j, 3, 3) of the frames in the world."""
        p = jnp.concatenate([place.p, jnp.zeros((1, 3))])
        R = jnp.concatenate([place.R, jnp.eye(3)[None]])
        a, b = np.asarray(self.parent, int), np.asarray(self.child, int)
        return Pair(
            p[a] + jnp.einsum("jik,jk->ji", R[a], self.pa),
            R[a] @ self.A,
            p[b] + jnp.einsum("jik,jk->ji", R[b], self.pb),
            R[b] @ self.B,
        )

    def rows(self, place: Placement) -> Float[Array, "j 8"]:
        """All eight rows of `kinds.py` for each joint."""
        return jax.vmap(pair_rows)(self.world(place), self.thread, self.length)

    def row_wrenches(self, place: Placement) -> Float[Array, "j 8 2 6"]:
        """Force and moment on the parent and on the child of a unit multiplier of each row.

        In world axes; the moment is about the centre of mass of the body (about the origin for the ground). These are
        the rows of the constraint matrix in the space of body velocities.
        """
        pairs = self.world(place)
        p = jnp.concatenate([place.p, jnp.zeros((1, 3))])
        force, moment = jax.vmap(pair_forces)(pairs, self.thread, self.length)
        point = pairs.pb[:, None, :]  # action and reaction meet at the child's point
        arm_a = point - p[np.asarray(self.parent, int)][:, None, :]
        arm_b = point - p[np.asarray(self.child, int)][:, None, :]
        on_parent = jnp.concatenate([-force, -cross(arm_a, force) - moment], axis=-1)
        on_child = jnp.concatenate([force, cross(arm_b, force) + moment], axis=-1)
        return jnp.stack([on_parent, on_child], axis=2)


def pair_rows(pair: Pair, thread: Float[Array, ""] | float, length: Float[Array, ""] | float) -> Float[Array, " 8"]:
    """The rows of one pair of frames, in the order of `kinds.py`."""
    gap = pair.pb - pair.pa
    d = pair.A.T @ gap
    c = pair.A.T @ pair.B
    spin = thread * d[2]
    turn = c[1, 0] * jnp.cos(spin) - c[0, 0] * jnp.sin(spin)
    distance = (gap @ gap - length**2) / (2 * length)
    return jnp.concatenate([d, jnp.stack([-c[1, 2], c[0, 2], turn, -c[0, 1], distance])])


def pair_forces(
    pair: Pair, thread: Float[Array, ""], length: Float[Array, ""]
) -> tuple[Float[Array, "8 3"], Float[Array, "8 3"]]:
    """Force and moment on the child, at its point, of a unit multiplier of each row of `pair_rows`: their gradient."""
    gap, zero = pair.pb - pair.pa, jnp.zeros(3)
    (ax, ay, az), (bx, by, bz) = pair.A.T, pair.B.T
    spin = thread * (az @ gap)
    sin, cos = jnp.sin(spin), jnp.cos(spin)
    along = -thread * ((bx @ ay) * sin + (bx @ ax) * cos)
    force = jnp.stack([ax, ay, az, zero, zero, along * az, zero, gap / length])
    # bx × ay cos − bx × ax sin, and so on: directions that a turn of the child would move.
    first = jnp.stack([zero, zero, zero, -bz, bz, bx, -by, zero])
    second = jnp.stack([zero, zero, zero, ay, ax, ay * cos - ax * sin, ax, zero])
    return force, cross(first, second)
