"""How long steps are: as the error allows, and so that they end where states are to be saved."""

from __future__ import annotations

from typing import Any

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float


class Steps(eqx.Module):
    """Tolerances, from which compiled programs make the controller that diffrax wants."""

    numbers: Float[Array | np.ndarray, " 3"]
    """Relative and absolute tolerance, and the shortest step (s)."""
    adapt: bool = eqx.field(static=True)
    """Otherwise all steps are equally long."""
    growth: float = eqx.field(static=True, default=10.0)
    """How many times longer the next step may be."""

    def controller(self, stops: Float[Array, " s"]) -> diffrax.AbstractStepSizeController:
        """Steps that adapt end at `stops`: a solver interpolates far less accurately than it steps."""
        return (
            diffrax.ClipStepSizeController(self.adaptive(), step_ts=stops) if self.adapt else diffrax.ConstantStepSize()
        )

    def adaptive(self) -> diffrax.PIDController:
        """Steps as the error allows."""
        rtol, atol, shortest = self.numbers
        return _Adaptive(  # pyright: ignore[reportCallIssue]
            rtol=rtol,
            atol=atol,
            pcoeff=0.2,  # with these, half as many steps are rejected as by the size of the last error alone
            icoeff=0.6,
            factormax=self.growth,
            dtmin=shortest,
            force_dtmin=False,
            norm=_state_norm,
        )


class _Adaptive(diffrax.PIDController):
    """Gives up only when steps are rejected down to `dtmin`.

    A step that misses a time to be saved by rounding is followed by one of that length: it is short because it was cut,
    not because the motion needs it.
    """

    def adapt_step_size(self, *args: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        keep, *rest, result = super().adapt_step_size(*args)
        return keep, *rest, diffrax.RESULTS.where(keep, diffrax.RESULTS.successful, result)


def _state_norm(error: Any) -> Float[Array, ""]:
    """Error of a `State` in coordinates, velocities and memory; the bookkeeping of work does not set the step."""
    return jnp.maximum(_rms((error.q, error.v)), _rms(error.memory))


def _rms(tree: Any) -> Float[Array, ""]:
    parts = [jnp.ravel(x) for x in jax.tree.leaves(tree) if x.size]
    if not parts:
        return jnp.zeros(())
    mean = jnp.mean(jnp.concatenate(parts) ** 2)
    return jnp.where(mean > 0, jnp.sqrt(jnp.where(mean > 0, mean, 1.0)), 0.0)  # its derivative at zero is zero
