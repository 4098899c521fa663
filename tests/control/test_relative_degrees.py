"""Relative degrees of any order against closed forms, and power series against nested derivatives."""

import math

import jax
import numpy as np
import pytest
from jax import numpy as jnp

import bricard as br
from bricard.control import internal_states, is_flat, relative_degree
from bricard.control.power_series_rules import Unexpandable, expansion
from bricard.control.relative_degrees import make_output, motion_of


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
    found = motion_of(system, make_output(system, names)).degrees(rest, rest, 0.0)
    assert found.degrees == tuple(2.0 * i for i in range(1, n + 1))
    exact = [np.prod(springs[:i]) / np.prod(masses[: i + 1]) for i in range(n)]
    np.testing.assert_allclose(found.rows[:, 0], exact, rtol=1e-8)
    if n == 2:
        assert internal_states(system, names[0], rest) == 2.0
    if n != 5:
        return
    assert relative_degree(system, names[-1], rest) == (10.0,)
    assert is_flat(system, names[-1], rest)
    assert internal_states(system, names[-1], rest) == 0.0


@pytest.mark.parametrize("twice", [False, True])
def test_in_motion_with_springs_that_harden(twice):
    """At a state that is no equilibrium the slopes of the springs there count: `Π (k + 12 c d²) / Π m`."""
    rng = np.random.default_rng(3)
    system = chain(5, twice=twice)(masses=rng.uniform(1, 2, 5), springs=rng.uniform(1, 2, 4), hardening=0.7)
    places, speeds = rng.normal(size=5), rng.normal(size=5)
    q, v = (np.concatenate([x, np.diff(x)]) if twice else x for x in (places, speeds))
    found = motion_of(system, make_output(system, "x4")).degrees(q, v, 0.0)
    slopes = np.asarray(system.springs) + 12.0 * 0.7 * np.diff(places) ** 2
    np.testing.assert_allclose(found.rows[0, 0], np.prod(slopes) / np.prod(np.asarray(system.masses)), rtol=1e-8)
    assert relative_degree(system, "x4", q, v) == (10.0,)


@pytest.mark.slow
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

    bead = Bead()
    assert relative_degree(bead, ["r", "angle"], [0.8, 0.3], [0.1, 2.0]) == (3.0, 2.0)
    assert math.isnan(relative_degree(bead, "r", [0.8, 0.3])[0])
    found = motion_of(bead, make_output(bead, "r")).degrees(np.array([0.8, 0.3]), np.array([0.1, 2.0]), 0.0)
    np.testing.assert_allclose(found.rows, [[2.0 * 0.8 * 2.0 / (1.0 + 0.64)]], rtol=1e-12)


def matrix(x):
    return jnp.outer(x, x) + jnp.diag(2.0 + x**2)


def root(x):
    return jnp.linalg.cholesky(matrix(x))


FUNCTIONS = [
    *(jnp.sin, jnp.cos, jnp.tan, jnp.exp, jnp.exp2, jnp.log, jnp.log1p, jnp.expm1, jnp.sqrt, jax.lax.rsqrt, jnp.cbrt),
    *(jnp.tanh, jnp.sinh, jnp.cosh, jax.nn.sigmoid, jnp.square, jnp.arcsinh, jnp.arctan, jnp.cumsum, jnp.max, jnp.min),
    *(lambda x: 1.0 / (1.0 + x**2), lambda x: x**2.3, lambda x: x**-3, lambda x: x**x, lambda x: jnp.abs(-x)),
    *(lambda x: jnp.arcsin(0.3 * x), lambda x: jnp.arccos(0.3 * x), lambda x: jnp.arctan2(x, 1.0 + x)),
    *(lambda x: jnp.maximum(x, 0.5), lambda x: jnp.minimum(x, 0.5 * x[::-1]), lambda x: jnp.clip(x, 0.1, 1.0)),
    *(lambda x: jnp.where(x > 0.5, x, x**2), root, lambda x: jax.scipy.linalg.solve_triangular(root(x), x, lower=True)),
    lambda x: jax.scipy.linalg.cho_solve((root(x), True), x),
    lambda x: jax.lax.cond(x[0] > 0.0, lambda a: a * x, lambda a: a, x),
    lambda x: jax.lax.fori_loop(0, 3, lambda i, a: a * x[i] + x[i], x),
    lambda x: jax.lax.scan(lambda a, b: (a + b * a, a * b), x[0], x, reverse=True)[1],
    *(lambda x: x.at[1].add(x[0]), lambda x: jnp.pad(x, 1)),
]


def test_power_series_against_nested_derivatives():
    def along(t):
        return jnp.stack([0.3 + t, 0.7 - 0.5 * t * t, 1.2 + jnp.sin(t)])

    def derivative(function):
        return lambda t: jax.jvp(function, (t,), (1.0,))[1]

    @jax.jit
    def nested(t):
        made = [lambda t, f=f: f(along(t)) for f in FUNCTIONS]
        return [(f(t), derivative(f)(t), derivative(derivative(f))(t)) for f in made]

    for function, expected in zip(FUNCTIONS, nested(0.25), strict=True):
        found = expansion(lambda t, f=function: f(along(t)), jnp.zeros(()))(np.array([0.25, 1.0, 0.0]))[0]
        for k in range(3):
            np.testing.assert_allclose(math.factorial(k) * found[k], expected[k], rtol=1e-10, atol=1e-12)


def test_what_has_no_power_series_is_refused():
    with pytest.raises(Unexpandable, match="sort"):
        expansion(jnp.sort, jnp.zeros(3))(np.ones((2, 3)))
