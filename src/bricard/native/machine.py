"""Machine code from LLVM, and calling it."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Sequence
from typing import Any

import llvmlite.binding as llvm

HEAD = """target triple = "{triple}"
{functions}
declare void @llvm.memmove.p0.p0.i64(ptr, ptr, i64, i1)
define void @run({parameters}) {{
entry:
"""
ONE, TWO = ("sqrt", "sin", "cos", "exp", "log", "floor", "ceil", "fabs"), ("pow", "maximum", "minimum")


@functools.cache
def _target() -> Any:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm.Target.from_default_triple()


class Function:
    """Compiled code, to be called with addresses."""

    def __init__(self, lines: Sequence[str], parameters: Sequence[str]):
        declared = [f"declare double @llvm.{name}.f64(double)" for name in ONE]
        declared += [f"declare double @llvm.{name}.f64(double, double)" for name in TWO]
        head = HEAD.format(
            triple=llvm.get_default_triple(),
            functions="\n".join(declared),
            parameters=", ".join(f"ptr noalias {name}" for name in parameters),
        )
        target = _target()
        module = llvm.parse_assembly(head + "\n".join(lines) + "\nret void\n}\n")
        machine = target.create_target_machine(
            cpu=llvm.get_host_cpu_name(), features=llvm.get_host_cpu_features().flatten(), opt=1, jit=True
        )
        self._engine = llvm.create_mcjit_compiler(module, machine)
        self._engine.finalize_object()
        call = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * len(parameters))
        self.call = call(self._engine.get_function_address("run"))
