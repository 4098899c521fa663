"""`compiled(function)`: machine code for a traced function, by LLVM where the program is small, by XLA otherwise.

The two back ends compute the same numbers up to rounding. LLVM compiles small programs in a fraction of the time and
runs them several times faster; XLA handles every program, batches and derivatives. Which one served a call, and why,
is reported to `record_compilation`.
"""

from __future__ import annotations

import contextvars
import functools
import os
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeVar

import equinox as eqx
import jax
from jax.core import Tracer

from bricard.execution.cache import cached, cached_partition
from bricard.execution.garbage import paused_collection
from bricard.execution.llvm import Packed, Program, Unsupported, pack
from bricard.execution.partition import Skeleton

USE_LLVM = os.environ.get("BRICARD_LLVM", "1") != "0"
"""Whether small programs are compiled by LLVM. Set the environment variable `BRICARD_LLVM=0` to use XLA alone."""

MAX_ZERO_PATTERNS = 4
"""Number of programs that are specialised to the zeros among the parameters of a model; further models share one."""

MAX_ALARMS = 3
"""Number of alarms (`bricard.execution.llvm.guards`) after which a program is abandoned in favour of XLA."""

MAX_PROGRAMS = 256
"""Number of LLVM programs kept per function. The oldest is dropped: a caller may pass a new controller each time."""

XLA_OPTIONS: dict[str, bool | int | str] = {"xla_cpu_multi_thread_eigen": False}
"""Options of every program compiled by XLA. The matrices here are small: threads would only wait for each other."""


F = TypeVar("F", bound=Callable[..., Any])


# -- which back end was used -------------------------------------------------------------------------------------------


class Compilation(NamedTuple):
    """The back end of one call of a compiled function."""

    function: str
    back_end: str
    """`"LLVM"` or `"XLA"`."""
    reason: str
    """Why LLVM was not used; empty if it was."""


class Record:
    """The calls of compiled functions while the record was open, and the time spent compiling."""

    def __init__(self) -> None:
        self.calls: list[Compilation] = []
        self.seconds = 0.0
        """Time to trace, lower and compile (s); zero if every program was compiled before."""

    def of(self, function: str) -> Compilation | None:
        """The last call of the function of this name."""
        return next((call for call in reversed(self.calls) if call.function == function), None)


_RECORDS: contextvars.ContextVar[tuple[Record, ...]] = contextvars.ContextVar("open compilation records", default=())


@contextmanager
def record_compilation() -> Iterator[Record]:
    """Collect in a `Record` which back end serves each compiled call inside the `with` block."""
    _listen_to_xla()
    record = Record()
    token = _RECORDS.set((*_RECORDS.get(), record))
    try:
        yield record
    finally:
        _RECORDS.reset(token)


def _note(function: str, back_end: str, reason: str = "") -> None:
    for record in _RECORDS.get():
        record.calls.append(Compilation(function, back_end, reason))


def _note_seconds(seconds: float) -> None:
    for record in _RECORDS.get():
        record.seconds += seconds


@functools.cache
def _listen_to_xla() -> None:
    """Add XLA's compile times to the open records. JAX calls the listener in the thread that compiles."""

    def listen(event: str, duration_secs: float, **_: Any) -> None:
        if event in ("/jax/core/compile/jaxpr_to_mlir_module_duration", "/jax/core/compile/backend_compile_duration"):
            _note_seconds(duration_secs)

    jax.monitoring.register_event_duration_secs_listener(listen)


# -- compiled functions ------------------------------------------------------------------------------------------------


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a function for the skeletons of its arguments; it is called with their arrays and returns arrays.

    Like `equinox.filter_jit`, but modules are partitioned once instead of in each call, and small programs are
    compiled by LLVM; results are NumPy arrays then. The attribute `llvm` (`LLVMPrograms`) counts them.
    """

    def on_arrays(skeletons: tuple[Skeleton, ...], names: tuple[str, ...], arrays: list[tuple[Any, ...]]) -> Any:
        values = [skeleton.combine(x) for skeleton, x in zip(skeletons, arrays, strict=True)]
        positional = len(values) - len(names)
        return function(*values[:positional], **dict(zip(names, values[positional:], strict=True)))

    on_arrays.__name__ = function.__name__  # the name that JAX shows in logs and profiles
    traced = jax.jit(on_arrays, static_argnums=(0, 1))
    by_xla = functools.cache(lambda: jax.jit(on_arrays, static_argnums=(0, 1), compiler_options=xla_options()))
    by_llvm = LLVMPrograms(on_arrays)

    @functools.wraps(function)
    def call(*arguments: Any, **keywords: Any) -> Any:
        values = (*arguments, *keywords.values())
        parts = [cached_partition(x) for x in values]
        skeletons, arrays = tuple(skeleton for skeleton, _ in parts), [arrays for _, arrays in parts]
        if any(isinstance(x, Tracer) for group in arrays for x in group):
            return traced(skeletons, tuple(keywords), arrays)
        reason = "it is switched off"
        if USE_LLVM:
            results, reason = by_llvm(skeletons, tuple(keywords), arrays, values)
            if not reason:
                _note(function.__name__, "LLVM")
                return results
        _note(function.__name__, "XLA", reason)
        return by_xla()(skeletons, tuple(keywords), arrays)

    call.llvm = by_llvm  # pyright: ignore[reportAttributeAccessIssue]
    return call


def xla_jit(function: F) -> F:
    """Compile a function by XLA, for arguments and results of any kind: `equinox.filter_jit` with `XLA_OPTIONS`."""
    traced = eqx.filter_jit(function)
    jit: Any = eqx.filter_jit  # passes keyword arguments on to `jax.jit`, which its signature does not declare
    by_xla = functools.cache(lambda: jit(function, compiler_options=xla_options()))

    @functools.wraps(function)
    def call(*arguments: Any, **keywords: Any) -> Any:
        leaves = jax.tree.leaves((arguments, keywords))
        # JAX accepts compiler options at the outermost level only.
        run = traced if any(isinstance(x, Tracer) for x in leaves) else by_xla()
        return run(*arguments, **keywords)

    return call  # pyright: ignore[reportReturnType]


@functools.cache
def xla_options() -> dict[str, bool | int | str]:
    """The options in `XLA_OPTIONS` that the installed XLA supports."""
    supported: dict[str, bool | int | str] = {}
    for name, value in XLA_OPTIONS.items():
        try:
            jax.jit(lambda: 0, compiler_options={name: value}).lower().compile()
        except jax.errors.JaxRuntimeError:
            continue
        supported[name] = value
    return supported


class LLVMPrograms:
    """The LLVM programs of one function, and which of its calls need XLA."""

    def __init__(self, function: Callable[..., Any]):
        self._function = function
        self._programs: dict[Any, tuple[Program, Any] | str] = {}
        """For each kind of call, the program and the structure of its results, or why there is none."""
        self._alarms: dict[Any, int] = {}
        self._patterns: dict[Any, int] = {}

    @property
    def count(self) -> int:
        """Number of programs that LLVM compiled."""
        return sum(not isinstance(found, str) for found in self._programs.values())

    def __call__(
        self,
        skeletons: tuple[Skeleton, ...],
        names: tuple[str, ...],
        arrays: list[tuple[Any, ...]],
        values: Sequence[Any],
    ) -> tuple[Any, str]:
        """The results and an empty string, or None and the reason why XLA has to compute them."""
        try:
            groups = [_packed(value, group) for value, group in zip(values, arrays, strict=True)]
        except Unsupported as reason:
            return None, str(reason)
        kind = (skeletons, names, tuple(g.signature for g in groups))
        key = (kind, tuple(g.zeros for g in groups))
        if key not in self._programs and self._patterns.get(kind, 0) >= MAX_ZERO_PATTERNS:
            groups = [g._replace(zeros=None) for g in groups]
            key = (kind, tuple(g.zeros for g in groups))
        if key not in self._programs:
            if len(self._programs) >= MAX_PROGRAMS:
                self._programs.pop(next(iter(self._programs)))
            self._patterns[kind] = self._patterns.get(kind, 0) + 1
            started = time.perf_counter()
            self._programs[key] = self._compile(skeletons, names, arrays, groups)
            _note_seconds(time.perf_counter() - started)
        found = self._programs[key]
        if isinstance(found, str):
            return None, found
        program, tree = found
        results = program(groups)
        if results is not None:
            return jax.tree.unflatten(tree, results), ""
        self._alarms[key] = self._alarms.get(key, 0) + 1
        reason = "a value that the program assumes to be finite was not"
        if self._alarms[key] >= MAX_ALARMS:
            self._programs[key] = reason
        return None, reason

    def _compile(self, skeletons: Any, names: Any, arrays: Any, groups: list[Packed]) -> tuple[Program, Any] | str:
        token = _TRACING_FOR_LLVM.set(True)
        try:
            with paused_collection():
                trace = jax.make_jaxpr(functools.partial(self._function, skeletons, names), return_shape=True)
                closed, shapes = trace(arrays)
        except Unsupported as reason:
            return str(reason)
        finally:
            _TRACING_FOR_LLVM.reset(token)
        try:
            with paused_collection():
                return Program(closed, groups), jax.tree.structure(shapes)
        except Unsupported as reason:
            return str(reason)
        except Exception as error:  # any failure of the back end: XLA still serves the user
            warnings.warn(f"The LLVM back end failed and XLA is used. Please report it: {error!r}", stacklevel=5)
            return f"it failed: {error!r}"


_TRACING_FOR_LLVM: contextvars.ContextVar[bool] = contextvars.ContextVar("tracing for LLVM", default=False)


def tracing_for_llvm() -> bool:
    """True while a program is traced for LLVM, which needs none of the transformations that speed XLA up.

    For use inside `bricard.execution` only.
    """
    return _TRACING_FOR_LLVM.get()


def _packed(value: Any, arrays: tuple[Any, ...]) -> Packed:
    """The arrays of an argument in one buffer; cached for modules, whose parameters are also searched for zeros."""
    if not isinstance(value, eqx.Module):
        return pack(arrays)
    if not all(isinstance(x, jax.Array) for x in arrays):  # the contents of NumPy arrays may change
        return pack(arrays, find_zeros=True)
    return cached(value, "packed", lambda: pack(arrays, find_zeros=True))
