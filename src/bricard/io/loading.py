"""`br.load`: reads an MJCF or URDF file as a `Mechanism`; equalities, mimic joints and loops become exact constraints.

MuJoCo (extra `mjcf`) compiles MJCF in a separate process. Only the given file and its `.loops.json` are opened.
Features that are not supported raise an error that names them; contacts are ignored, with a note.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bricard.errors import ModelError
from bricard.io.loops import read_loops
from bricard.io.markup import parse
from bricard.io.mjcf_read import read_mjcf
from bricard.io.text_files import read_text
from bricard.io.urdf import read_urdf
from bricard.mechanism import Mechanism

READERS = {"mujoco": read_mjcf, "robot": read_urdf}
"""Reader for each name of the root element."""


def load(path: str | os.PathLike[str], *, loops: str | os.PathLike[str] | Mapping[str, Any] | None = None) -> Mechanism:
    """Return the mechanism described by an MJCF or URDF file.

    It contains bodies with their inertias, joints with springs, damping, armature and limits, and motors with gear
    ratios and limits. `connect`, `weld`, `joint` and `tendon` equalities and mimic joints become exact constraints.
    `mechanism.notes` lists what was ignored.

    URDF cannot describe closed loops. They are read from `robot.loops.json` next to `robot.urdf` if that file exists,
    or from `loops`: the path or the content (a dict) of such a file, see `docs/how-to/load-a-robot.md`.
    """
    file = Path(path)
    document = parse(file, read_text(file))
    kind = document.root.tag
    if kind not in READERS:
        problem = f"the file is neither MJCF (<mujoco>) nor URDF (<robot>): its root element is <{kind}>"
        raise ModelError(str(file), [problem])
    loops_content = read_loops(_default_loops_file(file) if loops is None else loops)
    m, problems = READERS[kind](file, document, loops_content)
    problems += _mechanism_problems(m)
    if problems:
        raise ModelError(str(file), problems)
    return m


def _default_loops_file(file: Path) -> Path | None:
    """Loops file in the same folder, or None; a symbolic link to another folder raises a `ModelError`."""
    loops_file = file.with_suffix(".loops.json")
    if not loops_file.is_file():
        return None
    folder = loops_file.resolve().parent
    if folder != file.resolve().parent and folder != file.parent.resolve():
        problem = "the file is a link to another folder and is not followed; pass it as loops= if you trust it"
        raise ModelError(str(loops_file), [problem])
    return loops_file


def _mechanism_problems(m: Mechanism) -> list[str]:
    """Problems of the mechanism itself, such as an inertia that no rigid body can have."""
    try:
        m.check()
    except ModelError as error:
        return list(error.problems)
    return []
