"""Loops and gears for a file that cannot describe them, as JSON: each entry is a call of a method of `Mechanism`.

    {"reference": {"shoulder": 0.4},
     "loops": [{"joint": "revolute", "name": "C", "parent": "coupler", "child": "rocker",
                "at": [0.3, 0, 0], "axis": [0, 0, 1], "frame": "coupler"}]}

`frame` names the body in whose frame points and axes are given; without it they are those of the world in the reference
configuration. `reference` are joint coordinates (rad, m) in which the loops are closed, zero by default.
"""

from __future__ import annotations

import inspect
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bricard.errors import ModelError
from bricard.io.files import LARGEST_NUMBER, read_text
from bricard.mechanism import Mechanism

POINTS = {"at", "at_child"}
DIRECTIONS = {"axis", "normal", "direction", "axis_parent", "axis_child"}
BODIES = {"parent", "child", "a", "b", "line", "point", "plane"}
KINDS = (
    "revolute",
    "prismatic",
    "cylindrical",
    "universal",
    "spherical",
    "planar",
    "helical",
    "fixed",
    "coincident",
    "distance",
    "point_on_line",
    "point_on_plane",
    "parallel",
    "gear",
)

Poses = Mapping[str, tuple[np.ndarray, np.ndarray]]
"""Origin (3,) and orientation (3, 3) of the frame of each body, in the reference configuration."""


class Loops(NamedTuple):
    """What a file of loops says, not yet compared with a mechanism."""

    source: str
    reference: dict[str, float]
    entries: list[dict[str, Any]]


def read_loops(source: str | os.PathLike[str] | Mapping[str, Any] | None) -> Loops:
    """The content of a file of loops, or such content given directly."""
    if source is None:
        return Loops("loops", {}, [])
    if isinstance(source, Mapping):
        return _checked("loops", dict(source))
    if not isinstance(source, (str, os.PathLike)):
        raise ModelError("loops", [f"a file or its content, not {_short(source)}"])
    file = Path(source)
    try:
        content = json.loads(read_text(file))
    except (ValueError, RecursionError) as error:
        if isinstance(error, ModelError):
            raise
        raise ModelError(str(file), [f"is not JSON: {error}"]) from error
    return _checked(file.name, content)


def _checked(name: str, content: Any) -> Loops:
    if not isinstance(content, dict):
        raise ModelError(name, ['must be an object such as {"loops": [...]}'])
    problems = [
        f"{_short(key)} is not understood; there are 'reference' and 'loops'" for key in content if key not in _KEYS
    ]
    reference, entries = content.get("reference", {}), content.get("loops", [])
    if not isinstance(reference, dict) or not all(_is_number(x) for x in reference.values()):
        problems.append("'reference' must give a number for each joint that it names")
    if not isinstance(entries, list) or not all(isinstance(e, dict) for e in entries):
        problems.append("'loops' must be a list of objects")
    if problems:
        raise ModelError(name, problems)
    return Loops(name, {k: float(x) for k, x in reference.items()}, entries)


_KEYS = ("reference", "loops")


def add_loops(m: Mechanism, loops: Loops, poses: Poses) -> list[str]:
    """Add what the entries describe; what is wrong with them."""
    problems = []
    for i, entry in enumerate(loops.entries):
        where = f"{loops.source}, entry {i + 1}" + (f" ({_short(entry['name'])})" if "name" in entry else "")
        wrong = _entry_problems(entry, poses)
        problems += [f"{where}: {problem}" for problem in wrong]
        if not wrong:
            getattr(m, entry["joint"])(**_arguments(entry, poses))
    return problems


def _entry_problems(entry: dict[str, Any], poses: Poses) -> list[str]:
    kind = entry.get("joint")
    if kind not in KINDS:
        return [f"'joint' is one of {', '.join(KINDS)}, not {_short(kind)}"]
    known = _parameters(kind)
    problems = [f"{_short(key)} is not understood" for key in entry if key not in {*known, "joint", "frame"}]
    needed = [n for n, p in known.items() if p.default is inspect.Parameter.empty]
    problems += [f"{n!r} is missing" for n in needed if n not in entry]
    for key in ({"frame", "name"} | BODIES) & set(entry):
        if not isinstance(entry[key], str):
            problems.append(f"{key!r} must be a name, not {_short(entry[key])}")
        elif key == "frame" and entry[key] not in poses:
            problems.append(f"'frame': no body called {_short(entry[key])}")
    for key in (POINTS | DIRECTIONS) & set(entry):
        value = entry[key]
        if not isinstance(value, list) or len(value) != 3 or not all(_is_number(x) for x in value):
            problems.append(f"{key!r} must be 3 numbers, not {_short(value)}")
    for key in {"pitch", "length", "offset"} & set(entry):
        if not _is_number(entry[key]):
            problems.append(f"{key!r} must be a number, not {_short(entry[key])}")
    limits = entry.get("limits")
    if limits is not None and not (isinstance(limits, list) and len(limits) == 2 and all(map(_is_number, limits))):
        problems.append(f"'limits' must be 2 numbers, not {_short(limits)}")
    terms = entry.get("coefficients", {})
    if not isinstance(terms, dict) or not all(_is_number(x) for x in terms.values()):
        problems.append("'coefficients' must give a number for each joint that it names")
    return problems


def _arguments(entry: dict[str, Any], poses: Poses) -> dict[str, Any]:
    """Keyword arguments of the method, in the world."""
    p, R = poses[entry["frame"]] if "frame" in entry else (np.zeros(3), np.eye(3))
    arguments = {}
    for key, value in entry.items():
        if key in ("joint", "frame"):
            continue
        if key in POINTS | DIRECTIONS:
            value = R @ np.array(value, dtype=float) + (p if key in POINTS else 0.0)
        arguments[key] = value
    return arguments


def _parameters(kind: str) -> dict[str, inspect.Parameter]:
    parameters = dict(inspect.signature(getattr(Mechanism, kind)).parameters)
    del parameters["self"]
    return parameters


def _is_number(value: Any) -> bool:
    try:
        return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(float(value)) < LARGEST_NUMBER
    except OverflowError:  # an integer beyond all floats
        return False


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:50]}…"
