"""What drives a run: constant inputs, inputs over time, a feedback of the state, or a controller with memory."""

from __future__ import annotations

import types
from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Float

from bricard.errors import ModelError
from bricard.system import Numbers, Scalar, System, Vector, checked
from bricard.tracing import remembered

Memory = Any
"""A pytree of float arrays: integrals, estimates, held values; empty for a controller that needs none."""


class Controller(eqx.Module):
    """Inputs `u` (nu,) from time, state and memory: pure functions, so that runs can be vmapped and differentiated.

    A controller gives `__call__`. One with memory also gives `start`, and `rate` (memory that follows a differential
    equation, integrated with the motion) or `step` (memory that changes when a digital controller samples; used by
    `Sampled`).
    """

    def start(self, t: Scalar, q: Vector, v: Vector) -> Memory:
        """The memory at the start of a run."""
        return jnp.zeros(0)

    @abstractmethod
    def __call__(self, t: Scalar, q: Vector, v: Vector, memory: Memory) -> Vector:
        """The inputs."""

    def rate(self, t: Scalar, q: Vector, v: Vector, memory: Memory) -> Memory:
        """Time derivative of the memory."""
        return jax.tree.map(jnp.zeros_like, memory)

    def step(self, t: Scalar, q: Vector, v: Vector, memory: Memory, period: Scalar) -> tuple[Vector, Memory]:
        """One sample of a digital version: the inputs, and the memory `period` seconds later (explicit Euler)."""
        u, rate = self(t, q, v, memory), self.rate(t, q, v, memory)
        return u, jax.tree.map(lambda m, r: m + period * r, memory, rate)

    def check(self, t: Scalar, q: Vector, v: Vector) -> None:
        """Raise `ModelError` if the law cannot work at this state, such as an output that no input reaches."""
        return

    def signals(self, t: Scalar, q: Vector, v: Vector, memory: Memory) -> dict[str, Array]:
        """What the controller sees and wants, by name (`output`, `reference`, …): kept in the trajectory."""
        return {}

    def __str__(self) -> str:
        """Its kind, and that of the laws in it: `Sampled(Blended)`. `repr` says all."""
        inner = [str(x) for x in vars(self).values() if isinstance(x, Controller)]
        return f"{type(self).__name__}({', '.join(inner)})" if inner else type(self).__name__


class DigitalController(Controller):
    """A law that only exists sample by sample: gives `step`, and needs `Sampled` around it."""

    def __call__(self, t: Scalar, q: Vector, v: Vector, memory: Memory) -> Vector:
        raise ModelError(type(self).__name__, ["works sample by sample: use br.control.Sampled(law, period)"])

    @abstractmethod
    def step(self, t: Scalar, q: Vector, v: Vector, memory: Memory, period: Scalar) -> tuple[Vector, Memory]:
        """The inputs, and the memory `period` seconds later."""


class ConstantInput(Controller):
    """The same inputs all the time."""

    u: Float[Array, " nu"]

    def __call__(self, t: Scalar, q: Vector, v: Vector, memory: Memory) -> Vector:
        return self.u


class InputOverTime(Controller):
    """Inputs as a function of time."""

    function: Callable[..., Any]

    def __call__(self, t: Scalar, q: Vector, v: Vector, memory: Memory) -> Vector:
        return jnp.asarray(self.function(t), dtype=float)


class Feedback(Controller):
    """Inputs as a function `(t, q, v) -> u`."""

    function: Callable[..., Any]

    def __call__(self, t: Scalar, q: Vector, v: Vector, memory: Memory) -> Vector:
        return jnp.asarray(self.function(t, q, v), dtype=float)


class RecordedInput(Controller):
    """Inputs read back from a file, at the times they were saved."""

    t: Float[Array, " k"]
    u: Float[Array, "k nu"]

    def __call__(self, t: Scalar, q: Vector, v: Vector, memory: Memory) -> Vector:
        """The inputs saved nearest to time `t`."""
        return self.u[jnp.argmin(jnp.abs(self.t - t))]


def as_controller(controller: Any, subject: str = "controller") -> Controller:
    """A controller as it is; a function `(t, q, v) -> u` as one."""
    if not callable(controller):
        raise ModelError(subject, [f"controller: a Controller or a function (t, q, v) -> u, not {controller!r}"])
    return controller if isinstance(controller, Controller) else Feedback(controller)


def _constant_input(system: System, u: Numbers) -> ConstantInput:
    """Constant inputs; those of the last run if they are the same, since to make them and look at them takes long."""
    if not isinstance(u, np.ndarray):
        return ConstantInput(u)
    last: dict[bytes, ConstantInput] = remembered(system, "last input", dict)
    key = u.tobytes()
    if key not in last:
        last.clear()
        with jax.ensure_compile_time_eval():  # a number even under `jit`, since it is kept
            last[key] = ConstantInput(jnp.asarray(u))
    return last[key]


def make_controller(system: System, u: Any, controller: Any, subject: str = "simulate") -> Controller:
    """Check `u` (numbers or a function of time) and `controller` (or a function of `t, q, v`); one may be given."""
    if u is not None and controller is not None:
        raise ModelError(subject, ["give either `u` or `controller`, not both"])
    if u is None and controller is None:
        with jax.ensure_compile_time_eval():  # a number even under `jit`, since it is kept
            return remembered(system, "no input", lambda: ConstantInput(jnp.zeros(system.nu)))
    if u is not None and not callable(u):
        return _constant_input(system, checked(system, u, "u"))
    name = "controller" if u is None else "u"
    made = InputOverTime(u) if callable(u) else as_controller(controller)

    def inputs(t: Scalar, q: Vector, v: Vector) -> Vector:
        return made(t, q, v, made.start(t, q, v))

    try:
        shape = jax.eval_shape(inputs, jnp.zeros(()), jnp.zeros(system.nq), jnp.zeros(system.nv)).shape
    except ModelError:
        raise
    except Exception as error:
        raise ModelError(subject, [f"`{name}` fails: {type(error).__name__}: {error}"]) from error
    if shape != (system.nu,):
        raise ModelError(
            subject, [f"`{name}` returns shape {shape}, but {type(system).__name__} has {system.nu} inputs"]
        )
    return made


def may_hide_values(controller: Controller) -> bool:
    """Whether it holds a function that may carry traced values out of sight."""
    functions = remembered(controller, "functions", lambda: [x for x in jax.tree.leaves(controller) if callable(x)])
    return any(_hides(f) for f in functions)


def _hides(thing: Any, depth: int = 3) -> bool:
    """Whether traced values may be inside: not in numbers and arrays, nor in functions that close over such only."""
    if thing is None or isinstance(thing, (bool, int, float, str, np.ndarray, np.generic)):
        return False
    if isinstance(thing, jax.Array):
        return isinstance(thing, Tracer)
    if isinstance(thing, types.FunctionType) and depth:
        inside = [cell.cell_contents for cell in thing.__closure__ or () if cell != _EMPTY]
        return any(_hides(x, depth - 1) for x in (*inside, *(thing.__defaults__ or ())))
    if isinstance(thing, (tuple, list, dict, eqx.Module)) and depth:
        return any(_hides(x, depth - 1) for x in jax.tree.leaves(thing))
    return getattr(thing, "__closure__", True) is not None


_EMPTY = types.CellType()
"""Of a variable that has no value yet."""
