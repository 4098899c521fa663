"""The interface between `simulate` and the sources of events, such as the contacts of `bricard.contact`.

A run without events uses none of it. In a run with events, the `EventRunner` of the sources integrates, and the
trajectory keeps its `EventRecord`.
"""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple

import equinox as eqx
import numpy as np
from jaxtyping import Array, Bool, Float

from bricard.equations.problem import Problem
from bricard.errors import ModelError
from bricard.simulation.integration import Integration
from bricard.system import Scalar, System, Vector


class EventForces(NamedTuple):
    """Forces of the sources and of the constraints of the system at one state."""

    force: Float[Array, "c rows"]
    """Normal force and friction (N) of each of `c` sources."""
    determinate: Bool[Array, "c rows"]
    """Which of them a rigid model determines."""
    own: Float[Array, " m"]
    """Multipliers of the constraints of the system."""
    own_determinate: Bool[Array, " m"]


class EventRecord(eqx.Module):
    """Record of the sources of a run: which were active at each saved time, and the list of events."""

    sources: eqx.AbstractVar[tuple[Any, ...]]
    modes: eqx.AbstractVar[Any]
    """Pytree of arrays (k, …): the state of each source (such as open, sticking or sliding) at each saved time."""
    events: eqx.AbstractVar[tuple[Any, ...]]

    @abstractmethod
    def system_at(self, system: System, modes: Any) -> System:
        """The system with the constraints of the sources that are active in `modes`."""

    @abstractmethod
    def forces(
        self, active: System, problem: Problem, friction: Vector, acceleration: Vector, q: Vector, v: Vector, t: Scalar
    ) -> EventForces:
        """Forces at a state of `active = system_at(…)` with known acceleration."""

    @abstractmethod
    def to_arrays(self) -> dict[str, np.ndarray]:
        """The record as named arrays for a file."""

    @abstractmethod
    def selected(self, modes: Any) -> EventRecord:
        """The same record with other `modes`, for a trajectory that keeps other times."""


class EventRun(NamedTuple):
    """The outcome of a run with events."""

    integration: Integration
    record: EventRecord
    failure: str | None
    interrupted: bool
    """Whether Ctrl-C ended it."""


class EventRunner(ABC):
    """Integrates runs with one kind of event source."""

    @abstractmethod
    def checked(self, system: System, sources: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the sources; raise a `ModelError` that names each faulty one."""

    @abstractmethod
    def integrate(
        self, system: System, sources: tuple[Any, ...], q: Vector, v: Vector, times: Float[Array, " k"], **how: Any
    ) -> EventRun:
        """Integrate from `times[0]` to `times[-1]`, event by event; `how` holds the options of `simulate`."""

    @abstractmethod
    def from_arrays(self, path: str, arrays: dict[str, np.ndarray], sources: tuple[Any, ...]) -> EventRecord:
        """The record that `EventRecord.to_arrays` wrote to the file `path`."""


@functools.singledispatch
def runner_for(source: Any) -> EventRunner:
    """The runner for the type of `source`. Each type of source registers its own: `runner_for.register(type, …)`."""
    raise ModelError("contacts", [f"expected br.Contact objects, got {source!r}"])


def checked_sources(system: System, contacts: Any) -> tuple[Any, ...]:
    """`contacts` of `simulate` (one or a sequence) as a tuple of checked sources; empty if there are none."""
    sources = tuple(contacts) if isinstance(contacts, Sequence) else (contacts,)
    runners = {type(runner_for(source)) for source in sources}
    if len(runners) > 1:
        raise ModelError(type(system).__name__, ["contacts: all must be of one kind"])
    return runner_for(sources[0]).checked(system, sources) if sources else ()
