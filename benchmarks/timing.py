"""Time measurement, as the best of several runs."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

REPEATS = 5
BUDGET = 4.0
"""Repetitions stop after this wall time (s), since long runs vary less."""


def cpu_time(work: Callable[[], Any], repeats: int = REPEATS, budget: float = BUDGET) -> float:
    """Smallest CPU time (s) of several runs, summed over all threads; other programs hardly affect it."""
    return _smallest(work, repeats, budget, time.process_time)


def wall_time(work: Callable[[], Any], repeats: int = REPEATS, budget: float = BUDGET) -> float:
    """Smallest wall time (s) of several runs, for work that uses all cores."""
    return _smallest(work, repeats, budget, time.perf_counter)


def _smallest(work: Callable[[], Any], repeats: int, budget: float, clock: Callable[[], float]) -> float:
    times, began = [], time.perf_counter()
    for _ in range(repeats):
        start = clock()
        work()
        times.append(clock() - start)
        if time.perf_counter() - began > budget:
            break
    return min(times)
