"""Relative degrees of any order against closed forms, and power series against nested derivatives."""

import math

import jax
import numpy as np
import pytest
from jax import numpy as jnp

import bricard as br
from bricard.control import internal_states, is_flat, relative_degree
from bricard.control.degree import Motion, make_output
from bricard.control.taylor import Unexpandable, expansion


def chain(n, *, twice=False):
    """`n` masses in a row, joined by springs that harden, pushed at the first.

    With `twice`, in dependent coordinates: each but the first is the distance from the one before, places follow by
    constraints, and all constraints are there twice.
    """

    class Chain(br.System):
        masses: np.ndarray
        springs: np.ndarray
        hardening: float = 0.0
        coordinates = tuple(f"x{i}" for i in range(n)) + tuple(f"d{i}" for i in range(1, n) if twice)
        inputs = ("push",)

        def kinetic_energy(self, q, v, t):
            return 0.5 * jnp.sum(self.masses * v[:n] ** 2)

        def potential_energy(self, q, t):
            stretch = q[n:] if twice else jnp.diff(q)
            return jnp.sum(0.5 * self.springs * stretch**2 + self.hardening * stretch**4)

        def constraints(self, q, t):
            if not twice:
                return jnp.zeros(0)
            once = q[n:] - jnp.diff(q[:n])
            return jnp.concatenate([once, -3.0 * once])

        def input_matrix(self, q, t):
            return jnp.eye(len(self.coordinates))[:, :1]

    return Chain


@pytest.mark.parametrize(("n", "twice"), [(2, False), (5, False), (8, False), (3, True)])
def test_masses_in_a_row(n, twice):
    """The input reaches mass `i` after `2 i` derivatives, as `Π k / Π m`."""
    rng = np.random.default_rng(n)
    masses, springs = 10.0 ** rng.uniform(-2, 2, n), 10.0 ** rng.uniform(-2, 2, n - 1)
    system = chain(n, twice=twice)(masses=masses, springs=springs)
    names, rest = [f"x{i}" for i in range(n)], np.zeros(system.nq)
    found = Motion(system, make_output(system, names)).degrees(rest, rest, 0.0)
    assert found.degrees == tuple(2.0 * i for i in range(1, n + 1))
    exact = [np.prod(springs[:i]) / np.prod(masses[: i + 1]) for i in range(n)]
    np.testing.assert_allclose(found.rows[:, 0], exact, rtol=1e-8)
    if n != 5:
        return
    assert relative_degree(system, names[-1], rest) == (10.0,)
    assert is_flat(system, names[-1], rest)
    assert internal_states(system, names[0], rest) == 8.0


@pytest.mark.parametrize("twice", [False, True])
def test_in_motion_with_springs_that_harden(twice):
    """At a state that is no equilibrium the slopes of the springs there count: `Π (k + 12 c d²) / Π m`."""
    rng = np.random.default_rng(3)
    system = chain(5, twice=twice)(masses=rng.uniform(1, 2, 5), springs=rng.uniform(1, 2, 4), hardening=0.7)
    places, speeds = rng.normal(size=5), rng.normal(size=5)
    q, v = (np.concatenate([x, np.diff(x)]) if twice else x for x in (places, speeds))
    found = Motion(system, make_output(system, "x4")).degrees(q, v, 0.0)
    slopes = np.asarray(system.springs) + 12.0 * 0.7 * np.diff(places) ** 2
    np.testing.assert_allclose(found.rows[0, 0], np.prod(slopes) / np.prod(np.asarray(system.masses)), rtol=1e-8)
    assert relative_degree(system, "x4", q, v) == (10.0,)


def test_never_and_not_here():
    springs = np.array([1.0, 0.0, 1.0])
    cut = chain(4)(masses=np.ones(4), springs=springs)
    assert relative_degree(cut, ["x1", "x2", "x3"], [0.1, 0.5, -0.3, 0.2]) == (4.0, math.inf, math.inf)
    # Springs with no stiffness when relaxed: there, and only there, the last mass feels nothing.
    soft = chain(3)(masses=np.ones(3), springs=np.zeros(2), hardening=1.0)
    assert relative_degree(soft, "x2", [0.1, 0.5, -0.3]) == (6.0,)
    assert math.isnan(relative_degree(soft, "x2", np.zeros(3))[0])
    assert math.isnan(internal_states(soft, "x2", np.zeros(3)))


def test_a_bead_on_a_turning_rod():
    """`r̈ = r φ̇²`: a torque reaches the bead after three derivatives, but not while the rod is at rest."""

    class Bead(br.System):
        coordinates = ("r", "angle")

        def kinetic_energy(self, q, v, t):
            return 0.5 * (v[0] ** 2 + q[0] ** 2 * v[1] ** 2) + 0.5 * v[1] ** 2

        def input_matrix(self, q, t):
            return jnp.array([[0.0], [1.0]])

    assert relative_degree(Bead(), ["r", "angle"], [0.8, 0.3], [0.1, 2.0]) == (3.0, 2.0)
    assert math.isnan(relative_degree(Bead(), "r", [0.8, 0.3])[0])
    found = Motion(Bead(), make_output(Bead(), "r")).degrees(np.array([0.8, 0.3]), np.array([0.1, 2.0]), 0.0)
    np.testing.assert_allclose(found.rows, [[2.0 * 0.8 * 2.0 / (1.0 + 0.64)]], rtol=1e-12)


def everything(t):
    """One number that went through all functions with a rule."""
    x = jnp.stack([0.3 + t, 0.7 - 0.5 * t * t, 1.2 + jnp.sin(t)])
    y = jnp.sin(x) * jnp.cos(x) / (1.0 + x**2) + jnp.exp(-x) + jnp.log(x) + jnp.log1p(x) + jnp.expm1(x)
    y = y + jnp.sqrt(x) + jax.lax.rsqrt(x) + jnp.cbrt(x) + x**2.3 + x**-3 + x**x + jnp.tan(0.3 * x) + jnp.exp2(x)
    y = y + jnp.tanh(x) + jnp.sinh(x) + jnp.cosh(x) + jax.nn.sigmoid(x) + jnp.square(x) + jnp.arcsinh(x)
    y = y + jnp.arcsin(0.3 * x) + jnp.arccos(0.3 * x) + jnp.arctan(x) + jnp.arctan2(x, 1.0 + x) + jnp.abs(-x)
    y = y + jnp.maximum(x, 0.5) + jnp.minimum(x, 0.5 * x[::-1]) + jnp.clip(x, 0.1, 1.0) + jnp.where(x > 0.5, x, x**2)
    matrix = jnp.outer(x, x) + jnp.diag(2.0 + y**2)
    root = jnp.linalg.cholesky(matrix)
    z = jax.scipy.linalg.solve_triangular(root, y, lower=True) + jax.scipy.linalg.cho_solve((root, True), x)
    z = z + jax.lax.cond(x[0] > 0.0, lambda a: a * x, lambda a: a, y)
    z = jax.lax.fori_loop(0, 3, lambda i, a: a * x[i] + y[i], z) + jnp.cumsum(z) + jnp.max(z) - jnp.min(x)
    carry, rows = jax.lax.scan(lambda a, b: (a + b * a, a * b), z[0], y, reverse=True)
    return jnp.concatenate([z, rows, carry[None], z.at[1].add(x[0])[1:], jnp.pad(x, 1)])


def test_power_series_against_nested_derivatives():
    count, function = 4, everything
    series = expansion(everything, jnp.zeros(()))(np.array([0.2, 1.0, 0.0, 0.0]))[0]
    for k in range(count):
        np.testing.assert_allclose(series[k], jax.jit(function)(0.2) / math.factorial(k), rtol=1e-9, atol=1e-9)
        function = (lambda f: lambda t: jax.jvp(f, (t,), (1.0,))[1])(function)


def test_what_has_no_power_series_is_refused():
    with pytest.raises(Unexpandable, match="sort"):
        expansion(jnp.sort, jnp.zeros(3))(np.ones((2, 3)))
