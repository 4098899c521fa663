"""The stop flag: a word of memory that compiled loops check, so that they can be ended early.

`stop_requested` reads it inside a traced program. LLVM programs load the word directly; XLA programs call an FFI
handler of a few instructions, which takes about 0.1 µs.
"""

from __future__ import annotations

import ctypes
import functools
from typing import Any

import jax
import jax.numpy as jnp
import llvmlite.binding as llvm
import numpy as np
from jaxtyping import Array, Bool

FLAG = np.zeros(2, dtype=np.int64)
"""`FLAG[STOP]` is set to end loops; `FLAG[STARTED]` is set once a compiled loop runs."""
STOP, STARTED = 0, 1

TARGET = "bricard_stop_requested"

# Offsets are those of `xla/ffi/api/c_api.h`. A call with a metadata extension asks for the version of the interface.
_HANDLER = """
define ptr @handler(ptr %frame) {{
entry:
  %extension_at = getelementptr i8, ptr %frame, i64 8
  %extension = load ptr, ptr %extension_at
  %plain = icmp eq ptr %extension, null
  br i1 %plain, label %answer, label %extended
extended:
  %kind_at = getelementptr i8, ptr %extension, i64 8
  %kind = load i32, ptr %kind_at
  %is_metadata = icmp eq i32 %kind, 1
  br i1 %is_metadata, label %metadata, label %answer
metadata:
  %data_at = getelementptr i8, ptr %extension, i64 24
  %data = load ptr, ptr %data_at
  %major = getelementptr i8, ptr %data, i64 24
  store i32 0, ptr %major
  %minor = getelementptr i8, ptr %data, i64 28
  store i32 1, ptr %minor
  %traits = getelementptr i8, ptr %data, i64 32
  store i32 0, ptr %traits
  ret ptr null
answer:
  %results_at = getelementptr i8, ptr %frame, i64 112
  %results = load ptr, ptr %results_at
  %buffer = load ptr, ptr %results
  %out_at = getelementptr i8, ptr %buffer, i64 24
  %out = load ptr, ptr %out_at
  %flag = inttoptr i64 {flag} to ptr
  %word = load volatile i64, ptr %flag
  %set = icmp ne i64 %word, 0
  %byte = zext i1 %set to i8
  store i8 %byte, ptr %out
  %started = getelementptr i64, ptr %flag, i64 1
  store volatile i64 1, ptr %started
  ret ptr null
}}
"""


def stop_requested(at: Any) -> Bool[Array, ""]:
    """True if loops should end. `at` must change in each iteration, otherwise XLA may call the handler only once."""
    if not _registered():
        return jnp.asarray(False)
    call_handler = jax.ffi.ffi_call(TARGET, jax.ShapeDtypeStruct((), np.dtype(bool)), vmap_method="sequential")
    return call_handler(jax.lax.stop_gradient(at))


@functools.cache
def _registered() -> bool:
    """Register the handler with XLA. Returns False if that fails; runs then cannot be stopped early."""
    if jax.default_backend() != "cpu" or ctypes.sizeof(ctypes.c_void_p) != 8:
        return False
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine(jit=True)
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(_HANDLER.format(flag=FLAG.ctypes.data)), machine)
    engine.finalize_object()
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    try:
        jax.ffi.register_ffi_target(TARGET, new(engine.get_function_address("handler"), None, None), platform="cpu")
    except Exception:  # XLA has another version of the interface
        return False
    _ENGINES.append(engine)
    return True


_ENGINES: list[Any] = []
"""Keeps the machine code alive."""
