"""Caches attached to immutable objects, and methods that JAX traces once for all objects of one structure."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
from jax.core import Tracer

from bricard.execution.partition import Skeleton, partition


class _Cache(dict[str, Any]):
    """Values derived from one object. Not copied or pickled with its owner."""

    def __reduce__(self):
        return _Cache, ()


def cached(owner: eqx.Module, key: str, compute: Callable[[], Any]) -> Any:
    """Return `compute()`, evaluated once per `owner` and `key`.

    Equinox modules are immutable, so the value stays valid. `functools.cached_property` cannot write to them, and a
    method would pay for the wrapping that equinox adds to each call.
    """
    cache = vars(owner).setdefault("_cache", _Cache())
    if key not in cache:
        cache[key] = compute()
    return cache[key]


def trace_cached(method: Callable[..., Any]) -> Callable[..., Any]:
    """Make a method of a pytree traced once for all objects that differ only in the values of their arrays.

    Inside a traced program the cached operations are inlined, and so are those of derivatives and batches. Outside of
    traced programs the method runs as it is. It must be a pure function of the object and its arguments.
    """

    @functools.wraps(method)
    def call(self: Any, *arguments: Any, **keywords: Any) -> Any:
        if keywords or not any(isinstance(x, Tracer) for x in arguments):
            return method(self, *arguments, **keywords)
        try:
            skeleton, arrays = cached_partition(self)
        except TypeError:  # a static field that cannot be hashed
            return method(self, *arguments)
        if not all(isinstance(x, jax.Array) for x in arrays):  # the method may need the values of NumPy arrays
            return method(self, *arguments)
        return _inlined(method, skeleton, arrays, arguments)

    return call


@functools.partial(jax.jit, static_argnums=(0, 1), inline=True)
def _inlined(
    method: Callable[..., Any], skeleton: Skeleton, arrays: tuple[jax.Array, ...], arguments: tuple[Any, ...]
) -> Any:
    return method(skeleton.combine(arrays), *arguments)


def cached_partition(value: Any) -> tuple[Skeleton, tuple[Any, ...]]:
    """`partition(value)`, cached for modules."""
    return cached(value, "partition", lambda: partition(value)) if isinstance(value, eqx.Module) else partition(value)


def contains_no_tracer(*values: Any) -> bool:
    """True if no argument contains a tracer. Like `bricard.errors.is_concrete`, but modules are inspected once."""
    return not any(isinstance(x, Tracer) for value in values for x in _arrays(value))


def _arrays(value: Any) -> Any:
    if isinstance(value, (jax.Array, float)):
        return (value,)
    try:
        return cached_partition(value)[1]
    except TypeError:  # a static field that cannot be hashed
        return jax.tree.leaves(value)
