"""What a gallery entry is: a system with its source, a good start and a duration."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from bricard.simulate import Trajectory, simulate
from bricard.system import System


@dataclasses.dataclass(frozen=True)
class Example:
    """A known system, ready to run."""

    system: System
    title: str
    """One line: what it is and why it is here."""
    source: str
    """Where it comes from."""
    q: np.ndarray
    """A start, on the constraints."""
    v: np.ndarray
    t_end: float
    """A duration (s) that shows what it does."""
    settings: dict[str, Any] = dataclasses.field(default_factory=dict)
    """What `simulate` needs besides, such as inputs or a stiff solver."""

    def simulate(self, **settings: Any) -> Trajectory:
        """Run it; `settings` are those of `br.simulate` and go before the example's own."""
        chosen = {"q": self.q, "v": self.v, "t_end": self.t_end} | self.settings | settings
        return simulate(self.system, **chosen)
