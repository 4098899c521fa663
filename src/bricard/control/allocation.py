"""The least effort that does a job: `min uᵀRu` with `D u = y`, and the same within limits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from bricard.control.input_response import REACH_TOLERANCE, Response, reach_sizes
from bricard.equations.rank import pinv
from bricard.errors import ModelError
from bricard.execution.lapack import cholesky, solve_triangular, svd
from bricard.mechanism.coordinates.mechanism_system import MechanismSystem
from bricard.system import System, Vector


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
        _, columns = reach_sizes(at, jnp.zeros((0, system.nv)))
        acting = jnp.linalg.norm(at.multiplier_gain * at.rows[:, None] / columns[None, :], axis=1) > REACH_TOLERANCE
        # A bound on a force that the inputs do not act on must not be met by blown-up rounding errors.
        start, slope = at.multipliers, jnp.where(acting[:, None], at.multiplier_gain, 0.0)
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
    """`y − D u`: the part of the demand that the limits do not allow; zero if they allow it all."""
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
    """Inputs within `G u ≤ g` that miss the demand `D u = y` least, with least `|F u|` among them, then least `|u|`.

    The missed demand is measured in the natural sizes of the outputs (`sizes`, as for `least_effort`), so that the
    result does not depend on their units. In natural sizes of the inputs too, `x = X w + K₁ m + K₂ n` separates the
    three goals: `w` is the part of the demand that is met, with least effort by `X`; `m` adds the effort `|m|` and
    leaves the outputs as they are; `n` adds neither. The solution is the point of a polyhedron nearest to
    `(y, 0, 0)`, if the weights of the three goals are orders of magnitude apart. This point tells which limits are
    active; linear equations with these limits then give the result to rounding errors.
    """
    outputs, columns = jax.lax.stop_gradient(sizes)
    scaled, wanted = matrix / outputs[:, None] / columns[None, :], target / outputs
    root, g = root / columns[None, :], rows / columns[None, :]
    root = root / jax.lax.stop_gradient(_nonzero(jnp.linalg.norm(root)))
    lengths = jax.lax.stop_gradient(_nonzero(jnp.sqrt(jnp.sum(g**2, axis=1))))
    g, h = g / lengths[:, None], bounds / lengths
    costs = root, jnp.diag(1.0 / columns)

    active, near = _active_limits(*jax.lax.stop_gradient((scaled, wanted, costs, g, h)))
    exact = _on_active(scaled, wanted, costs, g, h, active)

    def excess(x: Vector) -> Array:
        """How far the worst limit is exceeded, relative to what it is the difference of."""
        return jnp.max((g @ x - h) / _nonzero(jnp.abs(h) + jnp.abs(g) @ jnp.abs(x)))

    x = jnp.where(excess(exact) < 1e-9, exact, near)  # not if it is not a number
    possible = excess(x) < 1e-6
    x = jnp.where(possible, x, jnp.nan)
    at_limit = jnp.abs(h - g @ x) <= 1e-8 * (jnp.abs(h) + jnp.abs(g) @ jnp.abs(x))
    u = x / columns
    return Allocation(u, target - matrix @ u, at_limit, possible)


_EFFORT_WEIGHT = 1e-4
"""Weight of the effort against the missed demand, when active limits are sought."""

_SIZE_WEIGHT = 1e-7
"""Weight of the size of inputs that cost no effort."""


def _active_limits(
    matrix: Float[Array, "p n"],
    wanted: Float[Array, " p"],
    costs: tuple[Float[Array, "m n"], Float[Array, "n n"]],
    g: Float[Array, "k n"],
    h: Float[Array, " k"],
) -> tuple[Bool[Array, " k"], Float[Array, " n"]]:
    """Which limits hold `x` back from the demand or from less effort, and that `x` to the accuracy of the weights.

    This is a least-distance problem, `min |z|` with `C z ≥ c`. Its dual is `min |E y − e|` with `y ≥ 0`, where the
    columns of `E` are those of `(Cᵀ; cᵀ)` and `e` is the last unit vector (Lawson and Hanson, chapter 23).
    """
    inverse = pinv(matrix)
    idle = jnp.eye(matrix.shape[1]) - inverse @ matrix
    start = _cheapest(inverse @ wanted, idle, *costs)
    effort, size = (cost / _nonzero(jnp.linalg.norm(cost)) for cost in costs)
    costly = pinv(effort @ idle)
    idle_and_free = idle - costly @ (effort @ idle)
    free = pinv(size @ idle_and_free)
    cheapest = inverse - costly @ (effort @ inverse)
    cheapest = cheapest - free @ (size @ cheapest)
    moves = jnp.concatenate([cheapest, costly / _EFFORT_WEIGHT, free / _SIZE_WEIGHT], axis=1)
    slopes, beyond = -g @ moves, g @ start - h
    lengths = _nonzero(jnp.linalg.norm(slopes, axis=1))

    def nearest(unit: Array) -> tuple[Array, Array]:
        dual = jnp.concatenate([slopes, beyond[:, None] / unit], axis=1).T
        dual = dual / _nonzero(jnp.linalg.norm(dual, axis=0))[None, :]
        y = _nonnegative_least_squares(dual, jnp.zeros(dual.shape[0]).at[-1].set(1.0))
        left = (dual @ y).at[-1].add(-1.0)
        return y > 0.0, -left[:-1] / jnp.where(left[-1] == 0.0, 1.0, left[-1]) * unit

    # Lengths are counted in units of the distance that is sought: first a lower bound of it, then an estimate.
    unit = jnp.max(beyond / lengths)
    _, z = nearest(jnp.where(unit > 0.0, unit, 1.0))
    active, z = nearest(_nonzero(jnp.linalg.norm(z)))
    return active, start + moves @ z


def _nonnegative_least_squares(matrix: Float[Array, "n k"], target: Float[Array, " n"]) -> Float[Array, " k"]:
    """`min |E y − f|` with `y ≥ 0`: the active-set method of Lawson and Hanson. Columns of `E` have length 1."""
    count = matrix.shape[1]

    def least_squares(used: Bool[Array, " k"]) -> Array:
        u, s, vt = svd(jnp.where(used[None, :], matrix, 0.0))
        keep = s > 1e-13
        return vt.T @ jnp.where(keep, (u.T @ target) / jnp.where(keep, s, 1.0), 0.0)

    def improve(state: _Search) -> _Search:
        y, used, refused = state.y, state.used, state.refused
        slope = matrix.T @ (target - matrix @ y)
        slope = jnp.where(used | refused, -jnp.inf, slope)
        entering = (jnp.arange(count) == jnp.argmax(slope)) & ~state.inside
        done = ~state.inside & (jnp.max(slope) <= 1e-13)
        used = used | entering
        best = least_squares(used)
        blocked = used & (best <= 0.0)
        fits = ~jnp.any(blocked)
        # Go towards the minimum with these columns until the first of them has no weight left; that one leaves.
        ratios = jnp.where(blocked, y / jnp.where(blocked, jnp.maximum(y - best, 1e-300), 1.0), jnp.inf)
        step = jnp.min(ratios)
        moved = jnp.where(fits, best, y + jnp.minimum(step, 1.0) * (best - y))
        leaving = blocked & (ratios <= step)
        # A column that would leave at once entered by a rounding error.
        refused = jnp.where(fits, False, refused | (entering & leaving))
        used = used & ~leaving
        found = _Search(
            jnp.where(used, moved, 0.0), used, refused, ~fits & ~jnp.any(entering & leaving), done, state.turn + 1
        )
        return jax.tree.map(
            lambda new, old: jnp.where(done, old, new), found._replace(done=done), state._replace(done=done)
        )

    nothing = jnp.zeros(count, dtype=bool)
    begin = _Search(jnp.zeros(count), nothing, nothing, jnp.zeros((), bool), jnp.zeros((), bool), jnp.zeros((), int))
    return jax.lax.while_loop(lambda s: ~s.done & (s.turn < 10 * count + 10), improve, begin).y


class _Search(NamedTuple):
    """State of `_nonnegative_least_squares`."""

    y: Float[Array, " k"]
    used: Bool[Array, " k"]
    """Columns with a weight above zero."""
    refused: Bool[Array, " k"]
    """Columns that cannot enter before the next step."""
    inside: Bool[Array, ""]
    """Whether columns have left since the last one entered: then the weights of the others change first."""
    done: Bool[Array, ""]
    turn: Int[Array, ""]


def _on_active(matrix, target, costs, rows, bounds, active) -> Array:
    """Least cost with active limits as equations, and the demand met as nearly as they leave room for."""
    identity = jnp.eye(matrix.shape[1])
    held = jnp.where(active[:, None], rows, 0.0)
    start = pinv(held) @ jnp.where(active, bounds, 0.0)
    # Among all `u` that keep the active limits: `u = start + K w`.
    free = identity - pinv(held) @ held
    inverse = free @ pinv(matrix @ free)
    u = start + inverse @ (target - matrix @ start)
    # What neither limits nor demand fix is chosen for least cost.
    return _cheapest(u, free - inverse @ (matrix @ free), *costs)


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
