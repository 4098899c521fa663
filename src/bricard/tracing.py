"""What JAX does once for all objects that differ in their arrays only: tracing methods, compiling functions."""

from __future__ import annotations

import contextvars
import functools
import os
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jax.core import Tracer

from bricard.collecting import no_collection
from bricard.native import Packed, Program, Unsupported, pack

NATIVE = os.environ.get("BRICARD_NATIVE", "1") != "0"
"""Whether small programs are compiled by `bricard.native`; the variable `BRICARD_NATIVE=0` leaves all to XLA."""
MOST_PATTERNS = 4
"""So many programs are made for models that differ in which of their parameters are zero, then one for all."""

MOST_ALARMS = 3
"""So often the guards of a program (`bricard.native.guards`) may send its work to XLA, then all of it goes there."""

MOST_PROGRAMS = 256
"""So many programs of a function are kept, then the oldest is forgotten: one that is made anew for each call, by a
controller that is a new function each time, must not fill the memory."""


class _Known(dict[str, Any]):
    """What was found out about an object; a copy of the object finds it out by itself."""

    def __reduce__(self):
        return _Known, ()


def remembered(thing: eqx.Module, what: str, find: Callable[[], Any]) -> Any:
    """What `find` says about an object, asked once: modules do not change. A method would take equinox longer."""
    known = vars(thing).setdefault("_known", _Known())
    if what not in known:
        known[what] = find()
    return known[what]


class _Array:
    """Stands for an array among the leaves of an object."""


class Shell:
    """All of an object but its arrays: what a program is made for."""

    __slots__ = ("_hash", "leaves", "tree")

    def __init__(self, tree: Any, leaves: tuple[Any, ...]):
        self.tree, self.leaves = tree, leaves
        self._hash = hash((tree, leaves))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:  # mostly so, and far cheaper than to compare what is inside
            return True
        return isinstance(other, Shell) and (self._hash, self.leaves, self.tree) == (
            other._hash,
            other.leaves,
            other.tree,
        )

    def filled(self, arrays: tuple[Any, ...]) -> Any:
        """The object with these arrays."""
        rest = iter(arrays)
        return jax.tree.unflatten(self.tree, [next(rest) if x is _Array else x for x in self.leaves])


def taken_apart(thing: Any) -> tuple[Shell, tuple[Any, ...]]:
    """The shell of an object and its arrays; for a module it is found once. `TypeError` if a part has no hash."""
    return (
        remembered(thing, "parts", lambda: _take_apart(thing)) if isinstance(thing, eqx.Module) else _take_apart(thing)
    )


def _take_apart(thing: Any) -> tuple[Shell, tuple[Any, ...]]:
    leaves, tree = jax.tree.flatten(thing)
    is_array = [isinstance(x, (jax.Array, np.ndarray, np.generic)) for x in leaves]
    arrays = tuple(x for x, held in zip(leaves, is_array, strict=True) if held)
    return Shell(tree, tuple(_Array if held else x for x, held in zip(leaves, is_array, strict=True))), arrays


def can_be_looked_at(*things: Any) -> bool:
    """Whether JAX is tracing none of them; as `is_concrete`, but modules are looked at once."""
    return not any(isinstance(x, Tracer) for thing in things for x in _arrays(thing))


def _arrays(thing: Any) -> Any:
    if isinstance(thing, (np.ndarray, jax.Array, float)):
        return (thing,)
    try:
        return taken_apart(thing)[1]
    except TypeError:  # a part with nothing to recognise it by
        return jax.tree.leaves(thing)


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that is compiled for the shells of its arguments and called with their arrays; returns arrays only.

    Does what `equinox.filter_jit` does, but looks at each module once and not in each call; and where it can, by
    `bricard.native` in place of XLA: results are NumPy's then. Its attribute `native` (`NativePrograms`) knows.
    """

    def plain(shells: tuple[Shell, ...], names: tuple[str, ...], arrays: list[tuple[Any, ...]]) -> Any:
        values = [shell.filled(x) for shell, x in zip(shells, arrays, strict=True)]
        unnamed = len(values) - len(names)
        return function(*values[:unnamed], **dict(zip(names, values[unnamed:], strict=True)))

    plain.__name__ = function.__name__  # as JAX calls it
    program = jax.jit(plain, static_argnums=(0, 1))
    native = NativePrograms(plain)

    @functools.wraps(function)
    def call(*arguments: Any, **named: Any) -> Any:
        values = (*arguments, *named.values())
        parts = [taken_apart(x) for x in values]
        shells, arrays = tuple(shell for shell, _ in parts), [arrays for _, arrays in parts]
        if NATIVE and not any(isinstance(x, Tracer) for group in arrays for x in group):
            known = native.find(shells, tuple(named), arrays, values)
            found = None if known is None else known()
            if found is not None:
                return found[0]
        return program(shells, tuple(named), arrays)

    call.native = native  # pyright: ignore[reportAttributeAccessIssue]
    return call


class NativePrograms:
    """What was compiled to machine code of one function, and what could not be."""

    def __init__(self, function: Callable[..., Any]):
        self._function = function
        self._found: dict[Any, tuple[Program, Any] | None] = {}
        self._alarms: dict[Any, int] = {}
        self._patterns: dict[Any, int] = {}

    @property
    def made(self) -> int:
        """How many were compiled."""
        return sum(found is not None for found in self._found.values())

    def find(
        self, shells: tuple[Shell, ...], names: tuple[str, ...], arrays: list[tuple[Any, ...]], values: Sequence[Any]
    ) -> Callable[[], tuple[Any] | None] | None:
        """The call, or None if it is one for XLA; its result in a tuple, or None if XLA has to find that."""
        try:
            groups = [_packed(value, group) for value, group in zip(values, arrays, strict=True)]
        except Unsupported:
            return None
        kind = (shells, names, tuple(g.signature for g in groups))
        if self._patterns.get(kind, 0) >= MOST_PATTERNS:
            groups = [g._replace(zeros=None) for g in groups]
        key = (kind, tuple(g.zeros for g in groups))
        if key not in self._found:
            if len(self._found) >= MOST_PROGRAMS:
                self._found.pop(next(iter(self._found)))
            self._patterns[kind] = self._patterns.get(kind, 0) + 1
            self._found[key] = self._compile(shells, names, arrays, groups)
        found = self._found[key]
        if found is None:
            return None
        run, tree = found

        def call() -> tuple[Any] | None:
            results = run(groups)
            if results is not None:
                return (jax.tree.unflatten(tree, results),)
            self._alarms[key] = self._alarms.get(key, 0) + 1
            if self._alarms[key] >= MOST_ALARMS:
                self._found[key] = None
            return None

        return call

    def _compile(self, shells: Any, names: Any, arrays: Any, groups: list[Packed]) -> tuple[Program, Any] | None:
        token = _FOR_LLVM.set(True)
        try:
            with no_collection():
                trace = jax.make_jaxpr(functools.partial(self._function, shells, names), return_shape=True)
                closed, shapes = trace(arrays)
        except Unsupported:
            return None
        finally:
            _FOR_LLVM.reset(token)
        try:
            with no_collection():
                return Program(closed, groups), jax.tree.structure(shapes)
        except Unsupported:
            return None
        except Exception as error:  # whatever it is, a user is better served by XLA
            warnings.warn(f"bricard.native failed, XLA takes over. Please report it: {error!r}", stacklevel=4)
            return None


_FOR_LLVM: contextvars.ContextVar[bool] = contextvars.ContextVar("whether a program is traced for LLVM", default=False)


def for_llvm() -> bool:
    """Whether what is traced now goes to `bricard.native`, which needs no help to leave out work."""
    return _FOR_LLVM.get()


def _packed(value: Any, arrays: tuple[Any, ...]) -> Packed:
    """Ready to be handed over; parameters of a module, which does not change, are looked at once, for zeros too."""
    if not isinstance(value, eqx.Module):
        return pack(arrays)
    if not all(isinstance(x, jax.Array) for x in arrays):  # NumPy's may be written over
        return pack(arrays, find_zeros=True)
    return remembered(value, "packed", lambda: pack(arrays, find_zeros=True))


def traced_once(method: Callable[..., Any]) -> Callable[..., Any]:
    """A method of a pytree that is traced once for all objects that differ in their arrays only.

    Within a program the operations that were found then are put in again, and so are those of its derivatives and
    batches; outside of programs nothing changes. The method must be a function of the object and its arguments alone.
    """

    @functools.wraps(method)
    def call(self: Any, *arguments: Any, **named: Any) -> Any:
        if named or not any(isinstance(x, Tracer) for x in arguments):
            return method(self, *arguments, **named)
        try:
            shell, arrays = taken_apart(self)
        except TypeError:  # a parameter with nothing to recognise it by
            return method(self, *arguments)
        if not all(isinstance(x, jax.Array) for x in arrays):  # NumPy's may be there to be looked at
            return method(self, *arguments)
        return _run(method, shell, arrays, arguments)

    return call


@functools.partial(jax.jit, static_argnums=(0, 1), inline=True)
def _run(method: Callable[..., Any], shell: Shell, arrays: tuple[jax.Array, ...], arguments: tuple[Any, ...]) -> Any:
    return method(shell.filled(arrays), *arguments)
