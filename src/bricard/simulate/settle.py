"""Which contacts that touch stay closed, and whether they stick: the laws of contact for accelerations."""

from __future__ import annotations

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from bricard.equations.problem import equilibrate, state_problem
from bricard.equations.route import Route
from bricard.simulate.contact import MAX_FRICTION, Unilateral, relative_velocity, slip_size
from bricard.simulate.coulomb import contact_impulses
from bricard.simulate.impact import Admissible, lengths
from bricard.system import Scalar, System, Vector

SLIP_SPEED = 1e-8
"""A contact that slips more slowly (m/s) may stick."""


class Settled(NamedTuple):
    """Forces and accelerations of contacts that touch: (c, 1 + slips), normal first."""

    force: Float[Array, "c rows"]
    acceleration: Float[Array, "c rows"]
    velocity: Float[Array, "c rows"]
    residual: Float[Array, ""]


@eqx.filter_jit
def settle(
    system: System,
    contacts: tuple[Unilateral, ...],
    q: Vector,
    v: Vector,
    u: Vector,
    t: Scalar,
    touching: Bool[Array, " c"],
    method: Route,
) -> Settled:
    """Forces of the `touching` contacts: `0 ≤ λ_N ⟂ ẅ_N ≥ 0`; friction against the slip or, without it, its start.

    Velocities and accelerations are those of all contacts.
    """
    k = slip_size(system, contacts)
    t = jnp.asarray(t, dtype=float)

    def rates(q: Vector, v: Vector, t: Scalar) -> Float[Array, "c rows"]:
        return relative_velocity(system, contacts, q, v, t, k)

    scaled, units = equilibrate(state_problem(system, q, v, u, t))
    free = method.acceleration(scaled) * units.columns
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
    return Settled(force / length, after * length, velocity, missed)
