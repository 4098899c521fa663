"""One loop for many values of its parameters: spectral radius or abscissa as fast as eigenvalues can be had.

The plant between samples depends on the system and the period alone, the law's response mostly on its gains alone, and
on each gain linearly: then a few evaluations give it everywhere.
"""

from __future__ import annotations

import concurrent.futures
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from bricard.equations.linear import REST_TOLERANCE, TangentModel, linear_terms, reduce_terms
from bricard.errors import ModelError
from bricard.simulate.controller import Controller, make_controller
from bricard.simulate.sampling import Sampled
from bricard.stability.loop import close_loop, closed_matrices, law_terms, reduced_law
from bricard.stability.parameters import Target, find, replaced
from bricard.stability.sampled import close_phases, hold, phases, product, step_matrices
from bricard.system import System, Vector, VectorLike

CHUNK = 2000
"""Matrices whose eigenvalues are found in one go."""
BATCH = 32
"""Laws that are linearised in one go; one size, so that nothing is compiled again."""
AFFINE = 1e-11
"""A response counts as linear in a parameter if it is to this, relative to its size."""

Place = VectorLike | Callable[[System], Any]
"""A configuration, or where it is for a given system."""


class Family:
    """A loop about rest at `q`, with parameters `names` between `low` and `high`; see `value`."""

    def __init__(self, system: System, q: Place, loop: Any, names: Sequence[str], low: Any, high: Any, t: Any = 0.0):
        loop = make_controller(system, None, loop, "stability")
        self.system, self.loop, self.names = system, loop, tuple(names)
        self.targets = find(system, loop, names)
        self.low, self.high = np.asarray(low, dtype=float), np.asarray(high, dtype=float)
        self.t, self.place = jnp.asarray(t, dtype=float), q
        start = q(system) if callable(q) else q
        if isinstance(loop, Sampled):
            base = close_phases(system, start, None, t, phases(loop), loop.period)[0]
        else:
            base = close_loop(system, start, None, None, t, loop)
        self.q, self.v, self.memory = base.q, base.v, base.memory
        self.moves_system = [i for i, x in enumerate(self.targets) if x.of_system]
        self.moves_period = [i for i, x in enumerate(self.targets) if self.sampled and x.paths == (("period",),)]
        self._models: dict[tuple[float, ...], TangentModel] = {} if self.moves_system else {(): base.model}
        self._plants: dict[tuple[float, ...], tuple[np.ndarray, np.ndarray, TangentModel]] = {}
        self._corners: np.ndarray | None = None
        self.affine = self._affine_axes()

    @property
    def sampled(self) -> bool:
        """Whether `value` is a decay index and not an abscissa."""
        return isinstance(self.loop, Sampled)

    @property
    def limit(self) -> float:
        """Below it the loop is stable."""
        return 1.0 if self.sampled else 0.0

    def value(self, points: np.ndarray, progress: Callable[[int], None] | None = None) -> np.ndarray:
        """Spectral radius per sample, or spectral abscissa (1/s), at each row of `points` (k, parameters).

        Infinite where the law is not defined (a task that its inputs do not reach).
        """
        points = np.asarray(points, dtype=float)
        responses = self._responses(points)
        depends = self.moves_system + self.moves_period
        plants = [self._plant(p) for p in points] if depends else [self._plant(points[0])]

        def chunk(rows: np.ndarray) -> np.ndarray:
            if depends:
                a, b = (np.stack([plants[i][j] for i in rows])[:, None] for j in (0, 1))
                law = np.stack([reduced_law(responses[i], plants[i][2]) for i in rows])
            else:
                a, b, model = plants[0]
                law = reduced_law(responses[rows], model)
            return self._size(a, b, law)

        parts = np.array_split(np.arange(len(points)), max(1, len(points) // CHUNK))
        found = []
        with concurrent.futures.ThreadPoolExecutor(2) as pool:  # LAPACK works without Python's lock
            for part, values in zip(parts, pool.map(chunk, parts), strict=True):
                found.append(values)
                if progress is not None:
                    progress(len(part))
        return np.concatenate(found)

    def _size(self, a: np.ndarray, b: np.ndarray, law: np.ndarray) -> np.ndarray:
        """The value for laws (k, phases, ·, ·)."""
        count = law.shape[1]
        if isinstance(self.loop, Sampled):
            steps = step_matrices(a, b, law, self.loop.delay)
            matrices = product([steps[:, i] for i in range(count)])
        else:
            matrices = closed_matrices(a, b, law)[:, 0]
        good = np.all(np.isfinite(matrices), axis=(1, 2))
        values = np.linalg.eigvals(np.where(good[:, None, None], matrices, 0.0))
        if isinstance(self.loop, Sampled):
            size = np.max(np.abs(values), axis=-1, initial=0.0) ** (1.0 / count)
        else:
            size = np.max(values.real, axis=-1, initial=-np.inf)
        return np.where(good, size, np.inf)

    # -- the plant -------------------------------------------------------------------------------------------------

    def at(self, point: np.ndarray) -> tuple[System, Controller, Vector]:
        """System, loop and configuration at a point."""
        system, loop = replaced(self.system, self.loop, self.targets, [jnp.asarray(float(x)) for x in point])
        if not (callable(self.place) and self.moves_system):
            return system, loop, self.q
        return system, loop, system.normalize(system.vector(self.place(system), "q"))

    def _plant(self, point: np.ndarray) -> tuple[np.ndarray, np.ndarray, TangentModel]:
        """`(a, b)`, of a sampled loop over one sample, and the tangent model."""
        key = tuple(point[i] for i in self.moves_system + self.moves_period)
        if key not in self._plants:
            model = self._model(point)
            a, b = model.a, model.b
            if isinstance(self.loop, Sampled):
                period = point[self.moves_period[0]] if self.moves_period else float(self.loop.period)
                a, b = hold(a, b, float(period))
            self._plants[key] = a, b, model
        return self._plants[key]

    def _model(self, point: np.ndarray) -> TangentModel:
        key = tuple(point[i] for i in self.moves_system)
        if key not in self._models:
            self._models[key] = self._linearised(point)
        return self._models[key]

    def _linearised(self, point: np.ndarray) -> TangentModel:
        system, loop, q = self.at(point)
        law, period = (phases(loop)[0], loop.period) if isinstance(loop, Sampled) else (loop, None)
        u = law_terms(law, system, q, self.v, self.t, self.memory, period).u
        terms = linear_terms(system, q, self.v, u, self.t)
        off = np.concatenate([terms.acceleration, terms.position_error])
        left = float(np.max(np.abs(off), initial=0.0))
        if not left < 10 * REST_TOLERANCE:
            where = ", ".join(f"{n} = {x:.5g}" for n, x in zip(self.names, point, strict=True))
            raise ModelError(
                "stability",
                [
                    f"q is not an equilibrium at {where}: it accelerates or misses its constraints by {left:.3g}. "
                    "Give q as a function of the system, such as lambda s: br.stability.equilibrium(s, q).q"
                ],
            )
        return reduce_terms(system, terms)

    # -- the law ---------------------------------------------------------------------------------------------------

    def _evaluate(self, points: np.ndarray) -> np.ndarray:
        """Responses in all coordinates, one for each point and phase: (k, phases, nu + nm, 2 nv + nm)."""
        moves = callable(self.place) and self.moves_system
        where = np.stack([self.at(p)[2] for p in points]) if moves else np.tile(self.q, (len(points), 1))
        found = []
        for start in range(0, len(points), BATCH):
            rows = np.minimum(np.arange(start, start + BATCH), len(points) - 1)
            some = jnp.asarray(points[rows]), jnp.asarray(where[rows])
            batch = _many_responses(self.system, self.loop, self.targets, self.v, self.t, self.memory, *some)
            found.append(np.asarray(batch)[: len(points) - start])
        return np.concatenate(found)

    def _responses(self, points: np.ndarray) -> np.ndarray:
        """The same, interpolated along the axes on which the response is linear."""
        others = [i for i in range(len(self.names)) if i not in self.affine]
        span = self.high - self.low
        corners = np.array(list(itertools.product((0.0, 1.0), repeat=len(self.affine))))
        kinds, which = np.unique(points[:, others], axis=0, return_inverse=True)
        if len(kinds) * len(corners) >= len(points) and self._corners is None and others:
            return self._evaluate(points)
        if self._corners is None or others:
            wanted = np.empty((len(kinds), len(corners), len(self.names)))
            wanted[:, :, others] = kinds[:, None, :]
            wanted[:, :, self.affine] = self.low[self.affine] + corners[None] * span[self.affine]
            shape = wanted.shape[:2]
            values = self._evaluate(wanted.reshape(-1, len(self.names)))
            known = values.reshape(*shape, *values.shape[1:])
            if not others:
                self._corners = known
        else:
            known = self._corners
        x = ((points - self.low) / span)[:, self.affine]
        weights = np.prod(np.where(corners[None] == 1.0, x[:, None, :], 1.0 - x[:, None, :]), axis=2)
        total = np.zeros((len(points), *known.shape[2:]))
        for i in range(len(corners)):
            total += weights[:, i, None, None, None] * known[which.ravel(), i]
        return total

    def _affine_axes(self) -> list[int]:
        """Parameters in which the response is linear, as far as six random lines in each tell."""
        rng, n, lines = np.random.default_rng(0), len(self.names), 6
        span = self.high - self.low
        points = np.tile(self.low + span * rng.uniform(size=(n, lines, 1, n)), (1, 1, 3, 1))
        part = rng.uniform(0.2, 0.8, size=(n, lines))
        for j in range(n):
            points[j, :, 0, j], points[j, :, 1, j] = self.low[j], self.high[j]
            points[j, :, 2, j] = self.low[j] + part[j] * span[j]
        values = self._evaluate(points.reshape(-1, n))
        values = values.reshape(n, lines, 3, -1)
        between = values[:, :, 0] + part[:, :, None] * (values[:, :, 1] - values[:, :, 0])
        error = np.max(np.abs(values[:, :, 2] - between), axis=(1, 2), initial=0.0)
        size = max(1.0, float(np.max(np.abs(values), initial=0.0)))
        return [j for j in range(n) if error[j] <= AFFINE * size]


@eqx.filter_jit
def _many_responses(
    system: System,
    loop: Controller,
    targets: tuple[Target, ...],
    v: Vector,
    t: Array,
    memory: Any,
    points: Float[Array, "k n"],
    where: Float[Array, "k nq"],
) -> Float[Array, "k p a b"]:
    def one(pair: tuple[Array, Array]) -> Array:
        changed, law = replaced(system, loop, targets, list(pair[0]))
        laws, period = (phases(law), law.period) if isinstance(law, Sampled) else ((law,), None)
        # All laws of a period are one but for their numbers: linearise it once, with the numbers of each.
        numbers, rest = zip(*(eqx.partition(x, eqx.is_array) for x in laws), strict=True)
        stacked = jax.tree.map(lambda *x: jnp.stack(x), *numbers)
        return jax.lax.map(
            lambda x: law_terms(eqx.combine(x, rest[0]), changed, pair[1], v, t, memory, period).response, stacked
        )

    return jax.lax.map(one, (points, where))
