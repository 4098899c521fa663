"""What is known of one run of one tool: how accurate, how long."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Run:
    """A point of a work–precision diagram."""

    problem: str
    tool: str
    setting: str
    seconds: float
    """CPU time of the run alone: no building, no compiling."""
    error: float
    """Largest position error (m)."""
    energy: float | None = None
    """Largest violation of the energy balance (J)."""
    gap: float | None = None
    """Largest violation of a loop's closure (m)."""
    compile_seconds: float | None = None
    """Spent before the first run, on top of the run."""
    note: str = ""
