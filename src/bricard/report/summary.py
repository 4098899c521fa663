"""What was run and how it went, in words and a few numbers."""

from __future__ import annotations

import dataclasses
import inspect
import platform
from collections.abc import Mapping
from importlib import metadata
from typing import Any

import jax
import numpy as np

from bricard.equations.mobility import mobility
from bricard.mechanism.base import MechanismSystem
from bricard.report.singular import SingularPositions, singular_positions
from bricard.simulate.trajectory import Trajectory
from bricard.system import System


@dataclasses.dataclass(frozen=True)
class Summary:
    """The main facts of a run; numbers that do not exist (nothing was saved, everything was NaN) are NaN."""

    name: str
    """Of the system's class; of a mechanism, its kind of coordinates."""
    title: str
    """One line about the system."""
    status: str
    failed: bool
    span: tuple[float, float]
    """First and last saved time (s)."""
    states: int
    steps: int | None
    """Accepted steps of the solver; None if the run was read from a file."""
    rejected: int | None
    energy_drift: float
    """Largest violation of the energy balance (J)."""
    energy_scale: float
    """Largest kinetic energy (J), to compare the drift with."""
    constraint_error: float
    """Largest, of position and velocity."""
    singular: SingularPositions
    impacts: tuple[float, ...]
    """When contacts hit (s)."""
    shared_contacts: tuple[str, ...]
    """Contacts whose forces a rigid model did not determine at some saved time."""
    mobility: str
    """At the start, in words."""
    parameters: dict[str, str]
    settings: dict[str, str]
    versions: dict[str, str]

    @property
    def contact_words(self) -> str:
        """Which contact forces are not determined; empty if all are."""
        names = ", ".join(self.shared_contacts[:8]) + (", …" if len(self.shared_contacts) > 8 else "")
        return f"statically indeterminate at {names}: the least admissible forces are given" if names else ""

    @property
    def singular_words(self) -> str:
        """How many singular positions were passed, and when."""
        times = self.singular.times
        if not times:
            return "passed no singular position"
        listed = ", ".join(f"{t:.4g}" for t in times[:12]) + (", …" if len(times) > 12 else "")
        return f"passed {len(times)} singular position{'' if len(times) == 1 else 's'}, at t = {listed} s"


def summarize(trajectory: Trajectory, title: str | None = None, settings: Mapping[str, Any] | None = None) -> Summary:
    """Collect the facts. `settings` are shown besides what the trajectory knows itself."""
    system, t = trajectory.system, np.asarray(trajectory.t)
    any_states = len(t) > 0
    known: dict[str, Any] = {"method": trajectory.method}
    if trajectory.stabilization is not None:
        known["stabilization"] = trajectory.stabilization
    known |= trajectory.settings | dict(settings or {})
    largest = _Largest(trajectory) if any_states else None
    return Summary(
        name=_called(system),
        title=_first_line(system) if title is None else title,
        status=trajectory.status,
        failed=trajectory.failure is not None or not bool(trajectory.succeeded),
        span=(float(t[0]), float(t[-1])) if any_states else (np.nan, np.nan),
        states=len(t),
        steps=_count(trajectory, "num_accepted_steps"),
        rejected=_count(trajectory, "num_rejected_steps"),
        energy_drift=largest.drift if largest else np.nan,
        energy_scale=largest.kinetic if largest else np.nan,
        constraint_error=largest.constraint_error if largest else np.nan,
        singular=singular_positions(trajectory),
        impacts=tuple(sorted({event.time for event in trajectory.events if event.kind == "impact"})),
        shared_contacts=_shared(trajectory) if any_states else (),
        mobility=str(mobility(system, np.asarray(trajectory.q)[0], t[0])) if any_states else "",
        parameters=parameters(system),
        settings={k: str(v) for k, v in known.items()},
        versions=versions(),
    )


def _shared(trajectory: Trajectory) -> tuple[str, ...]:
    if not trajectory.contacts:
        return ()
    unknown = ~np.all(np.asarray(trajectory.contact_determinate), axis=(0, 2))
    return tuple(c.name for c, x in zip(trajectory.contacts, unknown, strict=True) if x)


def _called(system: System) -> str:
    name = type(system).__name__
    return f"Mechanism, {name.lower()} coordinates" if isinstance(system, MechanismSystem) else name


class _Largest:
    """Largest values over the finite part of a run: a failed one may end in NaN."""

    def __init__(self, trajectory: Trajectory):
        energy, error = trajectory.energy, trajectory.constraint_error
        self.drift = _largest(energy.balance)
        self.kinetic = _largest(energy.kinetic)
        self.constraint_error = _largest(np.concatenate([error.position, error.velocity]))


def _largest(values: Any) -> float:
    values = np.abs(np.asarray(values))
    return float(np.max(values[np.isfinite(values)], initial=0.0)) if np.any(np.isfinite(values)) else np.nan


def _count(trajectory: Trajectory, key: str) -> int | None:
    return int(trajectory.stats[key]) if key in trajectory.stats else None


def parameters(system: System) -> dict[str, str]:
    """Fields of a system with their values as text; of a mechanism what it is made of."""
    if isinstance(system, MechanismSystem):
        return _parts(system)
    return {f.name: _written(getattr(system, f.name)) for f in dataclasses.fields(system)}


def _parts(system: MechanismSystem, most: int = 12) -> dict[str, str]:
    model = system.model

    def listed(words: list[str]) -> str:
        return ", ".join(words[:most]) + (f" and {len(words) - most} more" if len(words) > most else "")

    rows = {
        "coordinates": type(system).__name__.lower(),
        "bodies": listed([f"{n} {float(m):.4g} kg" for n, m in zip(model.names, model.mass, strict=True)]),
        "joints": listed([f"{n} {kind}" for n, kind in zip(model.frames.names, model.frames.kinds, strict=True)]),
        "springs": ", ".join(f"{float(k):.4g} N/m" for k in model.line_springs.stiffness[:most]),
        "gravity": ", ".join(f"{float(x):.4g}" for x in model.gravity) + " m/s²",
    }
    return {name: words for name, words in rows.items() if words}


def _written(value: Any) -> str:
    if isinstance(value, (jax.Array, np.ndarray)):
        if value.ndim == 0:
            return f"{float(value):.6g}"
        return np.array2string(np.asarray(value), precision=6, separator=", ", threshold=20).replace("\n", "")
    return str(value)


def _first_line(system: System) -> str:
    if isinstance(system, MechanismSystem):
        return ""  # its class tells of coordinates, not of the mechanism
    text = inspect.getdoc(type(system)) or ""
    # A class without a docstring of its own gets that of `System`, or the signature that dataclasses write.
    if type(system).__doc__ is None or text.startswith(f"{type(system).__name__}("):
        return ""
    return text.splitlines()[0] if text else ""


def versions() -> dict[str, str]:
    """Of bricard and of what computes for it."""
    found = {name: metadata.version(name) for name in ("bricard", "jax", "diffrax")}
    return found | {"python": platform.python_version()}
