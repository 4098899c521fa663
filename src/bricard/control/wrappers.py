"""What lies between a law and the machine: limits, quantisation and noise. Each wraps a controller."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from bricard.errors import ModelError, is_concrete
from bricard.simulation.controller import Controller, DigitalController, Memory, as_controller
from bricard.system import Scalar, Vector


class _Around(Controller):
    """A controller around another one, whose memory it shares."""

    controller: Controller

    def check(self, t: Scalar, q: Vector, v: Vector) -> None:
        self.controller.check(t, q, v)

    def start(self, t: Scalar, q: Vector, v: Vector) -> Memory:
        return self.controller.start(t, *self.seen(q, v))

    def __call__(self, t: Scalar, q: Vector, v: Vector, memory: Memory) -> Vector:
        return self.sent(self.controller(t, *self.seen(q, v), memory))

    def rate(self, t: Scalar, q: Vector, v: Vector, memory: Memory) -> Memory:
        return self.controller.rate(t, *self.seen(q, v), memory)

    def step(self, t: Scalar, q: Vector, v: Vector, memory: Memory, period: Scalar) -> tuple[Vector, Memory]:
        u, memory = self.controller.step(t, *self.seen(q, v), memory, period)
        return self.sent(u), memory

    def signals(self, t: Scalar, q: Vector, v: Vector, memory: Memory) -> dict[str, Array]:
        return self.controller.signals(t, q, v, memory)

    def seen(self, q: Vector, v: Vector) -> tuple[Vector, Vector]:
        """What the law sees of the state."""
        return q, v

    def sent(self, u: Vector) -> Vector:
        """What arrives of its inputs."""
        return u


class Limited(_Around):
    """Inputs cut off at `low` and `high`: one number, or one for each input."""

    low: Float[Array, " *nu"]
    high: Float[Array, " *nu"]

    def __init__(self, controller: Any, low: Any, high: Any):
        self.controller = as_controller(controller, "Limited")
        self.low, self.high = (jnp.asarray(x, dtype=float) for x in (low, high))
        if max(self.low.ndim, self.high.ndim) > 1 or len({x.size for x in (self.low, self.high) if x.ndim}) > 1:
            raise ModelError("Limited", ["low and high: one number, or one for each input"])
        if is_concrete(self.low, self.high) and not np.all(np.asarray(self.low) <= np.asarray(self.high)):
            raise ModelError("Limited", [f"low = {low} is above high = {high}"])

    def sent(self, u: Vector) -> Vector:
        return jnp.clip(u, self.low, self.high)


class Quantized(_Around):
    """Measured and applied in steps of a given size (zero: exactly): `q`, `v` and `u`, numbers or arrays."""

    q: Float[Array, " *nq"]
    v: Float[Array, " *nv"]
    u: Float[Array, " *nu"]

    def __init__(self, controller: Any, *, q: Any = 0.0, v: Any = 0.0, u: Any = 0.0):
        self.controller = as_controller(controller, "Quantized")
        self.q, self.v, self.u = _sizes("Quantized", q=q, v=v, u=u)

    def seen(self, q: Vector, v: Vector) -> tuple[Vector, Vector]:
        return _rounded(q, self.q), _rounded(v, self.v)

    def sent(self, u: Vector) -> Vector:
        return _rounded(u, self.u)


class Noisy(DigitalController):
    """Normal noise on what is measured (`q`, `v`) and applied (`u`), by standard deviation, new at every sample."""

    controller: Controller
    q: Float[Array, " *nq"]
    v: Float[Array, " *nv"]
    u: Float[Array, " *nu"]
    seed: int = eqx.field(static=True)

    def __init__(self, controller: Any, *, q: Any = 0.0, v: Any = 0.0, u: Any = 0.0, seed: int = 0):
        self.controller = as_controller(controller, "Noisy")
        self.q, self.v, self.u = _sizes("Noisy", q=q, v=v, u=u)
        self.seed = seed

    def check(self, t: Scalar, q: Vector, v: Vector) -> None:
        self.controller.check(t, q, v)

    def start(self, t: Scalar, q: Vector, v: Vector) -> tuple[Memory, Array]:
        """The law's memory, and the count of samples."""
        return self.controller.start(t, q, v), jnp.zeros(())

    def step(self, t: Scalar, q: Vector, v: Vector, memory: Memory, period: Scalar) -> tuple[Vector, Memory]:
        inner, count = memory
        key = jax.random.fold_in(jax.random.key(self.seed), jnp.round(count).astype(jnp.uint32))
        keys = jax.random.split(key, 3)

        def shaken(x: Vector, size: Array, key: Array) -> Vector:
            return x + size * jax.random.normal(key, x.shape)

        u, inner = self.controller.step(t, shaken(q, self.q, keys[0]), shaken(v, self.v, keys[1]), inner, period)
        return shaken(u, self.u, keys[2]), (inner, count + 1.0)

    def signals(self, t: Scalar, q: Vector, v: Vector, memory: Memory) -> dict[str, Array]:
        return self.controller.signals(t, q, v, memory[0])


def _rounded(x: Vector, size: Array) -> Vector:
    safe = jnp.where(size > 0.0, size, 1.0)
    return jnp.where(size > 0.0, safe * jnp.round(x / safe), x)


def _sizes(subject: str, **sizes: Any) -> tuple[Array, ...]:
    problems = [
        f"{name}: a size that is finite and not negative, not {size!r}"
        for name, size in sizes.items()
        if is_concrete(size) and not np.all((np.asarray(size, dtype=float) >= 0) & np.isfinite(size))
    ]
    if problems:
        raise ModelError(subject, problems)
    return tuple(jnp.asarray(x, dtype=float) for x in sizes.values())
