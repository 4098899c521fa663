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
from bricard.lapack import cholesky, solve_triangular
from bricard.mechanism.base import MechanismSystem
from bricard.system import System


def effort_root(at: Response, metric: Float[Array, "nv nv"] | None) -> Float[Array, "k nu"]:
    """`F` of the effort `uᵀFᵀF u`: the inputs as they are, or the generalised force they make measured by `W⁻¹`."""
    if metric is None:
        return jnp.eye(at.inputs.shape[1])
    return solve_triangular(cholesky(metric), at.inputs)


def least_effort(
    matrix: Float[Array, "p nu"],
    target: Float[Array, " p"],
    root: Float[Array, "k nu"],
    rows: Float[Array, " p"],
    columns: Float[Array, " nu"],
) -> Float[Array, " nu"]:
    """`u` of least `|F u|` among those with the least `|D u − y|`, and of least `|u|` among those; any rank.

    `rows` and `columns` are natural sizes of the entries of `y` and of the effect of each input: ranks are decided, and
    `|D u − y|` is measured, in these units. Inputs that cost nothing (two motors that only strain against each other
    on one joint) are shared by `|u|`.
    """
    rows, columns = jax.lax.stop_gradient((rows, columns))
    scaled = matrix / rows[:, None] / columns[None, :]
    inverse = pinv(scaled)
    u = inverse @ (target / rows)
    idle = jnp.eye(columns.shape[0]) - inverse @ scaled
    return _cheapest(u, idle, root / columns[None, :], jnp.diag(1.0 / columns)) / columns


def _cheapest(u: Float[Array, " nu"], idle: Float[Array, "nu nu"], *costs: Float[Array, "_ nu"]) -> Float[Array, " nu"]:
    """`u` moved along the range of the projector `idle` to the least cost `|F u|`, then the next of the `costs`."""
    for cost in costs:
        cost = cost / jax.lax.stop_gradient(_nonzero(jnp.linalg.norm(cost)))
        spent = cost @ idle
        inverse = pinv(spent)
        u = u - inverse @ (cost @ u)
        idle = idle - inverse @ spent
    return u


def _nonzero(x: Array) -> Array:
    return jnp.where(x > 0.0, x, 1.0)


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
    root: Float[Array, "m nu"],
    rows: Float[Array, "k nu"],
    bounds: Float[Array, " k"],
    sizes: tuple[Float[Array, " p"], Float[Array, " nu"]],
) -> Allocation:
    """Least effort `|F u|` within `G u ≤ g` that comes as near to `D u = y` as the limits allow.

    Two convex programs (qpax): the nearest demand that the limits allow, then the least effort for it. The limits found
    active are met exactly, by linear equations. `sizes` as for `least_effort`; inside, inputs are counted in theirs.
    """
    outputs, columns = jax.lax.stop_gradient(sizes)
    nu = columns.shape[0]
    scaled, root, g = (x / columns[None, :] for x in (matrix, root, rows))
    root = root / _nonzero(jnp.linalg.norm(root)) * jnp.sqrt(nu)
    size = _nonzero(jnp.linalg.norm(scaled))
    scaled, wanted, outputs = scaled / size, target / size, outputs / size
    lengths = _nonzero(jnp.sqrt(jnp.sum(g**2, axis=1)))
    g, h = g / lengths[:, None], bounds / lengths
    # In units of what is asked for: interior-point methods count absolute residuals.
    unit = _nonzero(jnp.max(jnp.abs(wanted)) + jnp.max(jnp.abs(h)))
    wanted, h = wanted / unit, h / unit
    one = jnp.ones(nu)

    nearest, _, possible = _program(scaled.T @ scaled + _HAIR * jnp.eye(nu), -scaled.T @ wanted, g, h)
    allowed = jnp.max(jnp.abs(scaled @ nearest - wanted)) < 1e-5
    # A demand that can be met is met in any units; one that cannot is missed by the least `|D u − y|`.
    outputs = jnp.where(allowed, outputs, 1.0)
    start = least_effort(scaled, jnp.where(allowed, wanted, scaled @ nearest), root, outputs, one)
    idle = jnp.eye(nu) - pinv(scaled / outputs[:, None]) @ (scaled / outputs[:, None])
    move, pressure, found = _program(
        idle.T @ root.T @ root @ idle + _HAIR * jnp.eye(nu), jnp.zeros(nu), g @ idle, h - g @ start
    )
    u = jnp.where(found, start + idle @ move, nearest)
    active = jax.lax.stop_gradient((h - g @ u < 1e-6) & ((pressure > 1e-10) | ~found | ~allowed))
    exact = _on_active(scaled / outputs[:, None], wanted / outputs, (root, jnp.diag(1.0 / columns)), g, h, active)
    u = jnp.where(jnp.all(g @ exact <= h + 1e-9) & jnp.all(jnp.isfinite(exact)), exact, u)
    possible = possible & jnp.all(g @ u <= h + 1e-6)
    u = jnp.where(possible, u, jnp.nan)
    at_limit = jnp.abs(h - g @ u) < 1e-8
    u = u * unit / columns
    return Allocation(u, target - matrix @ u, at_limit, possible)


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
    # Where it stops short of its tolerance, what it has is good enough to tell which bounds are active.
    return x, pressure, jnp.all(jnp.isfinite(x)) & ((converged > 0) | jnp.all(rows @ x <= bounds + 1e-7))


def _on_active(matrix, target, costs, rows, bounds, active) -> Array:
    """Least cost with active limits as equations, and the demand met as nearly as they leave room for."""
    identity = jnp.eye(matrix.shape[1])
    held = jnp.where(active[:, None], rows, 0.0)
    start = pinv(held) @ jnp.where(active, bounds, 0.0)
    # Among all `u` that keep the active limits: `u = start + K w`.
    free = identity - pinv(held) @ held
    u = start + free @ (pinv(matrix @ free) @ (target - matrix @ start))
    # What neither limits nor demand fix is chosen for least cost.
    both = jnp.concatenate([held, matrix])
    return _cheapest(u, identity - pinv(both) @ both, *costs)


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
