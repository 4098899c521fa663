"""Lagrange multipliers: the textbook route, for independent constraints only."""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Float

from bricard.equations.problem import Problem
from bricard.equations.rank import rank
from bricard.equations.routes.route import Route
from bricard.execution.lapack import solve


class Multipliers(Route):
    """Solve `[M −Aᵀ; A 0][v̇; λ] = [force; b]`. Needs independent rows.

    With dependent rows the matrix is singular: the result is NaN, never a number that only looks right, and
    `forward_dynamics` raises `RankError`.
    """

    def acceleration(self, problem: Problem) -> Float[Array, " n"]:
        """`v̇`, see `Route`."""
        m, n = problem.matrix.shape
        kkt = jnp.block([[problem.mass, -problem.matrix.T], [problem.matrix, jnp.zeros((m, m))]])
        solution = solve(kkt, jnp.concatenate([problem.force, problem.target]))
        return jnp.where(rank(problem.matrix) == m, solution[:n], jnp.nan)
