"""The least effort that does a job: `min uᵀRu` with `D u = y`, and the same within limits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from bricard.control.response import Response
from bricard.equations.rank import pinv
from bricard.errors import ModelError
from bricard.mechanism.base import MechanismSystem
from bricard.system import System


def input_weight(at: Response, metric: Float[Array, "nv nv"] | None) -> Float[Array, "nu nu"]:
    """`R`: inputs as they are, or the generalised force they make measured by `W⁻¹`."""
    if metric is None:
        return jnp.eye(at.inputs.shape[1])
    return at.inputs.T @ jnp.linalg.solve(metric, at.inputs)


def least_effort(
    matrix: Float[Array, "p nu"], target: Float[Array, " p"], weight: Float[Array, "nu nu"]
) -> Float[Array, " nu"]:
    """`u` of least `uᵀRu` among those with the least `|D u − y|`; any rank."""
    root = jnp.linalg.cholesky(weight)
    weighted = jax.scipy.linalg.solve_triangular(root, matrix.T, lower=True).T
    size = jax.lax.stop_gradient(jnp.linalg.norm(weighted))
    size = jnp.where(size > 0.0, size, 1.0)
    u = pinv(weighted / size) @ (target / size)
    return jax.scipy.linalg.solve_triangular(root, u, lower=True, trans=1)


class Limits(eqx.Module):
    """Bounds that inputs and constraint forces must keep: `inputs` by name, `forces` by the name of the row.

    `Limits(inputs={"motor": (-5, 5)}, forces={"contact": (0, None)})`; `None` is no bound. A friction cone
    `(normal, tangent, coefficient)` keeps `|λ_tangent| ≤ coefficient λ_normal`, with several tangents as a pyramid
    inside the cone (each tangent's share is `coefficient/√n`).
    """

    inputs: tuple[tuple[str, float, float], ...] = eqx.field(static=True)
    forces: tuple[tuple[str, float, float], ...] = eqx.field(static=True)
    cones: tuple[tuple[str, tuple[str, ...], float], ...] = eqx.field(static=True)

    def __init__(
        self,
        inputs: Mapping[str, Any] | None = None,
        forces: Mapping[str, Any] | None = None,
        cones: Sequence[tuple[str, str | Sequence[str], Any]] = (),
    ):
        problems: list[str] = []
        self.inputs = tuple(_bounds(n, b, problems) for n, b in (inputs or {}).items())
        self.forces = tuple(_bounds(n, b, problems) for n, b in (forces or {}).items())
        made = []
        for normal, tangents, coefficient in cones:
            if not (np.isfinite(coefficient) and coefficient >= 0):
                problems.append(f"cone of {normal!r}: the coefficient must not be negative, got {coefficient}")
            made.append((normal, (tangents,) if isinstance(tangents, str) else tuple(tangents), float(coefficient)))
        self.cones = tuple(made)
        if problems:
            raise ModelError("Limits", problems)

    @classmethod
    def of(cls, system: System) -> Limits:
        """The limits of a mechanism's actuators."""
        if not isinstance(system, MechanismSystem):
            raise ModelError("Limits", [f"{type(system).__name__} is no mechanism: give its limits by name"])
        return cls(inputs=dict(zip(system.input_names, system.model.limits, strict=True)))

    def check(self, system: System) -> None:
        """Raise if a name is not one of the system's."""
        problems = []
        for kind, known, used in (
            ("input", system.input_names, [n for n, _, _ in self.inputs]),
            ("constraint row", system.row_names, [n for n, _, _ in self.forces]),
            ("constraint row", system.row_names, [n for a, b, _ in self.cones for n in (a, *b)]),
        ):
            problems += [f"no {kind} called {n!r}; there are {', '.join(known)}" for n in used if n not in known]
        if problems:
            raise ModelError("Limits", problems)

    @property
    def names(self) -> tuple[str, ...]:
        """One for each row of `rows`."""
        found = []
        for name, low, high in (*self.inputs, *self.forces):
            found += [f"{name} ≥ {low:g}"] * int(np.isfinite(low)) + [f"{name} ≤ {high:g}"] * int(np.isfinite(high))
        for normal, tangents, _ in self.cones:
            found += [f"friction of {normal}: {sign}{n}" for n in tangents for sign in "+-"]
        return tuple(found)

    def rows(self, system: System, at: Response) -> tuple[Float[Array, "k nu"], Float[Array, " k"]]:
        """`G u ≤ g`."""
        start, slope = at.multipliers, at.multiplier_gain
        matrix, bound = [], []

        def keep(row: Array, offset: Array, low: float, high: float) -> None:
            for sign, limit in ((-1.0, low), (1.0, high)):
                if np.isfinite(limit):
                    matrix.append(sign * row)
                    bound.append(sign * limit - sign * offset)

        for name, low, high in self.inputs:
            keep(jnp.eye(system.nu)[system.input_names.index(name)], jnp.zeros(()), low, high)
        for name, low, high in self.forces:
            i = system.row_names.index(name)
            keep(slope[i], start[i], low, high)
        for normal, tangents, coefficient in self.cones:
            n, share = system.row_names.index(normal), coefficient / np.sqrt(len(tangents))
            for i in (system.row_names.index(x) for x in tangents):
                for sign in (1.0, -1.0):
                    matrix.append(sign * slope[i] - share * slope[n])
                    bound.append(share * start[n] - sign * start[i])
        return jnp.stack(matrix), jnp.stack(bound)


class Allocation(NamedTuple):
    """Inputs within limits."""

    u: Float[Array, " nu"]
    shortfall: Float[Array, " p"]
    """`y − D u`: what of the demand the limits do not allow; zero if they allow it all."""
    active: Bool[Array, " k"]
    """Which limits are reached."""
    possible: Bool[Array, ""]
    """Whether the limits can be kept at all."""


def allocate(
    matrix: Float[Array, "p nu"],
    target: Float[Array, " p"],
    weight: Float[Array, "nu nu"],
    rows: Float[Array, "k nu"],
    bounds: Float[Array, " k"],
) -> Allocation:
    """Least effort `uᵀRu` within `G u ≤ g` that comes as near to `D u = y` as the limits allow.

    Two convex programs (qpax): the nearest demand that the limits allow, then the least effort for it. The limits found
    active are met exactly, by linear equations.
    """
    nu = weight.shape[0]
    effort = weight / (jnp.trace(weight) / nu)
    size = jnp.linalg.norm(matrix)
    scaled, wanted = matrix / size, target / size
    # In units of what is asked for: interior-point methods count absolute residuals.
    unit = 1.0 + jnp.max(jnp.abs(wanted)) + jnp.max(jnp.abs(bounds))
    lengths = jnp.sqrt(jnp.sum(rows**2, axis=1))
    lengths = jnp.where(lengths > 0.0, lengths, 1.0)
    wanted, g, h = wanted / unit, rows / lengths[:, None], bounds / lengths / unit

    nearest, _, possible = _program(scaled.T @ scaled + _HAIR * effort, -scaled.T @ wanted, g, h)
    allowed = jnp.max(jnp.abs(scaled @ nearest - wanted)) < 1e-5
    wanted = jnp.where(allowed, wanted, scaled @ nearest)
    start = least_effort(scaled, wanted, effort)
    idle = jnp.eye(nu) - pinv(scaled) @ scaled
    move, pressure, found = _program(
        idle.T @ effort @ idle + _HAIR * jnp.eye(nu), jnp.zeros(nu), g @ idle, h - g @ start
    )
    u = jnp.where(found, start + idle @ move, nearest)
    active = jax.lax.stop_gradient((h - g @ u < 1e-6) & ((pressure > 1e-10) | ~found | ~allowed))
    exact = _on_active(scaled, wanted, effort, g, h, active)
    u = jnp.where(jnp.all(g @ exact <= h + 1e-9) & jnp.all(jnp.isfinite(exact)), exact, u) * unit
    possible = possible & jnp.all(rows @ u <= bounds + 1e-6 * unit * lengths)
    u = jnp.where(possible, u, jnp.nan)
    reached = (jnp.abs(bounds - rows @ u) / lengths) < 1e-8 * unit
    return Allocation(u, target - matrix @ u, reached, possible)


_HAIR = 1e-9
"""Of what makes a program strictly convex."""


def _program(
    hessian: Float[Array, "n n"], slope: Float[Array, " n"], rows: Float[Array, "k n"], bounds: Float[Array, " k"]
) -> tuple[Float[Array, " n"], Float[Array, " k"], Bool[Array, ""]]:
    """`min ½xᵀQx + cᵀx` with `G x ≤ g`: the solution, the pressure on each bound, and whether there is one."""
    import qpax

    none = jnp.zeros((0, hessian.shape[0])), jnp.zeros(0)
    with jax.numpy_rank_promotion("allow"):  # qpax relies on it, whatever the user has set
        x, _, pressure, _, converged, _ = qpax.solve_qp(
            hessian, slope, *none, rows, bounds, backend="i", solver_tol=1e-10, max_iter=60
        )
    return x, pressure, (converged > 0) & jnp.all(jnp.isfinite(x))


def _on_active(matrix, target, weight, rows, bounds, active) -> Array:
    """Least effort with active limits as equations, and the demand met as nearly as they leave room for."""
    held = jnp.where(active[:, None], rows, 0.0)
    start = least_effort(held, jnp.where(active, bounds, 0.0), weight)
    # Among all `u` that keep the active limits: `u = start + K w`.
    free = jnp.eye(matrix.shape[1]) - pinv(held) @ held
    nearest = pinv(matrix @ free) @ (target - matrix @ start)
    u = start + free @ nearest
    # What neither limits nor demand fix is chosen for least effort.
    idle = jnp.eye(matrix.shape[1]) - pinv(jnp.concatenate([held, matrix])) @ jnp.concatenate([held, matrix])
    root = jnp.linalg.cholesky(weight)
    return u - idle @ (pinv(root.T @ idle) @ (root.T @ u))


def _bounds(name: str, bounds: Any, problems: list[str]) -> tuple[str, float, float]:
    try:
        low, high = (x if x is None else float(x) for x in bounds)
    except (TypeError, ValueError):
        problems.append(f"{name!r}: a smallest and a largest value, not {bounds!r}")
        return name, -np.inf, np.inf
    low, high = -np.inf if low is None else low, np.inf if high is None else high
    if np.isnan(low) or np.isnan(high) or low > high:
        problems.append(f"{name!r}: the smallest value {low:g} is above the largest {high:g}")
    return name, low, high
