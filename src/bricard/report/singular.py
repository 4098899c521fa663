"""When does a run pass a singular position, one where its constraints become dependent?"""

from __future__ import annotations

import dataclasses
from itertools import groupby

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from bricard.equations.rank import RANK_TOLERANCE
from bricard.equations.scaled import constraints_along, scaled_matrices
from bricard.report.motion import configurations
from bricard.simulate.trajectory import Trajectory

NEAR = 0.01
"""A position counts as singular if the measure falls below this fraction of its largest value during the run."""


@dataclasses.dataclass(frozen=True)
class SingularPositions:
    """How close a run comes to singular positions."""

    measure: Float[np.ndarray, " k"]
    """Smallest singular value of the constraint matrix (rows and columns scaled to 1) that is not always zero."""
    times: tuple[float, ...]
    """When singular positions were passed (s)."""


def singular_positions(trajectory: Trajectory) -> SingularPositions:
    """Find the singular positions that a run passes, also between its saved states."""
    system, t, q = trajectory.system, np.asarray(trajectory.t), np.asarray(trajectory.q)
    if not (len(t) and system.n_constraints):
        return SingularPositions(np.zeros(0), ())
    variation = scaled_matrices(system, q[0], t[0]).variation

    def every(times: np.ndarray, q: np.ndarray) -> np.ndarray:
        states = jnp.asarray(q, dtype=float), jnp.asarray(times, dtype=float)
        return _singular_values(np.asarray(constraints_along(system, *states, variation)))

    # Of the system's own constraints: `trajectory.rank` counts closed contacts too.
    along = every(t, q)
    rank = int(np.max(np.sum(along > RANK_TOLERANCE * np.maximum(along[:, :1], 1.0), axis=1)))
    if rank == 0:
        return SingularPositions(np.zeros(0), ())
    values = along[:, rank - 1]

    def measure(times: np.ndarray, q: np.ndarray) -> np.ndarray:
        return every(times, q)[:, rank - 1]

    near = NEAR * float(np.max(values[np.isfinite(values)], initial=0.0))
    return SingularPositions(values, tuple(_refine(trajectory, measure, t, values, near)))


def _refine(trajectory: Trajectory, measure, t: np.ndarray, values: np.ndarray, near: float) -> list[float]:
    """Look closely around each minimum: there are many more values between the samples than the samples tell."""
    candidates = _minima(values, near)
    if not candidates or len(t) < 3:
        return []
    # As many points in all as there are samples, so that what was compiled for the samples serves again.
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
    """Indices of the local minima; a stretch below `floor` is one."""
    runs, at = [], 0
    for value, members in groupby(np.maximum(values, floor)):
        size = len(list(members))
        runs.append((value, at, at + size))
        at += size
    heights = [np.inf, *(r[0] for r in runs), np.inf]
    return [
        start + int(np.argmin(values[start:end]))
        for (value, start, end), before, after in zip(runs, heights, heights[2:], strict=False)
        if value < before and value < after
    ]


def _parabola(t: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """Place and size of the minimum of samples, by the parabola through the lowest three.

    For squares of singular values: those are smooth where a singular value itself has a corner at zero.
    """
    i = int(np.argmin(np.where(np.isfinite(y), y, np.inf)))
    if not 0 < i < len(y) - 1:
        return float(t[i]), float(y[i])
    slope, bend = 0.5 * (y[i + 1] - y[i - 1]), y[i + 1] - 2 * y[i] + y[i - 1]
    if not bend > 0.0:
        return float(t[i]), float(y[i])
    shift = -slope / bend
    return float(t[i] + shift * (t[i + 1] - t[i])), float(max(y[i] + 0.5 * slope * shift, 0.0))


def _singular_values(matrices: Float[np.ndarray, "k m n"]) -> Float[np.ndarray, "k r"]:
    """Of each matrix, largest first; NaN where it is not finite."""
    finite = np.all(np.isfinite(matrices), axis=(1, 2))
    values = np.full((matrices.shape[0], min(matrices.shape[1:])), np.nan)
    values[finite] = np.linalg.svd(matrices[finite], compute_uv=False)
    return values
