"""An independent solution of the one problem, in NumPy and SciPy, by minimising over the admissible accelerations."""

import numpy as np
from scipy.linalg import lstsq, null_space


def solve(mass, force, matrix, target, rcond=1e-9):
    """Acceleration and constraint force: the stationary point of Gauss's function on `A v̇ = b`."""
    scale = np.linalg.norm(matrix, axis=1)
    scale[scale <= 1e-13 * np.max(scale, initial=0.0)] = 1.0  # a row that vanishes at a dead point is rounding noise
    rows, rhs = matrix / scale[:, None], target / scale
    particular = lstsq(rows, rhs, cond=rcond)[0] if rows.size else np.zeros(len(force))
    basis = null_space(rows, rcond=rcond) if rows.size else np.eye(len(force))
    along = np.linalg.solve(basis.T @ mass @ basis, basis.T @ (force - mass @ particular))
    acceleration = particular + basis @ along
    return acceleration, mass @ acceleration - force


def least_multipliers(matrix, force):
    """Minimum-norm `λ` with `Aᵀλ = force`."""
    return lstsq(matrix.T, force, cond=1e-9)[0]
