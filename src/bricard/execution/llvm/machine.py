"""Compilation of LLVM assembly to machine code that can be called, with a cache on disk."""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import llvmlite
import llvmlite.binding as llvm

MODULE_HEADER = """target triple = "{triple}"
{functions}
declare double @nextafter(double, double)
{conversions}
declare i64 @llvm.ctpop.i64(i64)
declare i64 @llvm.ctlz.i64(i64, i1)
declare void @llvm.memmove.p0.p0.i64(ptr, ptr, i64, i1)
define void @run({parameters}) {{
entry:
"""
UNARY = (
    *("sqrt", "fabs", "floor", "ceil", "round", "roundeven", "exp", "log"),
    *("sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh"),
)
BINARY = ("pow", "atan2", "maximum", "minimum")
"""Intrinsics of one double (`UNARY`) and of two (`BINARY`)."""


@functools.cache
def _target() -> tuple[Any, dict[str, str], str]:
    """LLVM target, processor options, and a description of both for the cache key."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    triple = llvm.get_default_triple()
    processor = {"cpu": llvm.get_host_cpu_name(), "features": llvm.get_host_cpu_features().flatten()}
    return llvm.Target.from_triple(triple), processor, f"{triple} {processor} {llvmlite.__version__}"


class Function:
    """A compiled function; `call` takes memory addresses."""

    def __init__(self, lines: Sequence[str], parameters: Sequence[str]):
        target, processor, description = _target()
        declared = [f"declare double @llvm.{name}.f64(double)" for name in UNARY]
        declared += [f"declare double @llvm.{name}.f64(double, double)" for name in BINARY]
        conversions = [
            f"declare i{bits} @llvm.fpto{conversion}.sat.i{bits}.f64(double)"
            for conversion in ("si", "ui")
            for bits in (8, 16, 32, 64)
        ]
        head = MODULE_HEADER.format(
            triple=target.triple,
            conversions="\n".join(conversions),
            functions="\n".join(declared),
            parameters=", ".join(f"ptr noalias {name}" for name in parameters),
        )
        text = head + "\n".join(lines) + "\nret void\n}\n"
        # Higher optimisation levels take longer and gain nothing: the instructions are already folded and hoisted.
        # Without loops each instruction runs once, which does not repay any optimisation.
        level = int(any(" phi " in line for line in lines))
        machine = target.create_target_machine(**processor, opt=level, jit=True)
        self._engine = llvm.create_mcjit_compiler(llvm.parse_assembly(text), machine)
        folder = _cache_folder()
        if folder is not None:
            object_file = _ObjectFile(folder / f"bricard-{hashlib.sha256((description + text).encode()).hexdigest()}")
            self._engine.set_object_cache(object_file.write, object_file.read)
        self._engine.finalize_object()
        call = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * len(parameters))
        self.call = call(self._engine.get_function_address("run"))


def _cache_folder() -> Path | None:
    """The compilation cache of JAX, if it is enabled and a local folder; otherwise None."""
    config: Any = jax.config
    folder = config.jax_compilation_cache_dir if config.jax_enable_compilation_cache else None
    return None if not folder or "://" in folder else Path(folder)


class _ObjectFile:
    """Machine code in a cache file, preceded by its checksum. If the file is unusable, LLVM compiles again."""

    def __init__(self, path: Path):
        self._path = path

    def read(self, module: Any) -> bytes | None:
        try:
            content = self._path.read_bytes()
        except OSError:
            return None
        checksum, code = content[:32], content[32:]
        return code if hashlib.sha256(code).digest() == checksum else None

    def write(self, module: Any, code: bytes) -> None:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=self._path.parent, delete=False) as file:
                file.write(hashlib.sha256(code).digest() + code)
            os.replace(file.name, self._path)  # atomic, also with concurrent writers
        except OSError:
            return
