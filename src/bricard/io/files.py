"""Text of a file that may come from anywhere: nothing in it is executed, and nothing else is read because of it."""

from __future__ import annotations

from pathlib import Path

from bricard.errors import ModelError

LARGEST_FILE = 10_000_000
"""Bytes; a description of a mechanism is smaller."""

LARGEST_NUMBER = 1e100
"""In SI units; products of three such numbers are still finite."""


def read_text(file: Path) -> str:
    """The text of a file in UTF-8 that is not too large to be a description."""
    try:
        if not file.is_file():
            raise ModelError(str(file), ["it is not a file" if file.exists() else "there is no such file"])
        with file.open("rb") as opened:
            content = opened.read(LARGEST_FILE + 1)
        if len(content) > LARGEST_FILE:
            size = max(file.stat().st_size, len(content))
            raise ModelError(str(file), [f"is too large to be a mechanism ({size / 1e6:.0f} MB)"])
    except OSError as error:
        raise ModelError(str(file), [f"cannot be read: {error.strerror or error}"]) from error
    except ValueError as error:
        if isinstance(error, ModelError):
            raise
        raise ModelError(repr(str(file)), ["is not the name of a file"]) from error  # a null character in it
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ModelError(str(file), ["is not a text file in UTF-8"]) from error
