"""Soft constraints, for comparison: stiff springs instead of constraints, and the iteration that hardens them."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from bricard.equations.problem import Problem
from bricard.equations.rank import kept
from bricard.equations.routes.route import Route
from bricard.execution.lapack import cho_solve, cholesky, eigvalsh, solve


class Penalty(Route):
    """`(M + αAᵀA) v̇ = force + αAᵀ(b − 2ζωΦ̇ − ω²Φ)`. An approximation: see `error`.

    `alpha` is in units of the mass matrix (rows and coordinates are scaled to 1 first).
    """

    alpha: float = 1e8
    omega: float = 0.0
    zeta: float = 1.0

    def acceleration(self, problem: Problem) -> Float[Array, " n"]:
        """`v̇`, see `Route`."""
        drift = 2.0 * self.zeta * self.omega * problem.velocity_error + self.omega**2 * problem.position_error
        stiff = problem.mass + self.alpha * problem.matrix.T @ problem.matrix
        rhs = problem.force + self.alpha * problem.matrix.T @ (problem.target - drift)
        return solve(stiff, rhs)

    def error(self, problem: Problem) -> Float[Array, ""]:
        """How much of the correction `v̇ − M⁻¹force` may be missing, relative: `1/(1+ασ²)`, σ the weakest direction."""
        factor = cholesky(problem.mass)
        strengths = eigvalsh(problem.matrix @ cho_solve(factor, problem.matrix.T))
        weakest = jnp.min(jnp.where(kept(jnp.sqrt(jnp.clip(strengths, 0.0))), strengths, jnp.inf), initial=jnp.inf)
        return 1.0 / (1.0 + self.alpha * weakest)


class AugmentedLagrangian(Route):
    """`(M + αAᵀA) v̇ᵢ₊₁ = M v̇ᵢ + αAᵀb`, from the free acceleration: a penalty repeated until it is hard.

    Each iteration multiplies what is missing by `1/(1+ασ²)`; a larger `alpha` needs fewer of them, but costs as many
    digits as it has.
    """

    alpha: float = 1e5
    iterations: int = eqx.field(static=True, default=20)

    def acceleration(self, problem: Problem) -> Float[Array, " n"]:
        """`v̇`, see `Route`."""
        stiff = cholesky(problem.mass + self.alpha * problem.matrix.T @ problem.matrix)
        free = cho_solve(cholesky(problem.mass), problem.force)

        def harder(_: object, v: Float[Array, " n"]) -> Float[Array, " n"]:
            # The iteration written for the change: rounding errors shrink along with it.
            missing = problem.target - problem.matrix @ v
            return v + cho_solve(stiff, self.alpha * (problem.matrix.T @ missing))

        return jax.lax.fori_loop(0, self.iterations, harder, free)
