import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bricard as br
from bricard.equations.dynamics import solve
from bricard.equations.problem import Problem


def test_relative_degree_is_two_at_the_driven_mass_and_four_at_the_other():
    m1, m2, k = 1.5, 0.8, 3.0
    system = br.gallery.load("two-mass", m1=m1, m2=m2, k=k).system

    def rates(x, u):
        force = system.input_matrix(x[:2], 0.0) @ u - system.bias(x[:2], x[2:], 0.0)
        return jnp.concatenate([x[2:], jnp.linalg.solve(system.mass_matrix(x[:2], 0.0), force)])

    a, b = (np.asarray(j) for j in jax.jit(jax.jacfwd(rates, argnums=(0, 1)))(jnp.zeros(4), jnp.zeros(1)))
    # Derivative i + 1 of an output depends on the force by `c Aⁱ B`.
    dependence = np.array([np.linalg.matrix_power(a, i) @ b for i in range(4)])[:, :2, 0]
    np.testing.assert_allclose(dependence[:, 0], [0, 1 / m1, 0, -k / m1**2], rtol=0, atol=1e-15)
    np.testing.assert_allclose(dependence[:, 1], [0, 0, 0, k / (m1 * m2)], rtol=0, atol=1e-15)


def test_free_swing_of_the_sprung_pair():
    m1, m2, k = 1.5, 0.8, 3.0
    system = br.gallery.load("two-mass", m1=m1, m2=m2, k=k).system
    run = br.simulate(system, [0.0, 0.4], [0.3, -0.1], 10.0, save=[10.0], rtol=1e-12, atol=1e-12)
    total, reduced = m1 + m2, m1 * m2 / (m1 + m2)
    middle = (m2 * 0.4 + (m1 * 0.3 - m2 * 0.1) * 10.0) / total
    w = np.sqrt(k / reduced)
    apart = 0.4 * np.cos(10 * w) - 0.4 / w * np.sin(10 * w)
    np.testing.assert_allclose(run.q[-1], [middle - m2 / total * apart, middle + m1 / total * apart], rtol=0, atol=1e-9)


@jax.jit
def linearised(a):
    """The joined pair's index-1 equations at rest, with `a Φ̇ + a Φ` added to the constraint's acceleration."""
    system = br.gallery.load("two-mass-joined").system
    rest = jnp.array([0.0, -system.d0])

    def rates(x):
        q, v = rest + x[:2], x[2:]
        target = system.constraint_bias(q, v, 0.0)
        target = target - a * (system.constraint_rate(q, v, 0.0) + system.constraints(q, 0.0))
        force = system.applied_force(q, v, 0.0) - system.bias(q, v, 0.0)
        problem = Problem.from_matrices(system.mass_matrix(q, 0.0), force, system.constraint_jacobian(q, 0.0), target)
        return jnp.concatenate([v, solve(problem, br.Multipliers()).acceleration])

    return jax.jacfwd(rates)(jnp.zeros(4))


@pytest.mark.parametrize("a", [1.0, 10.0])
def test_eigenvalues_of_the_joined_pair(a, reference):
    expected = np.array([complex(*x) for x in reference("two_mass")[f"continuous_a{a:.0f}"]])
    got = np.linalg.eigvals(linearised(a))
    np.testing.assert_allclose(np.sort_complex(got), np.sort_complex(expected), rtol=0, atol=1e-13)


def test_damped_swing_and_force_in_the_rod():
    m1, m2, k, b = 1.5, 0.8, 3.0, 0.6
    example = br.gallery.load("two-mass-joined", m1=m1, m2=m2, k=k, b=b)
    run = example.simulate(t_end=5.0, save=[5.0], rtol=1e-12, atol=1e-12)
    decay = b / (2 * (m1 + m2))
    w = np.sqrt(k / (m1 + m2) - decay**2)
    x = np.exp(-5 * decay) * (np.cos(5 * w) + decay / w * np.sin(5 * w))
    v = -np.exp(-5 * decay) * (w + decay**2 / w) * np.sin(5 * w)
    np.testing.assert_allclose(run.q[-1], [x, x + 1.5], rtol=0, atol=1e-9)
    # What is left of the spring's and the damper's force at the first mass moves the second.
    pull = (k * x + b * v) * m2 / (m1 + m2)
    np.testing.assert_allclose(run.multipliers[-1], [pull], rtol=0, atol=1e-8)
