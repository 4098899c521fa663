"""Rows that are zero up to rounding restrain nothing; rows that are small restrain as any other."""

import jax.numpy as jnp
import numpy as np
import pytest

import bricard as br
from bricard.equations.problem import row_variation


class Pendulum(br.System):
    """A particle on a rod, with a second row that is chosen by name."""

    coordinates = ("x", "y")
    row: str = "none"
    length: float = 1.3
    scale: float = 1.0

    def kinetic_energy(self, q, v, t):
        return 0.35 * v @ v

    def potential_energy(self, q, t):
        return 6.867 * q[1]

    def constraints(self, q, t):
        rod = self.scale * (q @ q - self.length**2)
        angle = jnp.arctan2(q[0], -q[1])
        rows = {
            "none": [],
            "constants": [(0.1 * q[0] + 0.2 * q[0]) - 0.3 * q[0]],
            "parameters": [(self.length + 0.1) * q[1] - self.length * q[1] - 0.1 * q[1]],
            "circle": [jnp.sin(angle) ** 2 + jnp.cos(angle) ** 2 - 1.0],
            "twice": [3e-4 * (q @ q - self.length**2)],
        }[self.row]
        return jnp.stack([rod, *rows])


EMPTY = ("constants", "parameters", "circle")


@pytest.mark.parametrize("row", [*EMPTY, "twice"])
def test_a_row_without_content_changes_nothing(row):
    rng = np.random.default_rng(3)
    for scale in (1.0, 1e-6, 1e5):
        plain, more = Pendulum(scale=scale), Pendulum(row=row, scale=scale)
        angle, rate = rng.uniform(-3, 3, 2)
        q = 1.3 * np.array([np.sin(angle), -np.cos(angle)])
        v = rate * 1.3 * np.array([np.cos(angle), np.sin(angle)])
        exact = -9.81 / 1.3 * np.sin(angle)
        expected = 1.3 * (exact * np.array([np.cos(angle), np.sin(angle)]) - rate**2 * q / 1.3)
        for system in (plain, more):
            found = br.forward_dynamics(system, q, v)
            np.testing.assert_allclose(found.acceleration, expected, atol=1e-9)
            assert int(found.rank) == 1
        mobility = br.mobility(more, q)
        assert (mobility.dof, mobility.redundant) == (1, 1)
        assembled = br.assemble(more, q * 1.05)
        np.testing.assert_allclose(assembled.q, q, atol=1e-8)


@pytest.mark.parametrize("row", EMPTY)
def test_the_size_of_an_empty_row_is_that_of_its_terms(row):
    system = Pendulum(row=row)
    q = jnp.array([0.5, -1.2])
    assert np.max(np.abs(system.constraint_jacobian(q, 0.0)[1])) < 1e-15
    assert np.linalg.norm(row_variation(system, q, 0.0)[1]) > 0.05


def test_small_rows_keep_their_own_size():
    """A row in other units, or with a short lever, is no rounding error."""
    system = Pendulum(scale=1e-9)
    q = jnp.array([0.5, -1.2])
    np.testing.assert_allclose(row_variation(system, q, 0.0), 1e-9 * row_variation(Pendulum(), q, 0.0), rtol=1e-12)
