"""Orthogonal projection (Aghili): one equation for constrained motion, whatever the rank."""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from bricard.equations.problem import Problem
from bricard.equations.rank import pinv
from bricard.equations.routes.route import Route
from bricard.errors import ModelError
from bricard.execution.lapack import cholesky, inv, solve


class Projection(Route):
    """`P = I − A⁺A` and a constraint inertia matrix `M_c` that is invertible at any rank.

    `inertia` chooses `M_c`: "skew" `M + PM − (PM)ᵀ`, "symmetric" `PMP + (I−P)M(I−P)`, or "parametrized"
    `PM + γ(I−P)` with `gamma` (default: the norm of `M`). `metric` is a symmetric positive definite `W` (nv, nv) that
    measures velocities, for coordinates of mixed units; it changes `P`, not the acceleration.
    """

    inertia: str = eqx.field(static=True, default="skew")
    gamma: float | None = None
    metric: Float[Array, "n n"] | None = None

    def __check_init__(self):
        """Refuse an unknown kind of inertia."""
        if self.inertia not in ("skew", "symmetric", "parametrized"):
            raise ModelError("Projection", [f"inertia is 'skew', 'symmetric' or 'parametrized', not {self.inertia!r}"])

    def acceleration(self, problem: Problem) -> Float[Array, " n"]:
        """`v̇`, see `Route`."""
        if self.metric is None:
            return self._solve(problem)
        root = cholesky(self.metric)
        inverse = inv(root)  # v_W = rootᵀ v, f_W = root⁻¹ f, A_W = A root⁻ᵀ
        weighted = eqx.tree_at(
            lambda p: (p.mass, p.force, p.matrix),
            problem,
            (inverse @ problem.mass @ inverse.T, inverse @ problem.force, problem.matrix @ inverse.T),
        )
        return inverse.T @ self._solve(weighted)

    def inertia_matrix(self, mass: Float[Array, "n n"], projector: Float[Array, "n n"]) -> Float[Array, "n n"]:
        """`M_c` of the chosen kind."""
        pm, rest = projector @ mass, jnp.eye(mass.shape[0]) - projector
        if self.inertia == "skew":
            return mass + pm - pm.T
        if self.inertia == "symmetric":
            return pm @ projector + rest @ mass @ rest
        return pm + self._gamma(mass) * rest

    def _gamma(self, mass: Float[Array, "n n"]) -> Float[Array, ""] | float:
        return jnp.linalg.norm(mass) if self.gamma is None else self.gamma

    def _solve(self, problem: Problem) -> Float[Array, " n"]:
        mass, inverse = problem.mass, pinv(problem.matrix)
        projector = jnp.eye(mass.shape[0]) - inverse @ problem.matrix
        particular = inverse @ problem.target
        acting = projector @ problem.force
        if self.inertia == "skew":
            rhs = acting + mass @ particular
        elif self.inertia == "symmetric":
            rhs = acting + mass @ particular - 2.0 * projector @ (mass @ particular)
        else:
            rhs = acting + self._gamma(mass) * particular
        return solve(self.inertia_matrix(mass, projector), rhs)
