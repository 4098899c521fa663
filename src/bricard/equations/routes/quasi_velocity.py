"""Quasi-velocities: the square root of the mass matrix as unit of velocity, motion and constraint force apart."""

from __future__ import annotations

from jaxtyping import Array, Float

from bricard.equations.problem import Problem
from bricard.equations.rank import pinv
from bricard.equations.routes.route import Route
from bricard.execution.lapack import cholesky, solve_triangular


class QuasiVelocity(Route):
    """`M = WWᵀ`, `Λ = A W⁻ᵀ`: the part of `W⁻¹ force` in `null(Λ)` moves, `Λ⁺b` is what the constraints add.

    In these units the two are orthogonal: neither enters the equation of the other, with no choice of metric to make.
    """

    def acceleration(self, problem: Problem) -> Float[Array, " n"]:
        """`v̇`, see `Route`."""
        root = cholesky(problem.mass)
        constraint = solve_triangular(root, problem.matrix.T).T
        inverse = pinv(constraint)
        force = solve_triangular(root, problem.force)
        motion = force - inverse @ (constraint @ force)
        return solve_triangular(root, motion + inverse @ problem.target, trans=1)
