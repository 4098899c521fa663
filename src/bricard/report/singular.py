"""Singular positions along a run, in which its constraints become dependent."""

from __future__ import annotations

import dataclasses
from itertools import groupby

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from bricard.equations.rank import RANK_TOLERANCE
from bricard.equations.scaling import constraints_along, scaled_matrices
from bricard.report.motion import configurations
from bricard.simulation.trajectory import Trajectory

NEAR = 0.01
"""A position is singular if the measure falls below this fraction of its maximum over the run."""


@dataclasses.dataclass(frozen=True)
class SingularPositions:
    """How close a run comes to singular positions."""

    measure: Float[np.ndarray, " k"]
    """Smallest singular value of the scaled constraint Jacobian that is not zero throughout, at each saved state."""
    times: tuple[float, ...]
    """Times at which singular positions are passed (s)."""


def singular_positions(trajectory: Trajectory) -> SingularPositions:
    """Singular positions that a run passes, including those between its saved states."""
    system, t, q = trajectory.system, np.asarray(trajectory.t), np.asarray(trajectory.q)
    if not (len(t) and system.n_constraints):
        return SingularPositions(np.zeros(0), ())
    variation = scaled_matrices(system, q[0], t[0]).variation

    def all_singular_values(times: np.ndarray, q: np.ndarray) -> np.ndarray:
        states = jnp.asarray(q, dtype=float), jnp.asarray(times, dtype=float)
        return _singular_values(np.asarray(constraints_along(system, *states, variation)))

    # The rank of the constraints without closed contacts, which `trajectory.rank` includes.
    along = all_singular_values(t, q)
    rank = int(np.max(np.sum(along > RANK_TOLERANCE * np.maximum(along[:, :1], 1.0), axis=1)))
    if rank == 0:
        return SingularPositions(np.zeros(0), ())
    values = along[:, rank - 1]

    def measure(times: np.ndarray, q: np.ndarray) -> np.ndarray:
        return all_singular_values(times, q)[:, rank - 1]

    near = NEAR * float(np.max(values[np.isfinite(values)], initial=0.0))
    return SingularPositions(values, tuple(_refine(trajectory, measure, t, values, near)))


def _refine(trajectory: Trajectory, measure, t: np.ndarray, values: np.ndarray, near: float) -> list[float]:
    """Times of the minima that are below `near`, from a fine grid around each minimum of the samples."""
    candidates = _minima(values, near)
    if not candidates or len(t) < 3:
        return []
    # The fine grid has as many points as there are samples, so that nothing is compiled again.
    each = max(len(t) // len(candidates), 9)
    fine = np.concatenate([np.linspace(t[max(i - 1, 0)], t[min(i + 1, len(t) - 1)], each) for i in candidates])
    fine = np.append(fine, np.full(max(len(t) - len(fine), 0), t[-1]))
    squares = measure(fine, configurations(trajectory, fine)) ** 2
    found = []
    for start in range(0, each * len(candidates), each):
        time, square = _parabola(fine[start : start + each], squares[start : start + each])
        if square < near**2:
            found.append(time)
    return found


def _minima(values: np.ndarray, floor: float) -> list[int]:
    """Indices of the local minima; consecutive values below `floor` count as one minimum."""
    plateaus, at = [], 0
    for value, members in groupby(np.maximum(values, floor)):
        size = len(list(members))
        plateaus.append((value, at, at + size))
        at += size
    heights = [np.inf, *(p[0] for p in plateaus), np.inf]
    return [
        start + int(np.argmin(values[start:end]))
        for (value, start, end), before, after in zip(plateaus, heights, heights[2:], strict=False)
        if value < before and value < after
    ]


def _parabola(t: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """Location and value of the minimum of samples, from the parabola through the lowest sample and its neighbours.

    It is applied to squared singular values, which are smooth where a singular value has a kink at zero.
    """
    i = int(np.argmin(np.where(np.isfinite(y), y, np.inf)))
    if not 0 < i < len(y) - 1:
        return float(t[i]), float(y[i])
    slope, curvature = 0.5 * (y[i + 1] - y[i - 1]), y[i + 1] - 2 * y[i] + y[i - 1]
    if not curvature > 0.0:
        return float(t[i]), float(y[i])
    shift = -slope / curvature
    return float(t[i] + shift * (t[i + 1] - t[i])), float(max(y[i] + 0.5 * slope * shift, 0.0))


def _singular_values(matrices: Float[np.ndarray, "k m n"]) -> Float[np.ndarray, "k r"]:
    """Singular values of each matrix in descending order; NaN for matrices that are not finite."""
    finite = np.all(np.isfinite(matrices), axis=(1, 2))
    values = np.full((matrices.shape[0], min(matrices.shape[1:])), np.nan)
    values[finite] = np.linalg.svd(matrices[finite], compute_uv=False)
    return values
