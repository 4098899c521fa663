"""Accuracy and time of one run of one tool."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Run:
    """A point of a work–precision diagram."""

    problem: str
    tool: str
    setting: str
    seconds: float
    """CPU time of the run (s), without building the model or compiling."""
    error: float
    """Largest position error (m)."""
    energy: float | None = None
    """Largest violation of the energy balance (J)."""
    gap: float | None = None
    """Largest violation of a loop closure (m)."""
    compile_seconds: float | None = None
    """CPU time of compilation (s)."""
    note: str = ""
