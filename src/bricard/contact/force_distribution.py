"""How redundant contacts share their load: the forces of least norm that only push and stay within friction.

The motion is known when this is asked; it fixes the sum of all forces, not each of them. Among those that make up the
same sum the one of least norm is chosen, constraints and contacts together, as `solve` does for constraints alone.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from bricard.equations.rank import DETERMINATE_TOLERANCE, null_basis, pinv
from bricard.execution.lapack import cho_solve, cholesky

ITERATIONS = 50
"""Of the interior-point method at most; 10 to 20 are usual."""
CONVERGED = 1e-15
"""What is left of the optimality conditions, for forces of about 1, when it stops."""
POLISHED = 1e-10
"""What may be left of the optimality conditions, for forces of about 1, after the steps of Newton's method."""
STEPS = 8
"""Of Newton's method at most; 2 to 5 are usual."""
INSIDE = 1e-9
"""Forces that leave their cones by less, relative to the largest force, are admissible."""

Cones = Float[Array, "c rows"]
"""One vector for each contact; the cone is `x₀ ≥ |x₁…|`."""


class Shares(NamedTuple):
    """Multipliers of all rows, and what is known about them."""

    multipliers: Float[Array, " m"]
    """Of least norm among the admissible ones, or among all if none is admissible."""
    determinate: Bool[Array, " m"]
    """Which of them the equations determine."""
    missed: Float[Array, ""]
    """How far undetermined forces are outside their cones, relative to the largest; small if some are admissible."""


class Loads(NamedTuple):
    """Forces (or impulses) of a system's own constraints and of its contacts (normal, then friction)."""

    own: Float[Array, " m"]
    own_determinate: Bool[Array, " m"]
    force: Float[Array, "c rows"]
    determinate: Bool[Array, "c rows"]
    missed: Float[Array, ""]
    """As of `Shares`."""


def share_load(
    own: Float[Array, "n m"],
    contacts: Float[Array, "n c rows"],
    load: Float[Array, " n"],
    own_units: Float[Array, " m"],
    units: Float[Array, "c rows"],
    closed: Float[Array, " c"],
    stuck: Float[Array, " c"],
    drag: Float[Array, "c slips"],
    friction: Float[Array, " c"],
    exists: Bool[np.ndarray, "c rows"],
) -> Loads:
    """Forces that make up `load`: what unit forces of own constraints and of contacts add to it are the columns.

    Columns are in good units; divided by `own_units` and `units` their factors are forces. Columns of open contacts,
    and of friction where a contact is not `stuck`, are zero. A sliding contact has friction
    `drag` times its normal force, which is part of its normal column. `closed` and `stuck` are ones and zeros; `exists`
    says which rows there are (contacts may have different numbers of slips).
    """
    m, (c, rows) = own.shape[1], units.shape
    place = jnp.arange(c * rows).reshape(c, rows) + m
    select = (place[:, :, None] == jnp.arange(m + c * rows)[None, None, :]).astype(float)
    # The cone of friction in units in which its larger side is 1.
    large = jnp.maximum(friction, 1.0)
    push = jnp.where(stuck > 0.0, friction / large, closed)
    # Unknowns are the sizes of forces: of a sliding contact, friction included.
    stretch = jnp.concatenate([jnp.sqrt(1.0 + jnp.sum(drag**2, axis=1))[:, None], jnp.ones((c, rows - 1))], axis=1)
    alone = c == 1 and m == 0  # nothing to share with, and no interior-point method to compile
    shares = least_admissible(
        jnp.concatenate([own, contacts.reshape(own.shape[0], c * rows)], axis=1),
        load,
        jnp.concatenate([own_units, (units / stretch).reshape(-1)]),
        *(
            no_cones(rows)
            if alone
            else (push[:, None] * select[:, 0], (stuck / large)[:, None, None] * select[:, 1:] * exists[:, 1:, None])
        ),
    )
    force = shares.multipliers[m:].reshape(c, rows) / stretch
    known = shares.determinate[m:].reshape(c, rows) | ~exists
    normal, sure = force[:, :1] * closed[:, None], known[:, :1] | (closed == 0.0)[:, None]
    held = (stuck > 0.0)[:, None]
    slides = jnp.any(drag != 0.0, axis=1)[:, None]
    return Loads(
        shares.multipliers[:m],
        shares.determinate[:m],
        jnp.concatenate([normal, jnp.where(held, force[:, 1:], drag * normal)], axis=1),
        jnp.concatenate([sure, jnp.where(held, known[:, 1:], ~slides | sure)], axis=1),
        shares.missed,
    )


def no_cones(m: int) -> tuple[Float[Array, "0 m"], Float[Array, "0 0 m"]]:
    """The cones of `m` multipliers that may have any sign."""
    return jnp.zeros((0, m)), jnp.zeros((0, 0, m))


def pushing_rows(
    rows: Float[Array, "c rows n"], closed: Float[Array, " c"], stuck: Float[Array, " c"], drag: Float[Array, "c slips"]
) -> Float[Array, "c rows n"]:
    """The rows of contacts as `share_load` takes them: normals with the friction of sliding, slips of those stuck."""
    normal = closed[:, None] * (rows[:, 0] + jnp.einsum("ca,can->cn", drag, rows[:, 1:]))
    return jnp.concatenate([normal[:, None], stuck[:, None, None] * rows[:, 1:]], axis=1)


def least_admissible(
    matrix: Float[Array, "n m"],
    load: Float[Array, " n"],
    rows: Float[Array, " m"],
    normal: Float[Array, "c m"],
    tangent: Float[Array, "c k m"],
) -> Shares:
    """The least `λ` with `matrix @ (rows * λ) = load` in its cones: `normal @ λ ≥ |tangent @ λ|` for each contact.

    `matrix` is in good units, in which its rank is decided; `rows` are the units of the multipliers. Rows of `normal`
    that are zero mean no condition. The load is met exactly, whatever happens to the cones.
    """
    idle = null_basis(matrix)
    some = (pinv(matrix) @ load) / rows
    # Projector onto the combinations that cancel, in the units of the multipliers.
    cancelling = idle * (jnp.min(rows, initial=jnp.inf) / rows)[:, None]
    basis = cancelling @ pinv(cancelling)
    least = some - basis @ some
    shares = jnp.sqrt(jnp.clip(jnp.diagonal(idle @ idle.T), 0.0))
    determinate = shares < DETERMINATE_TOLERANCE
    if normal.shape[0] == 0:
        return Shares(least, determinate, jnp.zeros(()))
    cones = jnp.concatenate([normal[:, None, :], tangent], axis=1)
    # Of contacts whose forces are determined nothing can be chosen; others are told when these leave their cones.
    open_choice = jnp.any((cones != 0.0) & ~determinate[None, None, :], axis=(1, 2))
    cones = jnp.where(open_choice[:, None, None], cones, 0.0)
    size = jnp.max(jnp.abs(jnp.where(jnp.any(cones != 0.0, axis=(0, 1)), least, 0.0)), initial=0.0)
    unit = jnp.where(size > 0.0, size, 1.0)
    start, change = (cones @ least) / unit, cones @ basis
    nothing = jnp.zeros(cones.shape[:2]).at[:, 0].set(jnp.where(open_choice, 0.0, 1.0))

    def missed(step: Float[Array, " m"]) -> Float[Array, ""]:
        return jnp.max(-_margins(nothing + start + change @ step), initial=0.0)

    zero = jnp.zeros(basis.shape[1])
    step = jax.lax.cond(missed(zero) > 0.0, lambda: least_step(nothing + start, change), lambda: zero)
    off = missed(step)
    step = jnp.where(off <= INSIDE, step, 0.0)
    return Shares(least + unit * (basis @ step), determinate, off)


def least_step(start: Cones, change: Float[Array, "c rows n"]) -> Float[Array, " n"]:
    """The shortest `x` with `start + change @ x` in its cones, if there is one: a second-order cone program.

    A primal-dual interior-point method with the scaling of Nesterov and Todd and Mehrotra's corrector (as in Andersen
    and others, Interior-point methods for large-scale cone programming, 2011) finds which forces are on their cones, to
    some 1e-5; `_polished` then finds the solution to rounding. It cannot where the admissible forces of a contact in
    space all lie on one edge of its cone: there, forces that leave the cones by ε are up to about √ε away from those
    that do not, and the interior-point method's solution is kept.
    """
    n, (c, d) = change.shape[2], start.shape
    one = jnp.zeros((c, d)).at[:, 0].set(1.0)

    def residuals(x: Array, s: Cones, z: Cones) -> tuple[Array, Cones, Array]:
        stationary = x - jnp.einsum("can,ca->n", change, z)
        return stationary, s - start - change @ x, jnp.sum(s * z) / c

    def better(state):
        (x, s, z), best, least, _, i = state  # `best` is x and z
        stationary, primal, gap = residuals(x, s, z)
        scaling = _Scaling.of(s, z)
        half = scaling.inverse(change)
        hessian = jnp.eye(n) + jnp.einsum("can,cam->nm", half, half)
        factor = cholesky(hessian)

        def direction(target: Cones) -> tuple[Array, Cones, Cones]:
            whole = target + scaling.inverse(primal[:, :, None])[:, :, 0]
            dx = cho_solve(factor, -stationary + jnp.einsum("can,ca->n", half, whole))
            ds = change @ dx - primal
            dz = scaling.inverse((target - scaling.inverse(ds[:, :, None])[:, :, 0])[:, :, None])[:, :, 0]
            return dx, ds, dz

        middle = scaling.times(z)

        def corrected(_, last: tuple[Array, Cones, Cones]) -> tuple[Array, Cones, Cones]:
            """The direction that allows for how the products change along the last one; without one, the predictor."""
            _, ds, dz = last
            length = jnp.minimum(1.0, jnp.minimum(_to_boundary(s, ds), _to_boundary(z, dz)))
            crossed = _product(scaling.inverse(ds[:, :, None])[:, :, 0], scaling.times(dz))
            aim = -_product(middle, middle) - crossed + (1.0 - length) ** 3 * gap * one
            return direction(_quotient(middle, aim))

        # A loop of two rounds: code that is written twice takes twice as long to compile.
        dx, ds, dz = jax.lax.fori_loop(0, 2, corrected, (jnp.zeros(n), jnp.zeros((c, d)), jnp.zeros((c, d))))
        length = jnp.minimum(1.0, 0.99 * jnp.minimum(_to_boundary(s, ds), _to_boundary(z, dz)))
        new = x + length * dx, s + length * ds, z + length * dz
        stationary, primal, gap = residuals(*new)
        left = jnp.maximum(gap, jnp.maximum(_largest(stationary), _largest(primal)))
        left = jnp.where(jnp.isfinite(left), left, jnp.inf)
        best = jax.tree.map(lambda a, b: jnp.where(left < least, a, b), (new[0], new[2]), best)
        return new, best, jnp.minimum(left, least), left, i + 1

    def going_on(state) -> Array:
        # Close to the solution rounding takes over: what is left grows again, and the best so far is kept.
        _, _, least, left, i = state
        return (least > CONVERGED) & ((left <= 1e3 * least) | (least > 1e-6)) & (i < ITERATIONS)

    outside = jnp.max(-_margins(start), initial=0.0)
    x, far = jnp.zeros(n), jnp.full((), jnp.inf)
    state = ((x, start + (1.0 + outside) * one, one), (x, one), far, far, jnp.zeros((), dtype=int))
    x, z = jax.lax.while_loop(going_on, better, state)[1]
    polished, left = _polished(start, change, z)
    return jnp.where(left <= POLISHED, polished, x)


def _polished(start: Cones, change: Float[Array, "c rows n"], z: Cones) -> tuple[Float[Array, " n"], Float[Array, ""]]:
    """The shortest `x`, from multipliers `z` close to its own, and what is left of the optimality conditions.

    These are `x = changeᵀ z` and `s = P(s − z)`, where `s = start + change @ x` and `P` is the projection onto the
    cones: Newton's method, as long as it comes closer.
    """
    c, d = start.shape
    flat = change.reshape(c * d, -1)
    gram = flat @ flat.T

    def conditions(z: Cones) -> tuple[Cones, Float[Array, "c rows rows"]]:
        s = start + (gram @ z.reshape(-1)).reshape(c, d)
        projected, slope = _onto(s - z)
        return s - projected, slope

    def step(state):
        z, (off, slope), _, i = state
        along = jnp.einsum("cab,cbm->cam", slope, (gram - jnp.eye(c * d)).reshape(c, d, c * d))
        new = z - (pinv(gram - along.reshape(c * d, c * d)) @ off.reshape(-1)).reshape(c, d)
        after = conditions(new)
        closer = _largest(after[0]) < _largest(off)
        z, now = jax.tree.map(lambda a, b: jnp.where(closer, a, b), (new, after), (z, (off, slope)))
        return z, now, closer, i + 1

    state = (z, conditions(z), jnp.ones((), dtype=bool), jnp.zeros((), dtype=int))
    z, (off, _), *_ = jax.lax.while_loop(lambda s: s[2] & (s[3] < STEPS), step, state)
    return flat.T @ z.reshape(-1), _largest(off)


def _onto(x: Cones) -> tuple[Cones, Float[Array, "c rows rows"]]:
    """The nearest vectors in the cones, and their derivatives."""
    first, rest = x[:, :1], x[:, 1:]
    square = jnp.sum(rest**2, axis=1)[:, None]
    length = jnp.sqrt(jnp.where(square > 0.0, square, 1.0))
    way, size = rest / length, jnp.where(square > 0.0, length, 0.0)
    edge = jnp.concatenate([jnp.ones_like(first), way], axis=1)
    across = jnp.eye(rest.shape[1])[None] - way[:, :, None] * way[:, None, :]
    turning = jnp.pad((1.0 + first / length)[:, :, None] * across, ((0, 0), (1, 0), (1, 0)))
    slope = 0.5 * (edge[:, :, None] * edge[:, None, :] + turning)
    inside, opposite = size <= first, size <= -first
    nearest = jnp.where(inside, x, jnp.where(opposite, 0.0, 0.5 * (first + size) * edge))
    whole = jnp.eye(x.shape[1])[None]
    return nearest, jnp.where(inside[:, :, None], whole, jnp.where(opposite[:, :, None], 0.0, slope))


class _Scaling(NamedTuple):
    """`W` of each contact with `W z = W⁻¹ s`."""

    size: Float[Array, " c"]
    vector: Cones

    @classmethod
    def of(cls, s: Cones, z: Cones) -> _Scaling:
        length_s, length_z = jnp.sqrt(_determinant(s)), jnp.sqrt(_determinant(z))
        s, z = s / length_s[:, None], z / length_z[:, None]
        cosine = jnp.sqrt(0.5 * (1.0 + jnp.sum(s * z, axis=1)))
        return cls(jnp.sqrt(length_s / length_z), (s + _mirrored(z)) / (2.0 * cosine)[:, None])

    def _matrix(self, w: Cones) -> Float[Array, "c rows rows"]:
        first, rest = w[:, :1], w[:, 1:]
        lower = jnp.eye(rest.shape[1])[None] + rest[:, :, None] * rest[:, None, :] / (1.0 + first)[:, :, None]
        top = jnp.concatenate([first, rest], axis=1)[:, None, :]
        return jnp.concatenate([top, jnp.concatenate([rest[:, :, None], lower], axis=2)], axis=1)

    def times(self, x: Cones) -> Cones:
        return self.size[:, None] * jnp.einsum("cab,cb->ca", self._matrix(self.vector), x)

    def inverse(self, x: Float[Array, "c rows n"]) -> Float[Array, "c rows n"]:
        return jnp.einsum("cab,cbn->can", self._matrix(_mirrored(self.vector)), x) / self.size[:, None, None]


def _mirrored(x: Cones) -> Cones:
    return jnp.concatenate([x[:, :1], -x[:, 1:]], axis=1)


def _margins(x: Cones) -> Float[Array, " c"]:
    return x[:, 0] - jnp.linalg.norm(x[:, 1:], axis=1)


def _determinant(x: Cones) -> Float[Array, " c"]:
    """`x₀² − |x₁…|²`, positive inside the cone."""
    rest = jnp.linalg.norm(x[:, 1:], axis=1)
    return jnp.maximum((x[:, 0] - rest) * (x[:, 0] + rest), 1e-300)


def _product(x: Cones, y: Cones) -> Cones:
    first = jnp.sum(x * y, axis=1)[:, None]
    return jnp.concatenate([first, x[:, :1] * y[:, 1:] + y[:, :1] * x[:, 1:]], axis=1)


def _quotient(x: Cones, y: Cones) -> Cones:
    """The `u` with `_product(x, u) = y`."""
    first = (jnp.sum(x * _mirrored(y), axis=1) / _determinant(x))[:, None]
    return jnp.concatenate([first, (y[:, 1:] - first * x[:, 1:]) / x[:, :1]], axis=1)


def _to_boundary(x: Cones, dx: Cones) -> Float[Array, ""]:
    """The largest step along `dx` that stays inside all cones."""
    square, mixed, start = _form(dx, dx), _form(x, dx), _determinant(x)
    root = mixed**2 - square * start
    below = jnp.sqrt(jnp.maximum(root, 0.0)) - mixed
    hits = (root >= -1e-12 * mixed**2) & (below > 0.0)
    return jnp.min(jnp.where(hits, start / jnp.where(hits, below, 1.0), jnp.inf), initial=jnp.inf)


def _form(x: Cones, y: Cones) -> Float[Array, " c"]:
    return jnp.sum(x * _mirrored(y), axis=1)


def _largest(x: Array) -> Array:
    return jnp.max(jnp.abs(x), initial=0.0)
