"""Forward and inverse dynamics: which acceleration, which constraint force, which force."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float, Int

from bricard.equations.metric import acting_projector
from bricard.equations.problem import Problem, equilibrate, state_problem
from bricard.equations.rank import determinate, null_basis, pinv, subspaces
from bricard.equations.routes.multipliers import Multipliers
from bricard.equations.routes.penalty import AugmentedLagrangian, Penalty
from bricard.equations.routes.proximal import DEFAULT
from bricard.equations.routes.route import Route
from bricard.equations.scaling import ScaledMatrices, scaled_matrices
from bricard.errors import BricardError, ModelError, RankError, UndeterminedMotionError, is_concrete
from bricard.execution.compile import xla_jit
from bricard.system import Numbers, Scalar, System, Vector, VectorLike

INERTIA_TOLERANCE = 1e-10
"""A motion with less inertia than this (in units of the diagonal of `M`) counts as undetermined."""

SOFT_ROUTES = (Penalty, AugmentedLagrangian)
"""Routes that meet the constraints only approximately, by design."""

CONSISTENCY_TOLERANCE = 1e-6
"""Constraints contradict each other if no acceleration meets them to this, relative to their right sides."""


class Dynamics(eqx.Module):
    """What the equations of motion say at one state."""

    acceleration: Float[Array, " nv"]
    """`v̇`."""
    constraint_force: Float[Array, " nv"]
    """`Aᵀλ`, the generalised force of the constraints on the system; unique, also with redundant rows."""
    multipliers: Float[Array, " m"]
    """`λ` of minimum norm; unique where `determinate`."""
    rank: Int[Array, ""]
    """Number of independent constraints here."""
    determinate: Bool[Array, " m"]
    """Which multipliers the rigid model determines."""
    residual: Float[Array, ""]
    """What is left of `A v̇ = b`, relative; not small only if the constraints contradict each other."""

    def __repr__(self) -> str:
        if not is_concrete(self) or self.rank.ndim:
            return f"Dynamics of {self.acceleration.shape[-1]} velocities, {self.multipliers.shape[-1]} constraint rows"
        numbers = np.array2string(np.asarray(self.acceleration), precision=6, threshold=12)
        forces = np.array2string(np.asarray(self.multipliers), precision=6, threshold=12)
        loose = int(np.sum(~np.asarray(self.determinate)))
        flagged = f", {loose} of them not determined by a rigid model" if loose else ""
        return f"Dynamics(acceleration = {numbers}, rank {int(self.rank)}, multipliers = {forces}{flagged})"


def solve(problem: Problem, route: Route) -> Dynamics:
    """Acceleration and constraint forces of a problem given by its matrices."""
    scaled, units = equilibrate(problem)
    acceleration = route.acceleration(scaled) * units.columns
    force = problem.mass @ acceleration - problem.force
    gap = scaled.matrix @ (acceleration / units.columns) - scaled.target
    idle = null_basis(scaled.matrix.T)
    size = jnp.max(jnp.abs(scaled.target), initial=0.0) + jnp.max(jnp.abs(scaled.force), initial=0.0) + 1e-6
    return Dynamics(
        acceleration=acceleration,
        constraint_force=force,
        multipliers=_least_multipliers(scaled.matrix, idle, units.rows, force * units.columns),
        rank=jnp.sum(jnp.all(idle == 0.0, axis=0)),
        determinate=determinate(scaled.matrix),
        residual=jnp.max(jnp.abs(gap), initial=0.0) / size,
    )


def _least_multipliers(
    scaled: Float[Array, "m n"], idle: Float[Array, "m m"], rows: Float[Array, " m"], force: Float[Array, " n"]
) -> Float[Array, " m"]:
    """Minimum-norm `λ` in the units of the unscaled rows, with the rank decided on the scaled ones.

    `idle` has the combinations of scaled rows that cancel.
    """
    some = (pinv(scaled.T) @ force) / rows
    cancelling = idle * (jnp.min(rows, initial=jnp.inf) / rows)[:, None]
    return some - cancelling @ (pinv(cancelling) @ some)


def forward_dynamics(
    system: System,
    q: VectorLike,
    v: VectorLike,
    u: VectorLike | None = None,
    t: ArrayLike = 0.0,
    route: Route = DEFAULT,
) -> Dynamics:
    """Which acceleration and constraint forces follow from a state and inputs?

    `q` (nq,), `v` (nv,), `u` (nu,) with zero as default, `t` in seconds; `route` is the route to take.
    Raises `RankError` if `route` needs independent constraints and they are not, `UndeterminedMotionError` if a motion
    has no inertia, `ModelError` if constraints contradict each other or an argument is wrong. Under `jit`, `vmap` and
    `grad` nothing can be raised: look at `residual`, or for NaN.
    """
    q, v = system.vector(q, "q"), system.vector(v, "v")
    u = system.vector(jnp.zeros(system.nu) if u is None else u, "u")
    t = jnp.asarray(t, dtype=float)
    result = _forward(system, q, v, u, t, route)
    if is_concrete(result):
        check_motion_determined(system, q, t)
        _check_result(system, result, route, q, v, u, t)
    return result


@xla_jit
def _forward(system: System, q: Vector, v: Vector, u: Vector, t: Scalar, route: Route) -> Dynamics:
    return solve(state_problem(system, q, v, u, t), route)


def inverse_dynamics(
    system: System,
    q: VectorLike,
    v: VectorLike,
    acceleration: VectorLike,
    t: ArrayLike = 0.0,
    metric: Float[Array, "nv nv"] | None = None,
) -> Float[Array, " nv"]:
    """Which generalised force gives this acceleration? The smallest one: no part of it only loads the constraints.

    `f = P(M v̇ + h − f_applied)`, of minimum norm in the force metric `W⁻¹` (see `length_metric` and its like);
    the acceleration should meet the constraints.
    """
    q, v = system.vector(q, "q"), system.vector(v, "v")
    acceleration = system.vector(acceleration, "v")
    t = jnp.asarray(t, dtype=float)
    needed = system.mass_matrix(q, t) @ acceleration + system.bias(q, v, t) - system.applied_force(q, v, t)
    return acting_projector(system, q, t, metric) @ needed


def check_motion_determined(system: System, q: Vector, t: Scalar) -> None:
    """Raise `UndeterminedMotionError` if a motion that the constraints allow has no inertia; names the motion."""
    refuse_undetermined(system, q, scaled_matrices(system, q, t))


def refuse_undetermined(system: System, q: Numbers, matrices: ScaledMatrices) -> None:
    """Raise `UndeterminedMotionError` by the matrices at `q`."""
    inertia, motion = _least_inertia(jax.tree.map(np.asarray, matrices))
    if not np.isfinite(inertia):
        raise ModelError(type(system).__name__, [f"the mass matrix or the constraints are not finite at q = {_row(q)}"])
    if inertia < INERTIA_TOLERANCE:
        kind = "no" if abs(inertia) <= INERTIA_TOLERANCE else "negative"
        motion = motion / np.max(np.abs(motion))
        parts = ", ".join(
            f"{name}: {x:+.3g}" for name, x in zip(system.velocity_names, motion, strict=True) if abs(x) > 1e-6
        )
        raise UndeterminedMotionError(
            f"{type(system).__name__}: the constraints allow the motion ({parts}), which has {kind} inertia. "
            "Give it mass, or a constraint that holds it."
        )


def _least_inertia(matrices: Any) -> tuple[float, np.ndarray]:
    """Smallest inertia among admissible motions and that motion, in units of the diagonal of `M`; 1 if all have it."""
    mass, matrix, units, _ = matrices
    if not (np.all(np.isfinite(mass)) and np.all(np.isfinite(matrix))):
        return np.nan, np.zeros(mass.shape[0])
    if _is_definite(mass - INERTIA_TOLERANCE * np.eye(mass.shape[0])):  # far cheaper than to look at constraints
        return 1.0, np.zeros(mass.shape[0])
    basis = subspaces(matrix).null
    if basis.shape[1] == 0:
        return 1.0, np.zeros(mass.shape[0])
    values, vectors = np.linalg.eigh(basis.T @ mass @ basis)
    return float(values[0]), units.columns * (basis @ vectors[:, 0])


def _is_definite(matrix: np.ndarray) -> bool:
    try:
        np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        return False
    return True


def _check_result(system: System, result: Dynamics, route: Route, q: Vector, v: Vector, u: Vector, t: Scalar) -> None:
    name = type(system).__name__
    m = system.n_constraints
    if isinstance(route, Multipliers) and int(result.rank) < m:
        loose = [n for n, d in zip(system.row_names, np.asarray(result.determinate), strict=True) if not d]
        raise RankError(
            f"{name}: Multipliers needs independent constraints, but only {int(result.rank)} of {m} are "
            f"(dependent or vanishing here: {', '.join(loose)}). Use br.Proximal(), the default."
        )
    if not np.all(np.isfinite(result.acceleration)):
        blame = jax.tree.map(lambda x: not bool(jnp.all(jnp.isfinite(x))), state_problem(system, q, v, u, t))
        if blame.force:
            raise ModelError(name, [f"the forces are not finite at q = {_row(q)}, v = {_row(v)}, t = {float(t):g}"])
        raise BricardError(f"{name}: {type(route).__name__} found no finite acceleration at q = {_row(q)}")
    if float(result.residual) > CONSISTENCY_TOLERANCE and not isinstance(route, SOFT_ROUTES):
        raise ModelError(
            name,
            [
                f"the constraints contradict each other at q = {_row(q)}, v = {_row(v)}: no acceleration meets them "
                f"all (relative residual {float(result.residual):.1e}). br.assemble finds a possible velocity"
            ],
        )


def _row(x: Numbers) -> str:
    return np.array2string(np.asarray(x), precision=5, separator=", ")
