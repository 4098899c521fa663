"""Eigenvalues of a loop linearised about an equilibrium, by three independent methods with the same result."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from jax.typing import ArrayLike

from bricard.errors import ModelError, needs_numbers
from bricard.stability.loop import Loop, close_loop, closed_matrix
from bricard.stability.pencil import finite_eigenvalues
from bricard.stability.sensitivity import detect, full_matrices
from bricard.stability.spectrum import Spectrum, merge_defective_pairs, order
from bricard.system import System, VectorLike

Method = Literal["tangent", "sensitivity", "pencil"]
METHODS = ("tangent", "sensitivity", "pencil")


@needs_numbers
def eigenvalues(
    system: System,
    q: VectorLike,
    v: VectorLike | float | None = None,
    u: VectorLike | None = None,
    *,
    controller: Any = None,
    t: ArrayLike = 0.0,
    method: Method = "tangent",
    a1: float | None = None,
    a2: float | None = None,
) -> Spectrum:
    """Eigenvalues of small motions about the equilibrium `q`, with inputs `u` held or under a `controller`.

    - `v` (nv,): velocity of a steady motion, such as of a spinning governor; zero by default. `t`: time (s).
    - `method`: "tangent" (default, fast and exact) restricts the equations to the tangent space of the constraints.
      "sensitivity" linearises in all coordinates with `a₁Φ̇ + a₂Φ` added to the constraints; eigenvalues that depend on
      `a1` and `a2` (chosen automatically unless both are given) are `spurious`. "pencil" computes the finite
      eigenvalues of the equations with multipliers. All three give the same `physical` eigenvalues.

    Constraints may be redundant, and the controller may have memory. Raises `ModelError` if the state is not at rest
    (with the remaining acceleration) or if the configuration is singular.
    """
    if method not in METHODS:
        raise ModelError("eigenvalues", [f"method: {', '.join(METHODS)}, not {method!r}"])
    if (a1 is not None or a2 is not None) and (method != "sensitivity" or a1 is None or a2 is None):
        raise ModelError("eigenvalues", ["a1 and a2 belong to method='sensitivity', both of them"])
    loop = close_loop(system, q, v, u, t, controller)
    if method == "tangent":
        return tangent_spectrum(loop)
    if method == "pencil":
        values, vectors = finite_eigenvalues(loop)
        left = np.linalg.pinv(vectors)
        return make_spectrum(loop, method, values, vectors, left)
    found = detect(full_matrices(loop), spurious_count(loop), a1, a2)
    return make_spectrum(
        loop, method, found.physical, found.vectors, found.left, spurious=found.spurious, sensitivity=found.sensitivity
    )


def spurious_count(loop: Loop) -> int:
    """Number of spurious eigenvalues in all coordinates: `2 rank A` if there are no velocity constraints."""
    return 2 * loop.system.nv - loop.model.a.shape[0]


def tangent_spectrum(loop: Loop) -> Spectrum:
    """The spectrum on the tangent space of the constraints."""
    values, reduced = np.linalg.eig(closed_matrix(loop))
    left = np.linalg.pinv(reduced)
    n = loop.model.a.shape[0]
    vectors = np.vstack([loop.model.embed @ reduced[:n], reduced[n:]])
    lifted = np.hstack([left[:, :n] @ loop.model.reduce, left[:, n:]])
    return make_spectrum(loop, "tangent", values, vectors, lifted)


def make_spectrum(
    loop: Loop,
    method: str,
    values: np.ndarray,
    vectors: np.ndarray,
    left: np.ndarray,
    *,
    spurious: np.ndarray | None = None,
    sensitivity: np.ndarray | None = None,
    period: float | None = None,
) -> Spectrum:
    """The spectrum, sorted, with defective pairs merged and with participation factors of each mode."""
    values = merge_defective_pairs(values, vectors, float(np.max(np.abs(loop.model.a), initial=1.0)))
    chosen = order(values, sampled=period is not None)
    share = np.abs(vectors * left.T)
    total = np.sum(share, axis=0)
    share = share / np.where(total > 0, total, 1.0)
    if sensitivity is not None:
        sensitivity = np.vstack([sensitivity[: len(values)][chosen], sensitivity[len(values) :]])
    return Spectrum(
        physical=values[chosen].astype(complex),
        spurious=np.zeros(0, complex) if spurious is None else np.sort_complex(spurious),
        method=method,
        vectors=vectors[:, chosen],
        participation=share[: 2 * loop.system.nv, chosen],
        loop=loop,
        period=period,
        sensitivity=sensitivity,
    )
