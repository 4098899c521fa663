"""How do routes and kinds of coordinates compare, on one motion? Speed, accuracy and drift of each run."""

from __future__ import annotations

import dataclasses
import math
import time
from typing import Any

import jax.numpy as jnp
import numpy as np

from bricard.equations.proximal import Proximal
from bricard.errors import BricardError
from bricard.report.scene import drawings
from bricard.simulate.run import simulate
from bricard.simulate.trajectory import Trajectory
from bricard.system import System

TIGHT = 1e-12
"""Tolerances of the run that all others are compared with."""


@dataclasses.dataclass(frozen=True)
class Outcome:
    """One run; NaN for what is not known because it failed."""

    route: str
    coordinates: str
    first: float
    """Wait for the first result (s), compilation included."""
    again: float
    """The same run when compiled (s)."""
    steps: int
    error: float
    """Largest distance from the reference at any saved time: of drawn points (m), without a drawing of coordinates."""
    energy_drift: float
    constraint_error: float
    failure: str = ""


def measure(route: str, coordinates: str, system: System, settings: dict[str, Any]) -> tuple[Outcome, np.ndarray]:
    """Run twice and look at the result; `settings` are those of `simulate`. Returns also where everything was."""
    try:
        first, trajectory = _timed(system, settings)
        again, trajectory = _timed(system, settings)
    except BricardError as error:
        failed = str(error).splitlines()[0]
        return Outcome(route, coordinates, math.nan, math.nan, 0, math.nan, math.nan, math.nan, failed), np.zeros(
            (0, 0)
        )
    # Energies and errors of states do not depend on the route: with the default one they are compiled only once.
    same = dataclasses.replace(trajectory, method=Proximal())
    return Outcome(
        route,
        coordinates,
        first,
        again,
        int(trajectory.stats["num_steps"]),
        math.nan,
        float(same.energy.drift),
        float(same.constraint_error.max()),
        trajectory.failure or "",
    ), where(trajectory)


def judged(outcome: Outcome, places: np.ndarray, reference: np.ndarray) -> Outcome:
    """The outcome with its distance from the reference, if it got to the end."""
    if places.shape != reference.shape:
        return outcome
    return dataclasses.replace(outcome, error=float(np.max(np.abs(places - reference), initial=0.0)))


def reference_places(system: System, settings: dict[str, Any]) -> np.ndarray:
    """Where everything is along a run with the default route and tight tolerances, as far as it gets."""
    tight = {} if settings.get("dt") is not None else {"rtol": TIGHT, "atol": TIGHT}
    settings = {**settings, **tight, "throw": False}
    return where(simulate(system, **settings))


def where(trajectory: Trajectory) -> np.ndarray:
    """Drawn points at each saved time, which do not depend on the coordinates; else the coordinates. (k, n)."""
    t, q = np.asarray(trajectory.t), np.asarray(trajectory.q)
    lines = drawings(trajectory.system, q, t)
    return np.concatenate([p.reshape(len(t), -1) for p in lines.values()], axis=1) if lines else q


def _timed(system: System, settings: dict[str, Any]) -> tuple[float, Trajectory]:
    began = time.perf_counter()
    settings = {**settings, "throw": False}
    trajectory = simulate(system, **settings)
    jnp.asarray(trajectory.q).block_until_ready()
    return time.perf_counter() - began, trajectory
