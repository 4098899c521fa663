"""Digital control: a controller with a sampling period, a zero-order hold and a delay."""

from __future__ import annotations

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from bricard.errors import ModelError, is_concrete
from bricard.simulation.controller import Controller, Memory, as_controller
from bricard.simulation.memory import check_memory
from bricard.system import Scalar, Vector

ON_SAMPLE = 1e-6
"""A time counts as a sampling instant if it is nearer to it than this (in periods)."""

COPIES = 4
"""Copies of the array of sampling instants in memory at the same time."""


class SampledMemory(NamedTuple):
    """Memory of a digital controller."""

    inner: Memory
    """Memory of the wrapped controller."""
    queue: Float[Array, "delay+1 nu"]
    """Computed inputs, oldest first: the first row is applied now, the others wait."""
    start: Float[Array, ""]
    """Time of the first sample (s), which is the start of the run."""


class Sampled(Controller):
    """A digital controller: `controller` is evaluated every `period` (s), and its inputs are held in between.

    With `delay_samples = n`, the input computed from the state at a sample is applied `n` periods later. Until `n`
    periods have passed, the first input computed is applied. The memory of the controller takes exactly one step at
    each sampling instant. Between samples the motion is integrated like any other.
    """

    controller: Controller
    period: Float[Array, ""]
    delay_samples: int = eqx.field(static=True)

    def __init__(self, controller: Any, period: Any, delay_samples: Any = 0):
        controller = as_controller(controller, "Sampled")
        problems = []
        if isinstance(controller, Sampled):
            problems.append("the controller is sampled already")
        if np.ndim(period) != 0:
            problems.append(f"period: one number (s), not an array of shape {np.shape(period)}")
        elif is_concrete(period) and not (np.isfinite(period) and period > 0):
            problems.append(f"period must be positive (s), not {period}")
        if not isinstance(delay_samples, (int, np.integer)) or isinstance(delay_samples, bool) or delay_samples < 0:
            problems.append(f"delay_samples: a number of samples, 0, 1, 2, …, not {delay_samples!r}")
        if problems:
            raise ModelError("Sampled", problems)
        self.controller = controller
        with jax.ensure_compile_time_eval():  # stays concrete under `jit`: it sets the number of samples
            self.period = jnp.asarray(period, dtype=float)
        self.delay_samples = int(delay_samples)

    def start(self, t: Scalar, q: Vector, v: Vector) -> SampledMemory:
        """The memory after the first sample; the queue is filled with the first input.

        The memory of the controller takes a single step, however long the delay is, so that integrals, counters and
        predictions do not advance faster than the samples.
        """
        inner = jax.tree.map(lambda x: jnp.asarray(x, dtype=float), self.controller.start(t, q, v))
        u, inner = self.controller.step(t, q, v, inner, self.period)
        queue = jnp.broadcast_to(u[None], (self.delay_samples + 1, u.shape[0]))
        return SampledMemory(inner, queue, jnp.asarray(t, dtype=float))

    def __call__(self, t: Scalar, q: Vector, v: Vector, memory: SampledMemory) -> Vector:
        """The input that is applied at present."""
        return memory.queue[0]

    def sample(self, t: Scalar, q: Vector, v: Vector, memory: SampledMemory) -> SampledMemory:
        """The memory after a sample: the next input in the queue is applied, and a new one is appended."""
        u, inner = self.controller.step(t, q, v, memory.inner, self.period)
        return SampledMemory(inner, jnp.concatenate([memory.queue[1:], u[None]]), memory.start)

    def sample_if_due(self, t: Scalar, q: Vector, v: Vector, memory: SampledMemory) -> SampledMemory:
        """The memory after `sample` if `t` is a sampling instant after the start; otherwise the memory unchanged."""
        count = (t - memory.start) / self.period
        nearest = jnp.round(count)
        due = (nearest >= 1) & (jnp.abs(count - nearest) < ON_SAMPLE)
        return jax.lax.cond(due, lambda: self.sample(t, q, v, memory), lambda: memory)

    def check(self, t: Scalar, q: Vector, v: Vector) -> None:
        self.controller.check(t, q, v)

    def signals(self, t: Scalar, q: Vector, v: Vector, memory: SampledMemory) -> dict[str, Array]:
        return self.controller.signals(t, q, v, memory.inner)

    def times(self, saved: Float[Array | np.ndarray, " k"]) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " k"]]:
        """The sampling instants of a run, and the times to save, where times next to an instant are moved onto it."""
        if not is_concrete(self.period, saved):
            raise ModelError(
                "Sampled", ["the period and the duration of a run set its number of samples: they cannot be traced"]
            )
        period, times = float(self.period), np.asarray(saved)
        count = (times - times[0]) / period
        needed = 8.0 * COPIES * count[-1]
        check_memory("Sampled", needed, f"{count[-1]:.3g} samples", "lengthen the period or shorten the run")
        instants = times[0] + period * np.arange(1, int(np.floor(count[-1] + ON_SAMPLE)) + 1)
        nearest = np.round(count)
        on_instant = (np.abs(count - nearest) < ON_SAMPLE) & (nearest > 0)
        return instants, np.where(on_instant, times[0] + period * nearest, times)
