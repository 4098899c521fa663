"""Digital control: a controller that looks at the state every so often, and whose inputs arrive late."""

from __future__ import annotations

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from bricard.errors import ModelError, is_concrete
from bricard.simulate.controller import Controller, Memory, as_controller
from bricard.simulate.memory import check_memory
from bricard.system import Scalar, Vector

ON_SAMPLE = 1e-6
"""How near (in periods) a time must be to a sampling instant to be one."""

COPIES = 4
"""Of the sampling instants in memory at the same time."""


class SampledMemory(NamedTuple):
    """Memory of a digital controller."""

    inner: Memory
    """Of the law itself."""
    queue: Float[Array, "delay+1 nu"]
    """Inputs computed and not yet replaced: the first is being applied, the last was computed last."""
    start: Float[Array, ""]
    """When the run began (s); samples are taken from then on."""


class Sampled(Controller):
    """`controller` as a digital one: it samples every `period` (s), and its inputs are held until the next sample.

    With `delay = n`, what was computed from the state at a sample is applied `n` periods later; until the first such
    input arrives, at `n` periods, it is also what is applied. The memory of the controller takes exactly one step at
    each sampling instant. Between samples the motion is integrated like any other.
    """

    controller: Controller
    period: Float[Array, ""]
    delay: int = eqx.field(static=True)

    def __init__(self, controller: Any, period: Any, delay: Any = 0):
        controller = as_controller(controller, "Sampled")
        problems = []
        if isinstance(controller, Sampled):
            problems.append("the controller is sampled already")
        if np.ndim(period) != 0:
            problems.append(f"period: one number (s), not an array of shape {np.shape(period)}")
        elif is_concrete(period) and not (np.isfinite(period) and period > 0):
            problems.append(f"period must be positive (s), not {period}")
        if not isinstance(delay, (int, np.integer)) or isinstance(delay, bool) or delay < 0:
            problems.append(f"delay: a number of samples, 0, 1, 2, …, not {delay!r}")
        if problems:
            raise ModelError("Sampled", problems)
        self.controller = controller
        with jax.ensure_compile_time_eval():  # a number stays one under `jit`: it says how many samples a run has
            self.period = jnp.asarray(period, dtype=float)
        self.delay = int(delay)

    def start(self, t: Scalar, q: Vector, v: Vector) -> SampledMemory:
        """The first sample taken; on their way are the inputs that its law would have sent from this state before.

        However long the delay, the law takes one step at one time: what it integrates, counts or computes ahead must
        not advance faster than its samples.
        """
        inner = jax.tree.map(lambda x: jnp.asarray(x, dtype=float), self.controller.start(t, q, v))
        u, inner = self.controller.step(t, q, v, inner, self.period)
        queue = jnp.broadcast_to(u[None], (self.delay + 1, u.shape[0]))
        return SampledMemory(inner, queue, jnp.asarray(t, dtype=float))

    def __call__(self, t: Scalar, q: Vector, v: Vector, memory: SampledMemory) -> Vector:
        """The input held at the moment."""
        return memory.queue[0]

    def sample(self, t: Scalar, q: Vector, v: Vector, memory: SampledMemory) -> SampledMemory:
        """Look at the state: the next input in the queue is applied, a new one joins its end."""
        u, inner = self.controller.step(t, q, v, memory.inner, self.period)
        return SampledMemory(inner, jnp.concatenate([memory.queue[1:], u[None]]), memory.start)

    def sample_if_due(self, t: Scalar, q: Vector, v: Vector, memory: SampledMemory) -> SampledMemory:
        """`sample` at sampling instants after the start; otherwise the memory as it is."""
        count = (t - memory.start) / self.period
        nearest = jnp.round(count)
        due = (nearest >= 1) & (jnp.abs(count - nearest) < ON_SAMPLE)
        return jax.lax.cond(due, lambda: self.sample(t, q, v, memory), lambda: memory)

    def check(self, t: Scalar, q: Vector, v: Vector) -> None:
        self.controller.check(t, q, v)

    def signals(self, t: Scalar, q: Vector, v: Vector, memory: SampledMemory) -> dict[str, Array]:
        return self.controller.signals(t, q, v, memory.inner)

    def times(self, saved: Float[Array | np.ndarray, " k"]) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " k"]]:
        """The sampling instants of a run, and the times to be saved with those next to an instant moved onto it."""
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
        on = (np.abs(count - nearest) < ON_SAMPLE) & (nearest > 0)
        return instants, np.where(on, times[0] + period * nearest, times)
