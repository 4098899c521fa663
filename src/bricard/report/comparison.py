"""Comparison of routes and kinds of coordinates on one motion: speed, accuracy and drift."""

from __future__ import annotations

import dataclasses
import math
import time
from typing import Any

import jax.numpy as jnp
import numpy as np

from bricard.equations.routes.proximal import Proximal
from bricard.errors import BricardError
from bricard.report.scene import drawings
from bricard.simulation.api import simulate
from bricard.simulation.trajectory import Trajectory
from bricard.system import System

REFERENCE_TOLERANCE = 1e-12
"""Relative and absolute tolerance of the run that all others are compared with."""


@dataclasses.dataclass(frozen=True)
class Outcome:
    """Measurements of one run; values that are unknown because the run failed are NaN."""

    route: str
    coordinates: str
    first: float
    """Wall time of the first run (s), including compilation."""
    again: float
    """Wall time of the second run (s), without compilation."""
    steps: int
    error: float
    """Largest deviation from the reference at the saved times: of drawn points (m), else of the coordinates."""
    energy_drift: float
    constraint_error: float
    failure: str = ""


def measure(route: str, coordinates: str, system: System, settings: dict[str, Any]) -> tuple[Outcome, np.ndarray]:
    """Simulate twice with the arguments `settings` of `simulate`; return the outcome and the positions (k, n)."""
    try:
        first, trajectory = _timed(system, settings)
        again, trajectory = _timed(system, settings)
    except BricardError as error:
        failed = str(error).splitlines()[0]
        return Outcome(route, coordinates, math.nan, math.nan, 0, math.nan, math.nan, math.nan, failed), np.zeros(
            (0, 0)
        )
    # Energy and constraint error do not depend on the route; with the default route they are compiled only once.
    states = dataclasses.replace(trajectory, route=Proximal())
    return Outcome(
        route,
        coordinates,
        first,
        again,
        int(trajectory.stats["num_steps"]),
        math.nan,
        float(states.energy.drift),
        float(states.constraint_error.max()),
        trajectory.failure or "",
    ), positions(trajectory)


def with_error(outcome: Outcome, run: np.ndarray, reference: np.ndarray) -> Outcome:
    """The outcome with the deviation of its positions from the reference, if the run reached its end."""
    if run.shape != reference.shape:
        return outcome
    return dataclasses.replace(outcome, error=float(np.max(np.abs(run - reference), initial=0.0)))


def reference_positions(system: System, settings: dict[str, Any]) -> np.ndarray:
    """Positions (k, n) along a run with `settings` and tight tolerances (unless `dt` is given), as far as it gets."""
    tolerances = {} if settings.get("dt") is not None else {"rtol": REFERENCE_TOLERANCE, "atol": REFERENCE_TOLERANCE}
    settings = {**settings, **tolerances, "throw": False}
    return positions(simulate(system, **settings))


def positions(trajectory: Trajectory) -> np.ndarray:
    """Drawn points at each saved time, shape (k, n), which do not depend on the coordinates; else the coordinates."""
    t, q = np.asarray(trajectory.t), np.asarray(trajectory.q)
    lines = drawings(trajectory.system, q, t)
    return np.concatenate([p.reshape(len(t), -1) for p in lines.values()], axis=1) if lines else q


def _timed(system: System, settings: dict[str, Any]) -> tuple[float, Trajectory]:
    start = time.perf_counter()
    settings = {**settings, "throw": False}
    trajectory = simulate(system, **settings)
    jnp.asarray(trajectory.q).block_until_ready()
    return time.perf_counter() - start, trajectory
