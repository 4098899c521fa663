"""Projection in the metric of the mass matrix."""

from __future__ import annotations

from jaxtyping import Array, Float

from bricard.equations.problem import Problem
from bricard.equations.rank import pinv
from bricard.equations.routes.route import Route
from bricard.execution.lapack import cho_solve, cholesky


class MassProjection(Route):
    """`v̇ = (I − A‡A) a + A‡b` with `A‡ = M⁻¹Aᵀ(A M⁻¹Aᵀ)⁺` and `a = M⁻¹ force`."""

    def acceleration(self, problem: Problem) -> Float[Array, " n"]:
        """`v̇`, see `Route`."""
        factor = cholesky(problem.mass)
        free = cho_solve(factor, problem.force)
        spread = cho_solve(factor, problem.matrix.T)
        weighted_inverse = spread @ pinv(problem.matrix @ spread)
        return free + weighted_inverse @ (problem.target - problem.matrix @ free)
