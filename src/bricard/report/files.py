"""Files appear whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from bricard.errors import ModelError


@contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """A path to write to; what was written there takes the place of `path` at the end, if nothing failed."""
    path = Path(path)
    # Beside the goal, so that the last step is a rename; of the same suffix, since some writers go by it.
    draft = path.with_name(f".{path.stem}.{os.getpid()}{path.suffix}")
    check_writable(path)
    try:
        yield draft
        os.replace(draft, path)
    except OSError as error:
        raise ModelError(str(path), [f"cannot be written: {error.strerror or error}"]) from error
    finally:
        with suppress(OSError):
            draft.unlink()


def check_writable(path: str | Path) -> None:
    """Raise `ModelError` if a file cannot be put there; to be called before the work that it is to hold."""
    path = Path(path)
    problem = None
    if path.is_dir():
        problem = "it is a directory"
    elif not path.parent.is_dir():
        problem = f"there is no directory {path.parent}"
    elif not os.access(path.parent, os.W_OK):
        problem = f"no permission to write to {path.parent.absolute()}"
    if problem is not None:
        raise ModelError(str(path), [f"cannot be written: {problem}"])
