"""Write the states of a run to a NumPy `.npz` file, and read them back with checks of the content."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bricard.errors import ModelError
from bricard.files import named_as, replacing
from bricard.simulation.memory import check_memory
from bricard.system import System

if TYPE_CHECKING:
    from bricard.simulation.trajectory import Trajectory

EXTENSIONS = (".npz",)


def write_states(trajectory: Trajectory, path: str | Path) -> Path:
    """Write the states of a run; returns the path."""
    path = named_as(path, EXTENSIONS)
    content = {
        "t": trajectory.t,
        "q": trajectory.q,
        "v": trajectory.v,
        "work": trajectory.work,
        "u": trajectory.u,
        "coordinates": np.array(trajectory.system.coordinates),
        "failure": np.array(trajectory.failure or ""),
        "contacts": np.array([c.name for c in trajectory.contacts], dtype=str),
        **({} if trajectory.record is None else trajectory.record.to_arrays()),
    }
    with replacing(path) as draft, draft.open("wb") as file:
        np.savez_compressed(file, **content)
    return path


def read_states(path: str | Path, system: System, contacts: Sequence[Any]) -> dict[str, np.ndarray]:
    """The arrays that `write_states` wrote, which must fit `system` and `contacts`."""
    path = named_as(path, EXTENSIONS)
    try:
        if not path.is_file():
            raise ModelError(str(path), ["there is no such file"])
        with zipfile.ZipFile(path) as archive:
            check_memory(str(path), sum(x.file_size for x in archive.infolist()), "its content", "it may be damaged")
        with np.load(path, allow_pickle=False) as data:
            found = {name: np.asarray(data[name]) for name in data}
    except ModelError:
        raise
    except OSError as error:
        raise ModelError(str(path), [f"cannot be read: {error.strerror or error}"]) from error
    except Exception as error:  # NumPy and zlib raise many types for damaged files
        raise ModelError(str(path), [f"not a saved trajectory: {error or type(error).__name__}"]) from error
    _check(path, found, system, contacts)
    return found


def _check(path: Path, found: dict[str, np.ndarray], system: System, contacts: Sequence[Any]) -> None:
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
    if found["failure"].shape != () or found["failure"].dtype.kind != "U":
        problems.append("failure must be a text")
    if problems:
        raise ModelError(str(path), problems)


def saved_contacts(found: dict[str, np.ndarray]) -> tuple[str, ...]:
    """Names of the contacts of a saved run."""
    return _words(found["contacts"]) if "contacts" in found else ()


def _words(array: np.ndarray) -> tuple[str, ...]:
    return tuple(str(n) for n in np.ravel(array))
