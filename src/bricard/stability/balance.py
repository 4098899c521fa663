"""Search for a balance of forces on the surface of the constraints."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

DEPENDENT = 1e-9
"""Singular values below this part of the largest count as zero."""
ROUNDING = 1e-14
"""Less is not asked for, in units in which masses and rows of constraints are about one."""
NEARLY = 1e-8
"""More than this left means that nothing was found."""
ASIDE = 0.1
"""How far to go for another attempt (m, rad)."""
STEPS, CORRECTIONS, TRIALS, ATTEMPTS = 200, 50, 12, 3
"""At most so many steps, corrections onto the constraints in each, lengths tried for each, and other starts."""


class Point(NamedTuple):
    """Unknowns: changes of coordinates and of inputs, multipliers; what is left of the equations; its derivatives."""

    x: np.ndarray
    residual: np.ndarray
    """Forces (nv), constraints (m), then whatever else is asked for."""
    slope: np.ndarray
    unknowns: tuple[int, int]
    """Coordinates, inputs."""
    equations: tuple[int, int]
    """Forces, constraints."""

    @property
    def finite(self) -> bool:
        return bool(np.all(np.isfinite(self.residual)) and np.all(np.isfinite(self.slope)))

    @property
    def off(self) -> np.ndarray:
        """How far it is off the constraints (m,)."""
        nv, m = self.equations
        return self.residual[nv : nv + m]

    @property
    def off_slope(self) -> np.ndarray:
        """Derivative of that along coordinates (m, nq)."""
        nv, m = self.equations
        return self.slope[nv : nv + m, : self.unknowns[0]]

    def balanced(self) -> np.ndarray:
        """The unknowns with the multipliers of minimum norm that leave the least force; they enter linearly."""
        x, first = self.x.copy(), sum(self.unknowns)
        along = self.slope[: self.equations[0], first:]
        without = self.residual[: self.equations[0]] - along @ x[first:]
        x[first:] = -np.linalg.lstsq(along, without, rcond=DEPENDENT)[0]
        return x

    def reduced(self) -> tuple[np.ndarray, np.ndarray]:
        """What no constraint force can balance and what is left of the rest asked for; its derivative (…, nq + nu)."""
        nv, m = self.equations
        first = sum(self.unknowns)
        free = _complement(self.slope[:nv, first:])
        left, slope = (np.concatenate([free.T @ a[:nv], a[nv + m :]]) for a in (self.residual, self.slope[:, :first]))
        return left, slope


def search(at: Callable[[np.ndarray], Point], x: np.ndarray) -> np.ndarray:
    """Where nothing is left, or least; every point looked at is on the constraints.

    Beside them it must not look: next to the surface of an overconstrained linkage large multipliers balance any force.
    """
    first = here = _descend(at, x)
    rng = np.random.default_rng(0)
    for _ in range(ATTEMPTS):
        if not first.finite or _is_balanced(here):
            return here.x
        # Where the force is largest, as of a pendulum held level, no direction is better than another: try one.
        aside = first.x.copy()
        aside[: first.unknowns[0]] += rng.normal(scale=ASIDE, size=first.unknowns[0])
        here = _descend(at, aside)
    return here.x if _is_balanced(here) else first.x


def _is_balanced(point: Point) -> bool:
    return point.finite and bool(np.linalg.norm(point.reduced()[0]) < NEARLY)


def _descend(at: Callable[[np.ndarray], Point], x: np.ndarray) -> Point:
    """Levenberg and Marquardt's method."""
    here = _onto(at, x)
    if not here.finite:
        return here
    coordinates, inputs = here.unknowns
    # Inputs enter linearly: those that balance best by the smallest change are where to start from.
    left, slope = here.reduced()
    x = here.x.copy()
    x[coordinates : coordinates + inputs] -= np.linalg.lstsq(slope[:, coordinates:], left, rcond=DEPENDENT)[0]
    here = at(at(x).balanced())
    damping = 1e-3
    for _ in range(STEPS):
        if np.linalg.norm(here.reduced()[0]) < ROUNDING:
            break
        there, damping = _step(at, here, damping)
        if there is None:
            break
        here = there
    return here


def _step(at: Callable[[np.ndarray], Point], here: Point, damping: float) -> tuple[Point | None, float]:
    """A better point along the constraints, if there is one, and how much to damp the next step."""
    left, slope = here.reduced()
    motions = _complement(np.pad(here.off_slope, ((0, 0), (0, here.unknowns[1]))).T)
    u, s, vt = np.linalg.svd(slope @ motions, full_matrices=False)
    largest = s.max(initial=0.0)
    for _ in range(TRIALS):
        shares = np.divide(s, s**2 + damping * largest**2, out=np.zeros_like(s), where=s > DEPENDENT * largest)
        x = here.x.copy()
        x[: sum(here.unknowns)] -= motions @ (vt.T @ (shares * (u.T @ left)))
        if np.array_equal(x, here.x):
            break
        there = _onto(at, x)
        if there.finite and np.linalg.norm(there.reduced()[0]) < np.linalg.norm(left):
            return there, damping / 16.0
        damping *= 8.0
    return None, damping


def _onto(at: Callable[[np.ndarray], Point], x: np.ndarray) -> Point:
    """The point on the constraints near `x`, with the multipliers that balance best."""
    point = at(x)
    for _ in range(CORRECTIONS):
        if not point.finite:
            return point
        if np.linalg.norm(point.off) < ROUNDING:
            break
        step = np.zeros_like(x)
        step[: point.unknowns[0]] = np.linalg.lstsq(point.off_slope, point.off, rcond=DEPENDENT)[0]
        trials = (at(point.x - step / 2**k) for k in range(TRIALS))
        nearer = next((p for p in trials if np.linalg.norm(p.off) < np.linalg.norm(point.off)), None)
        if nearer is None:
            break
        point = nearer
    return at(point.balanced())


def _complement(a: np.ndarray) -> np.ndarray:
    """Orthonormal columns for all that the columns of `a` do not reach."""
    u, s, _ = np.linalg.svd(a)
    return u[:, int(np.sum(s > DEPENDENT * s.max(initial=0.0))) :]
