"""Registry of methods that another layer implements: `run.report(…)` calls a function in `bricard.report`.

An object calls `extension("report page")` and does not import the layer that implements it. `bricard/__init__.py`
registers the implementations, which are imported when first used.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any

_targets: dict[str, str] = {}


def register_extensions(targets: Mapping[str, str]) -> None:
    """Register implementations: name of the extension -> `"module:function"`."""
    _targets.update(targets)


def extension(name: str) -> Callable[..., Any]:
    """The function that implements the extension `name`."""
    module, function = _targets[name].split(":")
    return getattr(importlib.import_module(module), function)
