"""States of a run in a NumPy `.npz` file, and back; a file from anywhere is checked before it is believed."""

from __future__ import annotations

import dataclasses
import json
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bricard.errors import ModelError
from bricard.files import named_as, replacing
from bricard.simulate.contact import Unilateral
from bricard.simulate.events import ContactEvent, events_from_json
from bricard.simulate.memory import check_memory
from bricard.simulate.touching import Modes
from bricard.system import System

if TYPE_CHECKING:
    from bricard.simulate.trajectory import Trajectory

KINDS = (".npz",)


def write_states(trajectory: Trajectory, path: str | Path) -> Path:
    """Write the states of a run; returns the path."""
    path = named_as(path, KINDS)
    content = {
        "t": trajectory.t,
        "q": trajectory.q,
        "v": trajectory.v,
        "work": trajectory.work,
        "u": trajectory.u,
        "coordinates": np.array(trajectory.system.coordinates),
        "failure": np.array(trajectory.failure or ""),
        "contacts": np.array([c.name for c in trajectory.contacts], dtype=str),
        "events": np.array(json.dumps([dataclasses.asdict(e) for e in trajectory.events])),
        **({} if trajectory.modes is None else trajectory.modes._asdict()),
    }
    with replacing(path) as draft, draft.open("wb") as file:
        np.savez_compressed(file, **content)
    return path


def read_states(path: str | Path, system: System, contacts: Sequence[Unilateral]) -> dict[str, np.ndarray]:
    """The arrays that `write_states` wrote, which must fit `system` and `contacts`."""
    path = named_as(path, KINDS)
    try:
        if not path.is_file():
            raise ModelError(str(path), ["there is no such file"])
        with zipfile.ZipFile(path) as archive:
            check_memory(str(path), sum(x.file_size for x in archive.infolist()), "its content", "it is damaged")
        with np.load(path, allow_pickle=False) as data:
            found = {name: np.asarray(data[name]) for name in data}
    except ModelError:
        raise
    except OSError as error:
        raise ModelError(str(path), [f"cannot be read: {error.strerror or error}"]) from error
    except Exception as error:  # whatever NumPy and zlib make of bytes that nobody wrote for them
        raise ModelError(str(path), [f"not a saved trajectory: {error or type(error).__name__}"]) from error
    _check(path, found, system, contacts)
    return found


def _check(path: Path, found: dict[str, np.ndarray], system: System, contacts: Sequence[Unilateral]) -> None:
    missing = [k for k in ("t", "q", "v", "work", "u", "coordinates", "failure") if k not in found]
    if missing:
        raise ModelError(str(path), [f"not a saved trajectory: {', '.join(missing)} missing"])
    names = _words(found["coordinates"])
    if names != tuple(system.coordinates):
        own = ", ".join(system.coordinates)
        raise ModelError(str(path), [f"belongs to coordinates {', '.join(names)}, not to {own}"])
    known = saved_contacts(found)
    if known != tuple(c.name for c in contacts):
        given = ", ".join(c.name for c in contacts) or "none"
        raise ModelError(str(path), [f"was made with contacts {', '.join(known) or 'none'}, not {given}"])
    k = found["t"].shape[:1]
    shapes: dict[str, Any] = {"t": k, "q": (*k, system.nq), "v": (*k, system.nv), "work": (*k, 3), "u": (*k, system.nu)}
    problems = []
    for name, shape in shapes.items():
        array = found[name]
        if len(k) != 1 or array.shape != shape or array.dtype != np.float64:
            problems.append(f"{name} must be numbers of shape {shape}, not {array.dtype} of shape {array.shape}")
    for name in Modes._fields if known else ():
        array = found.get(name)
        if array is None or array.shape[:2] != (*k, len(known)):
            problems.append(f"{name} must be there for each of {len(known)} contacts")
    if found["failure"].shape != () or found["failure"].dtype.kind != "U":
        problems.append("failure must be a text")
    if problems:
        raise ModelError(str(path), problems)


def saved_contacts(found: dict[str, np.ndarray]) -> tuple[str, ...]:
    """Names of the contacts of a saved run."""
    return _words(found["contacts"]) if "contacts" in found else ()


def saved_events(path: str, found: dict[str, np.ndarray]) -> tuple[ContactEvent, ...]:
    """What happened at the contacts of a saved run."""
    try:
        return events_from_json(str(found["events"]))
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
        raise ModelError(path, [f"its events cannot be read: {error}"]) from error


def _words(array: np.ndarray) -> tuple[str, ...]:
    return tuple(str(n) for n in np.ravel(array))
