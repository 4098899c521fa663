"""Large systems with little coupling: the same answers as from dense matrices."""

import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import bricard as br
from bricard.equations.linalg.band import Band
from bricard.equations.linalg.pattern import Pattern
from bricard.equations.linalg.sparse import Matrices, Saddle, Structure, enough_sweeps, find_structure, matrices, missed
from tests.equations.oracle import solve


def chain(rng, n, redundant):
    """Random `M`, `A`, force and consistent `b` of a chain: bodies share masses and rows with the next two only."""
    root = np.tril(rng.normal(size=(n, n))) * (np.abs(np.subtract.outer(np.arange(n), np.arange(n))) < 2)
    rows = []
    for i in range(0, n - 2, 3):
        row = np.zeros(n)
        row[i : i + 3] = rng.normal(size=3)
        rows.append(row)
    if redundant:
        rows += [rows[0], 2.0 * rows[0] - rows[1]]
    matrix = np.array(rows)
    return root @ root.T + 0.1 * np.eye(n), matrix, rng.normal(size=n), matrix @ rng.normal(size=n)


@pytest.mark.slow
@settings(max_examples=3)
@given(st.integers(0, 2**32 - 1), st.sampled_from([6, 21]), st.booleans(), st.sampled_from([1e-10, 1e-12]))
def test_saddle_points_are_those_of_dense_matrices(seed, n, redundant, mu):
    mass, matrix, force, target = chain(np.random.default_rng(seed), n, redundant)
    structure = Structure(mass != 0.0, matrix != 0.0)
    structure.find_blocks()
    patterns = ((mass, structure.mass), (matrix, structure.matrix))
    at = Matrices(*(jnp.asarray(x[p.rows, p.columns]) for x, p in patterns))
    saddle = Saddle(structure, at, jnp.zeros(matrix.shape), mu)
    found = saddle.solve(jnp.asarray(force), jnp.asarray(target))
    expected = solve(mass, force, matrix, target)[0]
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-8 * (1.0 + np.max(np.abs(expected))))


def fifty_digits(mass, force, matrix, target):
    """`x` with `M x = f + Aᵀλ`, `A x = b`."""
    with mpmath.workdps(50):
        whole = np.block([[mass, -matrix.T], [matrix, np.zeros((len(target), len(target)))]])
        x = mpmath.lu_solve(mpmath.matrix(whole.tolist()), mpmath.matrix([*force, *target]))
        return np.array([float(x[i]) for i in range(len(force))])


@pytest.mark.parametrize("seed", range(3))
def test_weak_constraints_are_met_all_the_same(seed):
    """Two rows that differ by 1e-4: with a smaller `mu` it takes more rounds until rounding is gone."""
    rng = np.random.default_rng(seed)
    mass, matrix, force, _ = chain(rng, 12, redundant=False)
    matrix = np.vstack([matrix, matrix[0] + 1e-4 * np.eye(12)[0]])
    target = matrix @ rng.normal(size=12)
    structure = Structure(mass != 0.0, matrix != 0.0)
    structure.find_blocks()
    at = Matrices(*(jnp.asarray(x[p.rows, p.columns]) for x, p in ((mass, structure.mass), (matrix, structure.matrix))))
    found = Saddle(structure, at, jnp.zeros(matrix.shape), 1e-12).solve(jnp.asarray(force), jnp.asarray(target))
    np.testing.assert_allclose(found, fifty_digits(mass, force, matrix, target), rtol=0, atol=1e-9)
    assert enough_sweeps(1e-12) > enough_sweeps(1e-10) == 2


@pytest.mark.slow
@settings(max_examples=6)
@given(st.integers(0, 2**32 - 1), st.sampled_from([1, 3]), st.sampled_from([0, 3]))
def test_bands_are_solved(seed, size, levels):
    rng, count = np.random.default_rng(seed), 2 ** (levels + 1) - 1
    n = size * count
    near = np.abs(np.subtract.outer(np.arange(n) // size, np.arange(n) // size)) <= 1
    root = rng.normal(size=(n, n)) * near * (np.arange(n)[:, None] >= np.arange(n)[None])
    full = root @ root.T * near + 4.0 * n * np.eye(n)
    blocks = full.reshape(count, size, count, size)
    diagonal = np.stack([blocks[i, :, i] for i in range(count)], axis=2)
    below = np.zeros((size, size, count - 1))
    for i in range(count - 1):
        below[:, :, i] = blocks[i + 1, :, i]
    x = rng.normal(size=n)
    found = Band(jnp.asarray(diagonal), jnp.asarray(below)).solve(jnp.asarray(x.reshape(count, size).T))
    np.testing.assert_allclose(np.asarray(found).T.ravel(), np.linalg.solve(full, x), rtol=0, atol=1e-12)


@settings(max_examples=10)
@given(st.integers(0, 2**32 - 1), st.sampled_from([2, 9]), st.sampled_from([1, 12]))
def test_few_products_show_all_entries(seed, m, n):
    rng = np.random.default_rng(seed)
    matrix = rng.normal(size=(m, n)) * (rng.uniform(size=(m, n)) < 0.3)
    pattern = Pattern(matrix != 0.0)
    entries = pattern.entries(jnp.asarray(pattern.seeds @ matrix.T))
    np.testing.assert_array_equal(entries, matrix[pattern.rows, pattern.columns])
    x, y = rng.normal(size=n), rng.normal(size=m)
    np.testing.assert_allclose(pattern.times(entries, jnp.asarray(x)), matrix @ x, rtol=0, atol=1e-13)
    np.testing.assert_allclose(pattern.transposed_times(entries, jnp.asarray(y)), matrix.T @ y, rtol=0, atol=1e-13)


class TestChainOfFourBars:
    example = br.gallery.load("n-four-bar", n=12)
    system = example.system

    def state(self, angle):
        q = np.concatenate([np.full(13, angle), np.zeros(12)])
        return jnp.asarray(q), jnp.asarray(np.concatenate([np.full(13, 1.3), np.zeros(12)]))

    def test_matrices(self):
        q, _ = self.state(0.7)
        structure = find_structure(self.system, q, jnp.zeros(()))
        assert structure is not None
        assert structure.block == 2
        found = matrices(self.system, structure, q, jnp.zeros(()))
        mass, matrix = self.system.mass_matrix(q, 0.0), self.system.constraint_jacobian(q, 0.0)
        np.testing.assert_allclose(found.mass, mass[structure.mass.rows, structure.mass.columns], rtol=0, atol=1e-14)
        np.testing.assert_allclose(
            found.matrix, matrix[structure.matrix.rows, structure.matrix.columns], rtol=0, atol=1e-14
        )
        assert int(jnp.sum(mass != 0.0)) <= structure.mass.rows.size
        np.testing.assert_array_equal(np.asarray(matrix)[~structure.matrix.mask], 0.0)

    @pytest.mark.slow
    def test_a_run_through_singular_positions_is_that_of_another_route(self):
        """Against Gauss' route, which is never solved by structure; rockers pass the horizontal twice."""
        arguments = (self.system, self.example.q, self.example.v, 2.0)
        sparse = br.simulate(*arguments, save=5)
        dense = br.simulate(*arguments, save=5, route=br.Gauss())
        np.testing.assert_allclose(sparse.q, dense.q, rtol=0, atol=2e-8)
        np.testing.assert_allclose(sparse.work, dense.work, rtol=0, atol=1e-6)


class Coupled(br.System):
    """A row of point masses on rods of which the first and the last become coupled beyond `x = 1`."""

    coordinates = tuple(f"{c}{i}" for i in range(8) for c in "xy")

    def kinetic_energy(self, q, v, t):
        far = jnp.where(q[0] > 1.0, 0.5 * (v[1] + v[15]) ** 2, 0.0)
        return 0.5 * v @ v + far

    def potential_energy(self, q, t):
        return 9.81 * jnp.sum(q[1::2])

    def constraints(self, q, t):
        points = q.reshape(8, 2)
        return jnp.sum((points[1:] - points[:-1]) ** 2, axis=1) - 0.01


@pytest.mark.slow
def test_coupling_that_appears_on_the_way_is_not_missed():
    system = Coupled()
    q = np.stack([0.1 * np.arange(8)[::-1], np.zeros(8)], axis=1).ravel()
    v = np.tile([2.0, 0.0], 8)
    structure = find_structure(system, jnp.asarray(q), jnp.zeros(()))
    assert structure is not None
    beyond = jnp.asarray(q) + jnp.asarray(np.tile([1.0, 0.0], 8))
    shares = missed(system, structure, jnp.stack([jnp.asarray(q), beyond]), jnp.zeros(2))
    assert shares[0] < 1e-12 < 1e-2 < shares[1]
    run = br.simulate(system, q, v, 0.6, save=4)
    dense = br.simulate(system, q, v, 0.6, save=4, route=br.Gauss())
    assert float(run.q[-1, 0]) > 1.0
    np.testing.assert_allclose(run.q, dense.q, rtol=0, atol=1e-7)
