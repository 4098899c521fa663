"""Files that are written: under a name that says what they are, and whole or not at all."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from bricard.errors import ModelError

FIGURES = (".png", ".svg", ".pdf")
"""Extensions of pictures, which matplotlib writes."""


def named_as(path: str | os.PathLike[str], kinds: Sequence[str]) -> Path:
    """The path, which must end in one of the extensions `kinds`; a name without an extension gets the first of them."""
    path = Path(path)
    if not path.name or (not path.suffix and path.is_dir()):
        raise ModelError(str(path), ["cannot be written: it is a directory"])
    if not path.suffix:
        return path.with_name(path.name + kinds[0])
    if path.suffix.lower() not in kinds:
        raise ModelError(str(path), [f"the name has to end in {' or '.join(kinds)}, which is what is written"])
    return path


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A path to write to; what was written there takes the place of `path` at the end, if nothing failed."""
    path = Path(path)
    check_writable(path)
    goal = Path(os.path.realpath(path))  # a link stays a link, to the new content
    # Beside the goal, so that the last step is a rename; of the same suffix, since some writers go by it.
    draft = goal.with_name(f".{goal.stem[:100]}.{secrets.token_hex(6)}{goal.suffix}")
    try:
        yield draft
        if goal.exists():
            with suppress(OSError):
                shutil.copymode(goal, draft)
        os.replace(draft, goal)
    except OSError as error:
        raise ModelError(str(path), [f"cannot be written: {error.strerror or error}"]) from error
    finally:
        with suppress(OSError):
            draft.unlink()


def check_writable(path: str | os.PathLike[str]) -> None:
    """Raise `ModelError` if a file cannot be put there; to be called before the work that it is to hold."""
    path = Path(path)
    problem = None
    try:
        if "\0" in str(path):
            problem = "there is a null character in its name"
        elif path.is_dir():
            problem = "it is a directory"
        elif path.exists() and not path.is_file():
            problem = "it is not a file"
        elif not path.parent.is_dir():
            problem = f"there is no directory {path.parent}"
        elif not os.access(path.parent, os.W_OK):
            problem = f"no permission to write to {path.parent.absolute()}"
    except OSError as error:  # such as a name that is too long
        problem = error.strerror or str(error)
    if problem is not None:
        raise ModelError(str(path), [f"cannot be written: {problem}"])


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write text in UTF-8, whole or not at all."""
    with replacing(path) as draft:
        draft.write_text(text, encoding="utf-8", newline="\n")


def save_figure(figure: Any, path: str | os.PathLike[str]) -> Path:
    """Write a figure of matplotlib, whole or not at all; returns the path."""
    path = named_as(path, FIGURES)
    with replacing(path) as draft:
        figure.savefig(draft, dpi=200)
    return path
