"""Gauss's principle: of all accelerations that the constraints allow, the one nearest to the free one."""

from __future__ import annotations

from jaxtyping import Array, Float

from bricard.equations.problem import Problem
from bricard.equations.rank import pinv
from bricard.equations.routes.route import Route
from bricard.execution.lapack import cho_solve, cholesky, solve_triangular


class Gauss(Route):
    """Udwadia–Kalaba: `v̇ = a + L⁻ᵀ(A L⁻ᵀ)⁺(b − A a)`, with `M = LLᵀ` and `a = M⁻¹ force`."""

    def acceleration(self, problem: Problem) -> Float[Array, " n"]:
        """`v̇`, see `Route`."""
        factor = cholesky(problem.mass)
        free = cho_solve(factor, problem.force)
        weighted = solve_triangular(factor, problem.matrix.T).T
        correction = pinv(weighted) @ (problem.target - problem.matrix @ free)
        return free + solve_triangular(factor, correction, trans=1)
