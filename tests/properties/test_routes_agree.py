"""Every rank-safe route finds the acceleration and constraint force of an independent solver, on random systems."""

import equinox as eqx
import hypothesis.strategies as st
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given

import bricard as br
from bricard.equations import Problem, solve
from tests.equations import oracle
from tests.equations.routes import RANK_SAFE

N, M = 6, 7
_solve = eqx.filter_jit(solve)


def orthogonal(rng, n):
    return np.linalg.qr(rng.standard_normal((n, n)))[0]


@st.composite
def problems(draw, independent=False):
    """Mass, force, rows and right side; rows redundant, duplicated, scaled; mass perhaps semidefinite."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    rank = draw(st.integers(1, 5))
    massless = draw(st.integers(0, rank))
    row_space, inertia_axes = orthogonal(rng, N)[:rank], orthogonal(rng, N)
    if massless:
        # The motions without inertia are among those that the constraints forbid.
        inertia_axes = np.linalg.qr(np.vstack([row_space[:massless], rng.standard_normal((N - massless, N))]).T)[0]
    inertia = np.concatenate([np.zeros(massless), rng.uniform(0.3, 3.0, N - massless)])
    mass = inertia_axes * inertia @ inertia_axes.T
    basis = np.diag(rng.uniform(0.5, 2.0, rank)) @ row_space
    m = rank if independent else M
    mix = np.vstack([np.eye(rank), rng.standard_normal((M - rank, rank))])[:m]
    if not independent and draw(st.booleans()):
        mix[-1] = mix[0]
    if not independent and draw(st.booleans()):
        mix[rng.integers(rank, m)] = 0.0
    scale = 10.0 ** rng.uniform(-3, 3, m) if draw(st.booleans()) else np.ones(m)
    matrix = scale[:, None] * (mix @ basis)
    target = matrix @ rng.standard_normal(N)
    return mass, rng.standard_normal(N), matrix, target


def close(value, expected, tolerance=1e-9):
    return np.max(np.abs(value - expected)) <= tolerance * (1.0 + np.max(np.abs(expected)))


@pytest.mark.parametrize("method", RANK_SAFE.values(), ids=RANK_SAFE)
@given(problems())
def test_rank_safe_routes(method, numbers):
    acceleration, force = oracle.solve(*numbers)
    result = _solve(Problem.from_matrices(*map(jnp.asarray, numbers)), method)
    assert close(result.acceleration, acceleration)
    assert close(result.constraint_force, force)


@given(problems(independent=True))
def test_multipliers_need_independent_rows(numbers):
    acceleration, _ = oracle.solve(*numbers)
    # One shape only: rows that are missing are filled up with rows for extra coordinates.
    mass, force, matrix, target = numbers
    k = M - len(target)
    mass = np.block([[mass, np.zeros((N, k))], [np.zeros((k, N)), np.eye(k)]])
    padded = np.pad(matrix, ((0, k), (0, k)))
    padded[len(target) :, N:] = np.eye(k)
    result = eqx.filter_jit(solve)(
        Problem.from_matrices(*map(jnp.asarray, (mass, np.pad(force, (0, k)), padded, np.pad(target, (0, k))))),
        br.Multipliers(),
    )
    assert close(result.acceleration[:N], acceleration)
    assert result.rank == M
    assert np.all(result.determinate)


@given(problems())
def test_multipliers_are_least_and_reproduce_the_force(numbers):
    _, force = oracle.solve(*numbers)
    matrix = numbers[2]
    result = _solve(Problem.from_matrices(*map(jnp.asarray, numbers)), br.Proximal())
    assert close(matrix.T @ result.multipliers, force, 1e-8)
    scale = np.linalg.norm(matrix, axis=1).max()
    least = oracle.least_multipliers(matrix / scale, force) / scale
    assert np.linalg.norm(result.multipliers) <= np.linalg.norm(least) * (1 + 1e-6) + 1e-8


@given(problems())
def test_multipliers_without_redundancy_are_flagged(numbers):
    """A multiplier is determinate exactly if removing its row lowers the rank."""
    matrix = numbers[2] / np.maximum(np.linalg.norm(numbers[2], axis=1, keepdims=True), 1e-300)
    result = _solve(Problem.from_matrices(*map(jnp.asarray, numbers)), br.Gauss())
    rank = np.linalg.matrix_rank(matrix, tol=1e-6)
    needed = [np.linalg.matrix_rank(np.delete(matrix, i, axis=0), tol=1e-6) < rank for i in range(M)]
    assert result.rank == rank
    assert list(np.asarray(result.determinate)) == needed


@given(problems())
def test_penalty_is_as_accurate_as_it_says(numbers):
    from bricard.equations.problem import equilibrate

    acceleration, _ = oracle.solve(*numbers)
    problem = Problem.from_matrices(*map(jnp.asarray, numbers))
    method = br.Penalty(alpha=1e6)
    scaled, units = equilibrate(problem)
    bound = float(method.error(scaled))
    factor = np.linalg.cholesky(np.asarray(scaled.mass))

    def length(a):  # in the metric of the mass matrix
        return np.linalg.norm(factor.T @ (np.asarray(a) / np.asarray(units.columns)))

    free = np.linalg.solve(np.asarray(scaled.mass), np.asarray(scaled.force)) * np.asarray(units.columns)
    missing = length(_solve(problem, method).acceleration - acceleration)
    assert missing <= bound * length(acceleration - free) + 1e-8 * (1 + length(acceleration))
