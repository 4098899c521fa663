"""Mechanical systems under constraints: closed loops, redundant constraints, singular positions.

Importing bricard changes two settings of JAX, for the whole process: 64-bit floats, since constraints cannot be kept
in single precision; and single-threaded linear algebra on the CPU, since XLA's thread pool can deadlock on vmapped
programs (matrices here are small, nothing is lost; set `XLA_FLAGS=--xla_cpu_multi_thread_eigen=true` to keep it).
"""

import os
import sys
import types
from typing import Any

import lazy_loader

if "jax" in sys.modules:
    sys.modules["jax"].config.update("jax_enable_x64", True)
else:
    os.environ["JAX_ENABLE_X64"] = "1"  # read by JAX when it is imported
if "xla_cpu_multi_thread_eigen" not in os.environ.get("XLA_FLAGS", ""):
    # Read when JAX starts its backend, which it does at the first array.
    os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_cpu_multi_thread_eigen=false"

__version__ = "0.1.0"

# Names are imported when first used: JAX takes a second, which `bricard --help` should not.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


class _Package(types.ModuleType):
    def __setattr__(self, name: str, value: Any) -> None:
        # The function `simulate` goes before the subpackage of that name, whichever is imported first.
        if not (name == "simulate" and isinstance(value, types.ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
