"""Mechanical systems under constraints: closed loops, redundant constraints, singular positions.

Importing bricard changes three settings of JAX, for the whole process: 64-bit floats, since constraints cannot be kept
in single precision; single-threaded linear algebra on the CPU, since XLA's thread pool can deadlock on vmapped programs
(matrices here are small, nothing is lost); and larger loops that XLA compiles as one piece (see `SMALL_LOOPS`). The
last two are left alone where the variable `XLA_FLAGS` sets `xla_cpu_multi_thread_eigen`, `xla_backend_extra_options`.
"""

import os
import sys
import types
from typing import Any

import lazy_loader

from bricard.collecting import no_collection

if "jax" in sys.modules:
    sys.modules["jax"].config.update("jax_enable_x64", True)
else:
    os.environ["JAX_ENABLE_X64"] = "1"  # read by JAX when it is imported
SMALL_LOOPS = 300_000
"""Loops whose rounds touch less memory than this (bytes) are compiled as one piece, without the 0.1 µs that XLA spends
on each of the hundred pieces of an evaluation otherwise; larger ones would take minutes to compile."""

for _flag, _value in (
    ("xla_cpu_multi_thread_eigen", "false"),
    ("xla_backend_extra_options", f"xla_cpu_small_while_loop_byte_threshold={SMALL_LOOPS}"),
):
    if _flag not in os.environ.get("XLA_FLAGS", ""):
        # Read when JAX starts its backend, which it does at the first array.
        os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + f" --{_flag}={_value}"

__version__ = "0.1.0"

# Names are imported when first used: JAX takes a second, which `bricard --help` should not.
_load, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> Any:
    with no_collection():
        return _load(name)


class _Package(types.ModuleType):
    def __setattr__(self, name: str, value: Any) -> None:
        # The function `simulate` goes before the subpackage of that name, whichever is imported first.
        if not (name == "simulate" and isinstance(value, types.ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
