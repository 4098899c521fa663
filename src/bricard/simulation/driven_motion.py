"""Kinematics of a prescribed motion: positions on one branch, velocities, accelerations and dead points.

The constraints and the prescribed coordinates `q_k = f_k(t)` together must leave no degree of freedom. From one time to
the next the state is predicted with its velocity and corrected by Newton's method, so that it stays on its branch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from bricard.equations.problem import row_variation, scales
from bricard.equations.rank import pinv
from bricard.errors import AssemblyError, ModelError, needs_numbers
from bricard.execution.compile import xla_jit
from bricard.execution.lapack import det, singular_values
from bricard.mechanism.coordinates.mechanism_system import MechanismSystem, measure_along
from bricard.mechanism.model.sensors import Reading
from bricard.simulation.assembly import ASSEMBLY_TOLERANCE
from bricard.system import Scalar, System, Vector, VectorLike

NEWTON_STEPS = 8
"""Newton iterations after each prediction; they converge quadratically away from dead points."""

DEAD_POINT_TOLERANCE = 1e-4
"""Below this smallest singular value (rows and columns scaled to 1) a position counts as a dead point."""


class Kinematics(eqx.Module):
    """A prescribed motion at `k` times, on one branch; `print` shows a summary."""

    system: System
    t: Float[Array, " k"]
    q: Float[Array, "k nq"]
    v: Float[Array, "k nv"]
    acceleration: Float[Array, "k nv"]
    residual: Float[Array, " k"]
    """Largest residual of the constraints and of the prescribed coordinates (m, rad)."""
    transmission: Float[Array, " k"]
    """Smallest singular value of the scaled Jacobian; zero at a dead point, where velocities and forces diverge."""
    branch: Float[Array, " k"]
    """1 on the branch of the start, −1 after a passage through a dead point to the other branch."""

    @property
    def converged(self) -> bool:
        """True if every position was found."""
        return bool(jnp.all(self.residual < ASSEMBLY_TOLERANCE))

    @property
    def dead_points(self) -> Float[Array, " d"]:
        """Times (s) of dead points: near-singular positions, and those just before a change of branch."""
        near = np.asarray(self.transmission) < DEAD_POINT_TOLERANCE
        changed = np.append(np.diff(np.asarray(self.branch)) != 0, False)
        return self.t[np.flatnonzero(near | changed)]

    @property
    def sensors(self) -> dict[str, Reading]:
        """Sensor readings of a mechanism by name; a coupler curve is `sensors["coupler point"].value`."""
        if not isinstance(self.system, MechanismSystem):
            return {}
        return measure_along(self.system, self.q, self.v)

    def __getitem__(self, name: str) -> Float[Array, " k"]:
        """A coordinate by its name."""
        return self.q[:, self.system.index(name)[0]]

    def __str__(self) -> str:
        words = f"{self.t.shape[0]} positions from {float(self.t[0]):g} to {float(self.t[-1]):g} s"
        if not self.converged:
            first = float(self.t[np.argmax(np.asarray(self.residual) >= ASSEMBLY_TOLERANCE)])
            words += f"; no position found from t = {first:.6g} s on: the mechanism cannot follow there"
        if self.dead_points.size:
            words += "; dead points at t = " + ", ".join(f"{float(t):.4g}" for t in self.dead_points) + " s"
        if bool(jnp.any(self.branch < 0)):
            words += "; the branch changes"
        return words + "."


@needs_numbers
def kinematics(
    system: System,
    q: VectorLike,
    times: VectorLike,
    drive: Mapping[str, Callable[[Any], Any]] | None = None,
    *,
    throw: bool = True,
) -> Kinematics:
    """Positions, velocities and accelerations at `times` (s, increasing), from a guess `q` of the first position.

    `drive` prescribes coordinates as functions of time, written in `jax.numpy`, besides any drivers of the system.
    Together they must leave no degree of freedom. Raises `AssemblyError` if a position is not found, unless `throw` is
    false.
    """
    q = system.vector(q, "q")
    ts = jnp.asarray(times, dtype=float)
    drive = dict(drive or {})
    if ts.ndim != 1 or ts.shape[0] < 2 or not bool(jnp.all(jnp.diff(ts) > 0)):
        raise ModelError("kinematics", ["times must be at least two, and increasing"])
    driven_v = tuple(int(i) for i in system.index(list(drive), "velocity_names")) if drive else ()
    driven_q = tuple(int(i) for i in system.index(list(drive))) if drive else ()
    missing = system.nv - len(driven_v) - system.n_constraints
    if missing > 0:
        raise ModelError(
            "kinematics", [f"at least {missing} more coordinate(s) must be prescribed: use `drive`, or m.drive(…)"]
        )
    result = _follow(system, q, ts, tuple(drive.values()), driven_q, driven_v)
    if throw and not result.converged:
        raise AssemblyError(f"{type(system).__name__}: {result}", residuals={}, q=result.q[-1], v=jnp.zeros(system.nv))
    return result


@xla_jit
def _follow(
    system: System,
    q: Vector,
    times: Float[Array, " k"],
    drives: tuple[Callable[[Any], Any], ...],
    driven_q: tuple[int, ...],
    driven_v: tuple[int, ...],
) -> Kinematics:
    selection = np.eye(system.nv)[list(driven_v)].reshape(len(driven_v), system.nv)

    def prescribed(t: Scalar) -> Float[Array, " d"]:
        return jnp.stack([jnp.asarray(f(t), dtype=float) for f in drives]) if drives else jnp.zeros(0)

    def jacobian_at(q: Vector, t: Scalar) -> tuple[Float[Array, "m nv"], Float[Array, " m"]]:
        matrix = system.constraint_jacobian(q, t)
        rows = scales(jnp.eye(system.nv), matrix, row_variation(system, q, t)).rows
        rows = jnp.concatenate([rows, jnp.ones(len(driven_v))])
        return jnp.concatenate([matrix, jnp.asarray(selection)]) / rows[:, None], rows

    def residual_at(q: Vector, t: Scalar) -> Float[Array, " m"]:
        no_position = jnp.zeros(system.n_constraints - system.n_holonomic)
        return jnp.concatenate(
            [system.constraints(q, t), no_position, q[jnp.array(driven_q, dtype=int)] - prescribed(t)]
        )

    def velocity(q: Vector, t: Scalar) -> Vector:
        matrix, rows = jacobian_at(q, t)
        rates = jax.jvp(prescribed, (t,), (jnp.ones_like(t),))[1]
        target = jnp.concatenate([-system.constraint_rate(q, jnp.zeros(system.nv), t), rates])
        return pinv(matrix) @ (target / rows)

    def corrected(q: Vector, t: Scalar) -> Vector:
        def newton(_, q: Vector) -> Vector:
            matrix, rows = jacobian_at(q, t)
            return system.normalize(q - system.qdot(q, pinv(matrix) @ (residual_at(q, t) / rows)))

        return jax.lax.fori_loop(0, NEWTON_STEPS, newton, q)

    def step(carry, t: Scalar):
        q, v, last, matrix, branch = carry
        q = corrected(system.normalize(q + (t - last) * system.qdot(q, v)), t)
        v = velocity(q, t)
        now, rows = jacobian_at(q, t)
        # Of the Jacobians J, J' at neighbouring times, det(Jᵀ J') < 0 if the branch changed; rows may be redundant.
        branch = branch * jnp.where(det(matrix.T @ now) < 0, -1.0, 1.0)
        second = jax.jvp(lambda t: jax.jvp(prescribed, (t,), (jnp.ones_like(t),))[1], (t,), (jnp.ones_like(t),))[1]
        target = jnp.concatenate([system.constraint_bias(q, v, t), second])
        acceleration = pinv(now) @ (target / rows)
        least = singular_values(now)[-1]
        residual = jnp.max(jnp.abs(residual_at(q, t) / rows), initial=0.0)
        residual = jnp.where(jnp.isfinite(residual), residual, jnp.inf)
        return (q, v, t, now, branch), (q, v, acceleration, residual, least, branch)

    start = corrected(system.normalize(q), times[0])
    first = (start, jnp.zeros(system.nv), times[0], jacobian_at(start, times[0])[0], jnp.ones(()))
    _, (qs, vs, accelerations, residuals, least, branch) = jax.lax.scan(step, first, times)
    return Kinematics(system, times, qs, vs, accelerations, residuals, least, branch)
