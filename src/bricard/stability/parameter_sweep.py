"""Parameter sweeps: the spectral radius or abscissa of one loop for many values of its parameters.

The discretised plant depends only on the system and the period, and is cached. The response of the controller is
usually linear in each gain, and is then interpolated from a few evaluations.
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

from bricard.equations.linearization import REST_TOLERANCE, TangentModel, linear_terms, reduce_terms
from bricard.errors import ModelError
from bricard.execution.compile import xla_jit
from bricard.simulation.controller import Controller, make_controller
from bricard.simulation.digital import Sampled
from bricard.stability.loop import close_loop, closed_matrices, law_terms, reduced_law
from bricard.stability.parameters import Target, find_parameters, set_parameters
from bricard.stability.sampled import close_phases, phases, product, step_matrices, zero_order_hold
from bricard.system import System, Vector, VectorLike

CHUNK = 2000
"""Number of matrices per batch of eigenvalue computations."""
BATCH = 32
"""Number of laws linearised at once; it is fixed, so that the program is compiled only once."""
AFFINE_TOLERANCE = 1e-11
"""A response counts as linear in a parameter if its relative deviation from a line is below this."""

Place = VectorLike | Callable[[System], Any]
"""A configuration, or a function that returns it for a given system."""


class Family:
    """A loop at the equilibrium `q` whose parameters `names` vary between `low` and `high`; see `value`."""

    def __init__(self, system: System, q: Place, loop: Any, names: Sequence[str], low: Any, high: Any, t: Any = 0.0):
        loop = make_controller(system, None, loop, "stability")
        self.system, self.loop, self.names = system, loop, tuple(names)
        self.targets = find_parameters(system, loop, names)
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
        """Whether `value` is a spectral radius per sample; otherwise it is a spectral abscissa."""
        return isinstance(self.loop, Sampled)

    @property
    def limit(self) -> float:
        """Limit of stability: the loop is stable if `value` is below it."""
        return 1.0 if self.sampled else 0.0

    def value(self, points: np.ndarray, progress: Callable[[int], None] | None = None) -> np.ndarray:
        """Spectral radius per sample, or spectral abscissa (1/s), at each row of `points` (k, parameters).

        The value is infinite where the law is not defined (if no input affects its task).
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
            return self._stability_value(a, b, law)

        parts = np.array_split(np.arange(len(points)), max(1, len(points) // CHUNK))
        found = []
        with concurrent.futures.ThreadPoolExecutor(2) as pool:  # LAPACK releases the GIL
            for part, values in zip(parts, pool.map(chunk, parts), strict=True):
                found.append(values)
                if progress is not None:
                    progress(len(part))
        return np.concatenate(found)

    def _stability_value(self, a: np.ndarray, b: np.ndarray, law: np.ndarray) -> np.ndarray:
        """Spectral radius per sample, or spectral abscissa, for laws (k, phases, ·, ·)."""
        count = law.shape[1]
        if isinstance(self.loop, Sampled):
            steps = step_matrices(a, b, law, self.loop.delay_samples)
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
        """System, loop and equilibrium configuration for the parameters `point`."""
        system, loop = set_parameters(self.system, self.loop, self.targets, [jnp.asarray(float(x)) for x in point])
        if not (callable(self.place) and self.moves_system):
            return system, loop, self.q
        return system, loop, system.normalize(system.vector(self.place(system), "q"))

    def _plant(self, point: np.ndarray) -> tuple[np.ndarray, np.ndarray, TangentModel]:
        """Matrices `(a, b)` of the plant (discretised over one sample for a sampled loop), and the tangent model."""
        key = tuple(point[i] for i in self.moves_system + self.moves_period)
        if key not in self._plants:
            model = self._model(point)
            a, b = model.a, model.b
            if isinstance(self.loop, Sampled):
                period = point[self.moves_period[0]] if self.moves_period else float(self.loop.period)
                a, b = zero_order_hold(a, b, float(period))
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
        largest = float(np.max(np.abs(off), initial=0.0))
        if not largest < 10 * REST_TOLERANCE:
            where = ", ".join(f"{n} = {x:.5g}" for n, x in zip(self.names, point, strict=True))
            raise ModelError(
                "stability",
                [
                    f"q is not an equilibrium at {where}: it accelerates or misses its constraints by {largest:.3g}. "
                    "Give q as a function of the system, such as lambda s: br.stability.equilibrium(s, q).q"
                ],
            )
        return reduce_terms(system, terms)

    # -- the law ---------------------------------------------------------------------------------------------------

    def _evaluate(self, points: np.ndarray) -> np.ndarray:
        """Responses of the controller at each point and phase, in all coordinates: (k, phases, nu + nm, 2 nv + nm)."""
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
        """Like `_evaluate`, but interpolated in the parameters in which the response is linear."""
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
        """Indices of the parameters in which the response is linear, tested along six random lines each."""
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
        return [j for j in range(n) if error[j] <= AFFINE_TOLERANCE * size]


@xla_jit
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
        changed, law = set_parameters(system, loop, targets, list(pair[0]))
        laws, period = (phases(law), law.period) if isinstance(law, Sampled) else ((law,), None)
        # The laws of a period differ only in their arrays: trace one law, and map over the arrays.
        numbers, rest = zip(*(eqx.partition(x, eqx.is_array) for x in laws), strict=True)
        stacked = jax.tree.map(lambda *x: jnp.stack(x), *numbers)
        return jax.lax.map(
            lambda x: law_terms(eqx.combine(x, rest[0]), changed, pair[1], v, t, memory, period).response, stacked
        )

    return jax.lax.map(one, (points, where))
