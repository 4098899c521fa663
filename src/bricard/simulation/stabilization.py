"""Constraint stabilisation: projection onto the constraints, or Baumgarte's method, against numerical drift."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from bricard.equations.linalg.factor import Factor
from bricard.equations.linalg.sparse import Matrices, Saddle, Structure, matrices
from bricard.equations.problem import Problem, scales, state_problem
from bricard.equations.routes.proximal import Gram, spurious_strength
from bricard.errors import ModelError
from bricard.system import Scalar, System, Vector


class Project(eqx.Module):
    """Project every accepted step and every saved state onto the constraints, in position and velocity.

    With `metric` "mass" states are corrected along `M⁻¹Aᵀ`: a correction acts like an impulse of the constraints and
    does not change the momentum along admissible motions. With "euclidean" they are corrected along `Aᵀ`. One
    factorisation serves all `iterations` corrections of position and of velocity.
    """

    metric: str = eqx.field(static=True, default="mass")
    iterations: int = eqx.field(static=True, default=3)

    def __check_init__(self):
        """Raise `ModelError` for an unknown metric or too few iterations."""
        if self.metric not in ("mass", "euclidean"):
            raise ModelError("Project", [f"metric is 'mass' or 'euclidean', not {self.metric!r}"])
        if self.iterations < 1:
            raise ModelError("Project", [f"iterations must be at least 1, not {self.iterations}"])

    def project(
        self,
        system: System,
        q: Vector,
        v: Vector,
        t: Scalar,
        variation: Float[Array, "m n"],
        structure: Structure | None = None,
    ) -> tuple[Vector, Vector, Correction | SparseCorrection]:
        """The state on the constraints next to `(q, v)`, and the correction map that was used.

        `variation` (m, nv) is the result of `row_variation`; `structure` is the sparsity of a large system, if known.
        """
        q = system.normalize(q)
        nonholonomic = jnp.zeros(system.n_constraints - system.n_holonomic)

        def residual(q: Vector) -> Float[Array, " m"]:
            return jnp.concatenate([system.constraints(q, t), nonholonomic])

        if structure is None:
            matrix = system.constraint_jacobian(q, t)
            mass = system.mass_matrix(q, t) if self.metric == "mass" else jnp.eye(system.nv)
            correction = Correction(mass, matrix, variation, system.weakest_constraint, residual(q))
        else:
            at = matrices(system, structure, q, t)
            correction = SparseCorrection(structure, at, variation, system.weakest_constraint, residual(q))

        def correct_position(q: Vector, _: None) -> tuple[Vector, None]:
            return system.normalize(q - system.qdot(q, correction(residual(q)))), None

        def correct_velocity(v: Vector, _: None) -> tuple[Vector, None]:
            return v - correction(system.constraint_rate(q, v, t)), None

        # Loops compile faster than unrolled iterations.
        q, _ = jax.lax.scan(correct_position, q, None, length=self.iterations)
        v, _ = jax.lax.scan(correct_velocity, v, None, length=self.iterations)
        return q, v, correction


class Correction:
    """The map `M⁻¹Aᵀ(A M⁻¹Aᵀ)⁺` from constraint rates to the smallest change of velocity that produces them.

    `A` may be rank-deficient: combinations of rows far weaker than `mu` (`System.weakest_constraint`) count as
    redundant. A `residual` `Φ` that is not small raises this limit (`spurious_strength`).
    """

    def __init__(
        self,
        mass: Float[Array, "n n"],
        matrix: Float[Array, "m n"],
        variation: Float[Array, "m n"],
        mu: float,
        residual: Float[Array, " m"] | None = None,
    ):
        self.units = scales(mass, matrix, variation)
        self.matrix = matrix
        columns = self.units.columns
        scaled = matrix * columns[None, :] / self.units.rows[:, None]
        self.factor = Factor(mass * columns[None, :] * columns[:, None] + scaled.T @ scaled)
        self.half = self.factor.whiten(scaled.T)
        if residual is None:
            spurious = jnp.zeros(())
        else:
            off = columns * (scaled.T @ (residual / self.units.rows))
            spurious = spurious_strength(off, variation * columns[None, :] / self.units.rows[:, None])
        # One sweep is enough, since `project` repeats the correction with the remaining residual.
        self.gram = Gram(self.half, mu + spurious, sweeps=1)

    def __call__(self, rates: Float[Array, " m"]) -> Vector:
        """The change of velocity (nv,) that changes the constraint rates by `rates` (m,)."""
        return self.units.columns * self.factor.back(self.half @ self.gram.solve(rates / self.units.rows))

    def normal(self, v: Vector) -> Vector:
        """The component of `v` normal to the constraints; the rest is admissible."""
        return self(self.matrix @ v)


class SparseCorrection:
    """The same map as `Correction`, by sparse algebra."""

    def __init__(
        self,
        structure: Structure,
        at: Matrices,
        variation: Float[Array, "m n"],
        mu: float,
        residual: Float[Array, " m"] | None = None,
    ):
        self.pattern, self.entries = structure.matrix, at.matrix
        self.saddle = Saddle(structure, at, variation, mu, sweeps=1, residual=residual)

    def __call__(self, rates: Float[Array, " m"]) -> Vector:
        """The change of velocity (nv,) that changes the constraint rates by `rates` (m,)."""
        return self.saddle.solve(jnp.zeros(self.pattern.mask.shape[1]), rates)

    def normal(self, v: Vector) -> Vector:
        """The component of `v` normal to the constraints; the rest is admissible."""
        return self(self.pattern.times(self.entries, v))


class Baumgarte(eqx.Module):
    """Baumgarte stabilisation: constraint errors decay as `Φ̈ + 2α Φ̇ + β² Φ = 0`.

    `alpha` and `beta` are in 1/s; `alpha == beta` is critically damped. It is cheaper than `Project`, but the error
    of the constraints does not vanish.
    """

    alpha: float = 10.0
    beta: float = 10.0

    def __check_init__(self):
        """Raise `ModelError` for gains with which errors grow."""
        if self.alpha < 0 or self.beta < 0:
            raise ModelError("Baumgarte", [f"alpha and beta must not be negative: {self.alpha}, {self.beta}"])

    def target(self, problem: Problem) -> Float[Array, " m"]:
        """Right-hand side of the constraints at acceleration level, `b − 2α Φ̇ − β² Φ`, (m,)."""
        drift = 2.0 * self.alpha * problem.velocity_error + self.beta**2 * problem.position_error
        return problem.target - drift


Stabilization = Project | Baumgarte | None


def stabilized_problem(
    system: System,
    q: Vector,
    v: Vector,
    u: Vector,
    t: Scalar,
    stabilization: Stabilization,
    variation: Float[Array, "m n"],
) -> Problem:
    """The equations for the acceleration at a state, with Baumgarte terms if these are chosen."""
    problem = state_problem(system, q, v, u, t, variation)
    if isinstance(stabilization, Baumgarte):
        problem = eqx.tree_at(lambda p: p.target, problem, stabilization.target(problem))
    return problem
