"""When does a run pass a singular position, one where its constraints become dependent?"""

from __future__ import annotations

import dataclasses
from itertools import groupby

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from bricard.equations.problem import row_variation, scales
from bricard.equations.rank import singular_values
from bricard.report.motion import configurations
from bricard.simulate.trajectory import Trajectory
from bricard.system import Scalar, System, Vector

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
    t = np.asarray(trajectory.t)
    rank = int(np.max(np.asarray(trajectory.rank), initial=0)) if len(t) else 0
    if rank == 0:
        return SingularPositions(np.zeros(0), ())

    def measure(times: np.ndarray, q: np.ndarray) -> np.ndarray:
        every = _singular_values(
            trajectory.system, jnp.asarray(q), jnp.asarray(times), trajectory.q[0], trajectory.t[0]
        )
        return np.asarray(every)[:, rank - 1]

    values = measure(t, np.asarray(trajectory.q))
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


@eqx.filter_jit
def _singular_values(
    system: System, q: Float[Array, "k nq"], t: Float[Array, " k"], q0: Vector, t0: Scalar
) -> Float[Array, "k r"]:
    start = row_variation(system, q0, t0)

    def at(q: Vector, t: Scalar) -> Float[Array, " r"]:
        q = system.normalize(q)
        matrix = system.constraint_matrix(q, t)
        units = scales(system.mass_matrix(q, t), matrix, start)
        return singular_values(matrix * units.columns[None, :] / units.rows[:, None])

    # One after the other: batched LAPACK calls wait for each other's threads, on few cores for ever (jax 0.10).
    return jax.lax.map(lambda state: at(*state), (q, t))
