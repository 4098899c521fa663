"""Estimate of the free memory, and a check that an allocation fits before it is made."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from bricard.errors import ModelError

USABLE_FRACTION = 0.8
"""Fraction of the free memory that one run may use."""
UNCHECKED = 1e8
"""Bytes; smaller requests are not checked."""
LARGEST_REQUEST = 10**30
"""Bytes; larger requests are clipped to this, since they may exceed the range of floats."""
ASSUMED_FREE = 8e9
"""Bytes assumed to be free if the operating system does not report it."""


def free_memory() -> float:
    """Bytes that can be used without swapping, within the limits of a container."""
    found = []
    with suppress(OSError, ValueError, IndexError):
        lines = Path("/proc/meminfo").read_text().splitlines()
        found += [1024.0 * int(x.split()[1]) for x in lines if x.startswith("MemAvailable:")]
    if not found:
        with suppress(AttributeError, OSError, ValueError):
            found.append(float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")))
    with suppress(OSError, ValueError):  # control groups of Linux; "max" where there is no limit
        limit, used = (float(Path(f"/sys/fs/cgroup/memory.{x}").read_text()) for x in ("max", "current"))
        found.append(max(limit - used, 0.0))
    return min((x for x in found if x > 0), default=ASSUMED_FREE)


def check_memory(subject: str, needed: int | float, what: str, advice: str) -> None:
    """Raise `ModelError` with `advice` if `what` needs more bytes than may be used."""
    if needed < UNCHECKED:
        return
    needed = float(min(needed, LARGEST_REQUEST))
    free = free_memory()
    if needed > USABLE_FRACTION * free:
        raise ModelError(
            subject, [f"{what} would take {in_bytes(needed)} of memory, of which {in_bytes(free)} are free: {advice}"]
        )


def in_bytes(size: float) -> str:
    """A size in bytes as text, such as "1.2 GB"."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} TB"
