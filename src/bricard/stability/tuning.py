"""Tuning: the gains with the fastest decay of deviations, for one system or for the worst of several."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.optimize
from jax.typing import ArrayLike

from bricard.errors import ModelError, needs_numbers
from bricard.stability.parameter_sweep import Family, Place
from bricard.system import System


@dataclasses.dataclass(frozen=True)
class Tuned:
    """The best parameters found."""

    parameters: dict[str, float]
    value: float
    """Spectral radius per sample, or spectral abscissa (1/s); the largest one if there are several systems."""
    stable: bool
    values: np.ndarray
    """The value of each system."""
    on_edge: tuple[str, ...]
    """Names of parameters at one of their bounds; better values may lie beyond."""

    def __str__(self) -> str:
        where = ", ".join(f"{n} = {x:.5g}" for n, x in self.parameters.items())
        edge = f" ({', '.join(self.on_edge)} at a bound)" if self.on_edge else ""
        if not self.stable:
            return f"nothing within the bounds is stable; the smallest value is {self.value:.6g} at {where}{edge}"
        return f"smallest value {self.value:.6g} at {where}{edge}"


@needs_numbers
def tune(
    system: System,
    q: Place,
    loop: Any,
    *,
    samples: Sequence[System] = (),
    t: ArrayLike = 0.0,
    seed: int = 0,
    **bounds: tuple[float, float],
) -> Tuned:
    """Parameters within `bounds` (`kp=(0, 300), kd=(0, 40)`) with the smallest spectral radius (or abscissa).

    The spectral radius is not smooth: at its minimum two or more eigenvalues usually meet. The search therefore uses no
    gradients: a global search by differential evolution (repeatable with `seed`) is followed by the Nelder–Mead method.
    It can miss a narrow minimum, which a `chart` may show.

    For robust tuning, `samples` are further systems (such as with other masses or lengths) for the same loop. The
    controller keeps its own model, and the largest value is minimised. `q` is an equilibrium of all systems, or a
    function of the system that returns it.
    """
    problems = [] if bounds else ["name the parameters with their bounds, such as kp=(0, 300)"]
    limits = {}
    for name, pair in bounds.items():
        values = np.asarray(pair, dtype=float)
        if values.shape != (2,) or not np.all(np.isfinite(values)) or not values[0] < values[1]:
            problems.append(f"{name}: a lower and an upper bound, not {pair!r}")
        limits[name] = values
    if problems:
        raise ModelError("tune", problems)
    names = tuple(limits)
    low, high = (np.array([limits[n][i] for n in names]) for i in (0, 1))
    families = [Family(s, q, loop, names, low, high, t) for s in (system, *samples)]

    def worst(points: np.ndarray) -> np.ndarray:
        """The largest value of all systems at points (k, parameters), scaled to between 0 and 1."""
        found = np.max([f.value(low + points * (high - low)) for f in families], axis=0)
        return np.minimum(found, 1e6)  # infinite where a law is not defined

    unit = [(0.0, 1.0)] * len(names)
    found = scipy.optimize.differential_evolution(
        lambda x: worst(np.atleast_2d(x.T)),
        unit,
        rng=seed,
        vectorized=True,
        updating="deferred",
        polish=False,
        tol=1e-8,
    )
    point, value = found.x, float(found.fun)
    for size in (0.02, 0.002):
        corners = np.clip(np.vstack([point, *(point + size * np.eye(len(names)))]), 0.0, 1.0)
        near = scipy.optimize.minimize(
            lambda x: float(worst(x[None])[0]),
            point,
            method="Nelder-Mead",
            bounds=unit,
            options={"initial_simplex": corners, "xatol": 1e-8, "fatol": 1e-10, "maxiter": 400},
        )
        if near.fun < value:
            point, value = near.x, float(near.fun)
    best = low + point * (high - low)
    return Tuned(
        parameters=dict(zip(names, (float(b) for b in best), strict=True)),
        value=value,
        stable=value < families[0].limit,
        values=np.array([f.value(best[None])[0] for f in families]),
        on_edge=tuple(n for n, p in zip(names, point, strict=True) if min(p, 1 - p) < 1e-6),
    )
