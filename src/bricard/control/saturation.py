"""What if a motor saturates? The others serve the outputs in turn, the longer the better they reach them."""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from bricard.control.allocation import least_effort
from bricard.control.input_response import Response, response, scaled_reach
from bricard.control.reference import positive
from bricard.control.tracking import OutputTracking
from bricard.equations.rank import pinv, rank
from bricard.errors import ModelError, is_concrete
from bricard.execution.lapack import inv
from bricard.simulation.controller import DigitalController
from bricard.system import Scalar, Vector

MOST_OUTPUTS = 10
"""The sets of outputs that are served in turn are listed: `2ⁿ` of them."""


class Switching(NamedTuple):
    """Memory of `SaturationSwitching`."""

    saturated: Float[Array, " nu"]
    """1 for each input that was held at its limit at the last sample."""
    switching: Float[Array, ""]
    """1 if the other inputs could not serve all outputs then."""
    onset: Float[Array, ""]
    """When switching began (s)."""
    renewed: Float[Array, ""]
    """When the time shares were computed last (s)."""
    shares: Float[Array, " sets"]


class SaturationSwitching(DigitalController):
    """`law` within input limits, by servo-constraints that switch (Bencsik, chapter 6): a digital law, for `Sampled`.

    Inputs that saturate are held at their limits. As long as the others can serve all outputs, they do. When they
    cannot, and act on `r` of the `l` outputs at a time, all sets of `r` outputs are served in turn within `cycle`
    seconds, each for a share of time in proportion to `manipulability`; the shares are renewed every `renew` cycles.
    """

    law: OutputTracking
    low: Float[Array, " nu"]
    high: Float[Array, " nu"]
    cycle: Float[Array, ""]
    renew: int = eqx.field(static=True)

    def __init__(self, law: Any, low: Any, high: Any, cycle: Any, renew: Any = 1):
        if not isinstance(law, OutputTracking) or type(law).__call__ is not OutputTracking.__call__:
            raise ModelError("SaturationSwitching", [f"law: a ServoConstraint or its like, not {type(law).__name__}"])
        nu, problems = law.system.nu, []
        if law.limits is not None:
            problems.append("law: has limits of its own; give them here only")
        if len(law.output.names) > MOST_OUTPUTS:
            problems.append(f"law: at most {MOST_OUTPUTS} outputs can be served in turn, not {len(law.output.names)}")
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
        count, zero = self.sets.shape[0], jnp.zeros(())
        return Switching(jnp.zeros(self.law.system.nu), zero, zero, zero, jnp.zeros(count))

    def manipulability(self, t: Scalar, q: Vector, v: Vector, free: Bool[Array, " nu"]) -> Float[Array, " sets"]:
        """`z = 1/√(eᵀ𝓜e)` of each set: how far the free inputs accelerate it; zero for sets they cannot serve."""
        return self._manipulability(response(self.law.system, q, v, t), t, q, free)

    def _manipulability(self, at: Response, t: Scalar, q: Vector, free: Bool[Array, " nu"]) -> Float[Array, " sets"]:
        if len(self.sets) == 0:
            return jnp.zeros(0)
        jacobian = self.law.output.jacobian(self.law.system, q, t)
        mass = inv(jacobian @ at.mobility @ jacobian.T)  # what the outputs weigh
        pushing = mass @ jacobian @ at.gain * free[None, :]
        size = jnp.linalg.norm(pushing)
        size = jnp.where(size > 0.0, size, 1.0)
        needed = pinv(pushing / size) @ mass / size
        directions = self.sets / np.sqrt(self.sets.sum(axis=1, keepdims=True))
        effort = jnp.linalg.norm(needed @ directions.T, axis=0)
        reach = scaled_reach(at, jacobian)[0] * free[None, :]
        served = jax.vmap(lambda chosen: rank(reach * chosen[:, None]))(jnp.asarray(self.sets))
        most = rank(reach)
        fits = (jnp.asarray(self.sets.sum(axis=1)) == most) & (served == most) & (effort > 0.0)
        return jnp.where(fits, 1.0 / jnp.where(effort > 0.0, effort, 1.0), 0.0)

    def step(self, t: Scalar, q: Vector, v: Vector, memory: Switching, period: Scalar) -> tuple[Vector, Switching]:
        at = response(self.law.system, q, v, t)
        matrix, target = self.law.demand(t, q, v, at)
        reach, rows, columns = scaled_reach(at, self.law.output.jacobian(self.law.system, q, t))
        root, everything = self.law.effort_root(at), jnp.ones(len(self.law.output.names))

        def serve(outputs: Float[Array, " p"], held: Bool[Array, " nu"], u: Vector) -> Vector:
            """Inputs of least effort that serve some outputs, while those that are held stay at the limits of `u`."""
            at_limit = jnp.where(held, jnp.clip(u, self.low, self.high), 0.0)
            free = ~held[None, :]
            # The effort of all inputs is least, of those at their limits too.
            cost = root / columns[None, :] / jnp.linalg.norm(root / columns[None, :])
            balance = -pinv(cost * free) @ (cost @ (columns * at_limit)) / columns
            left = outputs * (target - matrix @ (at_limit + balance))
            more = least_effort(outputs[:, None] * matrix * free, left, root * free, rows, columns)
            return at_limit + jnp.where(held, 0.0, balance + more)

        def beyond(u: Vector) -> Bool[Array, " nu"]:
            return (u < self.low) | (u > self.high)

        def enough(held: Bool[Array, " nu"]) -> Bool[Array, ""]:
            return rank(reach * ~held[None, :]) == everything.shape[0]

        def hold_more(_: Any, now: tuple[Vector, Array]) -> tuple[Vector, Array]:
            u, held = now
            # Once the rest cannot serve all outputs, they are served in turn, with these inputs held.
            held = jnp.where(enough(held), held | beyond(u), held)
            return serve(everything, held, u), held

        wanted = self.law(t, q, v, jnp.zeros(0))
        saturated = beyond(wanted)
        some = jnp.any(saturated)
        now = serve(everything, saturated, wanted), saturated
        full, saturated = jax.lax.fori_loop(1, wanted.shape[0], hold_more, now)
        switching = some & ~enough(saturated)
        changed = jnp.any(saturated != (memory.saturated > 0.5))
        begins = switching & (memory.switching < 0.5)
        onset = jnp.where(begins, t, memory.onset)
        # A time is due also if rounding puts it a hair too early.
        due = begins | changed | (t - memory.renewed >= self.renew * self.cycle - 1e-6 * period)
        index = self._manipulability(at, t, q, ~saturated)
        total = jnp.sum(index)
        shares = jnp.where(due, index / jnp.where(total > 0.0, total, 1.0), memory.shares)
        renewed = jnp.where(due, t, memory.renewed)
        phase = jnp.mod(t - onset + 1e-6 * period, self.cycle) / self.cycle
        ends = jnp.concatenate([jnp.cumsum(shares), jnp.full(1, jnp.inf)])
        turn = jnp.searchsorted(ends, phase * jnp.sum(shares), side="right")
        no_set = jnp.zeros((1, everything.shape[0]))  # if the inputs that are left act on nothing
        served = jnp.concatenate([jnp.asarray(self.sets), no_set])[turn]
        in_turn = jnp.clip(serve(served, saturated, full), self.low, self.high)
        u = jnp.where(some, jnp.where(switching, in_turn, jnp.clip(full, self.low, self.high)), wanted)
        return u, Switching(saturated.astype(float), switching.astype(float), onset, renewed, shares)

    def signals(self, t: Scalar, q: Vector, v: Vector, memory: Switching) -> dict[str, Array]:
        return self.law.signals(t, q, v, jnp.zeros(0)) | {"saturated": memory.saturated}
