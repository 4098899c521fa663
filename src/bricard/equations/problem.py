"""The one problem that every route solves: find `v̇` with `M v̇ = force + Aᵀλ`, `A v̇ = b`."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from bricard.system import Scalar, System, Vector


class Problem(eqx.Module):
    """`M v̇ = force + Aᵀλ` and `A v̇ = target` at one state."""

    mass: Float[Array, "n n"]
    """`M`; may be singular as long as it is positive definite on `null(A)`."""
    force: Float[Array, " n"]
    """`f + H u − h`."""
    matrix: Float[Array, "m n"]
    """`A`."""
    target: Float[Array, " m"]
    """`b`."""
    position_error: Float[Array, " m"]
    """`Φ`, zero for velocity constraints."""
    velocity_error: Float[Array, " m"]
    """`A v − b₁`."""
    variation: Float[Array, "m n"]
    """How much `A` changes nearby; says what size a row has where it happens to vanish."""
    weakest: float = eqx.field(static=True, default=System.weakest_constraint)
    """Strength of a combination of rows, in good units, far below which there is none."""

    @classmethod
    def from_matrices(cls, mass: ArrayLike, force: ArrayLike, matrix: ArrayLike, target: ArrayLike) -> Problem:
        """A problem given by numbers alone."""
        mass, force, matrix, target = (jnp.asarray(x, dtype=float) for x in (mass, force, matrix, target))
        zero = jnp.zeros_like(target)
        return cls(mass, force, matrix, target, zero, zero, jnp.zeros_like(matrix))


ROUNDING = 1e-10
"""A row whose entries and their changes are below this fraction of their natural size is zero up to rounding."""


def row_variation(system: System, q: Vector, t: Scalar) -> Float[Array, "m n"]:
    """Change of `A` along a fixed generic motion of about one radian or metre in every coordinate.

    Where a row is zero up to rounding here and nearby (`System.constraint_sizes`), its natural size instead: divided by
    its own length, rounding error would become a constraint.
    """
    steps = np.random.default_rng(0).uniform(0.5, 1.0, system.nv) * np.resize([1.0, -1.0], system.nv)
    along = system.qdot(q, jnp.asarray(steps))
    matrix, change = jax.jvp(lambda q: system.constraint_jacobian(q, t), (q,), (along,))
    sizes = system.constraint_sizes(q, t)
    is_rounding = jnp.all(jnp.abs(matrix) + jnp.abs(change) <= ROUNDING * sizes, axis=1, keepdims=True)
    return jax.lax.stop_gradient(jnp.where(is_rounding, sizes, change))


def state_problem(
    system: System,
    q: Vector,
    v: Vector,
    u: Vector,
    t: Scalar,
    variation: Float[Array, "m n"] | None = None,
) -> Problem:
    """The problem at a state. A simulation passes the `variation` of its start, which spares computing it."""
    phi = system.constraints(q, t)
    rate = system.constraint_rate(q, v, t)
    return Problem(
        mass=system.mass_matrix(q, t),
        force=applied_force(system, q, v, u, t),
        matrix=system.constraint_jacobian(q, t),
        target=system.constraint_bias(q, v, t),
        position_error=jnp.concatenate([phi, jnp.zeros(rate.shape[0] - phi.shape[0])]),
        velocity_error=rate,
        variation=row_variation(system, q, t) if variation is None else variation,
        weakest=system.weakest_constraint,
    )


def applied_force(system: System, q: Vector, v: Vector, u: Vector, t: Scalar) -> Vector:
    """`f + H u − h`: all forces but those of the constraints."""
    force = system.applied_force(q, v, t) - system.bias(q, v, t)
    return force + system.input_matrix(q, t) @ u if u.shape[0] else force


class Scales(NamedTuple):
    """Units in which a problem is well scaled: `v̂ = v / columns`, `Φ̂ = Φ / rows`."""

    rows: Float[Array, " m"]
    columns: Float[Array, " n"]


def scales(mass: Float[Array, "n n"], matrix: Float[Array, "m n"], variation: Float[Array, "m n"]) -> Scales:
    """Units that make the diagonal of `M` and the length of the rows of `A` about 1.

    A row is compared with its own length and with its change nearby, so that a row that vanishes at a dead point stays
    small instead of being blown up to rounding noise of length 1.
    """
    columns = unit_columns(jnp.diagonal(mass))
    squares = jnp.sum((matrix * columns[None, :]) ** 2 + (variation * columns[None, :]) ** 2, axis=1)
    return jax.lax.stop_gradient(Scales(unit_rows(squares), columns))


def unit_columns(diagonal: Float[Array, " n"]) -> Float[Array, " n"]:
    """Units of velocities, from the diagonal of `M`."""
    diagonal = jnp.abs(diagonal)
    largest = jnp.max(diagonal, initial=0.0)
    # Motions without inertia of their own (a slender rod about itself) are measured by the largest one: a smaller unit
    # would let them dominate the rows.
    massless = diagonal <= 1e-9 * largest
    return 1.0 / jnp.sqrt(jnp.where(massless, jnp.where(largest > 0.0, 0.1 * largest, 1.0), diagonal))


def unit_rows(squares: Float[Array, " m"]) -> Float[Array, " m"]:
    """Units of constraints, from the squares of the lengths of the rows and of their change."""
    return jnp.sqrt(jnp.where(squares > 0.0, squares, 1.0))


def equilibrate(problem: Problem) -> tuple[Problem, Scales]:
    """The same problem in good units, its mass matrix positive definite wherever the motion is determined.

    Adding `AᵀA` to `M` and `Aᵀb` to the force changes neither the acceleration nor `Aᵀλ`, since `A v̇ = b`.
    It gives inertia to what only the constraints hold (massless links, slender rods).
    """
    units = scales(problem.mass, problem.matrix, problem.variation)
    columns, rows = units.columns[None, :], units.rows[:, None]
    matrix = problem.matrix * columns / rows
    target = problem.target / units.rows
    scaled = dataclasses.replace(
        problem,
        mass=problem.mass * columns * units.columns[:, None] + matrix.T @ matrix,
        force=problem.force * units.columns + matrix.T @ target,
        matrix=matrix,
        target=target,
        position_error=problem.position_error / units.rows,
        velocity_error=problem.velocity_error / units.rows,
        variation=problem.variation * columns / rows,
    )
    return scaled, units
