"""What springs, motors, gears and drivers act on: lengths, joint coordinates, the rows of a bushing.

A measure is a list of scalars `x` of the placement of two bodies each, and the wrenches on the two bodies that a unit
generalised force along `x` stands for. Those wrenches are also the gradient: `ẋ = Σ wrench · twist`.
"""

from __future__ import annotations

from abc import abstractmethod

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from bricard.mechanism.model.frames import Frames, Placement
from bricard.spatial import cross


class Measure(eqx.Module):
    """Scalars `x` (k,), each between two bodies; body `n` is the ground."""

    @property
    @abstractmethod
    def bodies(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """First and second body of each."""

    @abstractmethod
    def values(self, place: Placement) -> Float[Array, " k"]:
        """`x`, in metres or radians."""

    @abstractmethod
    def wrenches(self, place: Placement) -> Float[Array, "k 2 6"]:
        """Force and moment (about the centre of mass, world axes) on each body of a unit force along `x`."""

    def __len__(self) -> int:
        return len(self.bodies[0])

    def rates(self, place: Placement, twists: Float[Array, "n 6"]) -> Float[Array, " k"]:
        """`ẋ` at body velocities `twists`."""
        return pair_rates(self.wrenches(place), self.bodies, twists)

    def spread(self, place: Placement, forces: Float[Array, " k"]) -> Float[Array, "n 6"]:
        """Wrench on every body of generalised forces along `x`."""
        return spread(self.wrenches(place) * forces[:, None, None], self.bodies, place.p.shape[0])


Bodies = tuple[tuple[int, ...], tuple[int, ...]]


def spread(wrenches: Float[Array, "k 2 6"], bodies: Bodies, n: int) -> Float[Array, "n 6"]:
    """Sum of pair wrenches on each body; what acts on the ground is dropped."""
    return jnp.einsum("bkn,kbi->ni", _chosen(bodies, n), wrenches)


def spread_rows(wrenches: Float[Array, "k 2 6"], bodies: Bodies, n: int) -> Float[Array, "k n 6"]:
    """Each pair of wrenches as a row over all bodies."""
    return jnp.einsum("bkn,kbi->kni", _chosen(bodies, n), wrenches)


def _chosen(bodies: Bodies, n: int) -> np.ndarray:
    """(2, k, n), one where a body is the first or second of a pair. A product compiles faster than a scatter."""
    return np.eye(n + 1)[np.asarray(bodies, dtype=int)][..., :n]


def pair_rates(wrenches: Float[Array, "k 2 6"], bodies: Bodies, twists: Float[Array, "n 6"]) -> Float[Array, " k"]:
    """Power of each pair of wrenches at the bodies' velocities."""
    all_twists = jnp.concatenate([twists, jnp.zeros((1, 6))])
    return jnp.einsum("kbi,bki->k", wrenches, all_twists[np.asarray(bodies, dtype=int)])


class Lines(Measure):
    """Distances (m) between a point of one body and a point of another; a positive force pushes them apart."""

    a: Float[Array, "k 3"]
    b: Float[Array, "k 3"]
    first: tuple[int, ...] = eqx.field(static=True)
    second: tuple[int, ...] = eqx.field(static=True)

    @property
    def bodies(self):
        return self.first, self.second

    def ends(self, place: Placement):
        """Both points in the world, and their arms from the centres of mass; each (k, 3)."""
        p = jnp.concatenate([place.p, jnp.zeros((1, 3))])
        R = jnp.concatenate([place.R, jnp.eye(3)[None]])
        i, j = np.asarray(self.first, int), np.asarray(self.second, int)
        arm_a = jnp.einsum("kij,kj->ki", R[i], self.a)
        arm_b = jnp.einsum("kij,kj->ki", R[j], self.b)
        return p[i] + arm_a, p[j] + arm_b, arm_a, arm_b

    def values(self, place):
        start, end, _, _ = self.ends(place)
        return jnp.linalg.norm(end - start, axis=1)

    def wrenches(self, place):
        start, end, arm_a, arm_b = self.ends(place)
        u = (end - start) / jnp.linalg.norm(end - start, axis=1, keepdims=True)
        on_first = jnp.concatenate([-u, -cross(arm_a, u)], axis=1)
        on_second = jnp.concatenate([u, cross(arm_b, u)], axis=1)
        return jnp.stack([on_first, on_second], axis=1)


class JointCoordinates(Measure):
    """Turn (rad, unwrapped) or slide (m) of joints along their axes; child relative to parent."""

    frames: Frames
    turns: tuple[bool, ...] = eqx.field(static=True)
    """Which of them are angles."""
    turn_of: tuple[int | None, ...] = eqx.field(static=True)
    """Of a joint, its place among the tracked turns. The angle of one that is not tracked is not known."""

    @property
    def bodies(self):
        return self.frames.parent, self.frames.child

    @property
    def is_turn(self) -> np.ndarray:
        """`turns` as an array."""
        return np.array(self.turns, dtype=bool)

    def values(self, place):
        known = place.turns.shape[0]
        index = np.array([known if i is None else i for i in self.turn_of], dtype=int)
        angles = jnp.concatenate([place.turns, jnp.full(1, jnp.nan)])[index]
        return jnp.where(self.is_turn, angles, self.frames.rows(place)[:, 2])

    def wrenches(self, place):
        axis = self.frames.world(place).A[:, :, 2]
        moment = jnp.concatenate([jnp.zeros_like(axis), axis], axis=1)
        turning = jnp.stack([-moment, moment], axis=1)
        sliding = self.frames.row_wrenches(place)[:, 2]
        return jnp.where(self.is_turn[:, None, None], turning, sliding)


class Bushing(Measure):
    """The six displacements of pairs of frames: three along the parent's axes, three small turns about them."""

    frames: Frames

    @property
    def bodies(self):
        first, second = (tuple(i for i in side for _ in range(6)) for side in (self.frames.parent, self.frames.child))
        return first, second

    def values(self, place):
        return self.frames.rows(place)[:, :6].reshape(-1)

    def wrenches(self, place):
        return self.frames.row_wrenches(place)[:, :6].reshape(-1, 2, 6)
