"""Time to a given accuracy: ours against the fastest peer that reaches it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from benchmarks import markdown

GOALS = (1e-6, 1e-8)
"""Position errors (m)."""
LARGEST_GAP = 1e-6
"""A run that leaves its constraints further (m) does not count."""
SPEED_UPS = {"A02 N=2": 10.0, "A02 N=10": 10.0, "A02 N=40": 3.0, "A03": 10.0, "A04": 10.0, "A05": 3.0}
"""How many times faster than the fastest peer bricard wants to be."""


@dataclass(frozen=True)
class Outcome:
    """How we stand on one problem at one accuracy."""

    problem: str
    goal: float
    ours: dict[str, Any] | None
    """Our cheapest run that reaches it."""
    peer: dict[str, Any] | None
    """The cheapest of all peers' runs that reach it."""
    wanted: float | None

    @property
    def ratio(self) -> float | None:
        """The peer's time over ours; None where one of them does not get there."""
        if self.ours is None or self.peer is None:
            return None
        return self.peer["seconds"] / self.ours["seconds"]

    @property
    def holds(self) -> bool | None:
        """Whether we are as much faster as we want to be; None where nothing is wanted."""
        if self.wanted is None:
            return None
        if self.ours is None:
            return False
        return self.ratio is None or self.ratio >= self.wanted


def outcomes(runs: Iterable[dict[str, Any]]) -> list[Outcome]:
    """For each problem and goal, from the runs of a work–precision measurement."""
    runs = list(runs)
    names = dict.fromkeys(r["problem"] for r in runs)
    return [
        Outcome(name, goal, cheapest(here, goal, True), cheapest(here, goal, False), SPEED_UPS.get(name))
        for name in names
        for here in [[r for r in runs if r["problem"] == name]]
        for goal in GOALS
    ]


def cheapest(runs: Iterable[dict[str, Any]], goal: float, ours: bool) -> dict[str, Any] | None:
    """The run of least time with an error of `goal` at most."""
    reached = [
        r
        for r in runs
        if (r["tool"] == "bricard") == ours and _small(r["error"], goal) and _small(r["gap"] or 0.0, LARGEST_GAP)
    ]
    return min(reached, key=lambda r: r["seconds"], default=None)


def _small(value: float | None, bound: float) -> bool:
    """Whether it is a number, and not too large; results read back from JSON have None for infinity."""
    return value is not None and value <= bound


def table(found: Iterable[Outcome]) -> str:
    """As Markdown."""
    rows = []
    for o in found:
        ratio = "" if o.ratio is None else f"{o.ratio:.2g}"
        verdict = {None: "", True: "yes", False: "**no**"}[o.holds]
        wanted = "" if o.wanted is None else f"{o.wanted:g}"
        rows.append([o.problem, f"{o.goal:.0e} m", _cell(o.ours), _cell(o.peer, True), ratio, wanted, verdict])
    return markdown.table(["problem", "error", "bricard", "fastest peer", "times faster", "wanted", ""], rows)


def _cell(run: dict[str, Any] | None, name: bool = False) -> str:
    if run is None:
        return "not reached"
    who = f"{run['tool']}, " if name else ""
    return f"{markdown.duration(run['seconds'])} ({who}{run['setting']})"
