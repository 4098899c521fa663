"""Atomic writing of output files, with checks of their names."""

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
"""File name extensions of figures that matplotlib can write."""


def named_as(path: str | os.PathLike[str], kinds: Sequence[str]) -> Path:
    """Return `path` with an extension from `kinds`, such as `(".png", ".svg")`.

    A name without an extension gets the first of them; any other extension raises a `ModelError`.
    """
    path = Path(path)
    if not path.name or (not path.suffix and path.is_dir()):
        raise ModelError(str(path), ["cannot be written: it is a directory"])
    if not path.suffix:
        return path.with_name(path.name + kinds[0])
    if path.suffix.lower() not in kinds:
        raise ModelError(str(path), [f"the file name has to end in {' or '.join(kinds)}, not {path.suffix}"])
    return path


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Context manager for atomic writing: yields a temporary path that replaces `path` if the block succeeds.

    If the block raises, `path` keeps its old content and the temporary file is deleted.
    """
    path = Path(path)
    check_writable(path)
    target = Path(os.path.realpath(path))  # a symbolic link stays a link
    # In the same directory, so that the last step is a rename; with the same suffix, since some writers depend on it.
    draft = target.with_name(f".{target.stem[:100]}.{secrets.token_hex(6)}{target.suffix}")
    try:
        yield draft
        if target.exists():
            with suppress(OSError):
                shutil.copymode(target, draft)
        os.replace(draft, target)
    except OSError as error:
        raise ModelError(str(path), [f"cannot be written: {error.strerror or error}"]) from error
    finally:
        with suppress(OSError):
            draft.unlink()


def check_writable(path: str | os.PathLike[str]) -> None:
    """Raise a `ModelError` if `path` cannot be written. Call this before computing what the file will contain."""
    path = Path(path)
    problem = None
    try:
        if "\0" in str(path):
            problem = "its name contains a null character"
        elif path.is_dir():
            problem = "it is a directory"
        elif path.exists() and not path.is_file():
            problem = "it is not a file"
        elif not path.parent.is_dir():
            problem = f"the directory {path.parent} does not exist"
        elif not os.access(path.parent, os.W_OK):
            problem = f"there is no permission to write to {path.parent.absolute()}"
    except OSError as error:  # such as a name that is too long
        problem = error.strerror or str(error)
    if problem is not None:
        raise ModelError(str(path), [f"cannot be written: {problem}"])


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write `text` as UTF-8, atomically."""
    with replacing(path) as draft:
        draft.write_text(text, encoding="utf-8", newline="\n")


def save_figure(figure: Any, path: str | os.PathLike[str]) -> Path:
    """Write a matplotlib figure atomically and return its path, with the extension that was added if it had none."""
    path = named_as(path, FIGURES)
    with replacing(path) as draft:
        figure.savefig(draft, dpi=200)
    return path
