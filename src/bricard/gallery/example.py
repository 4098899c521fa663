"""An entry of the gallery."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from bricard.simulation import Trajectory, simulate
from bricard.system import System


@dataclasses.dataclass(frozen=True)
class Example:
    """A known system with its source, an initial state and a duration, ready to simulate."""

    system: System
    title: str
    """One line that says what the system is and what it shows."""
    source: str
    """Publication or origin of the system."""
    q: np.ndarray
    """Initial coordinates, shape (nq,), which satisfy the constraints."""
    v: np.ndarray
    """Initial velocities, shape (nv,), which satisfy the constraints."""
    t_end: float
    """Duration of the simulation (s)."""
    settings: dict[str, Any] = dataclasses.field(default_factory=dict)
    """Further arguments of `br.simulate`, such as inputs, a controller or contacts."""

    def simulate(self, **settings: Any) -> Trajectory:
        """Simulate the example; `settings` are arguments of `br.simulate` and override those of the example."""
        arguments = {"q": self.q, "v": self.v, "t_end": self.t_end} | self.settings | settings
        return simulate(self.system, **arguments)
