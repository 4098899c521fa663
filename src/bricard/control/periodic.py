"""Servo-constraints that change from sample to sample."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from bricard.control.tracking import Blended
from bricard.errors import ModelError
from bricard.simulation.controller import Controller, DigitalController
from bricard.system import Scalar, Vector, VectorLike


class Periodic(DigitalController):
    """The task for `k` samples, then its stabilizer for `l` samples, and again: a digital law, for `Sampled`.

    Or any `pattern` of blending factors, one for each sample of a period.
    """

    law: Blended
    pattern: Float[Array, " n"]

    def __init__(self, law: Any, k: Any = 1, l: Any = 1, *, pattern: VectorLike | None = None):
        problems = []
        if not isinstance(law, Blended):
            problems.append(f"law: a Blended, not {type(law).__name__}")
        if pattern is None and not (isinstance(k, int) and isinstance(l, int) and k >= 0 and l >= 0 and k + l >= 1):
            problems.append(f"k and l: numbers of samples, not {k!r} and {l!r}")
        if problems:
            raise ModelError("Periodic", problems)
        pattern = [1.0] * k + [0.0] * l if pattern is None else pattern
        self.law, self.pattern = law, jnp.asarray(pattern, dtype=float)
        if self.pattern.ndim != 1 or self.pattern.shape[0] == 0:
            raise ModelError("Periodic", [f"pattern: a list of blending factors, not shape {self.pattern.shape}"])

    @property
    def phases(self) -> tuple[Controller, ...]:
        """The law of each sample of a period."""
        return tuple(self.law.with_kappa(kappa) for kappa in self.pattern)

    def check(self, t: Scalar, q: Vector, v: Vector) -> None:
        for phase in self.phases:
            phase.check(t, q, v)

    def start(self, t: Scalar, q: Vector, v: Vector) -> Float[Array, ""]:
        """The count of samples."""
        return jnp.zeros(())

    def step(self, t: Scalar, q: Vector, v: Vector, memory: Array, period: Scalar) -> tuple[Vector, Array]:
        which = jnp.mod(jnp.round(memory), self.pattern.shape[0]).astype(int)
        u = self.law.with_kappa(self.pattern[which])(t, q, v, jnp.zeros(0))
        return u, jax.lax.stop_gradient(memory) + 1.0

    def signals(self, t: Scalar, q: Vector, v: Vector, memory: Array) -> dict[str, Array]:
        return self.law.signals(t, q, v, jnp.zeros(0))
