"""What is to be controlled: a function of the configuration, a mechanism's sensor, or coordinates by name."""

from __future__ import annotations

import inspect
from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from bricard.errors import ModelError
from bricard.mechanism.coordinates.mechanism_system import MechanismSystem
from bricard.system import Scalar, System, Vector


class Output(eqx.Module):
    """`y(q, t)`, (p,), and what follows: `ẏ`, and `ÿ = J v̇ + drift`."""

    @property
    @abstractmethod
    def names(self) -> tuple[str, ...]:
        """One for each entry."""

    @abstractmethod
    def value(self, system: System, q: Vector, t: Scalar) -> Float[Array, " p"]:
        """`y`."""

    def rate(self, system: System, q: Vector, v: Vector, t: Scalar) -> Float[Array, " p"]:
        """`ẏ`."""
        t = jnp.asarray(t, dtype=float)
        along = (system.qdot(q, v), jnp.ones_like(t))
        return jax.jvp(lambda q, t: self.value(system, q, t), (q, t), along)[1]

    def jacobian(self, system: System, q: Vector, t: Scalar) -> Float[Array, "p nv"]:
        """`J = ∂ẏ/∂v`."""
        return jax.jacfwd(lambda v: self.rate(system, q, v, t))(jnp.zeros(system.nv))

    def drift(self, system: System, q: Vector, v: Vector, t: Scalar) -> Float[Array, " p"]:
        """`ÿ` at `v̇ = 0`."""
        t = jnp.asarray(t, dtype=float)
        along = (system.qdot(q, v), jnp.ones_like(t))
        return jax.jvp(lambda q, t: self.rate(system, q, v, t), (q, t), along)[1]


class Coordinates(Output):
    """Coordinates of the system."""

    labels: tuple[str, ...] = eqx.field(static=True)

    @property
    def names(self):
        return self.labels

    def value(self, system, q, t):
        return q[system.index(self.labels)]


class SensorOutput(Output):
    """What a sensor of a mechanism reads."""

    sensor: str = eqx.field(static=True)
    size: int = eqx.field(static=True)

    @property
    def names(self):
        return (self.sensor,) if self.size == 1 else tuple(f"{self.sensor} {'xyz'[i]}" for i in range(self.size))

    def value(self, system, q, t):
        assert isinstance(system, MechanismSystem)
        return jnp.atleast_1d(system.measure(q, jnp.zeros(system.nv))[self.sensor].value)

    def rate(self, system, q, v, t):
        # Sensors read rates too: less to compile than a derivative of all that places the bodies.
        assert isinstance(system, MechanismSystem)
        return jnp.atleast_1d(system.measure(q, v)[self.sensor].rate)


class FunctionOutput(Output):
    """A function of `q`, or of `q` and `t`."""

    function: Callable[..., Any]
    labels: tuple[str, ...] = eqx.field(static=True)
    timed: bool = eqx.field(static=True)

    @property
    def names(self):
        return self.labels

    def value(self, system, q, t):
        y = self.function(q, t) if self.timed else self.function(q)
        return jnp.atleast_1d(jnp.asarray(y, dtype=float))


class BlendedOutput(Output):
    """`κ` times one output and `1 − κ` times another."""

    first: Output
    second: Output
    kappa: Float[Array, ""]

    @property
    def names(self):
        return self.first.names

    def value(self, system, q, t):
        return self.kappa * self.first.value(system, q, t) + (1.0 - self.kappa) * self.second.value(system, q, t)


def make_output(system: System, task: Any, subject: str = "output") -> Output:
    """An output from what a user gives: a function `q -> y` or `(q, t) -> y`, a sensor's or coordinates' names."""
    if isinstance(task, Output):
        return task
    if isinstance(task, str) and task not in system.coordinates:
        return _sensor(system, task, subject)
    if isinstance(task, (str, list, tuple)):
        labels = (task,) if isinstance(task, str) else tuple(task)
        if not labels or not all(isinstance(x, str) for x in labels):
            raise ModelError(subject, [f"a function of q, a sensor's name or names of coordinates, not {task!r}"])
        system.index(labels)  # refuses unknown names
        return Coordinates(labels)
    if not callable(task):
        raise ModelError(subject, [f"a function of q, a sensor's name or names of coordinates, not {task!r}"])
    timed = _takes_time(task)
    arguments = (jnp.zeros(system.nq), jnp.zeros(())) if timed else (jnp.zeros(system.nq),)
    try:
        shape = jnp.shape(jax.eval_shape(task, *arguments))
    except Exception as error:
        raise ModelError(subject, [f"the output fails: {type(error).__name__}: {error}"]) from error
    if len(shape) > 1 or shape == (0,):
        raise ModelError(subject, [f"an output is one number or a vector, not an array of shape {shape}"])
    size = shape[0] if shape else 1
    name = getattr(task, "__name__", "output")
    name = "output" if name == "<lambda>" else name
    return FunctionOutput(task, (name,) if size == 1 else tuple(f"{name}[{i}]" for i in range(size)), timed)


def _sensor(system: System, name: str, subject: str) -> Output:
    state = (jnp.zeros(system.nq), jnp.zeros(system.nv))
    read = jax.eval_shape(system.measure, *state) if isinstance(system, MechanismSystem) else {}
    if name not in read:
        known = ", ".join([*system.coordinates, *read])
        raise ModelError(subject, [f"no coordinate or sensor called {name!r}; there are {known}"])
    shape = read[name].value.shape
    if len(shape) > 1:
        raise ModelError(subject, [f"sensor {name!r} reads a rotation matrix; use points of the body as outputs"])
    return SensorOutput(name, shape[0] if shape else 1)


def _takes_time(function: Callable[..., Any]) -> bool:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return False
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return len([p for p in positional if p.default is p.empty]) == 2
