"""Which force does each joint carry, and can a rigid model even tell?

Whatever the coordinates, the bodies' accelerations follow from the motion. What a body needs for its acceleration
beyond the applied forces, its joints must supply: `Gᵀλ = d/dt(momentum) − applied`, with one row of `G` for every
component that a joint holds. So the reactions of all joints are found, those of the spanning tree included, and they
are the same in all kinds of coordinates. Where joints are redundant, those of least size are given (moments count as
forces at the mechanism's size), and flagged: a rigid model cannot tell.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float

from bricard.equations.rank import DETERMINATE_TOLERANCE, pinv, pseudoinverse
from bricard.errors import ModelError
from bricard.execution.cache import contains_no_tracer
from bricard.execution.compile import compiled, xla_jit
from bricard.mechanism.coordinates.mechanism_system import MechanismSystem
from bricard.mechanism.model.compiled_model import Model
from bricard.mechanism.model.frames import Placement, pair_forces
from bricard.system import Scalar, System, Vector, VectorLike

_IN_PLANE_AXIS = ("prismatic", "point_on_line", "point_on_plane", "parallel")


class Reaction(eqx.Module):
    """Force and moment of one joint on its child body, at the child's joint point; the parent gets the opposite.

    The last axis has force (N) and moment (N m): 3 + 3 numbers in space, 2 + 1 in the plane.
    """

    world: Float[Array, "*k c"]
    """In world axes."""
    joint: Float[Array, "*k c"]
    """In the axes of the joint, fixed in the parent; its axis is the third, that of a slide in the plane the first."""
    determinate: Bool[Array, "*k c"]
    """Which of the components in `joint` a rigid model determines."""
    determinate_world: Bool[Array, "*k c"]
    """Which of the components in `world` a rigid model determines."""
    point: Float[Array, "*k d"]
    """Where the joint is (m)."""

    @property
    def force(self) -> Float[Array, "*k d"]:
        """Force (N) in world axes."""
        return self.world[..., : self.point.shape[-1]]

    @property
    def moment(self) -> Float[Array, "*k e"]:
        """Moment (N m) about the joint's point, in world axes."""
        return self.world[..., self.point.shape[-1] :]


class Reactions(eqx.Module):
    """The reactions of all joints: `reactions["A"]`. Gears, drivers and own constraints have an entry in `efforts`."""

    all: Reaction
    """Of all joints together; the joint is the axis before the last."""
    efforts: dict[str, Float[Array, " *k"]]
    """Of each gear, driver and user-defined constraint its multiplier: the generalised force along it."""
    effort_determinate: dict[str, Bool[Array, " *k"]]
    """Which of them a rigid model determines."""
    names: tuple[str, ...] = eqx.field(static=True)

    def __getitem__(self, name: str) -> Reaction:
        if name not in self.names:
            raise ModelError("reactions", [f"no joint called {name!r}; there are {', '.join(self.names)}"])
        i = self.names.index(name)
        return jax.tree.map(lambda x: x[..., i, :], self.all)

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)

    def __contains__(self, name: object) -> bool:
        return name in self.names


def reactions(
    system: System,
    q: VectorLike,
    v: VectorLike,
    acceleration: VectorLike,
    u: VectorLike | None = None,
    t: ArrayLike = 0.0,
) -> Reactions:
    """The reaction of every joint of a mechanism at a state with known acceleration (`br.forward_dynamics`)."""
    system = _mechanism(system)
    inputs = system.vector(jnp.zeros(system.nu) if u is None else u, "u")
    state = system.vector(q, "q"), system.vector(v, "v"), system.vector(acceleration, "v")
    arguments = (*state, inputs, jnp.asarray(t, dtype=float))
    if not contains_no_tracer(system, *arguments):
        return _at(system, *arguments)
    # The singular value decomposition by NumPy: the rest is fit for LLVM, which compiles it in a fraction of the time.
    loads = _Loads(*_compiled_loads(system, *arguments))
    inverse = pseudoinverse(np.asarray(loads.matrix).T)
    return jax.tree.map(jnp.asarray, _compiled_per_joint(system, arguments[0], loads, jnp.asarray(inverse)))


@xla_jit
def reactions_along(system: System, q: Array, v: Array, acceleration: Array, u: Array, t: Array) -> Reactions:
    """The same for `k` states of a trajectory, one after the other."""
    system = _mechanism(system)
    return jax.lax.map(lambda x: _at(system, *x), (q, v, acceleration, u, t))


def _mechanism(system: System) -> MechanismSystem:
    if not isinstance(system, MechanismSystem):
        raise ModelError(
            type(system).__name__,
            ["only a br.Mechanism has joints with reactions; a system of your own has `constraint_force`"],
        )
    return system


class _Loads(NamedTuple):
    """`matrixᵀ λ = needed`, in units of force: moments are divided by the size of the mechanism."""

    matrix: Float[Array, "m c"]
    needed: Float[Array, " c"]
    weights: Float[Array, " m"]
    """Units of the multipliers."""


def _loads(system: MechanismSystem, q: Vector, v: Vector, acceleration: Vector, u: Vector, t: Scalar) -> _Loads:
    model, place = system.model, system.place(q)
    wrenches = model.all_row_wrenches(place, t)
    needed = needed_wrenches(system, q, v, acceleration, u, t)
    parts, units = _units(model)
    matrix = (wrenches[:, :, parts] / units[None, None]).reshape(wrenches.shape[0], -1)
    weights = jnp.where(_is_moment(model), model.scale, 1.0)
    return _Loads(matrix * weights[:, None], (needed[:, parts] / units[None]).reshape(-1), weights)


def _from_inverse(system: MechanismSystem, q: Vector, loads: _Loads, inverse: Float[Array, "m c"]) -> Reactions:
    """The reactions, from the loads and the pseudoinverse of the transpose of their matrix."""
    multipliers = loads.weights * (inverse @ loads.needed)
    loose = loads.weights[:, None] * (jnp.eye(loads.matrix.shape[0]) - loads.matrix @ inverse.T)
    return _per_joint(system.model, system.place(q), multipliers, jax.lax.stop_gradient(loose), loads.weights)


_compiled_loads = compiled(_loads)
_compiled_per_joint = compiled(_from_inverse)


@xla_jit
def _at(system: MechanismSystem, q: Vector, v: Vector, acceleration: Vector, u: Vector, t: Scalar) -> Reactions:
    loads = _loads(system, q, v, acceleration, u, t)
    return _from_inverse(system, q, loads, pinv(loads.matrix.T))


def needed_wrenches(
    system: MechanismSystem, q: Vector, v: Vector, acceleration: Vector, u: Vector, t: Scalar
) -> Float[Array, "n 6"]:
    """What the joints must exert on each body: its rate of momentum less gravity, springs, loads and motors."""
    model, place, twists = system.model, system.place(q), system.twists(q, v)
    needed = model.inertia_wrenches(place, twists, system.twist_rates(q, v, acceleration))
    needed = needed - model.potential_wrenches(place) - model.applied_wrenches(place, twists, t)
    return needed - jnp.tensordot(u, model.input_wrenches(place), 1)


def _units(model: Model) -> tuple[np.ndarray, Array]:
    """Which of the six components there are, and the unit of each."""
    parts = np.array([0, 1, 5]) if model.planar else np.arange(6)
    return parts, jnp.where(parts < 3, 1.0, model.scale)


def _is_moment(model: Model) -> np.ndarray:
    """Of each row, whether its multiplier is a moment; else it is a force."""
    turns = bool(model.tracked)
    moment = [r in (3, 4, 5, 6) for _, r in model.rows]
    moment += [False] * len(model.rolling) + [turns] * len(model.relations)
    return np.array([*moment, *[False] * (len(model.user_row_names) + len(model.slip_row_names))], dtype=bool)


def _per_joint(model: Model, place: Placement, multipliers: Array, loose: Array, weights: Array) -> Reactions:
    """Multipliers collected by joint, with the share of each component in loads that cancel."""
    frames = model.frames
    m, j = multipliers.shape[0], len(frames)
    select = np.zeros((j, 8, m))
    for row, (joint, kind) in enumerate(model.rows):
        select[joint, kind, row] = 1.0
    pairs = frames.world(place)
    force, moment = jax.vmap(pair_forces)(pairs, frames.thread, frames.length)
    world = jnp.concatenate([force, moment], axis=2)
    axes = pairs.A
    if model.planar:
        order = np.array([(2, 0, 1) if k in _IN_PLANE_AXIS else (0, 1, 2) for k in frames.kinds])
        axes = jnp.take_along_axis(axes, order[:, None, :], axis=2)
    local = jnp.concatenate([jnp.einsum("jix,jri->jrx", axes, force), jnp.einsum("jix,jri->jrx", axes, moment)], axis=2)
    by_row = jnp.einsum("jrm,m->jr", select, multipliers)
    loose_rows = jnp.einsum("jrm,mk->jrk", select, loose)
    parts, units = _units(model)

    def components(basis: Float[Array, "j 8 6"]) -> tuple[Array, Array]:
        values = jnp.einsum("jrc,jr->jc", basis, by_row)[:, parts]
        share = jnp.linalg.norm(jnp.einsum("jrc,jrk->jck", basis, loose_rows), axis=2)[:, parts]
        return values, share / units[None] < DETERMINATE_TOLERANCE

    (in_world, sure_world), (in_joint, sure_joint) = components(world), components(local)
    dimension = 2 if model.planar else 3
    rolling, sure_rolling, contacts = _rolling(model, place, multipliers, loose)
    planes = [x[:, parts] for x in (rolling, sure_rolling)]
    everything = Reaction(
        world=jnp.concatenate([in_world, planes[0]]),
        joint=jnp.concatenate([in_joint, planes[0]]),
        determinate=jnp.concatenate([sure_joint, planes[1]]),
        determinate_world=jnp.concatenate([sure_world, planes[1]]),
        point=jnp.concatenate([pairs.pb, contacts])[:, :dimension],
    )
    start = len(model.rows) + len(model.rolling.names)
    own = (*model.relations.names, *model.user_row_names)
    share = jnp.linalg.norm(loose, axis=1) / weights < DETERMINATE_TOLERANCE
    return Reactions(
        all=everything,
        efforts={n: multipliers[start + i] for i, n in enumerate(own)},
        effort_determinate={n: share[start + i] for i, n in enumerate(own)},
        names=(*frames.names, *model.rolling.names),
    )


def _rolling(model: Model, place: Placement, multipliers: Array, loose: Array):
    """Contact forces on wheels (k, 6), which components are determinate, and the points of contact (k, 3)."""
    k = len(model.rolling)
    if not k:
        return jnp.zeros((0, 6)), jnp.zeros((0, 6), dtype=bool), jnp.zeros((0, 3))
    tangents = 1 if model.planar else 2
    first, slip = len(model.rows), multipliers.shape[0] - k * tangents
    index = np.array([[first + i, *(slip + tangents * i + s for s in range(tangents))] for i in range(k)])
    directions = model.rolling.wrenches(place)[:, : 1 + tangents, 1, :3]
    force = jnp.einsum("krc,kr->kc", directions, multipliers[index])
    share = jnp.linalg.norm(jnp.einsum("krc,krm->kcm", directions, loose[index]), axis=2)
    zero = jnp.zeros((k, 3))
    sure = jnp.concatenate([share < DETERMINATE_TOLERANCE, zero == 0.0], axis=1)
    return jnp.concatenate([force, zero], axis=1), sure, model.rolling.contacts(place)
