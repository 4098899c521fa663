"""How much memory there is, asked before it is gone."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from bricard.errors import ModelError

USABLE = 0.8
"""Part of the free memory that one run may take."""
LITTLE = 1e8
"""Bytes that are there without asking."""
ENDLESS = 10**30
"""Bytes; larger numbers need not be distinguished."""
UNKNOWN = 8e9
"""Bytes that are taken to be free where the system does not say."""


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
    return min((x for x in found if x > 0), default=UNKNOWN)


def check_memory(subject: str, needed: int | float, what: str, advice: str) -> None:
    """Raise `ModelError` if `what` needs more bytes than can be had."""
    if needed < LITTLE:
        return
    needed = float(min(needed, ENDLESS))
    free = free_memory()
    if needed > USABLE * free:
        raise ModelError(
            subject, [f"{what} would take {in_bytes(needed)} of memory, of which {in_bytes(free)} are free: {advice}"]
        )


def in_bytes(size: float) -> str:
    """A size in words."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} TB"
