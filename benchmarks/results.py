"""Stored results, one JSON file per part with a description of the machine, and their comparison with new ones."""

from __future__ import annotations

import json
import math
import os
import platform
from importlib import metadata
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "results"
PACKAGES = ("jax", "jaxlib", "diffrax", "equinox", "numpy", "scipy", "mujoco", "pin", "exudyn")
SLACK = 1.5
"""Allowed growth of a ratio over the stored one, which covers the scatter between runs on one machine."""


def machine() -> dict[str, Any]:
    """Processor, cores, operating system and versions; nothing that identifies the machine."""
    import bricard

    versions = {"bricard": bricard.__version__}
    for package in PACKAGES:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "system": platform.system(),
        "python": platform.python_version(),
        "versions": versions,
    }


def _processor() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.split(":", 1)[1].strip() for line in text.splitlines() if line.startswith("model name")]
    return names[0] if names else platform.machine()


def save(part: str, data: dict[str, Any], folder: Path = FOLDER) -> Path:
    """Write the results of one part and return the path."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{part}.json"
    text = json.dumps(_finite({"machine": machine(), **data}), indent=1, ensure_ascii=False)
    path.write_text(text + "\n")
    return path


def load(part: str, folder: Path = FOLDER) -> dict[str, Any] | None:
    """Stored results of a part, or None."""
    path = folder / f"{part}.json"
    return json.loads(path.read_text()) if path.exists() else None


def _finite(value: Any) -> Any:
    """Replace non-finite floats by None, since JSON has no infinity, and round to four significant digits."""
    if isinstance(value, dict):
        return {k: _finite(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(v) for v in value]
    if isinstance(value, float):
        return float(f"{value:.4g}") if math.isfinite(value) else None
    return value


def worse(stored: dict[str, float], measured: dict[str, float], slack: float = SLACK) -> list[str]:
    """Messages for the ratios (time of bricard over time of the peer) that grew by more than the factor `slack`.

    Only measurements present in both results are compared.
    """
    return [
        f"{name}: {measured[name]:.3g} times the peer's time, was {stored[name]:.3g}"
        for name in stored
        if name in measured and measured[name] > slack * stored[name]
    ]
