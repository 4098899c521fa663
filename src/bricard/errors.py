"""What can go wrong, said once: exceptions, their advice, and the checks on what a user passes in."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array

if TYPE_CHECKING:
    from bricard.simulate.trajectory import Trajectory


class BricardError(Exception):
    """Every error that bricard raises on purpose."""


class ModelError(BricardError, ValueError):
    """A model or an argument that cannot be right; lists every problem found, not only the first."""

    def __init__(self, subject: str, problems: Sequence[str]):
        self.problems = tuple(problems)
        super().__init__(_listed(subject, problems))


class RankError(BricardError):
    """The constraints are dependent and the chosen route cannot handle that."""


class UndeterminedMotionError(BricardError):
    """The mass matrix is singular on motions that the constraints allow; names such a motion."""


class AssemblyError(BricardError):
    """No state near the guess meets the constraints.

    `residuals` maps each constraint to what is left of it, `q` and `v` are the nearest state found.
    """

    def __init__(self, message: str, *, residuals: dict[str, float], q: Array, v: Array):
        self.residuals, self.q, self.v = residuals, q, v
        super().__init__(message)


class SimulationError(BricardError):
    """A run that could not be finished. `trajectory` is what there is of it, until `t`."""

    def __init__(self, message: str, *, trajectory: Trajectory, t: float):
        self.trajectory, self.t = trajectory, t
        super().__init__(message)


class SimulationInterrupted(KeyboardInterrupt):
    """A run that was stopped by Ctrl-C. `trajectory` is what there is of it, until `t` (s)."""

    def __init__(self, message: str, trajectory: Trajectory, t: float):
        self.trajectory, self.t = trajectory, t
        super().__init__(message)


def _listed(subject: str, problems: Sequence[str]) -> str:
    if len(problems) == 1:
        return f"{subject}: {problems[0]}"
    return f"{subject}: {len(problems)} problems\n" + "\n".join(f"  - {p}" for p in problems)


def is_concrete(*values: Any) -> bool:
    """False while JAX is tracing (`jit`, `vmap`, `grad`): then values cannot be looked at."""
    return not any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(values))


F = TypeVar("F", bound=Callable[..., Any])

_TRACER_ERRORS = (
    jax.errors.ConcretizationTypeError,
    jax.errors.TracerArrayConversionError,
    jax.errors.TracerIntegerConversionError,
)


def needs_numbers(function: F) -> F:
    """A decorator: arguments that JAX is tracing and that must be known give a `ModelError`, not an error of JAX."""

    @functools.wraps(function)
    def checked(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except _TRACER_ERRORS as error:
            if is_concrete(args, kwargs):
                raise
            given = inspect.signature(function).bind(*args, **kwargs).arguments
            traced = ", ".join(name for name, value in given.items() if not is_concrete(value))
            name = function.__name__
            problem = f"needs numbers for {traced}, which JAX is tracing (jit, grad, vmap)"
            raise ModelError(name, [f"{problem}: call {name} outside of the traced function"]) from error

    return checked  # pyright: ignore[reportReturnType]


def as_vector(value: Any, size: int, name: str, labels: Sequence[str] = ()) -> Array:
    """`value` as a float64 array of shape (size,), or a `ModelError` that names what is wrong with it."""
    return jax.device_put(checked_vector(value, size, name, labels))  # as `jnp.asarray`, but faster


def checked_vector(value: Any, size: int, name: str, labels: Sequence[str] = ()) -> Array | np.ndarray:
    """As `as_vector`, but NumPy's unless JAX is tracing."""
    expected = f"{size} number{'' if size == 1 else 's'}" + (f" ({', '.join(labels)})" if labels else "")
    known = is_concrete(value)
    try:
        array = (np if known else jnp).asarray(value, dtype=float)  # NumPy is faster for few numbers
    except (TypeError, ValueError) as error:
        raise ModelError(name, [f"expected {expected}, got {value!r}"]) from error
    if array.shape != (size,):
        raise ModelError(name, [f"expected {expected}, got an array of shape {array.shape}"])
    if known and not np.all(np.isfinite(array)):
        bad = np.flatnonzero(~np.isfinite(array))
        where = ", ".join(labels[int(i)] if labels else str(i) for i in bad)
        raise ModelError(name, [f"not finite at {where}: {array}"])
    return array
