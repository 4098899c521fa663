"""How long does it take? Best of several."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

REPEATS = 5
BUDGET = 4.0
"""No more repeats after this many seconds: long runs vary less."""


def cpu_time(work: Callable[[], Any], repeats: int = REPEATS, budget: float = BUDGET) -> float:
    """Least CPU time (s) of several runs, all threads together: what other programs do meanwhile hardly changes it."""
    return _least(work, repeats, budget, time.process_time)


def wall_time(work: Callable[[], Any], repeats: int = REPEATS, budget: float = BUDGET) -> float:
    """Least time (s) of several runs by the clock on the wall: for what runs on all cores."""
    return _least(work, repeats, budget, time.perf_counter)


def _least(work: Callable[[], Any], repeats: int, budget: float, clock: Callable[[], float]) -> float:
    times, began = [], time.perf_counter()
    for _ in range(repeats):
        start = clock()
        work()
        times.append(clock() - start)
        if time.perf_counter() - began > budget:
            break
    return min(times)
