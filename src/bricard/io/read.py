"""`br.load`: an MJCF or URDF file as a `Mechanism`, with equalities, mimic joints and loops as exact constraints.

MJCF is parsed by MuJoCo (extra `mjcf`). Documents with entities or includes are refused. What has no counterpart is
refused by name; contacts are left out with a note.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bricard.errors import ModelError
from bricard.io.files import read_text
from bricard.io.loops import read_loops
from bricard.io.mjcf import read_mjcf
from bricard.io.urdf import read_urdf
from bricard.mechanism import Mechanism


def load(path: str | os.PathLike[str], *, loops: str | os.PathLike[str] | Mapping[str, Any] | None = None) -> Mechanism:
    """The mechanism described in an MJCF or URDF file.

    Bodies, inertias, joints with springs, damping, rotors ("armature") and limits, and motors with gears and limits.
    `connect`, `weld`, `joint` and `tendon` equalities and mimic joints become exact constraints.

    URDF cannot describe loops: they come from the file `robot.loops.json` beside `robot.urdf` if there is one, or from
    `loops`, another such file or its content (`docs/how-to/load-a-robot.md`). `mechanism.notes` says what was left out.
    """
    file = Path(path)
    text = read_text(file)
    _refuse_reaching_out(file, text)
    kind = re.search(r"<\s*(mujoco|robot)\b", text)
    if kind is None:
        raise ModelError(str(file), ["is neither MJCF (<mujoco>) nor URDF (<robot>)"])
    beside = file.with_suffix(".loops.json")
    more = read_loops(beside if loops is None and beside.is_file() else loops)
    m, problems = (read_urdf if kind[1] == "robot" else read_mjcf)(file, text, more)
    problems += _own_problems(m)
    if problems:
        raise ModelError(str(file), problems)
    return m


def _refuse_reaching_out(file: Path, text: str) -> None:
    if re.search(r"<!\s*(DOCTYPE|ENTITY)", text, re.IGNORECASE):
        raise ModelError(str(file), ["declares a document type or entities, which may reach for other files: refused"])
    if re.search(r"<\s*include\b", text):
        raise ModelError(str(file), ["includes other files: put everything into one"])


def _own_problems(m: Mechanism) -> list[str]:
    """What is wrong with the description itself, such as bodies that no matter has."""
    try:
        m.check()
    except ModelError as error:
        return list(error.problems)
    return []
