"""Interpolation of configurations between the saved states."""

from __future__ import annotations

import jax
import numpy as np
from jaxtyping import Array, Float

from bricard.execution.compile import xla_jit
from bricard.simulation.trajectory import Trajectory
from bricard.system import System


def configurations(trajectory: Trajectory, times: Float[np.ndarray, " n"]) -> Float[np.ndarray, "n nq"]:
    """Coordinates at `times`, by cubic Hermite interpolation of the saved coordinates and velocities.

    The constraint error grows with the fourth power of the save interval: small enough to draw and to locate minima.
    """
    t, q = np.asarray(trajectory.t), np.asarray(trajectory.q)
    if t.shape[0] < 2:
        return np.repeat(q, len(times), axis=0)
    system = trajectory.system
    rate = np.asarray(_rates(system, trajectory.q, trajectory.v) if system.has_chart else trajectory.v)
    left = np.clip(np.searchsorted(t, times, side="right") - 1, 0, t.shape[0] - 2)
    h = (t[left + 1] - t[left])[:, None]
    s = (times - t[left])[:, None] / h
    start = (1 + 2 * s) * (1 - s) ** 2 * q[left] + s * (1 - s) ** 2 * h * rate[left]
    return start + s**2 * (3 - 2 * s) * q[left + 1] + s**2 * (s - 1) * h * rate[left + 1]


@xla_jit
def _rates(system: System, q: Float[Array, "k nq"], v: Float[Array, "k nv"]) -> Float[Array, "k nq"]:
    return jax.vmap(system.qdot)(q, v)
