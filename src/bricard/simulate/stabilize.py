"""Staying on the constraints: rounding and truncation errors must not open a closed loop."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from bricard.equations.factor import Factor
from bricard.equations.problem import Problem, scales, state_problem
from bricard.equations.proximal import Gram, spurious_strength
from bricard.equations.sparse import Matrices, Saddle, Structure, matrices
from bricard.errors import ModelError
from bricard.system import Scalar, System, Vector


class Project(eqx.Module):
    """Put every accepted step and every saved state back onto the constraints, in position and velocity.

    `metric` "mass" moves along `M⁻¹Aᵀ`: a correction is an impulse of the constraints and leaves the admissible
    momentum alone. "euclidean" moves along `Aᵀ`. One factorisation serves `iterations` corrections of position and
    of velocity.
    """

    metric: str = eqx.field(static=True, default="mass")
    iterations: int = eqx.field(static=True, default=3)

    def __check_init__(self):
        """Refuse unknown metrics."""
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
        """The state on the constraints next to `(q, v)`, and the map by which it was found.

        `variation` is that of `row_variation`, `structure` that of a large system.
        """
        q = system.normalize(q)
        velocity_rows = jnp.zeros(system.n_constraints - system.n_holonomic)

        def residual(q: Vector) -> Float[Array, " m"]:
            return jnp.concatenate([system.constraints(q, t), velocity_rows])

        if structure is None:
            matrix = system.constraint_matrix(q, t)
            mass = system.mass_matrix(q, t) if self.metric == "mass" else jnp.eye(system.nv)
            correction = Correction(mass, matrix, variation, system.weakest_constraint, residual(q))
        else:
            at = matrices(system, structure, q, t)
            correction = SparseCorrection(structure, at, variation, system.weakest_constraint, residual(q))

        def closer(q: Vector, _: None) -> tuple[Vector, None]:
            return system.normalize(q - system.qdot(q, correction(residual(q)))), None

        def slower(v: Vector, _: None) -> tuple[Vector, None]:
            return v - correction(system.constraint_rate(q, v, t)), None

        # Loops, not copies to compile.
        q, _ = jax.lax.scan(closer, q, None, length=self.iterations)
        v, _ = jax.lax.scan(slower, v, None, length=self.iterations)
        return q, v, correction


class Correction:
    """The smallest change of velocity that changes the constraint rates as asked: `M⁻¹Aᵀ(A M⁻¹Aᵀ)⁺`, rank-safe.

    `mu` is the strength far below which a combination of rows counts as redundant (`System.weakest_constraint`); a
    `residual` `Φ` that is not small raises it (`spurious_strength`).
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
        # One sweep is enough: `project` repeats the correction with what is left anyway.
        self.gram = Gram(self.half, mu + spurious, sweeps=1)

    def __call__(self, rates: Float[Array, " m"]) -> Vector:
        """The change of velocity (nv,) that changes the constraint rates by `rates` (m,)."""
        return self.units.columns * self.factor.back(self.half @ self.gram.solve(rates / self.units.rows))

    def normal(self, v: Vector) -> Vector:
        """The part of `v` that violates the constraints; the rest is admissible."""
        return self(self.matrix @ v)


class SparseCorrection:
    """The same for a large system with little coupling."""

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
        """The part of `v` that violates the constraints; the rest is admissible."""
        return self(self.pattern.times(self.entries, v))


class Baumgarte(eqx.Module):
    """Let errors of the constraints decay: `Φ̈ + 2α Φ̇ + β² Φ = 0`, instead of correcting them.

    `alpha` and `beta` in 1/s; `alpha == beta` is critically damped. Cheap, but the error is never zero.
    """

    alpha: float = 10.0
    beta: float = 10.0

    def __check_init__(self):
        """Refuse gains that let errors grow."""
        if self.alpha < 0 or self.beta < 0:
            raise ModelError("Baumgarte", [f"alpha and beta must not be negative: {self.alpha}, {self.beta}"])

    def target(self, problem: Problem) -> Float[Array, " m"]:
        """`b − 2α Φ̇ − β² Φ`."""
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
    """The problem that a run solves at a state."""
    problem = state_problem(system, q, v, u, t, variation)
    if isinstance(stabilization, Baumgarte):
        problem = eqx.tree_at(lambda p: p.target, problem, stabilization.target(problem))
    return problem
