"""What if a motor saturates? The others serve the outputs in turn, the longer the better they reach them."""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from bricard.control.reference import positive
from bricard.control.response import Response, response
from bricard.control.tracking import OutputTracking
from bricard.equations.rank import pinv
from bricard.errors import ModelError, is_concrete
from bricard.simulate.controller import DigitalController
from bricard.system import Scalar, Vector


class Switching(NamedTuple):
    """Memory of `SaturationSwitching`."""

    saturated: Float[Array, " nu"]
    """1 for each input that was at its limit at the last sample."""
    onset: Float[Array, ""]
    """When saturation began (s)."""
    renewed: Float[Array, ""]
    """When the time shares were computed last (s)."""
    shares: Float[Array, " sets"]


class SaturationSwitching(DigitalController):
    """`law` within input limits, by servo-constraints that switch (Bencsik, chapter 6): a digital law, for `Sampled`.

    When inputs saturate, the remaining `r` can serve `r` of the `l` outputs: all such sets are served in turn within
    `cycle` seconds, each for a share of time in proportion to `manipulability`; the shares are renewed every `renew`
    cycles.
    """

    law: OutputTracking
    low: Float[Array, " nu"]
    high: Float[Array, " nu"]
    cycle: Float[Array, ""]
    renew: int = eqx.field(static=True)

    def __init__(self, law: Any, low: Any, high: Any, cycle: Any, renew: Any = 1):
        if not isinstance(law, OutputTracking):
            raise ModelError("SaturationSwitching", [f"law: a ServoConstraint or its like, not {type(law).__name__}"])
        nu, problems = law.system.nu, []
        bounds = []
        for name, value in (("low", low), ("high", high)):
            array = jnp.asarray(value, dtype=float)
            if array.shape not in ((), (nu,)):
                problems.append(f"{name}: one number or one for each of {nu} inputs, not shape {array.shape}")
            else:
                bounds.append(jnp.broadcast_to(array, (nu,)))
        if len(bounds) == 2 and is_concrete(bounds) and not np.all(np.asarray(bounds[0]) < np.asarray(bounds[1])):
            problems.append(f"low = {low} must be below high = {high}")
        if not isinstance(renew, int) or renew < 1:
            problems.append(f"renew: a number of cycles, not {renew!r}")
        if problems:
            raise ModelError("SaturationSwitching", problems)
        self.law, (self.low, self.high), self.renew = law, bounds, renew
        self.cycle = positive("SaturationSwitching", "cycle", cycle)

    def check(self, t: Scalar, q: Vector, v: Vector) -> None:
        self.law.check(t, q, v)

    @property
    def sets(self) -> np.ndarray:
        """Every set of outputs that is not all of them, as rows of 0 and 1."""
        p = len(self.law.output.names)
        return np.array([s for s in itertools.product([1.0, 0.0], repeat=p) if 0 < sum(s) < p]).reshape(-1, p)

    def start(self, t: Scalar, q: Vector, v: Vector) -> Switching:
        """Nothing saturated yet."""
        count = self.sets.shape[0]
        return Switching(jnp.zeros(self.law.system.nu), jnp.zeros(()), jnp.zeros(()), jnp.zeros(count))

    def manipulability(self, t: Scalar, q: Vector, v: Vector, free: Bool[Array, " nu"]) -> Float[Array, " sets"]:
        """`z = 1/√(eᵀ𝓜e)` of each set: how far the free inputs accelerate it; zero for sets of another size."""
        return self._manipulability(response(self.law.system, q, v, t), t, q, free)

    def _manipulability(self, at: Response, t: Scalar, q: Vector, free: Bool[Array, " nu"]) -> Float[Array, " sets"]:
        jacobian = self.law.output.jacobian(self.law.system, q, t)
        mass = jnp.linalg.inv(jacobian @ at.mobility @ jacobian.T)  # what the outputs weigh
        pushing = mass @ jacobian @ at.gain * free[None, :]
        size = jnp.linalg.norm(pushing)
        size = jnp.where(size > 0.0, size, 1.0)
        needed = pinv(pushing / size) @ mass / size
        directions = self.sets / np.sqrt(self.sets.sum(axis=1, keepdims=True))
        effort = jnp.linalg.norm(needed @ directions.T, axis=0)
        fits = (jnp.asarray(self.sets.sum(axis=1)) == jnp.sum(free)) & (effort > 0.0)
        return jnp.where(fits, 1.0 / jnp.where(effort > 0.0, effort, 1.0), 0.0)

    def step(self, t: Scalar, q: Vector, v: Vector, memory: Switching, period: Scalar) -> tuple[Vector, Switching]:
        at = response(self.law.system, q, v, t)
        matrix, target = self.law.demand(t, q, v, at)
        wanted = self.law(t, q, v, jnp.zeros(0))
        cut = jnp.clip(wanted, self.low, self.high)
        saturated = wanted != cut
        some = jnp.any(saturated)
        begins = some & ~jnp.any(memory.saturated > 0.5)
        changed = jnp.any(saturated != (memory.saturated > 0.5))
        onset = jnp.where(begins, t, memory.onset)
        # A time is due also if rounding puts it a hair too early.
        due = begins | changed | (t - memory.renewed >= self.renew * self.cycle - 1e-6 * period)
        index = self._manipulability(at, t, q, ~saturated)
        total = jnp.sum(index)
        shares = jnp.where(due, index / jnp.where(total > 0.0, total, 1.0), memory.shares)
        renewed = jnp.where(due, t, memory.renewed)
        phase = jnp.mod(t - onset + 1e-6 * period, self.cycle) / self.cycle
        turn = jnp.searchsorted(jnp.cumsum(shares), phase, side="right")
        served = jnp.asarray(self.sets)[jnp.clip(turn, 0, len(self.sets) - 1)]
        held = jnp.where(saturated, cut, 0.0)
        reduced = served[:, None] * matrix * (~saturated)[None, :]
        size = jnp.linalg.norm(matrix)
        others = pinv(reduced / size) @ (served * (target - matrix @ held) / size)
        switched = jnp.where(saturated, cut, jnp.clip(others, self.low, self.high))
        u = jnp.where(some, switched, wanted)
        return u, Switching(saturated.astype(float), onset, renewed, shares)

    def signals(self, t: Scalar, q: Vector, v: Vector, memory: Switching) -> dict[str, Array]:
        return self.law.signals(t, q, v, jnp.zeros(0)) | {"saturated": memory.saturated}
