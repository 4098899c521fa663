"""What drives a run: constant inputs, inputs over time, or a feedback of the state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from bricard.errors import ModelError
from bricard.system import Scalar, System, Vector


class Input(eqx.Module):
    """`u` (nu,) as a function of time and state, whichever way it was given."""

    constant: Array | None
    function: Callable[..., Any] | None

    def __call__(self, t: Scalar, q: Vector, v: Vector) -> Vector:
        """The inputs at a state."""
        if self.constant is not None:
            return self.constant
        assert self.function is not None
        return jnp.asarray(self.function(t, q, v), dtype=float)


class _OfTime(eqx.Module):
    function: Callable[..., Any]

    def __call__(self, t: Scalar, q: Vector, v: Vector) -> Any:
        return self.function(t)


def make_input(system: System, u: Any, controller: Callable[..., Any] | None) -> Input:
    """Check `u` (numbers or a function of time) and `controller` (a function of `t, q, v`); one may be given."""
    if u is not None and controller is not None:
        raise ModelError("simulate", ["give either `u` or `controller`, not both"])
    if u is None and controller is None:
        return Input(jnp.zeros(system.nu), None)
    if u is not None and not callable(u):
        return Input(system.vector(u, "u"), None)
    name, made = ("u", Input(None, _OfTime(u))) if callable(u) else ("controller", Input(None, controller))
    state = tuple(jnp.zeros(n) for n in (system.nq, system.nv))
    try:
        shape = jax.eval_shape(lambda q, v: made(jnp.zeros(()), q, v), *state).shape
    except Exception as error:
        raise ModelError("simulate", [f"`{name}` fails: {type(error).__name__}: {error}"]) from error
    if shape != (system.nu,):
        raise ModelError(
            "simulate",
            [f"`{name}` returns shape {shape}, but {type(system).__name__} has {system.nu} inputs"],
        )
    return made
