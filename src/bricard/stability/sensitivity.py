"""Eigenvalues in all coordinates, with spurious ones found by their sensitivity to constraint stabilisation.

With `Φ̈ + a₁Φ̇ + a₂Φ = 0` in place of the constraints, the eigenvalues that depend on `a₁` and `a₂` belong to no motion
(Bencsik, chapter 3). The solution for the acceleration is linearised without a basis of admissible motions, so that
this is an independent method.
"""

from __future__ import annotations

from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float

from bricard.equations.dynamics import solve
from bricard.equations.linearization import derivative
from bricard.equations.problem import row_variation, state_problem
from bricard.equations.routes.gauss import Gauss
from bricard.errors import BricardError
from bricard.execution.compile import xla_jit
from bricard.simulation.controller import Controller, Memory
from bricard.stability.loop import Loop
from bricard.system import Scalar, System, Vector


class Full(NamedTuple):
    """Matrices of `ẋ = (a + a₁ g₁ + a₂ g₂) x` with `x = (θ, δv, memory)` in all coordinates, as NumPy arrays."""

    a: np.ndarray
    g1: np.ndarray
    g2: np.ndarray


class Detected(NamedTuple):
    """Eigenvalues, classified by their sensitivities."""

    physical: np.ndarray
    spurious: np.ndarray
    vectors: np.ndarray
    """Right eigenvectors of the physical eigenvalues, in columns."""
    left: np.ndarray
    """Left eigenvectors of the physical eigenvalues, in rows."""
    sensitivity: np.ndarray
    """(·, 2): derivatives with respect to `a₁`, `a₂`, physical ones first."""


@xla_jit
def _jacobian(
    system: System,
    controller: Controller,
    memory: Memory,
    q: Vector,
    v: Vector,
    t: Scalar,
    weights: Float[Array, " 3"],
) -> Float[Array, "n n"]:
    """The combination `weights @ (a, g₁, g₂)` of the matrices of `Full`."""
    flat, unravel = ravel_pytree(memory)
    variation = row_variation(system, q, t)
    nv = system.nv
    base, a1, a2 = weights

    def rates(x: Vector) -> Vector:
        near = q + system.qdot(q, x[:nv]), v + x[nv : 2 * nv], unravel(flat + x[2 * nv :])
        problem = state_problem(system, near[0], near[1], controller(t, *near), t, variation)
        target = base * problem.target - a1 * problem.velocity_error - a2 * problem.position_error
        problem = eqx.tree_at(lambda p: (p.force, p.target), problem, (base * problem.force, target))
        acceleration = solve(problem, Gauss()).acceleration  # linear in force and target
        return jnp.concatenate([base * near[1], acceleration, base * ravel_pytree(controller.rate(t, *near))[0]])

    return derivative(rates, 2 * nv + flat.shape[0])


def full_matrices(loop: Loop, controller: Controller | None = None) -> Full:
    """The closed loop in all coordinates; it is affine in `a₁` and `a₂`.

    Each matrix is computed by itself: as differences, `g₁` and `g₂` would contain the rounding errors of stiff springs.
    """
    controller = loop.controller if controller is None else controller
    at = loop.system, controller, loop.memory, loop.q, loop.v, loop.t
    return Full(*(np.asarray(_jacobian(*at, jnp.asarray(e))) for e in np.eye(3)))


def detect(full: Full, count: int, a1: float | None = None, a2: float | None = None) -> Detected:
    """Eigenvalues of the matrix in all coordinates, of which `count` are spurious.

    Without `a1` and `a2`, values are chosen for which the spurious eigenvalues lie far from the others.
    """
    if a1 is None or a2 is None:
        a1, a2 = choose_parameters(full, count)
    values, right = np.linalg.eig(full.a + a1 * full.g1 + a2 * full.g2)
    left = np.linalg.inv(right)
    by_a1, by_a2 = (np.einsum("ij,jk,ki->i", left, g, right) for g in (full.g1, full.g2))
    # A root of s² + a₁s + a₂ has ds/da₁ = −s/(2s + a₁), ds/da₂ = −1/(2s + a₁): the measure is 2. Nonholonomic
    # constraints have s = −a₁ and ds/da₁ = −1: the measure is 1. Physical eigenvalues have measure 0.
    slope = np.abs(2 * values + a1)
    measure = slope * (np.abs(by_a1) / np.maximum(np.abs(values), 1e-12 * slope + 1e-300) + np.abs(by_a2))
    physical, spurious = separate_spurious(measure, count, a1, a2)
    both = np.concatenate([physical, spurious])
    return Detected(
        values[physical], values[spurious], right[:, physical], left[physical], np.stack([by_a1, by_a2], axis=1)[both]
    )


def separate_spurious(measure: np.ndarray, count: int, a1: float, a2: float) -> tuple[np.ndarray, np.ndarray]:
    """Indices of physical and spurious eigenvalues, from a measure that is 0 for physical ones, else at least 1."""
    ranked = np.argsort(-measure)
    spurious, physical = ranked[:count], ranked[count:]
    if count and not (np.min(measure[spurious]) > 0.5 and np.max(measure[physical], initial=0.0) < 0.5):
        raise BricardError(
            f"with a1 = {a1:g}, a2 = {a2:g} spurious eigenvalues coincide with physical ones and cannot be separated; "
            "give other values, or use method='tangent'"
        )
    return physical, spurious


def choose_parameters(full: Full, count: int) -> tuple[float, float]:
    """Candidates `(a₁, a₂)` whose roots are farthest from the physical eigenvalues."""
    size = max(1.0, float(np.sqrt(np.max(np.abs(np.linalg.eigvals(full.a)), initial=1.0))))
    best, chosen = -1.0, (1.0, 1.0)
    for scale in (0.7, 1.9, 5.3):
        for damping in (0.5, 0.8, 1.25):
            a1, a2 = 2 * damping * scale * size, (scale * size) ** 2
            values = np.linalg.eigvals(full.a + a1 * full.g1 + a2 * full.g2)
            roots = np.roots([1.0, a1, a2])
            away = np.sort(np.min(np.abs(values[:, None] - roots[None, :]), axis=1))[count:]
            gap = float(np.min(away, initial=np.inf)) / (scale * size)
            if gap > best:
                best, chosen = gap, (a1, a2)
    return chosen
