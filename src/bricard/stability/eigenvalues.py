"""Is this equilibrium stable? Eigenvalues by three routes that must agree."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from jax.typing import ArrayLike

from bricard.errors import ModelError, needs_numbers
from bricard.stability.loop import Loop, close_loop, closed_matrix
from bricard.stability.pencil import finite_eigenvalues
from bricard.stability.sensitivity import detect, full_matrices
from bricard.stability.spectrum import Spectrum, order, settle
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

    - `v`: of a steady motion that looks the same at all times, such as a governor that spins; rest by default.
    - `method`: "tangent" restricts the equations to the motions that the constraints allow (the default: fast, exact);
      "sensitivity" linearises in all coordinates with `a₁Φ̇ + a₂Φ` added to the constraints and sorts out what answers
      to `a₁, a₂` (chosen well unless given), with its exact derivatives; "pencil" takes the finite eigenvalues of the
      equations with their multipliers. All three give the same `physical` ones.

    Redundant constraints and controllers with memory are included. Raises `ModelError` if the state is not at rest
    (with the acceleration that is left) or the configuration is singular.
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
    """How many eigenvalues the description in all coordinates has too many: `2 rank A` without velocity constraints."""
    return 2 * loop.system.nv - loop.model.a.shape[0]


def tangent_spectrum(loop: Loop) -> Spectrum:
    """On the tangent space of the constraints."""
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
    """A spectrum in order, with defective pairs settled and shares of coordinates in each mode."""
    values = settle(values, vectors, float(np.max(np.abs(loop.model.a), initial=1.0)))
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
