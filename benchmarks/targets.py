"""Time to reach a given accuracy, compared with the fastest peer that reaches it, and the target speed-ups."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from benchmarks import markdown

ACCURACIES = (1e-6, 1e-8)
"""Position errors (m) at which the tools are compared."""
LARGEST_GAP = 1e-6
"""Runs with a larger constraint error (m) do not count."""
SPEED_UPS = {"A02 N=2": 10.0, "A02 N=10": 10.0, "A02 N=40": 3.0, "A03": 10.0, "A04": 10.0, "A05": 3.0}
"""Target speed-up of bricard over the fastest peer, by problem."""


@dataclass(frozen=True)
class Outcome:
    """Comparison on one problem at one accuracy."""

    problem: str
    accuracy: float
    """Position error (m)."""
    ours: dict[str, Any] | None
    """Fastest run of bricard that reaches the accuracy."""
    peer: dict[str, Any] | None
    """Fastest run of any peer that reaches the accuracy."""
    target: float | None
    """Required ratio, if there is a target for the problem."""

    @property
    def ratio(self) -> float | None:
        """Speed-up: time of the peer over the time of bricard; None if one of them does not reach the accuracy."""
        if self.ours is None or self.peer is None:
            return None
        return self.peer["seconds"] / self.ours["seconds"]

    @property
    def is_met(self) -> bool | None:
        """True if the target is met; None if there is no target."""
        if self.target is None:
            return None
        if self.ours is None:
            return False
        return self.ratio is None or self.ratio >= self.target


def outcomes(runs: Iterable[dict[str, Any]]) -> list[Outcome]:
    """Comparisons for each problem and accuracy, from the runs of a work–precision measurement."""
    runs = list(runs)
    names = dict.fromkeys(r["problem"] for r in runs)
    return [
        Outcome(name, accuracy, fastest(own, accuracy, True), fastest(own, accuracy, False), SPEED_UPS.get(name))
        for name in names
        for own in [[r for r in runs if r["problem"] == name]]
        for accuracy in ACCURACIES
    ]


def fastest(runs: Iterable[dict[str, Any]], accuracy: float, ours: bool) -> dict[str, Any] | None:
    """Fastest run of bricard (`ours`) or of the peers with an error of at most `accuracy`; None if there is none."""
    reached = [
        r
        for r in runs
        if (r["tool"] == "bricard") == ours and _within(r["error"], accuracy) and _within(r["gap"] or 0.0, LARGEST_GAP)
    ]
    return min(reached, key=lambda r: r["seconds"], default=None)


def _within(value: float | None, bound: float) -> bool:
    """True if the value is at most `bound`; stored results have None in place of infinity."""
    return value is not None and value <= bound


def table(found: Iterable[Outcome]) -> str:
    """Comparisons as a Markdown table."""
    rows = []
    for o in found:
        ratio = "" if o.ratio is None else f"{o.ratio:.2g}"
        verdict = {None: "", True: "yes", False: "**no**"}[o.is_met]
        target = "" if o.target is None else f"{o.target:g}"
        rows.append([o.problem, f"{o.accuracy:.0e} m", _cell(o.ours), _cell(o.peer, True), ratio, target, verdict])
    return markdown.table(["problem", "error", "bricard", "fastest peer", "speed-up", "target", ""], rows)


def _cell(run: dict[str, Any] | None, name: bool = False) -> str:
    if run is None:
        return "not reached"
    who = f"{run['tool']}, " if name else ""
    return f"{markdown.duration(run['seconds'])} ({who}{run['setting']})"
