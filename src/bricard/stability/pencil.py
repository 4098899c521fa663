"""Eigenvalues of the linearised equations with multipliers: the finite eigenvalues of the pencil `s E x = F x`.

The pencil has index 3. Dependent constraints would make it singular, so their rows are first combined into independent
ones.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.linalg

from bricard.equations.linearization import as_numbers
from bricard.equations.rank import subspaces
from bricard.errors import BricardError
from bricard.stability.loop import Loop


class Descriptor(NamedTuple):
    """`E ẋ = F x + G δu` with `x = (θ, δv, memory, multipliers of independent rows)`."""

    e: np.ndarray
    f: np.ndarray
    g: np.ndarray


def descriptor(loop: Loop, closed: bool = True) -> Descriptor:
    """The linearised equations with multipliers, their constraint rows reduced to independent ones."""
    terms = as_numbers(loop.terms)
    nv, nm, count = loop.system.nv, loop.n_memory if closed else 0, loop.system.n_holonomic
    scaled = terms.matrix * terms.columns / terms.rows[:, None]
    # Independent holonomic rows, then those nonholonomic rows that do not follow from them.
    first = subspaces(scaled[:count]).rows
    known = np.linalg.pinv(first.T @ scaled[:count]) @ (first.T @ scaled[:count])
    second = subspaces(scaled[count:] @ (np.eye(nv) - known)).rows
    holonomic = first.T @ (terms.matrix / terms.rows[:, None])[:count]
    others = second.T @ (terms.matrix / terms.rows[:, None])[count:]
    drift = second.T @ (terms.drift / terms.rows[:, None])[count:]
    rows = np.vstack([holonomic, others])
    r, n = rows.shape[0], 2 * nv + nm
    e, f = np.zeros((n + r, n + r)), np.zeros((n + r, n + r))
    g = np.zeros((n + r, terms.inputs.shape[1]))
    e[:nv, :nv], e[nv : 2 * nv, nv : 2 * nv], e[2 * nv : n, 2 * nv : n] = np.eye(nv), terms.mass, np.eye(nm)
    f[:nv, nv : 2 * nv] = np.eye(nv)
    f[nv : 2 * nv, :nv], f[nv : 2 * nv, nv : 2 * nv] = -terms.stiffness, -terms.damping
    f[nv : 2 * nv, n:] = rows.T
    f[n : n + len(holonomic), :nv] = holonomic
    f[n + len(holonomic) :, :nv], f[n + len(holonomic) :, nv : 2 * nv] = drift, others
    g[nv : 2 * nv] = terms.inputs
    if closed:
        nu = terms.inputs.shape[1]
        f[nv : 2 * nv, :n] += terms.inputs @ loop.response[:nu]
        f[2 * nv : n, :n] = loop.response[nu:]
    return Descriptor(e, f, g)


def finite_eigenvalues(loop: Loop) -> tuple[np.ndarray, np.ndarray]:
    """The finite eigenvalues of the pencil, and their eigenvectors `(θ, δv, memory)` in columns."""
    terms = as_numbers(loop.terms)
    nv, nm = loop.system.nv, loop.n_memory
    e, f, _ = descriptor(loop)
    r = e.shape[0] - 2 * nv - nm
    # Scale velocities by their inertia, multipliers to match, and time by the size of the stiffness.
    columns = terms.columns
    stiff = np.max(np.abs(columns[:, None] * terms.stiffness * columns[None, :]), initial=0.0)
    pace = max(1.0, float(np.sqrt(stiff)))
    right = np.concatenate([columns, pace * columns, np.ones(nm), np.full(r, pace**2)])
    left = np.concatenate([1 / columns / pace, columns / pace**2, np.full(nm, 1 / pace), np.ones(r)])
    f_scaled = left[:, None] * f * right[None, :]
    e_scaled = left[:, None] * e * right[None, :] * pace
    pairs: Any = scipy.linalg.eig(f_scaled, e_scaled, homogeneous_eigvals=True)
    (alpha, beta), vectors = pairs
    size = np.where(np.abs(beta) > 0, np.abs(alpha) / np.where(np.abs(beta) > 0, np.abs(beta), 1.0), np.inf)
    n = loop.model.a.shape[0] + nm
    ranked = np.argsort(size)
    finite, infinite = ranked[:n], ranked[n:]
    if n and (
        not np.all(np.isfinite(size[finite])) or np.min(size[infinite], initial=np.inf) < 3 * np.max(size[finite])
    ):
        raise BricardError(
            "the finite eigenvalues of the pencil cannot be separated from the infinite ones, because its entries "
            "differ too much in size. Use method='tangent'"
        )
    return alpha[finite] / beta[finite] * pace, (right[:, None] * vectors)[: 2 * nv + nm, finite]
