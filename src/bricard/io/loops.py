"""JSON files that add closed loops and gears to a model file; each entry is a call of a `Mechanism` method.

    {"reference": {"shoulder": 0.4},
     "loops": [{"joint": "revolute", "name": "C", "parent": "coupler", "child": "rocker",
                "at": [0.3, 0, 0], "axis": [0, 0, 1], "frame": "coupler"}]}

`joint` is the name of the method and the other keys are its arguments. `frame` names the body in whose frame points (m)
and axes are given; without it they are given in the world frame, in the reference configuration. `reference` gives the
joint coordinates (rad, m) at which the loops are closed; they are zero by default. Only URDF files use `reference`.
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
from bricard.io.text_files import LARGEST_NUMBER, read_text
from bricard.mechanism import Mechanism

# How the arguments of the `Mechanism` methods are checked and transformed, by name.
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
"""For each body, the origin (3,) (m) and rotation matrix (3, 3) of its frame in the reference configuration."""


class Loops(NamedTuple):
    """Content of a loops file, before its entries are checked against a mechanism."""

    source: str
    reference: dict[str, float]
    entries: list[dict[str, Any]]


def read_loops(source: str | os.PathLike[str] | Mapping[str, Any] | None) -> Loops:
    """Read a loops file, given as a path or directly as its content; None gives no loops."""
    if source is None:
        return Loops("loops", {}, [])
    if isinstance(source, Mapping):
        return _check_content("loops", dict(source))
    if not isinstance(source, (str, os.PathLike)):
        raise ModelError("loops", [f"must be a path or the content of the file (a dict), not {_abbreviated(source)}"])
    file = Path(source)
    try:
        content = json.loads(read_text(file))
    except (ValueError, RecursionError) as error:
        if isinstance(error, ModelError):
            raise
        raise ModelError(str(file), [f"the file is not valid JSON: {error}"]) from error
    return _check_content(file.name, content)


def _check_content(name: str, content: Any) -> Loops:
    if not isinstance(content, dict):
        raise ModelError(name, ['the content must be a JSON object such as {"loops": [...]}'])
    problems = [
        f"unknown key {_abbreviated(key)}; the known keys are 'reference' and 'loops'"
        for key in content
        if key not in _KEYS
    ]
    reference, entries = content.get("reference", {}), content.get("loops", [])
    if not isinstance(reference, dict) or not all(_is_number(x) for x in reference.values()):
        problems.append("'reference' must map joint names to finite numbers")
    if not isinstance(entries, list) or not all(isinstance(e, dict) for e in entries):
        problems.append("'loops' must be a list of objects")
    if problems:
        raise ModelError(name, problems)
    return Loops(name, {k: float(x) for k, x in reference.items()}, entries)


_KEYS = ("reference", "loops")


def add_loops(m: Mechanism, loops: Loops, poses: Poses) -> list[str]:
    """Add the joints and gears of the entries to `m`, and return the problems found in the entries."""
    problems = []
    for i, entry in enumerate(loops.entries):
        where = f"{loops.source}, entry {i + 1}" + (f" ({_abbreviated(entry['name'])})" if "name" in entry else "")
        entry_problems = _entry_problems(entry, poses)
        problems += [f"{where}: {problem}" for problem in entry_problems]
        if not entry_problems:
            getattr(m, entry["joint"])(**_arguments(entry, poses))
    return problems


def _entry_problems(entry: dict[str, Any], poses: Poses) -> list[str]:
    kind = entry.get("joint")
    if kind not in KINDS:
        return [f"'joint' must be one of {', '.join(KINDS)}, not {_abbreviated(kind)}"]
    parameters = _parameters(kind)
    problems = [f"unknown key {_abbreviated(key)}" for key in entry if key not in {*parameters, "joint", "frame"}]
    required = [n for n, p in parameters.items() if p.default is inspect.Parameter.empty]
    problems += [f"{n!r} is missing" for n in required if n not in entry]
    for key in ({"frame", "name"} | BODIES) & set(entry):
        if not isinstance(entry[key], str):
            problems.append(f"{key!r} must be a name, not {_abbreviated(entry[key])}")
        elif key == "frame" and entry[key] not in poses:
            problems.append(f"'frame': no body called {_abbreviated(entry[key])}")
    for key in (POINTS | DIRECTIONS) & set(entry):
        value = entry[key]
        if not isinstance(value, list) or len(value) != 3 or not all(_is_number(x) for x in value):
            problems.append(f"{key!r} must be a list of 3 numbers, not {_abbreviated(value)}")
    for key in {"pitch", "length", "offset"} & set(entry):
        if not _is_number(entry[key]):
            problems.append(f"{key!r} must be a number, not {_abbreviated(entry[key])}")
    limits = entry.get("limits")
    if limits is not None and not (isinstance(limits, list) and len(limits) == 2 and all(map(_is_number, limits))):
        problems.append(f"'limits' must be a list of 2 numbers, not {_abbreviated(limits)}")
    coefficients = entry.get("coefficients", {})
    if not isinstance(coefficients, dict) or not all(_is_number(x) for x in coefficients.values()):
        problems.append("'coefficients' must map joint names to finite numbers")
    return problems


def _arguments(entry: dict[str, Any], poses: Poses) -> dict[str, Any]:
    """Keyword arguments of the method, with points and directions in the world frame."""
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
    except OverflowError:  # an integer larger than any float
        return False


def _abbreviated(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:50]}…"
