"""Mode shapes: the motion that belongs to an eigenvalue, and its animation."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from bricard.equations.problem import row_variation
from bricard.equations.routes.proximal import Proximal
from bricard.execution.compile import xla_jit
from bricard.simulation.controller import ConstantInput
from bricard.simulation.stabilization import Project
from bricard.simulation.trajectory import Trajectory
from bricard.system import System

if TYPE_CHECKING:
    from bricard.stability.loop import Loop


@dataclasses.dataclass(frozen=True)
class Mode:
    """A mode about an equilibrium, `θ(t) = Re(shape e^{st})`."""

    loop: Loop = dataclasses.field(repr=False)
    value: complex
    """Eigenvalue `s` (1/s)."""
    shape: np.ndarray
    """(nv,) complex: amplitude and phase of each entry of `θ`."""
    velocity: np.ndarray
    """(nv,) complex: amplitude and phase of each velocity."""

    @property
    def period(self) -> float:
        """Period of the oscillation (s); infinite if the eigenvalue is real."""
        return 2 * np.pi / abs(self.value.imag) if self.value.imag != 0 else np.inf

    def deviation(self, phases: np.ndarray) -> np.ndarray:
        """`θ` (k, nv) at `phases` (rad) of an oscillation of constant amplitude; the largest entry has amplitude 1."""
        largest = self.shape[np.argmax(np.abs(self.shape))]
        shape = self.shape / largest if abs(largest) > 0 else self.shape
        return np.real(shape[None, :] * np.exp(1j * np.asarray(phases))[:, None])

    def trajectory(self, amplitude: float = 0.1, swings: int = 2, frames: int = 121) -> Trajectory:
        """An oscillation in this mode with constant `amplitude` (m, rad), projected onto the constraints.

        `swings` periods are sampled at `frames` times. A mode with a real eigenvalue is shown with a period of 1 s.
        """
        system = self.loop.system
        period = self.period if np.isfinite(self.period) else 1.0
        phases = np.linspace(0.0, 2 * np.pi * swings, frames)
        theta = jnp.asarray(amplitude * self.deviation(phases))
        speed = jnp.asarray(amplitude * self.deviation(phases + 0.5 * np.pi) * 2 * np.pi / period)
        q, v = _on_constraints(system, self.loop.q, self.loop.t, theta, speed)
        return Trajectory(
            system=system,
            route=Proximal(),
            stabilization=None,
            controller=ConstantInput(self.loop.u),
            t=jnp.asarray(phases / (2 * np.pi) * period),
            q=q,
            v=v,
            work=jnp.zeros((frames, 3)),
            memory=jnp.zeros((frames, 0)),
            result=diffrax.RESULTS.successful,
            stats={},
            settings={"shown": f"one mode of the linearised motion, s = {self.value:.5g} 1/s"},
        )

    def report(self, path: str | Path, amplitude: float = 0.1) -> Path:
        """Write one HTML page with the animation of this mode; returns its path."""
        return self.trajectory(amplitude).report(path)


@xla_jit
def _on_constraints(
    system: System, q: Float[Array, " nq"], t: Float[Array, ""], theta: Float[Array, "k nv"], v: Float[Array, "k nv"]
) -> tuple[Float[Array, "k nq"], Float[Array, "k nv"]]:
    variation, project = row_variation(system, q, t), Project()

    def one(pair):
        near = system.normalize(q + system.qdot(q, pair[0]))
        return project.project(system, near, pair[1], t, variation)[:2]

    return jax.lax.map(one, (theta, v))
