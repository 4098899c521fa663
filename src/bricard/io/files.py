"""Text of a file that may come from anywhere: nothing in it is executed, and nothing else is read because of it."""

from __future__ import annotations

from pathlib import Path

from bricard.errors import ModelError

LARGEST_FILE = 10_000_000
"""Bytes; a description of a mechanism is smaller."""


def read_text(file: Path) -> str:
    """The text of a file in UTF-8 that is not too large to be a description."""
    if not file.is_file():
        raise ModelError(str(file), ["there is no such file"])
    size = file.stat().st_size
    if size > LARGEST_FILE:
        raise ModelError(str(file), [f"is too large to be a mechanism ({size / 1e6:.0f} MB)"])
    try:
        return file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ModelError(str(file), ["is not a text file in UTF-8"]) from error
