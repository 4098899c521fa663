"""Methods that JAX traces once, instead of anew wherever a program asks for them, some fifty times in a run."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
from jax.core import Tracer


class _Array:
    """Stands for an array among the leaves of an object."""


class _Program(NamedTuple):
    """What of a call is the same whatever the numbers are."""

    method: Callable[..., Any]
    tree: Any
    leaves: tuple[Any, ...]


def traced_once(method: Callable[..., Any]) -> Callable[..., Any]:
    """A method of a pytree that is traced once for all objects that differ in their arrays only.

    Within a program the operations that were found then are put in again, and so are those of its derivatives and
    batches; outside of programs nothing changes. The method must be a function of the object and its arguments alone.
    """

    @functools.wraps(method)
    def call(self: Any, *arguments: Any, **named: Any) -> Any:
        if named or not any(isinstance(x, Tracer) for x in arguments):
            return method(self, *arguments, **named)
        leaves, tree = jax.tree.flatten(self)
        arrays = tuple(x for x in leaves if isinstance(x, jax.Array))
        program = _Program(method, tree, tuple(_Array if isinstance(x, jax.Array) else x for x in leaves))
        try:
            hash(program)
        except TypeError:  # a parameter that is a list or a NumPy array: nothing to recognise it by
            return method(self, *arguments)
        return _run(program, arrays, arguments)

    return call


@functools.partial(jax.jit, static_argnums=0, inline=True)
def _run(program: _Program, arrays: tuple[jax.Array, ...], arguments: tuple[Any, ...]) -> Any:
    rest = iter(arrays)
    leaves = [next(rest) if x is _Array else x for x in program.leaves]
    return program.method(jax.tree.unflatten(program.tree, leaves), *arguments)
