"""What the contacts of a run did, as part of its trajectory."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from bricard.contact.closed_contacts import Modes, Touching
from bricard.contact.gap import Contact
from bricard.equations.problem import Problem
from bricard.errors import ModelError
from bricard.simulation.events import EventForces, EventRecord
from bricard.system import Scalar, System, Vector


@dataclasses.dataclass(frozen=True)
class ContactEvent:
    """Something that happened at a contact."""

    time: float
    """When (s). For `rest`, when the bounces, ever shorter, come to an end."""
    contact: str
    kind: str
    """`impact`, `rest` (bounces died out), `release`, `stick` or `slip`."""
    impulse: tuple[float, ...] = ()
    """Normal impulse, then tangential ones (N s), of an impact."""
    energy_lost: float = 0.0
    """Kinetic energy (J) lost in an impact at this contact."""
    determinate: bool = True
    """Whether a rigid model determines the impulse; redundant contacts share theirs, by least norm."""
    q: tuple[float, ...] = dataclasses.field(default=(), repr=False)
    """Coordinates at that time."""
    v: tuple[float, ...] = dataclasses.field(default=(), repr=False)
    """Velocities just after the event."""


class ContactRecord(EventRecord):
    """Which contacts were closed, stuck or sliding at each saved time, and the events."""

    sources: tuple[Contact, ...]
    modes: Modes
    """Each (k, c)."""
    events: tuple[ContactEvent, ...] = eqx.field(static=True)

    def system_at(self, system: System, modes: Any) -> System:
        return Touching.of(system, self.sources, modes)

    def forces(
        self, active: System, problem: Problem, friction: Vector, acceleration: Vector, q: Vector, v: Vector, t: Scalar
    ) -> EventForces:
        assert isinstance(active, Touching)
        loads = active.loads(problem, friction, acceleration, q, v, t)
        return EventForces(loads.force, loads.determinate, loads.own, loads.own_determinate)

    def to_arrays(self) -> dict[str, np.ndarray]:
        return {
            "events": np.array(json.dumps([dataclasses.asdict(e) for e in self.events])),
            **{name: np.asarray(values) for name, values in self.modes._asdict().items()},
        }

    def selected(self, modes: Any) -> EventRecord:
        return dataclasses.replace(self, modes=modes)


def record_from_arrays(path: str, arrays: dict[str, np.ndarray], contacts: tuple[Contact, ...]) -> ContactRecord:
    """The record that `ContactRecord.to_arrays` wrote to the file `path`."""
    shape = (arrays["t"].shape[0], len(contacts))
    problems = []
    for name in Modes._fields:
        array = arrays.get(name)
        if array is None or array.shape[:2] != shape:
            problems.append(f"{name} must be there for each of {len(contacts)} contacts")
    if problems:
        raise ModelError(path, problems)
    return ContactRecord(
        sources=contacts,
        modes=Modes(*(jnp.asarray(arrays[name]) for name in Modes._fields)),
        events=_events(path, arrays),
    )


def _events(path: str, arrays: dict[str, np.ndarray]) -> tuple[ContactEvent, ...]:
    def event(entry: dict[str, Any]) -> ContactEvent:
        fields: dict[str, Any] = {k: tuple(x) if isinstance(x, list) else x for k, x in entry.items()}
        return ContactEvent(**fields)

    try:
        return tuple(event(entry) for entry in json.loads(str(arrays["events"])))
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
        raise ModelError(path, [f"its events cannot be read: {error}"]) from error
