"""`br.load`: an MJCF or URDF file as a `Mechanism`, with equalities, mimic joints and loops as exact constraints.

MJCF is compiled by MuJoCo (extra `mjcf`) in a process of its own. No other file is opened than the one given and its
`.loops.json`. What has no counterpart is refused by name; contacts are left out with a note.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bricard.errors import ModelError
from bricard.io.files import read_text
from bricard.io.loops import read_loops
from bricard.io.markup import parse
from bricard.io.mjcf import read_mjcf
from bricard.io.urdf import read_urdf
from bricard.mechanism import Mechanism

READERS = {"mujoco": read_mjcf, "robot": read_urdf}
"""By the outermost element."""


def load(path: str | os.PathLike[str], *, loops: str | os.PathLike[str] | Mapping[str, Any] | None = None) -> Mechanism:
    """The mechanism described in an MJCF or URDF file.

    Bodies, inertias, joints with springs, damping, rotors ("armature") and limits, and motors with gears and limits.
    `connect`, `weld`, `joint` and `tendon` equalities and mimic joints become exact constraints.

    URDF cannot describe loops: they come from the file `robot.loops.json` beside `robot.urdf` if there is one, or from
    `loops`, another such file or its content (`docs/how-to/load-a-robot.md`). `mechanism.notes` says what was left out.
    """
    file = Path(path)
    document = parse(file, read_text(file))
    kind = document.root.tag
    if kind not in READERS:
        raise ModelError(str(file), [f"is neither MJCF (<mujoco>) nor URDF (<robot>), but <{kind}>"])
    more = read_loops(_beside(file) if loops is None else loops)
    m, problems = READERS[kind](file, document, more)
    problems += _own_problems(m)
    if problems:
        raise ModelError(str(file), problems)
    return m


def _beside(file: Path) -> Path | None:
    """The file of loops in the same folder, if there is one; what is a link to elsewhere is not followed."""
    beside = file.with_suffix(".loops.json")
    if not beside.is_file():
        return None
    if beside.resolve().parent != file.resolve().parent and beside.resolve().parent != file.parent.resolve():
        raise ModelError(str(beside), ["is a link to another folder: refused; pass it as loops= if you trust it"])
    return beside


def _own_problems(m: Mechanism) -> list[str]:
    """What is wrong with the description itself, such as bodies that no matter has."""
    try:
        m.check()
    except ModelError as error:
        return list(error.problems)
    return []
