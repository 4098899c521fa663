"""Machine code from LLVM, and calling it."""

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

HEAD = """target triple = "{triple}"
{functions}
declare double @nextafter(double, double)
{conversions}
declare i64 @llvm.ctpop.i64(i64)
declare i64 @llvm.ctlz.i64(i64, i1)
declare void @llvm.memmove.p0.p0.i64(ptr, ptr, i64, i1)
define void @run({parameters}) {{
entry:
"""
ONE = (
    *("sqrt", "fabs", "floor", "ceil", "round", "roundeven", "exp", "log"),
    *("sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh"),
)
TWO = ("pow", "atan2", "maximum", "minimum")
"""Functions of one number and of two."""


@functools.cache
def _target() -> tuple[Any, dict[str, str], str]:
    """What this machine is, and all of it in one line."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    triple = llvm.get_default_triple()
    processor = {"cpu": llvm.get_host_cpu_name(), "features": llvm.get_host_cpu_features().flatten()}
    return llvm.Target.from_triple(triple), processor, f"{triple} {processor} {llvmlite.__version__}"


class Function:
    """Compiled code, to be called with addresses."""

    def __init__(self, lines: Sequence[str], parameters: Sequence[str]):
        target, processor, named = _target()
        declared = [f"declare double @llvm.{name}.f64(double)" for name in ONE]
        declared += [f"declare double @llvm.{name}.f64(double, double)" for name in TWO]
        conversions = [
            f"declare i{bits} @llvm.fpto{way}.sat.i{bits}.f64(double)"
            for way in ("si", "ui")
            for bits in (8, 16, 32, 64)
        ]
        head = HEAD.format(
            triple=target.triple,
            conversions="\n".join(conversions),
            functions="\n".join(declared),
            parameters=", ".join(f"ptr noalias {name}" for name in parameters),
        )
        text = head + "\n".join(lines) + "\nret void\n}\n"
        # More optimisation takes longer and gains nothing: what there was to leave out is left out already. Without
        # loops each instruction is done once, for which none is worth its time.
        level = int(any(" phi " in line for line in lines))
        machine = target.create_target_machine(**processor, opt=level, jit=True)
        self._engine = llvm.create_mcjit_compiler(llvm.parse_assembly(text), machine)
        folder = _folder()
        if folder is not None:
            kept = _Kept(folder / f"bricard-{hashlib.sha256((named + text).encode()).hexdigest()}")
            self._engine.set_object_cache(kept.write, kept.read)
        self._engine.finalize_object()
        call = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * len(parameters))
        self.call = call(self._engine.get_function_address("run"))


def _folder() -> Path | None:
    """Where JAX keeps compiled programs, if it does and if it is a folder here."""
    config: Any = jax.config
    folder = config.jax_compilation_cache_dir if config.jax_enable_compilation_cache else None
    return None if not folder or "://" in folder else Path(folder)


class _Kept:
    """Machine code in a file, its checksum first; whatever goes wrong with it, LLVM compiles again."""

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
            os.replace(file.name, self._path)  # all of it or nothing, whoever else writes
        except OSError:
            return
