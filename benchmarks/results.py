"""Results as files: one JSON per part, with what it ran on; and whether new ones are worse."""

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
"""A ratio may be this many times worse than the stored one: what two runs on one machine may differ by."""


def machine() -> dict[str, Any]:
    """What it ran on: processor, cores and versions, and nothing that names the machine."""
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
    """Write one part."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{part}.json"
    text = json.dumps(_finite({"machine": machine(), **data}), indent=1, ensure_ascii=False)
    path.write_text(text + "\n")
    return path


def load(part: str, folder: Path = FOLDER) -> dict[str, Any] | None:
    """What is stored of a part, or None."""
    path = folder / f"{part}.json"
    return json.loads(path.read_text()) if path.exists() else None


def _finite(value: Any) -> Any:
    """JSON has no infinity: None instead. Four digits are plenty."""
    if isinstance(value, dict):
        return {k: _finite(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(v) for v in value]
    if isinstance(value, float):
        return float(f"{value:.4g}") if math.isfinite(value) else None
    return value


def worse(stored: dict[str, float], measured: dict[str, float], slack: float = SLACK) -> list[str]:
    """Which ratios (ours over a peer's in one run; less is better) grew by more than `slack`, in words.

    Only what both have is compared: times differ between machines, ratios much less.
    """
    return [
        f"{name}: {measured[name]:.3g} times the peer's, was {stored[name]:.3g}"
        for name in stored
        if name in measured and measured[name] > slack * stored[name]
    ]
