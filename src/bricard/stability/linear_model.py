"""Linearisation of a constrained system, as state-space and descriptor matrices for other tools."""

from __future__ import annotations

import dataclasses
import importlib
from typing import Any, NamedTuple

import numpy as np
from jax.typing import ArrayLike

from bricard.control.output import make_output
from bricard.errors import ModelError, needs_numbers
from bricard.stability.loop import Loop, close_loop, closed_matrix
from bricard.stability.pencil import descriptor
from bricard.system import System, VectorLike


class DescriptorForm(NamedTuple):
    """`E ẋ = A x + B δu`, `δy = C x`, with `x = (θ, δv, memory, multipliers of independent constraint rows)`."""

    E: np.ndarray
    A: np.ndarray
    B: np.ndarray
    C: np.ndarray


@dataclasses.dataclass(frozen=True)
class Linearization:
    """State-space model `ẋ = A x + B δu`, `δy = C x` of the admissible motions about the equilibrium `q`.

    `δu` is added to the inputs. `x` holds the reduced state (positions along a basis of admissible motions, then
    velocities), then the memory of the controller.
    """

    A: np.ndarray
    """System matrix, (n, n)."""
    B: np.ndarray
    """Input matrix, (n, nu)."""
    C: np.ndarray
    """Output matrix, (p, n)."""
    embed: np.ndarray
    """(2 nv, n): maps a reduced state to the deviations `(θ, δv)`; `δq = N θ`, which is `θ` if `q̇ = v`."""
    reduce: np.ndarray
    """(n, 2 nv): maps deviations on the constraints to the reduced state."""
    descriptor: DescriptorForm = dataclasses.field(repr=False)
    """The same model with constraints and multipliers."""
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    loop: Loop = dataclasses.field(repr=False)

    @property
    def D(self) -> np.ndarray:
        """Feedthrough matrix, (p, nu): zero, since outputs are functions of the state."""
        return np.zeros((self.C.shape[0], self.B.shape[1]))

    def to_control(self) -> Any:
        """The model as a `control.StateSpace` of python-control (extra `control`)."""
        try:
            control: Any = importlib.import_module("control")
        except ImportError:
            raise ModelError("to_control", ["python-control is not installed: pip install control"]) from None
        return control.ss(self.A, self.B, self.C, self.D, inputs=list(self.inputs), outputs=list(self.outputs))


@needs_numbers
def linearize(
    system: System,
    q: VectorLike,
    v: VectorLike | float | None = None,
    u: VectorLike | None = None,
    *,
    controller: Any = None,
    output: Any = None,
    t: ArrayLike = 0.0,
) -> Linearization:
    """Exact linearisation of the system (with its `controller`, if given) about the equilibrium `q`.

    - `u` (nu,): inputs that hold the equilibrium, zero by default. `v` (nv,): velocity of a steady motion, zero by
      default. `t`: time (s).
    - `output`: a function of `q`, or names of a sensor or of coordinates; by default all positions `θ` and velocities.

    The derivatives of the constraint forces are included. Raises `ModelError` if the state is not at rest.
    """
    loop = close_loop(system, q, v, u, t, controller)
    nv, nm, model = system.nv, loop.n_memory, loop.model
    if output is None:
        names = system.velocity_names
        outputs = (*names, *(f"{n} rate" for n in names))
        seen = np.eye(2 * nv)
    else:
        made = make_output(system, output, "linearize")
        outputs = made.names
        jacobian = np.asarray(made.jacobian(system, loop.q, loop.t))
        seen = np.hstack([jacobian, np.zeros_like(jacobian)])
    pencil = descriptor(loop)
    size = pencil.e.shape[0]
    return Linearization(
        A=closed_matrix(loop),
        B=np.vstack([model.b, np.zeros((nm, model.b.shape[1]))]),
        C=np.hstack([seen @ model.embed, np.zeros((len(outputs), nm))]),
        embed=np.hstack([model.embed, np.zeros((2 * nv, nm))]),
        reduce=np.vstack([model.reduce, np.zeros((nm, 2 * nv))]),
        descriptor=DescriptorForm(
            pencil.e, pencil.f, pencil.g, np.hstack([seen, np.zeros((len(outputs), size - 2 * nv))])
        ),
        inputs=system.input_names,
        outputs=outputs,
        loop=loop,
    )
