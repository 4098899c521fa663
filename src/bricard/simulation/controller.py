"""The controller interface, and its simplest cases: constant inputs, inputs over time, and state feedback."""

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
from bricard.execution.cache import cached
from bricard.system import Numbers, Scalar, System, Vector, checked

Memory = Any
"""State of a controller: a pytree of float arrays (integrals, estimates, held values); empty if it has none."""


class Controller(eqx.Module):
    """Base class of controllers, which compute the inputs `u` (nu,) from time, state and memory.

    A controller defines `__call__`. One with memory also defines `start`, and either `rate` (the memory follows a
    differential equation, integrated with the motion) or `step` (the memory changes at each sample; used by `Sampled`).
    All methods are pure functions, so that runs can be vmapped and differentiated.
    """

    def start(self, t: Scalar, q: Vector, v: Vector) -> Memory:
        """The memory at the start of a run, for the time `t` (s) and the initial state."""
        return jnp.zeros(0)

    @abstractmethod
    def __call__(self, t: Scalar, q: Vector, v: Vector, memory: Memory) -> Vector:
        """The inputs `u` (nu,)."""

    def rate(self, t: Scalar, q: Vector, v: Vector, memory: Memory) -> Memory:
        """Time derivative of the memory."""
        return jax.tree.map(jnp.zeros_like, memory)

    def step(self, t: Scalar, q: Vector, v: Vector, memory: Memory, period: Scalar) -> tuple[Vector, Memory]:
        """One sample as a digital controller: the inputs, and the memory `period` seconds later (explicit Euler)."""
        u, rate = self(t, q, v, memory), self.rate(t, q, v, memory)
        return u, jax.tree.map(lambda m, r: m + period * r, memory, rate)

    def check(self, t: Scalar, q: Vector, v: Vector) -> None:
        """Raise `ModelError` if the controller cannot work at this state, such as if no input affects its output."""
        return

    def signals(self, t: Scalar, q: Vector, v: Vector, memory: Memory) -> dict[str, Array]:
        """Internal signals by name, such as `output` and `reference`; the trajectory provides them over time."""
        return {}

    def __str__(self) -> str:
        """The class name, with those of the controllers inside: `Sampled(Blended)`. `repr` shows the parameters too."""
        inner = [str(x) for x in vars(self).values() if isinstance(x, Controller)]
        return f"{type(self).__name__}({', '.join(inner)})" if inner else type(self).__name__


class DigitalController(Controller):
    """Base class of controllers that exist only in discrete time: they define `step`, and are used inside `Sampled`."""

    def __call__(self, t: Scalar, q: Vector, v: Vector, memory: Memory) -> Vector:
        raise ModelError(type(self).__name__, ["works sample by sample: use br.control.Sampled(law, period)"])

    @abstractmethod
    def step(self, t: Scalar, q: Vector, v: Vector, memory: Memory, period: Scalar) -> tuple[Vector, Memory]:
        """The inputs at a sample, and the memory `period` seconds later."""


class ConstantInput(Controller):
    """Constant inputs."""

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
    """Inputs of a saved run, at the times (s) at which they were saved."""

    t: Float[Array, " k"]
    u: Float[Array, "k nu"]

    def __call__(self, t: Scalar, q: Vector, v: Vector, memory: Memory) -> Vector:
        """The inputs saved nearest to time `t`."""
        return self.u[jnp.argmin(jnp.abs(self.t - t))]


def as_controller(controller: Any, subject: str = "controller") -> Controller:
    """Return a controller unchanged, and wrap a function `(t, q, v) -> u` in `Feedback`."""
    if not callable(controller):
        raise ModelError(subject, [f"controller: a Controller or a function (t, q, v) -> u, not {controller!r}"])
    return controller if isinstance(controller, Controller) else Feedback(controller)


def _constant_input(system: System, u: Numbers) -> ConstantInput:
    """Constant inputs; the object of the last run is reused for equal values, because it is slow to create."""
    if not isinstance(u, np.ndarray):
        return ConstantInput(u)
    last: dict[bytes, ConstantInput] = cached(system, "last input", dict)
    key = u.tobytes()
    if key not in last:
        last.clear()
        with jax.ensure_compile_time_eval():  # cached, so it must not be a tracer
            last[key] = ConstantInput(jnp.asarray(u))
    return last[key]


def make_controller(system: System, u: Any, controller: Any, subject: str = "simulate") -> Controller:
    """The controller for `u` (numbers or a function of time) or `controller` (or a function of `t, q, v`), checked.

    At most one of them may be given; without either, the inputs are zero.
    """
    if u is not None and controller is not None:
        raise ModelError(subject, ["give either `u` or `controller`, not both"])
    if u is None and controller is None:
        with jax.ensure_compile_time_eval():  # cached, so it must not be a tracer
            return cached(system, "no input", lambda: ConstantInput(jnp.zeros(system.nu)))
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
    """True if the controller contains a function that may close over tracers."""
    functions = cached(controller, "functions", lambda: [x for x in jax.tree.leaves(controller) if callable(x)])
    return any(_may_contain_tracer(f) for f in functions)


def _may_contain_tracer(value: Any, depth: int = 3) -> bool:
    """False for numbers, concrete arrays and functions that close over only these; True if there may be a tracer."""
    if value is None or isinstance(value, (bool, int, float, str, np.ndarray, np.generic)):
        return False
    if isinstance(value, jax.Array):
        return isinstance(value, Tracer)
    if isinstance(value, types.FunctionType) and depth:
        inside = [cell.cell_contents for cell in value.__closure__ or () if cell != _EMPTY]
        return any(_may_contain_tracer(x, depth - 1) for x in (*inside, *(value.__defaults__ or ())))
    if isinstance(value, (tuple, list, dict, eqx.Module)) and depth:
        return any(_may_contain_tracer(x, depth - 1) for x in jax.tree.leaves(value))
    return getattr(value, "__closure__", True) is not None


_EMPTY = types.CellType()
"""The closure cell of a variable that has no value yet."""
