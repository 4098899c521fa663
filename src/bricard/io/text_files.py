"""Reading of untrusted text files, with a bound on their size."""

from __future__ import annotations

from pathlib import Path

from bricard.errors import ModelError

LARGEST_FILE = 10_000_000
"""Largest accepted file size in bytes; model files are smaller."""

LARGEST_NUMBER = 1e100
"""Bound on the magnitude of numbers in a file, in SI units; products of three such numbers are still finite."""


def read_text(file: Path) -> str:
    """Return the text of a UTF-8 file of at most `LARGEST_FILE` bytes; raise a `ModelError` if it cannot be read."""
    try:
        if not file.is_file():
            raise ModelError(str(file), ["it is not a file" if file.exists() else "there is no such file"])
        with file.open("rb") as opened:
            content = opened.read(LARGEST_FILE + 1)
        if len(content) > LARGEST_FILE:
            size = max(file.stat().st_size, len(content))
            limit = f"the limit is {LARGEST_FILE / 1e6:.0f} MB"
            raise ModelError(str(file), [f"the file is too large ({size / 1e6:.0f} MB; {limit})"])
    except OSError as error:
        raise ModelError(str(file), [f"cannot be read: {error.strerror or error}"]) from error
    except ValueError as error:
        if isinstance(error, ModelError):
            raise
        raise ModelError(repr(str(file)), ["is not a valid file name"]) from error  # it contains a null character
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ModelError(str(file), ["the file is not UTF-8 text"]) from error
