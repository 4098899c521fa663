"""Stability of digital control: the map from sample to sample, its eigenvalues, and margins of delay and period.

Between samples the input is held: `x(t + T) = a_d x + b_d u`, exact by a matrix exponential. The state of the map
is `(x, memory of the law, delayed inputs)`: a delay of `n` samples adds `n` inputs, not `n` copies of the state.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
import scipy.linalg
import scipy.optimize
from jax.typing import ArrayLike

from bricard.errors import ModelError, needs_numbers
from bricard.simulation.controller import ConstantInput, Controller
from bricard.simulation.digital import Sampled
from bricard.stability.eigenvalue_routes import make_spectrum, spurious_count
from bricard.stability.loop import Loop, close_loop, law_terms, reduced_law
from bricard.stability.sensitivity import choose_parameters, full_matrices, separate_spurious
from bricard.stability.spectrum import Spectrum
from bricard.system import System, VectorLike

LONGEST = 1000
"""Margins are searched up to this many times the period of the loop, or this many samples of delay."""


@dataclasses.dataclass(frozen=True)
class SampledMap:
    """The linear map `z⁺ = matrix @ z` over one sample, or over one period of a periodic controller."""

    matrix: np.ndarray
    """(n, n); `z` is the reduced state, the memory of the law, then the delayed inputs, oldest first."""
    spectrum: Spectrum = dataclasses.field(repr=False)
    period: float
    """Sampling period (s)."""
    samples: int
    """Number of samples that the map covers."""
    delay_samples: int

    @property
    def physical(self) -> np.ndarray:
        """Eigenvalues of the map, over all its `samples`."""
        return self.spectrum.physical

    @property
    def spurious(self) -> np.ndarray:
        """Eigenvalues of deviations off the constraints (only for the method "sensitivity")."""
        return self.spectrum.spurious

    @property
    def radius(self) -> float:
        """Spectral radius `ρ`, over all its `samples`."""
        return self.spectrum.radius

    @property
    def decay_index(self) -> float:
        """Growth factor per sample, `ρ^(1/samples)`, to compare controllers with different numbers of samples."""
        return self.radius ** (1.0 / self.samples)

    @property
    def decay_rate(self) -> float:
        """Growth rate `log ρ` per second (1/s); negative if deviations decay."""
        return float(np.log(max(self.decay_index, np.finfo(float).tiny)) / self.period)

    @property
    def stable(self) -> bool:
        """Whether all small deviations decay."""
        return self.spectrum.stable

    def __str__(self) -> str:
        what = "" if self.samples == 1 else f", decay index {self.decay_index:.6g} over {self.samples} samples"
        return (
            f"sampled every {self.period:g} s, {self.delay_samples} samples late: {self.spectrum.verdict}, "
            f"spectral radius {self.radius:.6g}{what}, {self.decay_rate:+.4g} 1/s"
        )


@needs_numbers
def sampled_map(
    system: System,
    q: VectorLike,
    loop: Any,
    *,
    v: VectorLike | float | None = None,
    t: ArrayLike = 0.0,
    method: str = "tangent",
    a1: float | None = None,
    a2: float | None = None,
) -> SampledMap:
    """The map from sample to sample of a digital loop about the equilibrium `q`, exact for its zero-order hold.

    `loop` is `Sampled(controller, period, delay_samples)`; for a controller with `phases` (one law per sample of its
    period) the map is the product over a period. `method="sensitivity"` keeps all coordinates, with `a₁Φ̇ + a₂Φ` in the
    constraints, and identifies the spurious eigenvalues by their dependence on `a1` and `a2`; "tangent" has none.
    """
    check_sampled(loop)
    if method not in ("tangent", "sensitivity"):
        raise ModelError("sampled_map", [f"method: tangent or sensitivity, not {method!r}"])
    period, delay, laws = float(loop.period), loop.delay_samples, phases(loop)
    closed = close_phases(system, q, v, t, laws, loop.period)
    base = closed[0]
    if method == "tangent":
        model = base.model
        ad, bd = zero_order_hold(model.a, model.b, period)
        steps = [step_matrices(ad, bd, c.law, delay) for c in closed]
        matrix = product(steps)
        values, right = np.linalg.eig(matrix)
        left = np.linalg.pinv(right)
        n = model.a.shape[0]
        vectors = np.vstack([model.embed @ right[:n], right[n:]])
        lifted = np.hstack([left[:, :n] @ model.reduce, left[:, n:]])
        spectrum = make_spectrum(base, method, values, vectors, lifted, period=period * len(laws))
    else:
        matrix, spectrum = _in_all_coordinates(closed, period, delay, a1, a2)
    return SampledMap(matrix, spectrum, period, len(laws), delay)


def check_sampled(loop: Any) -> None:
    """Raise `ModelError` if `loop` is not `Sampled`."""
    if not isinstance(loop, Sampled):
        raise ModelError("sampled_map", [f"the loop must be Sampled(controller, period, delay_samples), not {loop!r}"])


def phases(loop: Sampled) -> tuple[Controller, ...]:
    """The laws of the samples of a period; a single one unless the controller is periodic."""
    return tuple(getattr(loop.controller, "phases", None) or (loop.controller,))


def close_phases(
    system: System, q: VectorLike, v: Any, t: ArrayLike, laws: Sequence[Controller], period: Any
) -> list[Loop]:
    """The loops of all laws about the same equilibrium, with the memory of the first law."""
    first = close_loop(system, q, v, None, t, laws[0], period)
    closed = [first]
    for law in laws[1:]:
        terms = law_terms(law, system, first.q, first.v, first.t, first.memory, jnp.asarray(period, dtype=float))
        gap = float(np.max(np.abs(np.concatenate([terms.u - first.u, terms.drift])), initial=0.0))
        if not gap < 1e-6 * (1.0 + float(np.max(np.abs(first.u), initial=0.0))):
            raise ModelError(
                "sampled_map",
                [f"the laws of a periodic controller must hold the same equilibrium; their inputs differ by {gap:.3g}"],
            )
        closed.append(first._replace(controller=law, response=np.asarray(terms.response)))
    return closed


def zero_order_hold(a: np.ndarray, b: np.ndarray, period: float) -> tuple[np.ndarray, np.ndarray]:
    """Discretise `ẋ = a x + b u` with a zero-order hold; returns `(a_d, b_d)`."""
    n, nu = b.shape
    block = np.zeros((n + nu, n + nu))
    block[:n, :n], block[:n, n:] = a, b
    power = scipy.linalg.expm(block * period)
    return power[:n, :n], power[:n, n:]


def step_matrices(ad: np.ndarray, bd: np.ndarray, law: np.ndarray, delay: int) -> np.ndarray:
    """The map over one sample for a law (…, nu + nm, n + nm) and a delay in samples; batch axes are broadcast."""
    n, nu = bd.shape[-2:]
    nm = law.shape[-1] - n
    size = n + nm + delay * nu
    batch = np.broadcast_shapes(ad.shape[:-2], bd.shape[:-2], law.shape[:-2])
    step = np.zeros((*batch, size, size))
    step[..., :n, :n] = ad
    step[..., n : n + nm, : n + nm] = law[..., nu:, :]
    if delay == 0:
        step[..., :n, : n + nm] += bd @ law[..., :nu, :]
        return step
    queue = n + nm
    step[..., :n, queue : queue + nu] = bd
    step[..., size - nu :, : n + nm] = law[..., :nu, :]
    for i in range(nu * (delay - 1)):
        step[..., queue + i, queue + nu + i] = 1.0
    return step


def product(steps: Sequence[np.ndarray]) -> np.ndarray:
    """The map over all steps, in the order in which they are taken."""
    return functools.reduce(lambda total, step: step @ total, steps)


@needs_numbers
def delay_margin(system: System, q: VectorLike, loop: Any, *, t: ArrayLike = 0.0) -> int:
    """Largest stable delay in samples; −1 if the loop is unstable without delay. The delay of `loop` is ignored."""
    check_sampled(loop)
    closed, period = close_phases(system, q, None, t, phases(loop), loop.period), float(loop.period)
    ad, bd = zero_order_hold(closed[0].model.a, closed[0].model.b, period)
    for delay in range(LONGEST):
        values = np.linalg.eigvals(product([step_matrices(ad, bd, c.law, delay) for c in closed]))
        if np.max(np.abs(values), initial=0.0) >= 1.0:
            return delay - 1
    return LONGEST


@needs_numbers
def period_margin(system: System, q: VectorLike, loop: Any, *, t: ArrayLike = 0.0) -> float:
    """Largest sampling period (s) up to which the loop stays stable, starting from its own period, with its delay.

    Infinite if there is no limit within `LONGEST` times its own period. Periods are tried in steps of 5 per cent, so
    that a narrower interval of instability can be missed.
    """
    check_sampled(loop)
    laws, own = phases(loop), float(loop.period)
    closed = close_phases(system, q, None, t, laws, loop.period)
    base = closed[0]

    def excess(period: float) -> float:
        ad, bd = zero_order_hold(base.model.a, base.model.b, period)
        responses = (
            law_terms(law, system, base.q, base.v, base.t, base.memory, jnp.asarray(period)).response for law in laws
        )
        steps = [step_matrices(ad, bd, reduced_law(np.asarray(r), base.model), loop.delay_samples) for r in responses]
        return float(np.max(np.abs(np.linalg.eigvals(product(steps))), initial=0.0)) - 1.0

    now = excess(own)
    if now >= 0.0:
        raise ModelError("period_margin", [f"unstable at its own period of {own:g} s: spectral radius {1 + now:.6g}"])
    shorter, longer = own, 1.05 * own
    while excess(longer) < 0.0:
        shorter, longer = longer, 1.05 * longer
        if longer > LONGEST * own:
            return np.inf
    root: Any = scipy.optimize.brentq(excess, shorter, longer, xtol=1e-12 * own)
    return float(root)


def _in_all_coordinates(
    closed: list[Loop], period: float, delay: int, a1: float | None, a2: float | None
) -> tuple[np.ndarray, Spectrum]:
    """The map and its spectrum in all coordinates, with the derivatives of all eigenvalues by `a₁` and `a₂`."""
    base = closed[0]
    free = base._replace(controller=ConstantInput(base.u), memory=jnp.zeros(0))
    full, count = full_matrices(free), spurious_count(base)
    if a1 is None or a2 is None:
        a1, a2 = choose_parameters(full, count)
    a, b = full.a + a1 * full.g1 + a2 * full.g2, base.model.embed @ base.model.b
    n, nu = b.shape
    block = np.zeros((n + nu, n + nu))
    block[:n, :n], block[:n, n:] = a * period, b * period
    power, slopes = scipy.linalg.expm(block), []
    for g in (full.g1, full.g2):
        direction = np.zeros_like(block)
        direction[:n, :n] = g * period
        slopes.append(scipy.linalg.expm_frechet(block, direction, compute_expm=False))
    steps = [step_matrices(power[:n, :n], power[:n, n:], c.response, delay) for c in closed]
    matrix = product(steps)
    by = [_product_slope(steps, [_plant_slope(s, n, c, delay) for c in closed]) for s in slopes]
    values, right = np.linalg.eig(matrix)
    left = np.linalg.pinv(right)
    roots = np.exp(np.roots([1.0, a1, a2]) * period * len(closed))
    nonholonomic = np.exp(-a1 * period * len(closed))
    # Sensitivities, normalised by those of a spurious eigenvalue e^{sT}.
    by_a1, by_a2 = (np.einsum("ij,jk,ki->i", left, g, right) for g in by)
    span = period * len(closed)
    rate = np.log(np.where(np.abs(values) > 1e-300, values, 1e-300).astype(complex)) / span
    slope = np.abs(2 * rate + a1) / (span * np.maximum(np.abs(values), 1e-300))
    measure = slope * (np.abs(by_a1) / np.maximum(np.abs(rate), 1e-12) + np.abs(by_a2))
    measure = np.where(np.abs(values) < 0.1 * min(np.min(np.abs(roots)), nonholonomic), 0.0, measure)
    physical, spurious = separate_spurious(measure, count, a1, a2)
    sensitivity = np.stack([by_a1, by_a2], axis=1)[np.concatenate([physical, spurious])]
    spectrum = make_spectrum(
        base,
        "sensitivity",
        values[physical],
        right[:, physical],
        left[physical],
        spurious=values[spurious],
        sensitivity=sensitivity,
        period=span,
    )
    return matrix, spectrum


def _plant_slope(slope: np.ndarray, n: int, loop: Loop, delay: int) -> np.ndarray:
    """Derivative of the matrix of one step, from that of the discretised plant."""
    changed = step_matrices(slope[:n, :n], slope[:n, n:], loop.response, delay)
    changed[n:] = 0.0
    return changed


def _product_slope(steps: list[np.ndarray], slopes: list[np.ndarray]) -> np.ndarray:
    """Derivative of the product of the steps, from those of the steps."""
    return sum(
        (product([*steps[:i], slope, *steps[i + 1 :]]) for i, slope in enumerate(slopes)), np.zeros_like(steps[0])
    )
