"""Exceptions, and checks of the arguments that a user passes in."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array


class BricardError(Exception):
    """Base class of all errors that bricard raises deliberately."""


class ModelError(BricardError, ValueError):
    """A model or an argument is invalid.

    The message lists every problem found, not only the first; `problems` holds them one by one.
    """

    def __init__(self, subject: str, problems: Sequence[str]):
        self.problems = tuple(problems)
        super().__init__(_format_problems(subject, problems))


class RankError(BricardError):
    """The constraints are redundant and the chosen route cannot handle redundant constraints."""


class UndeterminedMotionError(BricardError):
    """The mass matrix is singular for a motion that the constraints allow; the message names this motion."""


class AssemblyError(BricardError):
    """No state near the initial guess satisfies the constraints.

    `residuals` maps the name of each constraint to its residual; `q` and `v` are the nearest state found.
    """

    def __init__(self, message: str, *, residuals: dict[str, float], q: Array, v: Array):
        self.residuals, self.q, self.v = residuals, q, v
        super().__init__(message)


class SimulationError(BricardError):
    """A simulation failed. `trajectory` holds the results up to the time `t` (s) of the failure."""

    def __init__(self, message: str, *, trajectory: Any, t: float):
        self.trajectory, self.t = trajectory, t
        super().__init__(message)


class SimulationInterrupted(KeyboardInterrupt):
    """A simulation was stopped by Ctrl-C. `trajectory` holds the results up to the time `t` (s)."""

    def __init__(self, message: str, trajectory: Any, t: float):
        self.trajectory, self.t = trajectory, t
        super().__init__(message)


def _format_problems(subject: str, problems: Sequence[str]) -> str:
    if len(problems) == 1:
        return f"{subject}: {problems[0]}"
    return f"{subject}: {len(problems)} problems\n" + "\n".join(f"  - {p}" for p in problems)


def is_concrete(*values: Any) -> bool:
    """True if no leaf of `values` is a JAX tracer, as inside `jit`, `vmap` or `grad`."""
    return not any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(values))


F = TypeVar("F", bound=Callable[..., Any])

_TRACER_ERRORS = (
    jax.errors.ConcretizationTypeError,
    jax.errors.TracerArrayConversionError,
    jax.errors.TracerIntegerConversionError,
)


def needs_numbers(function: F) -> F:
    """Decorate a function that needs concrete arguments: traced ones raise a `ModelError` that names them.

    Without it, JAX raises an error that does not name the argument.
    """

    @functools.wraps(function)
    def checked(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except _TRACER_ERRORS as error:
            if is_concrete(args, kwargs):
                raise
            arguments = inspect.signature(function).bind(*args, **kwargs).arguments
            traced = ", ".join(name for name, value in arguments.items() if not is_concrete(value))
            name = function.__name__
            problem = f"needs numbers for {traced}, which JAX is tracing (jit, grad, vmap)"
            raise ModelError(name, [f"{problem}: call {name} outside of the traced function"]) from error

    return checked  # pyright: ignore[reportReturnType]


def as_vector(value: Any, size: int, name: str, labels: Sequence[str] = ()) -> Array:
    """Return `value` as a float64 JAX array of shape (size,); raise a `ModelError` if it cannot be one.

    `name` and the `labels` of the entries appear in the message. Concrete values must be finite.
    """
    return jax.device_put(checked_vector(value, size, name, labels))  # faster than `jnp.asarray`


def checked_vector(value: Any, size: int, name: str, labels: Sequence[str] = ()) -> Array | np.ndarray:
    """Like `as_vector`, but returns a NumPy array unless `value` is traced."""
    expected = f"{size} number{'' if size == 1 else 's'}" + (f" ({', '.join(labels)})" if labels else "")
    concrete = is_concrete(value)
    try:
        array = (np if concrete else jnp).asarray(value, dtype=float)  # NumPy is faster for small arrays
    except (TypeError, ValueError) as error:
        raise ModelError(name, [f"expected {expected}, got {value!r}"]) from error
    if array.shape != (size,):
        raise ModelError(name, [f"expected {expected}, got an array of shape {array.shape}"])
    if concrete and not np.all(np.isfinite(array)):
        bad = np.flatnonzero(~np.isfinite(array))
        where = ", ".join(labels[int(i)] if labels else str(i) for i in bad)
        raise ModelError(name, [f"not finite at {where}: {array}"])
    return array
