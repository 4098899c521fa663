"""Step size control: steps adapt to the error estimate, and end at the times where states are saved."""

from __future__ import annotations

from typing import Any

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float


class Steps(eqx.Module):
    """Settings of the step size control, from which compiled programs build the step size controller of diffrax."""

    numbers: Float[Array | np.ndarray, " 3"]
    """Relative and absolute tolerance, and the shortest step (s)."""
    adapt: bool = eqx.field(static=True)
    """Whether steps adapt to the error; otherwise all have the same length."""
    growth: float = eqx.field(static=True, default=10.0)
    """Largest ratio of successive steps."""

    def controller(self, stops: Float[Array, " s"]) -> diffrax.AbstractStepSizeController:
        """The step size controller. Adaptive steps end at `stops` (s), since interpolation is far less accurate."""
        return (
            diffrax.ClipStepSizeController(self.adaptive(), step_ts=stops) if self.adapt else diffrax.ConstantStepSize()
        )

    def adaptive(self) -> diffrax.PIDController:
        """The controller of adaptive steps."""
        rtol, atol, shortest = self.numbers
        return _Adaptive(  # pyright: ignore[reportCallIssue]
            rtol=rtol,
            atol=atol,
            pcoeff=0.2,  # with this PI control half as many steps are rejected as with an integral term alone
            icoeff=0.6,
            factormax=self.growth,
            dtmin=shortest,
            force_dtmin=False,
            norm=_state_norm,
        )


class _Adaptive(diffrax.PIDController):
    """A `PIDController` that fails only if a step of length `dtmin` is rejected.

    If a step misses a save time by rounding, the next one is very short because it is clipped to that time. Such a step
    is no failure.
    """

    def adapt_step_size(self, *args: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        keep, *rest, result = super().adapt_step_size(*args)
        return keep, *rest, diffrax.RESULTS.where(keep, diffrax.RESULTS.successful, result)


def _state_norm(error: Any) -> Float[Array, ""]:
    """Norm of the error of coordinates, velocities and memory; the error of the work does not limit the step."""
    return jnp.maximum(_rms((error.q, error.v)), _rms(error.memory))


def _rms(tree: Any) -> Float[Array, ""]:
    parts = [jnp.ravel(x) for x in jax.tree.leaves(tree) if x.size]
    if not parts:
        return jnp.zeros(())
    mean = jnp.mean(jnp.concatenate(parts) ** 2)
    return jnp.where(mean > 0, jnp.sqrt(jnp.where(mean > 0, mean, 1.0)), 0.0)  # derivative at zero: 0, not NaN
