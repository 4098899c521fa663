"""Switches JAX to 64-bit floats without importing it. Constraints cannot be satisfied in single precision.

`import bricard` must set the precision before a user creates the first array, but importing JAX takes a second, which
`bricard --help` and shell completion should not wait for.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
import types
from collections.abc import Sequence


def enable_64_bit_floats() -> None:
    """Switch JAX to 64-bit floats: now if it is imported already, otherwise as soon as it is."""
    if "jax" in sys.modules:
        sys.modules["jax"].config.update("jax_enable_x64", True)
    else:
        sys.meta_path.insert(0, _WhenJaxIsImported())


class _WhenJaxIsImported(importlib.abc.MetaPathFinder):
    """Import hook: finds JAX as usual and sets the precision once it is loaded."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name != "jax":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec("jax")
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader)
        return spec


class _Loader(importlib.abc.Loader):
    def __init__(self, loader: importlib.abc.Loader):
        self._loader = loader

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: types.ModuleType) -> None:
        self._loader.exec_module(module)
        module.config.update("jax_enable_x64", True)
