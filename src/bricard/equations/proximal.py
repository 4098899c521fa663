"""The default route: rank-safe at the speed of a Cholesky factorisation."""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from bricard.equations.factor import Factor
from bricard.equations.problem import Problem
from bricard.equations.route import Route


class Proximal(Route):
    """Cholesky of `G + μI`, `G = A M⁻¹Aᵀ`, with a few sweeps of refinement.

    Each sweep multiplies the error of a constraint direction of strength `g` by `μ/(g+μ)`; directions with `g ≪ μ`
    (redundant rows, a dead point) get no force. No rank decision is made, so that the result is smooth everywhere and
    can be differentiated at redundant rows and singular positions.
    """

    mu: float | None = None
    """`μ`; if None, what suits the coordinates (`System.weakest_constraint`)."""
    sweeps: int = eqx.field(static=True, default=2)

    def acceleration(self, problem: Problem) -> Float[Array, " n"]:
        """`v̇`, see `Route`."""
        factor = Factor(problem.mass)
        free = factor.whiten(problem.force)
        if problem.matrix.shape[0] == 0:
            return factor.back(free)
        half = factor.whiten(problem.matrix.T)
        gram = Gram(half, problem.weakest if self.mu is None else self.mu, self.sweeps)
        return factor.back(free + half @ gram.solve(problem.target - half.T @ free))


DEFAULT = Proximal()
"""The route that is taken unless another is asked for."""


class Gram:
    """A factorised Gram matrix `halfᵀ half` for several right sides, solved where it is not zero."""

    def __init__(self, half: Float[Array, "n m"], mu: float, sweeps: int = DEFAULT.sweeps):
        self.matrix = half.T @ half
        self.sweeps = sweeps
        self.factor = Factor(self.matrix + mu * jnp.eye(self.matrix.shape[0]))

    def solve(self, rhs: Float[Array, " m *k"]) -> Float[Array, " m *k"]:
        """`λ` with `halfᵀ half λ = rhs`, for one right side or several."""
        solution = self.factor.solve(rhs)
        for _ in range(self.sweeps):
            solution = solution + self.factor.solve(rhs - self.matrix @ solution)
        return solution
