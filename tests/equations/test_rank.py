import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bricard.equations.rank import determinate, kept, null_basis, pinv, rank, solve_on_basis

jax_key = np.random.default_rng(3)


def path(kind, s):
    """A matrix that moves with `s` at constant rank 2, with repeated or dropped singular values at s = 0."""
    turn = jnp.array([[jnp.cos(s), -jnp.sin(s), 0.0], [jnp.sin(s), jnp.cos(s), 0.0], [0.0, 0.0, 1.0]])
    rows = {
        "repeated": jnp.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 0.0]]),
        "redundant": jnp.array([[1.0, 0.5, 0.2], [0.3, -0.4, 0.9], [1.3, 0.1, 1.1]]),
    }[kind]
    tilt = jnp.array([[1.0, 0.0, 0.0], [0.0, jnp.cos(2 * s), -jnp.sin(2 * s)], [0.0, jnp.sin(2 * s), jnp.cos(2 * s)]])
    return (1.0 + s) * turn @ rows @ tilt


@pytest.mark.parametrize("kind", ["repeated", "redundant"])
def test_derivatives_exist_where_those_of_an_svd_do_not(kind):
    def function(s):
        return pinv(path(kind, s)) @ jnp.array([1.0, -2.0, 0.7])

    h = 1e-5
    expected = (function(h) - function(-h)) / (2 * h)
    value = jax.jacfwd(function)(0.0)
    assert jnp.max(jnp.abs(value - expected)) < 1e-8
    assert jnp.max(jnp.abs(jax.jacrev(function)(0.0) - value)) < 1e-14


def test_what_is_built_on_a_null_basis_has_the_right_derivative():
    """A basis is not unique; a solution on the null space is."""
    mass = jnp.diag(jnp.array([1.0, 2.0, 3.0]))
    rhs = jnp.array([1.0, 2.0, -1.0])

    def function(s):
        return solve_on_basis(mass, rhs, null_basis(path("redundant", s)))

    h = 1e-5
    expected = (function(h) - function(-h)) / (2 * h)
    assert jnp.max(jnp.abs(jax.jacfwd(function)(0.0) - expected)) < 1e-8


def test_null_basis_is_orthonormal_and_annihilated():
    a = path("redundant", 0.3)
    basis = null_basis(a)
    used = basis[:, np.any(np.asarray(basis) != 0.0, axis=0)]
    assert used.shape == (3, 1)
    assert jnp.max(jnp.abs(a @ used)) < 1e-14
    assert jnp.abs(used.T @ used - 1.0) < 1e-14


@pytest.mark.parametrize(("scale", "expected"), [(1.0, 2), (1e-6, 2), (1e-8, 1)])
def test_rank_changes_at_the_documented_tolerance(scale, expected):
    assert rank(jnp.diag(jnp.array([1.0, scale]))) == expected


def test_a_vanishing_matrix_has_rank_zero():
    assert rank(jnp.array([[1e-16, 2e-16]])) == 0
    assert not jnp.any(kept(jnp.array([1e-16])))


def test_determinate_rows_are_those_outside_every_dependence():
    a = jnp.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 2.0, 0.0], [0.0, 0.0, 1.0]])
    assert determinate(a).tolist() == [True, False, False, True]


def test_no_rows_at_all():
    empty = jnp.zeros((0, 3))
    assert rank(empty) == 0
    assert pinv(empty).shape == (3, 0)
    assert jnp.array_equal(null_basis(empty), jnp.eye(3))
    assert determinate(empty).shape == (0,)
