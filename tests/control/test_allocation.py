"""Inputs within limits, against independent solvers, at random scales of inputs, outputs and limits."""

import equinox as eqx
import numpy as np
import pytest
import scipy.optimize
import scipy.sparse
from jax import numpy as jnp

from bricard.control.allocation import allocate

compiled = eqx.filter_jit(allocate)
DRAWS = 150


def convex_program(hessian, slope, rows, bounds):
    """`min ½xᵀQx + cᵀx` with `G x ≤ g`, by an interior-point method."""
    clarabel = pytest.importorskip("clarabel")
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-13
    sparse = scipy.sparse.csc_matrix
    cones = [clarabel.NonnegativeConeT(len(bounds))]
    solver = clarabel.DefaultSolver(sparse(np.triu(hessian)), slope, sparse(rows), bounds, cones, settings)
    return np.array(solver.solve().x)


class Problem:
    """A demand in natural sizes, of which one in ten can be met only by very large inputs, and what the law is given.

    Two inputs may do the same, an effort may be zero for some inputs, and limits may exclude zero.
    """

    def __init__(self, rng, outputs, inputs, more):
        self.matrix = rng.normal(size=(outputs, inputs))
        if rng.random() < 0.3:
            self.matrix[:, 1] = 2.0 * self.matrix[:, 0]
        self.root = rng.normal(size=(inputs, inputs))
        if rng.random() < 0.3:
            self.root[0] = self.root[1]
        self.target = rng.normal(size=outputs) * 10.0 ** rng.uniform(-2, 2)
        self.high = 10.0 ** rng.uniform(-1.5, 1.5, inputs)
        self.low = -self.high * rng.uniform(0, 1, inputs)
        self.rows = np.vstack([np.eye(inputs), -np.eye(inputs), rng.normal(size=(more, inputs))])
        self.bounds = np.concatenate([self.high, -self.low, 0.3 * rng.normal(size=more)])

    def solve(self, rng):
        """In natural sizes, from numbers in units that are up to 1e8 apart."""
        outputs, inputs, limits = (10.0 ** rng.uniform(-4, 4, n) for n in (*self.matrix.shape, len(self.bounds)))
        found = compiled(
            jnp.asarray(self.matrix * outputs[:, None] * inputs),
            jnp.asarray(self.target * outputs),
            jnp.asarray(self.root * inputs),
            jnp.asarray(self.rows * limits[:, None] * inputs),
            jnp.asarray(self.bounds * limits),
            (jnp.asarray(outputs), jnp.asarray(inputs)),
        )
        np.testing.assert_allclose(
            found.shortfall / outputs,
            self.target - self.matrix @ (np.asarray(found.u) * inputs),
            rtol=0,
            atol=1e-12 * (np.abs(self.target).max() + np.abs(self.matrix).max() * np.abs(found.u * inputs).max()),
        )
        return np.asarray(found.u) * inputs, bool(found.possible)

    def missed(self, x):
        return np.linalg.norm(self.matrix @ x - self.target)

    def assert_least_effort(self, x):
        """No motion within the limits that leaves the outputs as they are takes less effort."""
        idle = np.linalg.svd(self.matrix)[2][np.linalg.matrix_rank(self.matrix) :].T
        if idle.shape[1] == 0:
            return
        cost = self.root.T @ self.root
        hessian = idle.T @ cost @ idle + 1e-13 * np.eye(idle.shape[1])
        room = np.maximum(self.bounds - self.rows @ x, 0.0)
        better = x + idle @ convex_program(hessian, idle.T @ cost @ x, self.rows @ idle, room)
        size = np.linalg.norm(self.root) * np.linalg.norm(x)
        assert np.linalg.norm(self.root @ x) <= np.linalg.norm(self.root @ better) + 1e-7 * size


@pytest.mark.parametrize(("outputs", "inputs"), [(2, 3), (3, 2)])
def test_bounds_on_inputs(outputs, inputs):
    """The missed demand is that of bounded least squares, to rounding."""
    rng, kinds = np.random.default_rng(outputs), {True: 0, False: 0}
    for _ in range(DRAWS):
        problem = Problem(rng, outputs, inputs, 0)
        x, possible = problem.solve(rng)
        assert possible
        assert np.all(problem.rows @ x <= problem.bounds + 1e-9 * np.abs(problem.bounds))
        best = scipy.optimize.lsq_linear(
            problem.matrix, problem.target, (problem.low, problem.high), tol=1e-14, method="bvls"
        )
        size = np.linalg.norm(problem.target)
        assert problem.missed(x) <= problem.missed(best.x) + 1e-11 * size
        problem.assert_least_effort(x)
        kinds[bool(problem.missed(x) > 1e-6 * size)] += 1
    assert kinds[True] > 0
    assert kinds[False] > 0 or outputs > inputs


def test_bounds_on_combinations_of_inputs():
    """As of constraint forces: limits may exclude each other, or rest."""
    rng, kinds = np.random.default_rng(7), {True: 0, False: 0}
    for _ in range(DRAWS):
        problem = Problem(rng, 2, 4, 3)
        x, possible = problem.solve(rng)
        tried = scipy.optimize.linprog(np.zeros(4), problem.rows, problem.bounds, bounds=(None, None))
        assert possible == (tried.status == 0)
        kinds[possible] += 1
        if not possible:
            assert np.all(np.isnan(x))
            continue
        assert np.all(problem.rows @ x <= problem.bounds + 1e-9 * (np.abs(problem.bounds) + np.linalg.norm(x)))
        best = convex_program(
            problem.matrix.T @ problem.matrix, -problem.matrix.T @ problem.target, problem.rows, problem.bounds
        )
        assert problem.missed(x) <= problem.missed(best) + 1e-8 * np.linalg.norm(problem.target)
        problem.assert_least_effort(x)
    assert kinds[True] > DRAWS // 2


def test_equal_bounds_fix_an_input():
    """Of three equal motors one must give 2 N, another nothing: the third gives the rest. Nothing acts on output 2."""
    rows = jnp.concatenate([jnp.eye(3), -jnp.eye(3)])
    bounds = jnp.array([2.0, 0.0, 9.0, -2.0, 0.0, 9.0])
    matrix = jnp.stack([jnp.ones(3), jnp.zeros(3)])
    found = compiled(matrix, jnp.array([7.0, 1.0]), jnp.eye(3), rows, bounds, (jnp.ones(2), jnp.ones(3)))
    np.testing.assert_allclose(found.u, [2.0, 0.0, 5.0], rtol=0, atol=1e-12)
    np.testing.assert_allclose(found.shortfall, [0.0, 1.0], rtol=0, atol=1e-12)
    np.testing.assert_array_equal(found.active, [True, True, False, True, True, False])
