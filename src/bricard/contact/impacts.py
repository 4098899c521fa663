"""`br.impact`: what happens to the velocities when a constraint appears at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float

from bricard.contact.force_distribution import INSIDE, least_admissible, no_cones, pushing_rows, share_load
from bricard.contact.friction import contact_impulses, in_cones
from bricard.contact.gap import (
    MAX_FRICTION,
    Contact,
    checked_contacts,
    coefficient_problems,
    existing_rows,
    gaps,
    relative_velocity,
    slip_size,
)
from bricard.equations.dynamics import check_motion_determined
from bricard.equations.problem import row_variation, scales
from bricard.equations.rank import pinv
from bricard.errors import BricardError, ModelError, is_concrete
from bricard.execution.compile import xla_jit
from bricard.execution.lapack import cholesky, solve_triangular
from bricard.system import Scalar, System, Vector, VectorLike

TOUCH_TOLERANCE = 1e-6
"""Contacts further apart (m, rad) do not touch."""
LAW_TOLERANCE = 1e-8
"""An impact that misses its laws by more, relative to the velocities, is not solved."""
AT_REST = 1e-9
"""Relative velocities below this fraction of those before the impact count as zero."""
REPEATS = 20
"""A rebound may drive contacts together that were apart: the law is applied again, this often at most."""


class Impact(eqx.Module):
    """The outcome of an impact. Contact rows: of each contact, the normal, then the slips."""

    v: Float[Array, " nv"]
    """Velocity after the impact."""
    impulses: Float[Array, "c rows"]
    """Impulse along each row (N s, N m s), acting on the system; unique where `determinate`, else of least norm."""
    reactions: Float[Array, " m"]
    """Impulses of the system's own constraints, of minimum norm if redundant."""
    matrix: Float[Array, "c rows nv"]
    """The rows: `M(v⁺ − v⁻)` is their transpose times `impulses`, plus `Aᵀ reactions`."""
    energy_lost: Float[Array, ""]
    """Kinetic energy before minus after (J)."""
    kinetic_energy: Float[Array, ""]
    """Before the impact (J)."""
    constrained_energy: Float[Array, ""]
    """`T_c` (J): what would be lost if all rows held from now on, without rebound or slip."""
    velocity: Float[Array, "c rows"]
    """Rate of each row after the impact: rebound, then slip."""
    sticking: Bool[Array, " c"]
    """Contacts that received an impulse and do not slip after it."""
    sliding: Bool[Array, " c"]
    """Contacts that received an impulse and slip after it."""
    residual: Float[Array, ""]
    """How far the laws of impact are missed, relative to the velocities."""
    determinate: Bool[Array, "c rows"]
    """Which impulses a rigid model determines; redundant contacts share theirs."""

    @property
    def friction_needed(self) -> Float[Array, " c"]:
        """`|I_t| / |I_n|` of each contact: with less friction it slips. NaN where there is no impulse."""
        normal = jnp.abs(self.impulses[:, 0])
        return jnp.linalg.norm(self.impulses[:, 1:], axis=1) / jnp.where(normal > 0.0, normal, jnp.nan)


def impact(
    system: System,
    q: VectorLike,
    v: VectorLike,
    constraints: Callable[..., Any] | Contact | Sequence[Contact],
    restitution: ArrayLike | None = None,
    friction: ArrayLike | None = None,
    t: ArrayLike = 0.0,
) -> Impact:
    """Which velocities, impulses and losses follow when `constraints` appear at once?

    `constraints` is either a function `(q, t) -> (m,)` whose rows all hold from now on, as in `System.constraints` (a
    foot that neither lifts nor slips): `v⁺ = (I − (1+e) P_c) v⁻`. Or contacts that touch (`br.Contact`), which only
    push, and rub by Coulomb's law; those that move apart get no impulse. Several at once, and redundant ones, are
    normal. The system's own constraints hold all the time.

    `restitution` (0 … 1) and `friction` replace those of the contacts; without them constraints do not rebound.

    The law for contacts is Poisson's, in two phases: impulses that stop the approach (`0 ≤ Λ ⟂ w ≥ 0`, with friction),
    then `restitution` times the normal impulses again, with the friction that these can bear. It never creates energy:
    friction after the rebound takes at least as much as the first phase's friction repeated. Unequal restitutions,
    which can create energy, are moved towards the smallest one as far as it needs. Where the rebound drives other
    contacts together, the law is applied again.
    """
    name = type(system).__name__
    q, v, t = system.vector(q, "q"), system.vector(v, "v"), jnp.asarray(t, dtype=float)
    problems = coefficient_problems(0.0 if restitution is None else restitution, friction)
    if problems:
        raise ModelError(name, problems)
    given = None if restitution is None else jnp.asarray(restitution, dtype=float)
    mu = None if friction is None else jnp.asarray(friction, dtype=float)
    if callable(constraints) and not isinstance(constraints, Contact):
        if mu is not None:
            raise ModelError(name, ["friction needs contacts that say which way is normal: br.Contact(gap, slip)"])
        result = _bilateral(system, q, v, t, constraints, jnp.zeros(()) if given is None else given)
    else:
        contacts = checked_contacts(system, constraints)
        if not contacts:
            raise ModelError(name, ["constraints: no contact given"])
        if mu is not None and any(c.slip is None for c in contacts) and is_concrete(mu) and np.any(np.asarray(mu) > 0):
            lacking = ", ".join(c.name for c in contacts if c.slip is None)
            raise ModelError(name, [f"friction needs the `slip` of {lacking}; br.point_contact writes it"])
        if is_concrete(q, t, contacts):
            _check_touching(name, contacts, gaps(contacts, q, t))
        touching = jnp.ones(len(contacts), dtype=bool)  # as in runs with contacts, which share the program
        result = contact_impact(system, q, v, t, contacts, given, mu, touching)
    if is_concrete(result):
        check_motion_determined(system, q, t)
        if not float(result.residual) <= LAW_TOLERANCE:
            raise BricardError(
                f"{name}: no impulses found that meet all laws of impact (missed by {float(result.residual):.1e}). "
                "With friction there may be none; try a smaller coefficient."
            )
    return result


def _check_touching(name: str, contacts: Sequence[Contact], gap: Float[Array, " c"]) -> None:
    problems = []
    for contact, value in zip(contacts, np.asarray(gap), strict=True):
        if not abs(value) <= TOUCH_TOLERANCE:
            how = f"open by {value:.3g}" if value > 0 else f"penetrated by {-value:.3g}"
            problems.append(f"{contact.name} does not touch: it is {how}")
    if problems:
        raise ModelError(name, problems)


class Admissible(NamedTuple):
    """Changes of velocity that the system's own constraints allow: `D Dᵀ` is the inverse mass on them."""

    mass: Float[Array, "nv nv"]
    own: Float[Array, "m nv"]
    directions: Float[Array, "nv nv"]
    rows: Float[Array, " m"]
    columns: Float[Array, " nv"]

    @classmethod
    def at(cls, system: System, q: Vector, t: Scalar) -> Admissible:
        mass, own = system.mass_matrix(q, t), system.constraint_jacobian(q, t)
        units = scales(mass, own, row_variation(system, q, t))
        columns = units.columns
        scaled = own * columns[None, :] / units.rows[:, None]
        # As in `equilibrate`: what only the constraints hold gets inertia, admissible motions keep theirs.
        factor = cholesky(mass * columns[None, :] * columns[:, None] + scaled.T @ scaled)
        half = solve_triangular(factor, scaled.T)
        free = jnp.eye(system.nv) - half @ pinv(half)
        directions = columns[:, None] * solve_triangular(factor, free, trans=1)
        return cls(mass, own, directions, units.rows, columns)

    def reactions(self, impulse: Vector) -> Float[Array, " m"]:
        """Impulses of the own constraints that make up `impulse` (nv,)."""
        scaled = self.own * self.columns[None, :] / self.rows[:, None]
        return least_admissible(scaled.T, impulse * self.columns, self.rows, *no_cones(self.rows.shape[0])).multipliers


def _rows(rates: Callable[[Vector], Array], nv: int) -> Array:
    """The matrix of rates that are affine in `v`."""
    return jax.jacfwd(rates)(jnp.zeros(nv))


def _outcome(
    system: System,
    q: Vector,
    v: Vector,
    t: Scalar,
    admissible: Admissible,
    matrix: Float[Array, "c rows nv"],
    impulses: Float[Array, "c rows"],
    **rest: Any,
) -> Impact:
    flat = matrix.reshape(-1, system.nv)
    along = admissible.directions.T @ (flat.T @ impulses.reshape(-1))
    change = admissible.directions @ along
    momentum = jax.grad(system.kinetic_energy, argnums=1)
    return Impact(
        v=v + change,
        impulses=impulses,
        reactions=admissible.reactions(admissible.mass @ change - flat.T @ impulses.reshape(-1)),
        matrix=matrix,
        energy_lost=-0.5 * (momentum(q, v, t) + momentum(q, v + change, t)) @ change,
        kinetic_energy=system.kinetic_energy(q, v, t),
        **rest,
    )


@xla_jit
def _bilateral(
    system: System, q: Vector, v: Vector, t: Scalar, constraints: Callable[..., Any], restitution: Float[Array, ""]
) -> Impact:
    def rates(v: Vector) -> Float[Array, " m"]:
        return jax.jvp(constraints, (q, t), (system.qdot(q, v), jnp.ones_like(t)))[1]

    admissible = Admissible.at(system, q, t)
    matrix, before = _rows(rates, system.nv), rates(v)
    half = matrix @ admissible.directions
    length = lengths(half)
    inverse = pinv(half / length[:, None])
    stopping = -(inverse @ (before / length))
    shares = least_admissible(half.T / length[None, :], stopping, length, *no_cones(before.shape[0]))
    impulses = (1.0 + restitution) * shares.multipliers
    result = _outcome(
        system,
        q,
        v,
        t,
        admissible,
        matrix[:, None, :],
        impulses[:, None],
        constrained_energy=0.5 * jnp.sum((inverse @ (before / length)) ** 2),
        velocity=-restitution * before[:, None],
        sticking=jnp.ones(before.shape, dtype=bool),
        sliding=jnp.zeros(before.shape, dtype=bool),
        residual=jnp.zeros(()),
        determinate=shares.determinate[:, None],
    )
    size = jnp.max(jnp.abs(before / length), initial=0.0)
    # Not zero only where the constraints contradict what the system's own allow.
    missed = jnp.max(jnp.abs((rates(result.v) + restitution * before) / length), initial=0.0)
    return eqx.tree_at(lambda r: r.residual, result, missed / jnp.where(size > 0.0, size, 1.0))


def lengths(half: Float[Array, "m n"]) -> Float[Array, " m"]:
    """Lengths of the rows, 1 for rows that vanish."""
    length = jnp.linalg.norm(half, axis=1)
    return jax.lax.stop_gradient(jnp.where(length > 1e-12, length, 1.0))


class _Contacts(NamedTuple):
    """The impact problem in scaled units: the normal row of each contact has unit length."""

    half: Float[Array, "c rows n"]
    friction: Float[Array, " c"]
    length: Float[Array, " c"]
    matrix: Float[Array, "c rows nv"]
    """The rows in units of the model."""
    admissible: Admissible
    exists: Bool[np.ndarray, "c rows"]
    small: Float[Array, ""]
    """Velocities below this are zero."""

    @property
    def inverse_mass(self) -> Float[Array, "c rows c rows"]:
        return jnp.einsum("iam,jbm->iajb", self.half, self.half)

    def after(self, w: Float[Array, "c rows"], impulses: Float[Array, "c rows"]) -> Float[Array, "c rows"]:
        return w + jnp.einsum("iajb,jb->ia", self.inverse_mass, impulses)

    def gain(self, w: Float[Array, "c rows"], impulses: Float[Array, "c rows"]) -> Float[Array, ""]:
        """Change of kinetic energy by these impulses, from velocities `w` before."""
        return 0.5 * jnp.sum((w + self.after(w, impulses)) * impulses)

    def blow(self, w: Float[Array, "c rows"], restitution: Float[Array, " c"]) -> tuple[Array, Array, Array]:
        """Impulses of both phases, how far they miss their laws, and which are unique."""
        first, missed = contact_impulses(self.inverse_mass, w, self.friction)
        stopped = self.after(w, first)
        first, known = self.distributed(first, stopped, None)

        def rebound(e: Float[Array, " c"]) -> tuple[Array, Array, Array]:
            again, off = contact_impulses(self.inverse_mass, stopped, self.friction, e * first[:, 0])
            again, known = self.distributed(again, self.after(stopped, again), e * first[:, 0])
            return again, off, known

        least = jnp.full_like(restitution, jnp.min(restitution))
        (wanted, safe), off, second = jax.lax.map(rebound, jnp.stack([restitution, least]))
        share = self._share(w, first + safe, first + wanted)
        known = known & jnp.where(jnp.max(restitution) > 0.0, jnp.all(second, axis=0), True)
        # Impulses between two admissible ones are admissible, the cone of friction being convex.
        return first + (1.0 - share) * safe + share * wanted, jnp.maximum(missed, jnp.max(off)), known

    def distributed(
        self, impulses: Float[Array, "c rows"], after: Float[Array, "c rows"], normal: Float[Array, " c"] | None
    ) -> tuple[Array, Array]:
        """The least impulses with the same effect and their uniqueness, given the velocities `after` them.

        With `normal` given, the normal impulses are these.
        """
        slip = jnp.linalg.norm(after[:, 1:], axis=1)
        slides = (slip > self.small) & (self.friction > 0.0)
        # A rebound pushes contacts that part, too.
        closed = jnp.ones_like(slip) if normal is not None else (after[:, 0] <= self.small).astype(float)
        stuck = closed * (self.friction > 0.0) * ~slides
        drag = -(closed * self.friction)[:, None] * after[:, 1:] / jnp.where(slides, slip, jnp.inf)[:, None]
        at = self.admissible
        rows = self.matrix * at.columns[None, None, :]
        units = lengths(rows.reshape(-1, rows.shape[2])).reshape(slip.shape[0], -1)
        units = jnp.tile(jnp.max(units, axis=1)[:, None], (1, units.shape[1]))
        columns = jnp.moveaxis(pushing_rows(rows, closed, stuck, drag) / units[:, :, None], 2, 0)
        own = (at.own * at.columns[None, :] / at.rows[:, None]).T
        given = impulses / self.length[:, None]
        change = at.directions @ (at.directions.T @ jnp.einsum("ian,ia->n", self.matrix, given))
        load = at.columns * (at.mass @ change)
        if normal is not None:
            fixed = jnp.zeros((slip.shape[0], *given.shape)).at[:, :, 0].set(jnp.eye(slip.shape[0]))
            columns = jnp.concatenate([columns, fixed])
            own = jnp.concatenate([own, jnp.zeros((slip.shape[0], own.shape[1]))])
            load = jnp.concatenate([load, units[:, 0] * normal / self.length])
        loads = share_load(own, columns, load, at.rows, units, closed, stuck, drag, self.friction, self.exists)
        best = in_cones(jnp.where(loads.missed <= INSIDE, loads.force, given), self.friction)
        return best * self.length[:, None], loads.determinate

    def _share(self, w: Array, safe: Array, wanted: Array) -> Float[Array, ""]:
        """The largest step from `safe` to `wanted` (0 … 1) that creates no energy."""
        start, end = self.gain(w, safe), self.gain(w, wanted)
        middle = self.gain(w, 0.5 * (safe + wanted))
        a = 2.0 * (start + end - 2.0 * middle)  # gain(s) = a s² + b s + start, convex, start ≤ 0
        b = end - start - a
        root = jnp.sqrt(jnp.maximum(b**2 - 4.0 * a * start, 0.0))
        crossing = -2.0 * start / jnp.where(b + root > 0.0, b + root, 1.0)
        return jnp.where(end <= 0.0, 1.0, jnp.clip(crossing, 0.0, 1.0))


@xla_jit
def contact_impact(
    system: System,
    q: Vector,
    v: Vector,
    t: Scalar,
    contacts: tuple[Contact, ...],
    restitution: Array | None,
    friction: Array | None,
    touching: Bool[Array, " c"],
) -> Impact:
    """The impact of `contacts`; those that are not `touching` take no part."""
    k, c = slip_size(system, contacts), len(contacts)
    e = jnp.stack([jnp.asarray(x.restitution) for x in contacts]) if restitution is None else restitution
    mu = jnp.stack([jnp.asarray(x.friction) for x in contacts]) if friction is None else friction
    e, mu = jnp.broadcast_to(e, (c,)), jnp.minimum(jnp.broadcast_to(mu, (c,)), MAX_FRICTION)
    part = touching.astype(float)

    def rates(v: Vector) -> Float[Array, "c rows"]:
        return part[:, None] * relative_velocity(system, contacts, q, v, t, k)

    admissible = Admissible.at(system, q, t)
    matrix, before = _rows(rates, system.nv), rates(v)
    half = matrix @ admissible.directions
    length = lengths(half[:, 0])
    w = before / length[:, None]
    size = jnp.max(jnp.abs(w), initial=0.0)
    small = AT_REST * jnp.where(size > 0.0, size, 1.0)
    exists = existing_rows(system, contacts)
    problem = _Contacts(half / length[:, None, None], mu, length, matrix, admissible, exists, small)

    def approaching(state) -> Array:
        impulses, *_, i = state
        return jnp.any(problem.after(w, impulses)[:, 0] < -small) & (i < REPEATS)

    def again(state) -> tuple[Array, Array, Array, Array]:
        impulses, missed, unique, i = state
        # The last time nothing rebounds: then nothing approaches either.
        blow, off, known = problem.blow(problem.after(w, impulses), jnp.where(i + 1 < REPEATS, e, 0.0))
        return impulses + blow, jnp.maximum(missed, off), unique & known, i + 1

    nothing = (jnp.zeros_like(w), jnp.zeros(()), jnp.ones(w.shape, dtype=bool), jnp.zeros((), dtype=int))
    impulses, missed, unique, _ = jax.lax.while_loop(approaching, again, nothing)
    after = problem.after(w, impulses)
    slipping = jnp.linalg.norm(after[:, 1:], axis=1) > small
    hit = impulses[:, 0] > 0.0
    flat = problem.half.reshape(w.size, -1)
    return _outcome(
        system,
        q,
        v,
        t,
        admissible,
        matrix,
        impulses / length[:, None],
        constrained_energy=0.5 * jnp.sum((pinv(flat / lengths(flat)[:, None]) @ (w.reshape(-1) / lengths(flat))) ** 2),
        velocity=after * length[:, None],
        sticking=hit & ~slipping,
        sliding=hit & slipping,
        residual=missed,
        determinate=unique,
    )
