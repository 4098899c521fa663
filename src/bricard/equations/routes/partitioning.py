"""Coordinate partitioning: some velocities are independent, the constraints give the others."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from bricard.equations.problem import Problem
from bricard.equations.rank import pinv, rank, solve_on_basis
from bricard.equations.routes.route import Route
from bricard.execution.lapack import column_order


class Partitioning(Route):
    """Dependent velocities are picked anew at every state by a QR factorisation with column pivoting.

    The pick is thus never badly conditioned, and there is none to go stale on the way through a dead point.
    """

    def acceleration(self, problem: Problem) -> Float[Array, " n"]:
        """`v̇`, see `Route`."""
        matrix = problem.matrix
        free = jnp.where(self.dependent(matrix), 0.0, 1.0)
        inverse = pinv(matrix * (1.0 - free)[None, :])
        particular = inverse @ problem.target
        basis = jnp.diag(free) - inverse @ (matrix * free[None, :])
        return particular + solve_on_basis(problem.mass, problem.force - problem.mass @ particular, basis)

    @staticmethod
    def dependent(matrix: Float[Array, "m n"]) -> Bool[Array, " n"]:
        """Which velocities follow from the others: as many as the rank, the best conditioned ones."""
        m, n = matrix.shape
        if m == 0:
            return jnp.zeros(n, dtype=bool)
        matrix = jax.lax.stop_gradient(matrix)
        order = column_order(matrix)
        return jnp.zeros(n, dtype=bool).at[order].set(jnp.arange(n) < rank(matrix))
