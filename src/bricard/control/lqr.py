"""Hold an equilibrium, stable or not: the linear feedback of least quadratic cost, on the constraints."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from bricard.equations.linearization import tangent_model
from bricard.errors import ModelError
from bricard.simulation.controller import Controller, Memory
from bricard.system import Scalar, System, Vector, VectorLike

MARGINAL = 1e-10
"""Closed-loop eigenvalues that decay more slowly than this, relative to the fastest, do not count as stable."""


class LQR(Controller):
    """`u = u₀ − K x`, with `x` the deviation from the equilibrium `(q, u)` along the motions the constraints allow.

    The cost is `∫ (δqᵀ Q_q δq + vᵀ Q_v v + δuᵀ R δu) dt`; `cost_q` (nv, nv), `cost_v` and `cost_u` may be numbers,
    diagonals or matrices. With `period` (s) the gains are those of the sampled system (cost per sample), for
    `Sampled(…, period)` without delay.
    """

    gains: Float[Array, "nu 2nv"]
    """`K` for the deviation `(θ, v)` in all directions."""
    q: Float[Array, " nq"]
    u: Float[Array, " nu"]
    chart: Float[Array, "nv nq"]
    """From a deviation of `q` to one in the directions of `v`."""

    def __init__(
        self,
        system: System,
        q: VectorLike,
        u: VectorLike | None = None,
        *,
        cost_q: Any = 1.0,
        cost_v: Any = 0.0,
        cost_u: Any = 1.0,
        period: float | None = None,
    ):
        from scipy.linalg import expm, solve_continuous_are, solve_discrete_are

        self.q = system.vector(q, "q")
        self.u = system.vector(jnp.zeros(system.nu) if u is None else u, "u")
        model = tangent_model(system, self.q, jnp.zeros(system.nv), self.u)
        n, nv, nu = model.a.shape[0], system.nv, system.nu
        problems: list[str] = []
        position, velocity, effort = (
            _weight(name, value, size, problems)
            for name, value, size in (("cost_q", cost_q, nv), ("cost_v", cost_v, nv), ("cost_u", cost_u, nu))
        )
        if not problems and np.any(np.linalg.eigvalsh(effort) <= 0):
            problems.append("cost_u must be positive definite: every input must cost something")
        if period is not None and not (np.isfinite(period) and period > 0):
            problems.append(f"period must be positive (s), not {period}")
        if problems:
            raise ModelError("LQR", problems)
        whole = np.zeros((2 * nv, 2 * nv))
        whole[:nv, :nv], whole[nv:, nv:] = position, velocity
        cost = model.embed.T @ whole @ model.embed
        a, b = model.a, model.b
        if period is not None:
            flow = expm(np.block([[a, b], [np.zeros((nu, n + nu))]]) * period)
            a, b = flow[:n, :n], flow[:n, n:]
        try:
            solve = solve_continuous_are if period is None else solve_discrete_are
            p = solve(a, b, cost, effort)
            if period is None:
                gains = np.linalg.solve(effort, b.T @ p)
            else:
                gains = np.linalg.solve(effort + b.T @ p @ b, b.T @ p @ a)
            _check_stable(a - b @ gains, period)
        except (np.linalg.LinAlgError, ValueError) as error:
            raise ModelError(
                "LQR",
                [
                    f"no stabilising feedback found ({error}). An unstable motion that no input reaches "
                    "(br.control.controllability), or one that costs nothing, would do that"
                ],
            ) from None
        self.gains = jnp.asarray(gains @ model.reduce)
        self.chart = jnp.asarray(np.linalg.pinv(model.chart))

    def __call__(self, t: Scalar, q: Vector, v: Vector, memory: Memory) -> Vector:
        deviation = jnp.concatenate([self.chart @ (q - self.q), v])
        return self.u - self.gains @ deviation


def _check_stable(closed: np.ndarray, period: float | None) -> None:
    """Raise if the closed loop does not decay: solvers of Riccati equations do not always notice."""
    eigenvalues = np.linalg.eigvals(closed)
    growth = eigenvalues.real if period is None else np.abs(eigenvalues) - 1.0
    size = np.max(np.abs(eigenvalues), initial=0.0) if period is None else 1.0
    if np.max(growth, initial=-np.inf) >= -MARGINAL * size:
        raise ValueError(f"an eigenvalue of the closed loop would be {eigenvalues[np.argmax(growth)]:.3g}")


def _weight(name: str, value: Any, size: int, problems: list[str]) -> np.ndarray:
    array = np.asarray(value, dtype=float)
    if array.shape not in ((), (size,), (size, size)):
        problems.append(f"{name} has shape {array.shape}; it may be (), ({size},) or ({size}, {size})")
        return np.eye(size)
    matrix = array if array.ndim == 2 else np.diag(np.broadcast_to(array, size))
    if not np.all(np.isfinite(matrix)) or not np.allclose(matrix, matrix.T, rtol=0, atol=1e-12 * np.abs(matrix).max()):
        problems.append(f"{name} must be finite and symmetric")
    elif np.any(np.linalg.eigvalsh(matrix) < -1e-12 * np.abs(matrix).max()):
        problems.append(f"{name} must not be negative")
    return matrix
