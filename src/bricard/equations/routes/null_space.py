"""Null space (Kane, Maggi): equations of motion along an orthonormal basis of the admissible velocities."""

from __future__ import annotations

from jaxtyping import Array, Float

from bricard.equations.problem import Problem
from bricard.equations.rank import null_basis, pinv, solve_on_basis
from bricard.equations.routes.route import Route


class NullSpace(Route):
    """`v̇ = A⁺b + V w` with `VᵀMV w = Vᵀ(force − M A⁺b)`, `V` a basis of `null(A)` by SVD."""

    def acceleration(self, problem: Problem) -> Float[Array, " n"]:
        """`v̇`, see `Route`."""
        particular = pinv(problem.matrix) @ problem.target
        basis = null_basis(problem.matrix)
        return particular + solve_on_basis(problem.mass, problem.force - problem.mass @ particular, basis)
