"""Which contacts that touch stay closed, and whether they stick: the laws of contact for accelerations."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from bricard.contact.force_distribution import INSIDE, pushing_rows, share_load
from bricard.contact.friction import contact_impulses
from bricard.contact.gap import MAX_FRICTION, Contact, existing_rows, relative_velocity, slip_size
from bricard.contact.impacts import Admissible, lengths
from bricard.equations.problem import equilibrate, state_problem
from bricard.equations.routes.route import Route
from bricard.execution.compile import xla_jit
from bricard.system import Scalar, System, Vector

SLIP_SPEED = 1e-8
"""A contact that slips more slowly (m/s) may stick."""


AT_REST = 1e-9
"""Relative accelerations below this fraction of those without contact forces count as zero."""


class Settled(NamedTuple):
    """Forces and accelerations of contacts that touch: (c, 1 + slips), normal first."""

    force: Float[Array, "c rows"]
    """Where they are not unique, the least admissible ones."""
    acceleration: Float[Array, "c rows"]
    velocity: Float[Array, "c rows"]
    residual: Float[Array, ""]
    staying: Bool[Array, " c"]
    """Which of the contacts that touch do not part."""
    direction: Float[Array, "c slips"]
    """Unit vector along which a contact with friction slips or begins to slip; zero where it does not."""
    determinate: Bool[Array, "c rows"]
    """Which forces are unique."""


@xla_jit
def settle(
    system: System,
    contacts: tuple[Contact, ...],
    q: Vector,
    v: Vector,
    u: Vector,
    t: Scalar,
    touching: Bool[Array, " c"],
    route: Route,
) -> Settled:
    """Forces of the `touching` contacts: `0 ≤ λ_N ⟂ ẅ_N ≥ 0`; friction against the slip or, without it, its start.

    Velocities and accelerations are those of all contacts.
    """
    k = slip_size(system, contacts)
    t = jnp.asarray(t, dtype=float)

    def rates(q: Vector, v: Vector, t: Scalar) -> Float[Array, "c rows"]:
        return relative_velocity(system, contacts, q, v, t, k)

    scaled, units = equilibrate(state_problem(system, q, v, u, t))
    free = route.acceleration(scaled) * units.columns
    along = (system.qdot(q, v), jnp.ones_like(t))
    change = jax.jvp(lambda q, t: rates(q, v, t), (q, t), along)[1]
    matrix = jax.jacfwd(lambda v: rates(q, v, t))(jnp.zeros(system.nv))
    half = matrix @ Admissible.at(system, q, t).directions
    length = lengths(half[:, 0])[:, None]
    half = half / length[:, :, None]
    acceleration = (matrix @ free + change) / length
    inverse_mass = jnp.einsum("iam,jbm->iajb", half, half)

    velocity = rates(q, v, t)
    speed = jnp.linalg.norm(velocity[:, 1:], axis=1)
    mu = jnp.minimum(jnp.stack([jnp.asarray(c.friction) for c in contacts]), MAX_FRICTION)
    sliding = (speed > SLIP_SPEED) & (mu > 0.0)
    direction = jnp.where(sliding[:, None], velocity[:, 1:] / jnp.where(sliding, speed, 1.0)[:, None], 0.0)
    # Where it slides, friction follows the normal force; its rows take no part of their own.
    ones = jnp.ones_like(mu)[:, None]
    with_friction = jnp.concatenate([ones, -mu[:, None] * direction], axis=1)
    pushes = jnp.einsum("iajb,jb->iaj", inverse_mass, with_friction)
    kept = jnp.concatenate([ones, jnp.where(sliding[:, None], 0.0, jnp.ones((1, k)))], axis=1)
    kept = kept * touching.astype(float)[:, None]
    effective = inverse_mass.at[:, :, :, 0].set(pushes) * kept[:, :, None, None] * kept[None, None, :, :]
    force, missed = contact_impulses(effective, acceleration * kept, jnp.where(sliding, 0.0, mu))
    force = kept * force + force[:, :1] * with_friction.at[:, 0].set(0.0)
    after = acceleration + jnp.einsum("iajb,jb->ia", inverse_mass, force)
    small = AT_REST * jnp.max(jnp.abs(jnp.concatenate([matrix @ free, change])) / jnp.tile(length, (2, 1)))
    staying = touching & (after[:, 0] <= small)
    slipping = (mu > 0.0) & (sliding | (jnp.linalg.norm(after[:, 1:], axis=1) > small))
    stuck = staying & (mu > 0.0) & ~slipping  # the others slide, or have no friction
    start = jnp.where(slipping & ~sliding, jnp.linalg.norm(after[:, 1:], axis=1), jnp.inf)
    direction = direction + after[:, 1:] / start[:, None]
    drag = -(mu * staying)[:, None] * direction
    loads = share_load(
        jnp.zeros((system.nv, 0)),
        jnp.moveaxis(pushing_rows(half, staying.astype(float), stuck.astype(float), drag), 2, 0),
        jnp.einsum("ian,ia->n", half, force),
        jnp.zeros(0),
        jnp.tile(length, (1, 1 + k)),
        staying.astype(float),
        stuck.astype(float),
        drag,
        mu,
        existing_rows(system, contacts),
    )
    shared = jnp.where(loads.missed <= INSIDE, loads.force, force / length)
    return Settled(shared, after * length, velocity, missed, staying, direction, loads.determinate)
