"""Summary of a run: the system, its settings and the main results."""

from __future__ import annotations

import dataclasses
import inspect
import platform
from collections.abc import Mapping
from importlib import metadata
from typing import Any

import jax
import numpy as np

from bricard.mechanism.coordinates.mechanism_system import MechanismSystem
from bricard.mechanism.degrees_of_freedom import mobility
from bricard.report.singular import SingularPositions, singular_positions
from bricard.simulation.trajectory import Trajectory
from bricard.system import System


@dataclasses.dataclass(frozen=True)
class Summary:
    """Main results of a run; numbers are NaN if no finite state was saved."""

    name: str
    """Name of the class of the system; for a mechanism, its kind of coordinates."""
    title: str
    """One-line description of the system."""
    status: str
    failed: bool
    span: tuple[float, float]
    """First and last saved time (s)."""
    states: int
    steps: int | None
    """Accepted steps of the solver; None if the run was loaded from a file."""
    rejected: int | None
    """Rejected steps of the solver; None if the run was loaded from a file."""
    energy_drift: float
    """Largest violation of the energy balance (J)."""
    energy_scale: float
    """Largest kinetic energy (J), a reference for the drift."""
    constraint_error: float
    """Largest error of the position and velocity constraints (m, rad, m/s, rad/s)."""
    singular: SingularPositions
    impacts: tuple[float, ...]
    """Times of impacts at contacts (s)."""
    shared_contacts: tuple[str, ...]
    """Contacts whose forces are statically indeterminate at some saved time."""
    mobility: str
    """Mobility at the start, in words."""
    execution: str
    """Back end, linear algebra and time to compile, in one line."""
    parameters: dict[str, str]
    settings: dict[str, str]
    versions: dict[str, str]

    @property
    def contact_words(self) -> str:
        """Sentence about statically indeterminate contact forces; empty if there are none."""
        names = ", ".join(self.shared_contacts[:8]) + (", …" if len(self.shared_contacts) > 8 else "")
        return f"statically indeterminate at {names}; minimum-norm admissible forces are shown" if names else ""

    @property
    def singular_words(self) -> str:
        """Number and times of the singular positions passed."""
        times = self.singular.times
        if not times:
            return "passed no singular position"
        listed = ", ".join(f"{t:.4g}" for t in times[:12]) + (", …" if len(times) > 12 else "")
        return f"passed {len(times)} singular position{'' if len(times) == 1 else 's'}, at t = {listed} s"


def summarize(trajectory: Trajectory, title: str | None = None, settings: Mapping[str, Any] | None = None) -> Summary:
    """Summarise a run. `settings` are added to those stored in the trajectory; `title` defaults to the docstring."""
    system, t = trajectory.system, np.asarray(trajectory.t)
    has_states = len(t) > 0
    shown: dict[str, Any] = {"route": trajectory.route}
    if trajectory.stabilization is not None:
        shown["stabilization"] = trajectory.stabilization
    shown |= trajectory.settings | dict(settings or {})
    largest = _Largest(trajectory) if has_states else None
    return Summary(
        name=_system_name(system),
        title=_first_line(system) if title is None else title,
        status=trajectory.status,
        failed=trajectory.failure is not None or not bool(trajectory.succeeded),
        span=(float(t[0]), float(t[-1])) if has_states else (np.nan, np.nan),
        states=len(t),
        execution=str(trajectory.execution) or "unknown",
        steps=_count(trajectory, "num_accepted_steps"),
        rejected=_count(trajectory, "num_rejected_steps"),
        energy_drift=largest.drift if largest else np.nan,
        energy_scale=largest.kinetic if largest else np.nan,
        constraint_error=largest.constraint_error if largest else np.nan,
        singular=singular_positions(trajectory),
        impacts=tuple(sorted({event.time for event in trajectory.events if event.kind == "impact"})),
        shared_contacts=_indeterminate_contacts(trajectory) if has_states else (),
        mobility=str(mobility(system, np.asarray(trajectory.q)[0], t[0])) if has_states else "",
        parameters=parameters(system),
        settings={k: str(v) for k, v in shown.items()},
        versions=versions(),
    )


def _indeterminate_contacts(trajectory: Trajectory) -> tuple[str, ...]:
    if not trajectory.contacts:
        return ()
    indeterminate = ~np.all(np.asarray(trajectory.contact_determinate), axis=(0, 2))
    return tuple(c.name for c, x in zip(trajectory.contacts, indeterminate, strict=True) if x)


def _system_name(system: System) -> str:
    name = type(system).__name__
    return f"Mechanism, {name.lower()} coordinates" if isinstance(system, MechanismSystem) else name


class _Largest:
    """Largest finite values of a run; a failed run may end in NaN."""

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
    """Fields of a system and their values as text; for a mechanism, its bodies, joints, springs and gravity."""
    if isinstance(system, MechanismSystem):
        return _mechanism_parameters(system)
    return {f.name: _formatted(getattr(system, f.name)) for f in dataclasses.fields(system)}


def _mechanism_parameters(system: MechanismSystem, most: int = 12) -> dict[str, str]:
    model = system.model

    def listed(items: list[str]) -> str:
        return ", ".join(items[:most]) + (f" and {len(items) - most} more" if len(items) > most else "")

    rows = {
        "coordinates": type(system).__name__.lower(),
        "bodies": listed([f"{n} {float(m):.4g} kg" for n, m in zip(model.names, model.mass, strict=True)]),
        "joints": listed([f"{n} {kind}" for n, kind in zip(model.frames.names, model.frames.kinds, strict=True)]),
        "springs": ", ".join(f"{float(k):.4g} N/m" for k in model.line_springs.stiffness[:most]),
        "gravity": ", ".join(f"{float(x):.4g}" for x in model.gravity) + " m/s²",
    }
    return {name: text for name, text in rows.items() if text}


def _formatted(value: Any) -> str:
    if isinstance(value, (jax.Array, np.ndarray)):
        if value.ndim == 0:
            return f"{float(value):.6g}"
        return np.array2string(np.asarray(value), precision=6, separator=", ", threshold=20).replace("\n", "")
    return str(value)


def _first_line(system: System) -> str:
    if isinstance(system, MechanismSystem):
        return ""  # the class describes the coordinates, not the mechanism
    text = inspect.getdoc(type(system)) or ""
    # Without its own docstring, a class inherits that of `System` or gets the signature that dataclasses generate.
    if type(system).__doc__ is None or text.startswith(f"{type(system).__name__}("):
        return ""
    return text.splitlines()[0] if text else ""


def versions() -> dict[str, str]:
    """Versions of bricard, its main dependencies and Python."""
    packages = {name: metadata.version(name) for name in ("bricard", "jax", "diffrax")}
    return packages | {"python": platform.python_version()}
