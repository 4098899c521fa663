"""Search for a static balance of forces on the constraint manifold (Levenberg–Marquardt with projection)."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

RANK_TOLERANCE = 1e-9
"""Singular values below this fraction of the largest count as zero."""
ROUNDING = 1e-14
"""Residuals below this count as zero, in units in which masses and constraint rows are about one."""
BALANCE_TOLERANCE = 1e-8
"""A point with a smaller residual counts as balanced."""
PERTURBATION = 0.1
"""Standard deviation of the random change of the coordinates for another attempt (m, rad)."""
STEPS, CORRECTIONS, TRIALS, ATTEMPTS = 200, 50, 12, 3
"""Largest numbers of steps, of projection iterations per step, of step lengths tried, and of further starts."""


class Point(NamedTuple):
    """A trial point: its unknowns (changes of coordinates and inputs, multipliers), residual and Jacobian."""

    x: np.ndarray
    residual: np.ndarray
    """Residuals of forces (nv), of constraints (m), then of further conditions."""
    slope: np.ndarray
    """Jacobian of the residual with respect to `x`."""
    unknowns: tuple[int, int]
    """Numbers of coordinates and of inputs."""
    equations: tuple[int, int]
    """Numbers of force equations and of constraints."""

    @property
    def finite(self) -> bool:
        return bool(np.all(np.isfinite(self.residual)) and np.all(np.isfinite(self.slope)))

    @property
    def off(self) -> np.ndarray:
        """Residual of the constraints (m,)."""
        nv, m = self.equations
        return self.residual[nv : nv + m]

    @property
    def off_slope(self) -> np.ndarray:
        """Derivative of `off` with respect to the coordinates (m, nq)."""
        nv, m = self.equations
        return self.slope[nv : nv + m, : self.unknowns[0]]

    def balanced(self) -> np.ndarray:
        """The unknowns with the least-squares multipliers of minimum norm, which enter the forces linearly."""
        x, first = self.x.copy(), sum(self.unknowns)
        along = self.slope[: self.equations[0], first:]
        without = self.residual[: self.equations[0]] - along @ x[first:]
        x[first:] = -np.linalg.lstsq(along, without, rcond=RANK_TOLERANCE)[0]
        return x

    def reduced(self) -> tuple[np.ndarray, np.ndarray]:
        """Residual of forces that no constraint can balance and of further conditions; its Jacobian (…, nq + nu)."""
        nv, m = self.equations
        first = sum(self.unknowns)
        free = _complement(self.slope[:nv, first:])
        left, slope = (np.concatenate([free.T @ a[:nv], a[nv + m :]]) for a in (self.residual, self.slope[:, :first]))
        return left, slope


def search(at: Callable[[np.ndarray], Point], x: np.ndarray) -> np.ndarray:
    """The unknowns with zero or smallest residual near `x`; `at` evaluates a point.

    Every point of the search lies on the constraints. Next to the constraint manifold of an overconstrained linkage,
    large multipliers would balance any force.
    """
    first = here = _descend(at, x)
    rng = np.random.default_rng(0)
    for _ in range(ATTEMPTS):
        if not first.finite or _is_balanced(here):
            return here.x
        # At a stationary point of the residual (such as a level pendulum) no direction descends: perturb at random.
        aside = first.x.copy()
        aside[: first.unknowns[0]] += rng.normal(scale=PERTURBATION, size=first.unknowns[0])
        here = _descend(at, aside)
    return here.x if _is_balanced(here) else first.x


def _is_balanced(point: Point) -> bool:
    return point.finite and bool(np.linalg.norm(point.reduced()[0]) < BALANCE_TOLERANCE)


def _descend(at: Callable[[np.ndarray], Point], x: np.ndarray) -> Point:
    """Descend from `x` by the Levenberg–Marquardt method."""
    here = _project(at, x)
    if not here.finite:
        return here
    coordinates, inputs = here.unknowns
    # Inputs enter linearly: start from the least-squares solution with the smallest change.
    left, slope = here.reduced()
    x = here.x.copy()
    x[coordinates : coordinates + inputs] -= np.linalg.lstsq(slope[:, coordinates:], left, rcond=RANK_TOLERANCE)[0]
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
    """A point on the constraints with a smaller residual (None if none is found), and the damping of the next step."""
    left, slope = here.reduced()
    motions = _complement(np.pad(here.off_slope, ((0, 0), (0, here.unknowns[1]))).T)
    u, s, vt = np.linalg.svd(slope @ motions, full_matrices=False)
    largest = s.max(initial=0.0)
    for _ in range(TRIALS):
        shares = np.divide(s, s**2 + damping * largest**2, out=np.zeros_like(s), where=s > RANK_TOLERANCE * largest)
        x = here.x.copy()
        x[: sum(here.unknowns)] -= motions @ (vt.T @ (shares * (u.T @ left)))
        if np.array_equal(x, here.x):
            break
        there = _project(at, x)
        if there.finite and np.linalg.norm(there.reduced()[0]) < np.linalg.norm(left):
            return there, damping / 16.0
        damping *= 8.0
    return None, damping


def _project(at: Callable[[np.ndarray], Point], x: np.ndarray) -> Point:
    """The point on the constraints near `x`, with the multipliers of `balanced`."""
    point = at(x)
    for _ in range(CORRECTIONS):
        if not point.finite:
            return point
        if np.linalg.norm(point.off) < ROUNDING:
            break
        step = np.zeros_like(x)
        step[: point.unknowns[0]] = np.linalg.lstsq(point.off_slope, point.off, rcond=RANK_TOLERANCE)[0]
        trials = (at(point.x - step / 2**k) for k in range(TRIALS))
        nearer = next((p for p in trials if np.linalg.norm(p.off) < np.linalg.norm(point.off)), None)
        if nearer is None:
            break
        point = nearer
    return at(point.balanced())


def _complement(a: np.ndarray) -> np.ndarray:
    """Orthonormal basis of the orthogonal complement of the column space of `a`."""
    u, s, _ = np.linalg.svd(a)
    return u[:, int(np.sum(s > RANK_TOLERANCE * s.max(initial=0.0))) :]
