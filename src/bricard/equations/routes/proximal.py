"""The default route: rank-safe at the speed of a Cholesky factorisation."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from bricard.equations.linalg.factor import Factor
from bricard.equations.problem import Problem
from bricard.equations.routes.route import Route
from bricard.system import Scalar


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


def spurious_strength(off: Float[Array, " n"], variation: Float[Array, " *shape"]) -> Float[Array, ""]:
    """How strong a combination of rows may seem off the constraints that is none on them.

    `off` is about the distance from the constraints, in the coordinates; `variation` are the changes of the rows, in
    good units, of which only the squares matter. Redundant rows depend on each other on the constraints only. At a
    distance `ε`, they have a singular value of up to `ε` times the change of the rows, and ask for different things by
    `ε²`: solved as if they were independent, they lead anywhere. With their strength, the square of the singular value,
    below `μ`, they are left alone, and the correction still converges quadratically, as the method of Levenberg and
    Marquardt does with a `μ` proportional to the square of the residual.
    """
    return jax.lax.stop_gradient(jnp.sum(off**2) * jnp.sum(variation**2))


class Gram:
    """A factorised Gram matrix `halfᵀ half` for several right sides, solved where it is not zero."""

    def __init__(self, half: Float[Array, "n m"], mu: float | Scalar, sweeps: int = DEFAULT.sweeps):
        self.matrix = half.T @ half
        self.sweeps = sweeps
        self.factor = Factor(self.matrix + mu * jnp.eye(self.matrix.shape[0]))

    def solve(self, rhs: Float[Array, " m *k"]) -> Float[Array, " m *k"]:
        """`λ` with `halfᵀ half λ = rhs`, for one right side or several."""
        solution = self.factor.solve(rhs)
        for _ in range(self.sweeps):
            solution = solution + self.factor.solve(rhs - self.matrix @ solution)
        return solution
