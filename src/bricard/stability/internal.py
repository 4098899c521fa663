"""Internal dynamics: the motion that remains while an output is held at rest, and whether it is stable (minimum phase).

With `p` outputs held at rest by `p` inputs the remaining motion satisfies `Wᵀ(M s² + C s + K) Z = 0`: `Z` spans the
admissible motions that do not change the outputs, and `W` the directions in which no input acts.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np
import scipy.linalg
from jax.typing import ArrayLike
from jaxtyping import Array

from bricard.control.output import BlendedOutput, Output, make_output
from bricard.equations.linearization import as_numbers
from bricard.equations.rank import subspaces
from bricard.errors import ModelError, needs_numbers
from bricard.execution.compile import xla_jit
from bricard.stability.loop import Loop, close_loop
from bricard.stability.spectrum import MARGIN, Complex, Verdict, merge_defective_pairs, order
from bricard.system import System, Vector, VectorLike

if TYPE_CHECKING:
    import xarray

INFINITE = 1e7
"""Eigenvalues larger than this many times the natural frequency of the system count as infinite."""


@dataclasses.dataclass(frozen=True)
class InternalDynamics:
    """Eigenvalues of the motion that remains when an output is held at rest."""

    eigenvalues: Complex
    """Complex (1/s): the zeros from inputs to output. Empty for a flat output."""
    outputs: tuple[str, ...]
    regular: bool
    """Whether inputs affect the second derivative of every output (relative degree 2); if not, it has fewer zeros."""

    @property
    def abscissa(self) -> float:
        """Largest real part (1/s); −∞ if there are no eigenvalues."""
        return float(np.max(self.eigenvalues.real, initial=-np.inf))

    @property
    def verdict(self) -> Verdict:
        """Stability of the remaining motion while the output is held."""
        margin = MARGIN * max(1.0, float(np.max(np.abs(self.eigenvalues), initial=0.0)))
        return "stable" if self.abscissa < -margin else "unstable" if self.abscissa > margin else "marginal"

    @property
    def minimum_phase(self) -> bool:
        """Whether the internal dynamics are stable, so that exact tracking of this output is stable."""
        return self.verdict == "stable"

    def __str__(self) -> str:
        rest = ", ".join(f"{x.real:+.5g}{x.imag:+.5g}i" for x in self.eigenvalues) or "none (nothing is left over)"
        kind = {"stable": "minimum phase", "unstable": "not minimum phase", "marginal": "marginal"}[self.verdict]
        return f"{', '.join(self.outputs)} held: {kind}. Eigenvalues of the rest (1/s): {rest}"


@needs_numbers
def internal_dynamics(
    system: System,
    q: VectorLike,
    output: Any,
    *,
    u: VectorLike | None = None,
    inputs: str | tuple[str, ...] | None = None,
    t: ArrayLike = 0.0,
) -> InternalDynamics:
    """Eigenvalues of the motion that remains while `inputs` hold `output` at the equilibrium `q` with inputs `u`.

    `output` is a function of `q`, a sensor's name or names of coordinates, as for `br.control.ServoConstraint`;
    `inputs` names the inputs in use (all by default); there must be as many as outputs.
    """
    loop = close_loop(system, q, None, u, t)
    return _internal(loop, make_output(system, output, "internal_dynamics"), inputs)


@needs_numbers
def blended_dynamics(
    system: System,
    q: VectorLike,
    task: Any,
    stabilizer: Any,
    kappa: VectorLike,
    *,
    u: VectorLike | None = None,
    t: ArrayLike = 0.0,
) -> xarray.Dataset:
    """Internal dynamics over the blending factor of `κ task + (1 − κ) stabilizer`, labelled (extra `xarray`).

    The dataset has `eigenvalue` (kappa, mode), padded with NaN, `abscissa` (kappa) and `stable` (kappa). Its attribute
    `limits` lists the factors at which the verdict changes.
    """
    import xarray

    loop = close_loop(system, q, None, u, t)
    first, second = (make_output(system, x, "blended_dynamics") for x in (task, stabilizer))
    values = np.atleast_1d(np.asarray(kappa, dtype=float))
    if values.ndim != 1 or not np.all(np.isfinite(values)):
        raise ModelError("blended_dynamics", ["kappa: a list of finite numbers"])

    def at(kappa: float) -> InternalDynamics:
        return _internal(loop, BlendedOutput(first, second, jnp.asarray(kappa)), None)

    found = [at(k) for k in values]
    width = max(len(x.eigenvalues) for x in found)
    table = np.full((len(values), width), np.nan + 0j)
    for i, one in enumerate(found):
        table[i, : len(one.eigenvalues)] = one.eigenvalues
    pairs = zip(values, values[1:], found, found[1:], strict=False)
    limits = [_limit(at, float(a), float(b), x.verdict) for a, b, x, y in pairs if x.verdict != y.verdict]
    return xarray.Dataset(
        {
            "eigenvalue": (("kappa", "mode"), table, {"units": "1/s"}),
            "abscissa": ("kappa", np.array([x.abscissa for x in found]), {"units": "1/s"}),
            "stable": ("kappa", np.array([x.minimum_phase for x in found])),
        },
        coords={"kappa": values},
        attrs={"system": type(system).__name__, "limits": limits},
    )


def _limit(at: Callable[[float], InternalDynamics], low: float, high: float, verdict: str) -> float:
    """The factor between `low` and `high` at which the verdict changes, by bisection."""
    for _ in range(40):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if at(middle).verdict == verdict else (low, middle)
    return 0.5 * (low + high)


def _internal(loop: Loop, output: Output, inputs: str | tuple[str, ...] | None) -> InternalDynamics:
    system, terms, basis = loop.system, as_numbers(loop.terms), loop.model.velocity_basis
    used = _columns(system, inputs)
    if basis.shape[1] != loop.model.position_basis.shape[1]:
        raise ModelError("internal_dynamics", ["velocity constraints are not supported here"])
    if len(output.names) != len(used):
        raise ModelError(
            "internal_dynamics",
            [f"{len(output.names)} outputs but {len(used)} inputs: name as many `inputs` as there are outputs"],
        )
    seen = np.asarray(_jacobian(output, system, loop.q, loop.t)) @ basis
    acting = basis.T @ terms.inputs[:, used]
    rest, untouched = subspaces(_unit(seen, 1)).null, subspaces(_unit(acting.T, 1)).null
    mass, damping, stiffness = (
        untouched.T @ basis.T @ x @ basis @ rest for x in (terms.mass, terms.damping, terms.stiffness)
    )
    n, width = mass.shape
    if n != width:
        raise ModelError("internal_dynamics", ["outputs or inputs are dependent here: the rest is not determined"])
    if n == 0:
        return InternalDynamics(np.zeros(0, complex), output.names, regular=True)
    inertia = basis.T @ terms.mass @ basis
    regular = bool(np.linalg.svd(mass, compute_uv=False)[-1] > 1e-9 * np.linalg.norm(inertia))
    zero, one = np.zeros((n, n)), np.eye(n)
    f = np.block([[zero, one], [-stiffness, -damping]])
    e = np.block([[one, zero], [zero, mass]])
    pairs: Any = scipy.linalg.eig(f, e, homogeneous_eigvals=True)
    (alpha, beta), vectors = pairs
    pace = max(1.0, float(np.sqrt(np.linalg.norm(stiffness) / np.linalg.norm(inertia))))
    finite = np.abs(alpha) < INFINITE * pace * np.abs(beta)
    values = merge_defective_pairs(alpha[finite] / beta[finite], vectors[:, finite], pace**2)
    return InternalDynamics(values[order(values, sampled=False)], output.names, regular)


@xla_jit
def _jacobian(output: Output, system: System, q: Vector, t: Array) -> Array:
    return output.jacobian(system, q, t)


def _columns(system: System, inputs: str | tuple[str, ...] | None) -> list[int]:
    names = system.input_names if inputs is None else (inputs,) if isinstance(inputs, str) else tuple(inputs)
    unknown = [n for n in names if n not in system.input_names]
    if unknown:
        known = ", ".join(system.input_names)
        raise ModelError("internal_dynamics", [f"no input called {n!r}; there are {known}" for n in unknown])
    return [system.input_names.index(n) for n in names]


def _unit(matrix: np.ndarray, axis: int) -> np.ndarray:
    """The matrix scaled to unit norm along `axis`."""
    size = np.linalg.norm(matrix, axis=axis, keepdims=True)
    return matrix / np.where(size > 0, size, 1.0)
