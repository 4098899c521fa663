"""After how many derivatives do the inputs act on an output, and what motion is left over?

With `ẋ = f + g u` the inputs appear in the derivative of order `r` of an output `h` if `L_g L_f^{r−1} h ≠ 0`. These are
`r − 1`-th derivatives in time of `C(t) x(t)`, where `C = ∂h` along the motion without inputs and `x` follows the
linearised equations `ẋ = A(t) x` from `x(0) = g`. Power series of `C` and `A` give all of them, to any order.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from bricard.control.input_response import freedom
from bricard.control.output import Coordinates, Output, make_output
from bricard.control.power_series_rules import Unexpandable, expansion
from bricard.equations.problem import row_variation, scales
from bricard.equations.rank import subspaces
from bricard.errors import ModelError, needs_numbers
from bricard.execution.cache import cached
from bricard.system import Numbers, Scalar, System, Vector, VectorLike

ACTS_TOLERANCE = 1e-9
"""Inputs act on a derivative if the sum that says how is above this, relative to the size of its terms."""

NOISE = 1e-12
"""Entries of `A`, `C` and `g` below this, in units of the inertia and of a second, are rounding errors."""

ASIDE = 0.3
"""Velocity (in units of the inertia) with which a state next to the given one is sought."""


class Degrees(NamedTuple):
    """Relative degrees of the outputs, and the rows with which the inputs act on the derivatives of that order."""

    degrees: tuple[float, ...]
    rows: np.ndarray


@needs_numbers
def relative_degree(
    system: System, output: Any, q: VectorLike, v: VectorLike | None = None, t: ArrayLike = 0.0
) -> tuple[float, ...]:
    """How often each output must be differentiated until the inputs appear: 2 for most, `inf` if they never do.

    Two masses joined by a spring, pushed at the first: 2 seen at the first, 4 at the second. `nan` where the degree is
    not defined: at this state the inputs do not act on a derivative on which they do at the states around it.
    """
    return _degrees(system, output, q, v, t).degrees


@needs_numbers
def is_flat(system: System, output: Any, q: VectorLike, v: VectorLike | None = None, t: ArrayLike = 0.0) -> bool:
    """Whether the outputs and their derivatives determine the whole motion: no internal dynamics are left."""
    found = _degrees(system, output, q, v, t)
    states = 2.0 * freedom(system, system.vector(q, "q"), jnp.asarray(t, dtype=float))
    lengths = np.linalg.norm(found.rows, axis=1, keepdims=True)
    rows = found.rows / np.where(lengths > 0, lengths, 1.0)
    return states == sum(found.degrees) and bool(np.linalg.matrix_rank(rows, tol=1e-9) == len(found.degrees))


@needs_numbers
def internal_states(
    system: System, output: Any, q: VectorLike, v: VectorLike | None = None, t: ArrayLike = 0.0
) -> float:
    """Number of states of the internal dynamics: twice the degrees of freedom, less the sum of the relative degrees."""
    q = system.vector(q, "q")
    return 2.0 * freedom(system, q, jnp.asarray(t, dtype=float)) - sum(_degrees(system, output, q, v, t).degrees)


def _degrees(system: System, output: Any, q: VectorLike, v: VectorLike | None, t: ArrayLike) -> Degrees:
    q, time = np.asarray(system.vector(q, "q")), np.asarray(t, dtype=float).item()
    v = np.asarray(system.vector(np.zeros(system.nv) if v is None else v, "v"))
    motion = motion_of(system, make_output(system, output))
    try:
        here = motion.degrees(q, v, time)
        degrees = list(here.degrees)
        if any(d > 2.0 for d in degrees):  # positions have no degree below 2
            near = motion.degrees(*motion.next_to(q, v, time)).degrees
            degrees = [d if d == n else math.nan for d, n in zip(degrees, near, strict=True)]
    except Unexpandable as error:
        raise ModelError("relative_degree", [f"no power series is known of `{error}`, which the model uses"]) from None
    return Degrees(tuple(degrees), here.rows)


class Reduced(NamedTuple):
    """Independent equations of motion, without units."""

    left: np.ndarray
    """Turns the equations into these; its transpose turns their solution back into `(v̇, λ)`."""
    columns: np.ndarray
    """Units of the velocities."""
    inputs: np.ndarray
    """`H`."""
    free: np.ndarray
    """Velocities that the constraints allow, in columns."""


class Motion:
    """The motion without inputs as power series, and how small changes of it develop."""

    def __init__(self, system: System, output: Output):
        n, m = system.nv, system.n_constraints
        self.system, self.output = system, output

        def missing(q: Vector, v: Vector, z: Vector, t: Scalar) -> Vector:
            """The equations of motion for `z = (v̇, λ)`."""
            force = system.applied_force(q, v, t) - system.bias(q, v, t) + system.constraint_jacobian(q, t).T @ z[n:]
            along = (system.qdot(q, v), z[:n], jnp.ones_like(t))
            rows = jax.jvp(system.constraint_rate, (q, v, t), along)[1]
            return jnp.concatenate([system.mass_matrix(q, t) @ z[:n] - force, rows])

        def rates(q: Vector, v: Vector, z: Vector, t: Scalar) -> tuple[Vector, Vector]:
            return missing(q, v, z, t), system.qdot(q, v)

        def slopes(q: Vector, v: Vector, z: Vector, t: Scalar) -> tuple[Any, Any, Any]:
            by = jax.jacfwd(missing, argnums=(0, 1, 2))(q, v, z, t)
            along = jax.jacfwd(system.qdot, argnums=(0, 1))(q, v)
            return by, along, jax.jacfwd(lambda q: output.value(system, q, t))(q)

        def matrices(q: Vector, t: Scalar) -> tuple[Any, ...]:
            mass, matrix = system.mass_matrix(q, t), system.constraint_jacobian(q, t)
            return matrix, system.input_matrix(q, t), *scales(mass, matrix, row_variation(system, q, t))

        like = (jnp.zeros(system.nq), jnp.zeros(n), jnp.zeros(n + m), jnp.zeros(()))
        self.matrices = expansion(matrices, like[0], like[-1])
        self.rates, self.slopes = expansion(rates, *like), expansion(slopes, *like)

    def reduced(self, q: Numbers, t: float) -> Reduced:
        """The equations at a configuration made independent, in good units."""
        n = self.system.nv
        matrix, inputs, rows, columns = (x[0] for x in self.matrices(np.asarray(q)[None], np.asarray(t)[None]))
        found = subspaces(matrix * columns / rows[:, None])
        left = np.zeros((n + found.rank, n + len(rows)))
        left[:n, :n], left[n:, n:] = np.diag(columns), found.rows.T / rows
        return Reduced(left, columns, inputs, columns[:, None] * found.null)

    def series(self, q: Numbers, v: Numbers, t: float, count: int) -> tuple[np.ndarray, ...]:
        """The first `count` coefficients of `q`, `v`, `(v̇, λ)` and `t` from here on, without inputs."""
        system, n = self.system, self.system.nv
        left = self.reduced(q, t).left
        right = left.T
        qs, vs = np.zeros((count, system.nq)), np.zeros((count, n))
        zs, ts = np.zeros((count, right.shape[0])), np.zeros(count)
        qs[0], vs[0], ts[0], ts[1:2] = q, v, t, 1.0
        solve = None
        for k in range(count):
            upto = slice(0, k + 1)
            if solve is None:
                by = self.slopes(qs[upto], vs[upto], zs[upto], ts[upto])[2][0]
                solve = right @ np.linalg.inv(left @ by @ right) @ left
            missing, qdot = self.rates(qs[upto], vs[upto], zs[upto], ts[upto])
            zs[k] = -solve @ missing[k]
            if k + 1 < count:
                vs[k + 1], qs[k + 1] = zs[k, :n] / (k + 1), qdot[k] / (k + 1)
        return qs, vs, zs, ts

    def linearized(
        self, q: Numbers, v: Numbers, t: float, count: int
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Series of `A` and `C` along the motion, `g`, and the units of the inputs; rounding errors are zero."""
        system, n, nq = self.system, self.system.nv, self.system.nq
        left, columns, inputs, _ = self.reduced(q, t)
        right = left.T
        series = self.series(q, v, t, count)
        by_q, by_v, by_z, along_q, along_v, rows = self.slopes(*series)
        inertia, change = left @ by_z @ right, left @ np.concatenate([by_q, by_v], axis=2)
        solved = np.zeros_like(change)
        for k in range(count):
            rest = sum((inertia[j] @ solved[k - j] for j in range(1, k + 1)), np.zeros_like(change[0]))
            solved[k] = -np.linalg.solve(inertia[0], change[k] + rest)
        # In units in which every velocity has unit inertia; so have coordinates, unless they are a chart's.
        units = np.concatenate([np.ones(nq) if system.has_chart else columns, columns])
        a = np.concatenate([np.concatenate([along_q, along_v], axis=2), (right @ solved)[:, :n]], axis=1)
        a = _clean(a * units[None, None, :] / units[None, :, None], (1, 2), 1.0)
        c = np.concatenate([rows, np.zeros((*rows.shape[:2], n))], axis=2) * units[None, None, :]
        sizes = np.linalg.norm(inputs * columns[:, None], axis=0)
        sizes = np.where(sizes > 0, sizes, 1.0)
        pushed = np.concatenate([inputs / sizes, np.zeros((system.n_constraints, inputs.shape[1]))])
        g = (right @ np.linalg.solve(inertia[0], left @ pushed))[:n] / columns[:, None]
        g = np.concatenate([np.zeros((nq, g.shape[1])), g])
        return a, _clean(c, (2,), 0.0), _clean(g[None], (1, 2), 1.0)[0], sizes

    def degrees(self, q: Numbers, v: Numbers, t: float) -> Degrees:
        """By series of twice the length until all outputs have their degree, or none can come any more."""
        system = self.system
        free = self.reduced(q, t).free.shape[1]
        # So many states there are: if none of as many derivatives brings the inputs in, none ever will.
        most = 2 * free if system.n_constraints == system.n_holonomic else system.nv + free
        p = len(self.output.names)
        degrees, rows = [math.inf] * p, np.zeros((p, system.nu))
        count = min(4, most)
        while system.nu and count:
            a, c, g, sizes = self.linearized(q, v, t, count)
            if not all(np.all(np.isfinite(x)) for x in (a, c, g)):
                raise ModelError("relative_degree", ["the equations of motion are not smooth at this state"])
            acting = _responses(a, c, g)
            terms = _responses(np.abs(a), np.abs(c), np.abs(g))
            for i in range(p):
                acts = np.any(np.abs(acting[:, i]) > ACTS_TOLERANCE * terms[:, i], axis=1)
                if np.any(acts):
                    k = int(np.argmax(acts))
                    degrees[i], rows[i] = k + 1.0, acting[k, i] * sizes * math.factorial(k)
            if count == most or not any(math.isinf(d) for d in degrees):
                break
            count = min(2 * count, most)
        return Degrees(tuple(degrees), rows)

    def next_to(self, q: Numbers, v: Numbers, t: float) -> tuple[Numbers, Numbers, float]:
        """A state a little further on a motion with other velocities: any state is like it, but for special ones."""
        basis = self.reduced(q, t).free
        generic = np.random.default_rng(0).uniform(0.5, 1.0, basis.shape[1])
        aside = ASIDE * basis @ (generic * np.resize([1.0, -1.0], basis.shape[1]))
        qs, vs, _, _ = self.series(q, np.asarray(v) + aside, t, 8)
        sizes = np.max(np.abs(np.concatenate([qs, vs], axis=1)), axis=1)[3:]
        orders = np.arange(3, 8)
        # As far as the series is exact to rounding errors.
        step = np.min(
            np.where(sizes > 0, (1e-14 / np.where(sizes > 0, sizes, 1.0)) ** (1.0 / orders), 0.03), initial=0.03
        )
        q_near, v_near = (np.polynomial.polynomial.polyval(step, x) for x in (qs, vs))
        return np.asarray(self.system.normalize(jnp.asarray(q_near))), v_near, float(t) + float(step)


def motion_of(system: System, output: Output) -> Motion:
    """The motion of a system seen by an output; kept with the system if the output is made of coordinates.

    Most of the time that a relative degree takes goes into tracing the equations, which is done once for all states.
    """
    if not isinstance(output, Coordinates):
        return Motion(system, output)
    return cached(system, f"motion of {output.labels!r}", lambda: Motion(system, output))


def _clean(series: np.ndarray, axes: tuple[int, ...], floor: float) -> np.ndarray:
    """Entries that are rounding errors of what was computed up to their order are zero."""
    largest = np.maximum.accumulate(np.max(np.abs(series), axis=axes, keepdims=True, initial=floor), axis=0)
    return np.where(np.abs(series) > NOISE * largest, series, 0.0)


def _responses(a: np.ndarray, c: np.ndarray, g: np.ndarray) -> np.ndarray:
    """Coefficients (count, p, nu) of `C(t) x(t)` with `ẋ = A(t) x`, `x(0) = g`."""
    count = a.shape[0]
    x = np.zeros((count, *g.shape))
    x[0] = g
    for k in range(count - 1):
        x[k + 1] = np.sum(a[: k + 1] @ x[k::-1], axis=0) / (k + 1)
    return np.stack([np.sum(c[: k + 1] @ x[k::-1], axis=0) for k in range(count)])
