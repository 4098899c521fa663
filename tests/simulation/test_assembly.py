import jax.numpy as jnp
import numpy as np
import pytest

import bricard as br
from bricard.gallery.slider_crank import SliderCrank


class OnCircle(br.System):
    radius: float = 2.0
    coordinates = ("x", "y")
    constraint_names = ("circle",)

    def kinetic_energy(self, q, v, t):
        return 0.5 * v @ v

    def constraints(self, q, t):
        return jnp.array([q @ q - self.radius**2])


def test_the_nearest_point_is_found():
    guess, v = np.array([0.3, 0.4]), np.array([1.0, 2.0])
    found = br.assemble(OnCircle(), guess, v)
    direction = guess / np.linalg.norm(guess)
    assert np.allclose(found.q, 2.0 * direction, rtol=0, atol=1e-11)
    assert np.allclose(found.v, v - direction * (direction @ v), rtol=0, atol=1e-11)


def test_held_coordinates_stay():
    found = br.assemble(SliderCrank(), [0.8, -1.0], [2.0, 0.0], hold="crank")
    assert found.q[0] == 0.8
    assert found.q[1] == pytest.approx(-1.6, abs=1e-11)
    assert np.allclose(found.v, [2.0, -4.0], rtol=0, atol=1e-11)


def test_redundant_rows_do_not_matter():
    class Twice(OnCircle):
        constraint_names = ("circle", "again")

        def constraints(self, q, t):
            row = super().constraints(q, t)
            return jnp.concatenate([row, 3.0 * row])

    assert np.allclose(br.assemble(Twice(), [0.3, 0.4]).q, [1.2, 1.6], rtol=0, atol=1e-11)


def test_velocity_constraints_and_time_count():
    class Skate(br.System):
        coordinates = ("x", "y", "heading")

        def kinetic_energy(self, q, v, t):
            return 0.5 * v @ v

        def velocity_constraints(self, q, t):
            return jnp.array([[-jnp.sin(q[2]), jnp.cos(q[2]), 0.0]]), jnp.array([0.1 * t])

    found = br.assemble(Skate(), [0.0, 0.0, 0.5], [1.0, 1.0, 0.3], t=2.0)
    assert -np.sin(0.5) * found.v[0] + np.cos(0.5) * found.v[1] == pytest.approx(0.2, abs=1e-12)
    assert np.array_equal(found.q, [0.0, 0.0, 0.5])


def test_what_cannot_be_met_is_reported_with_the_nearest_state():
    class Torn(br.System):
        coordinates = ("x", "y")
        constraint_names = ("left", "right", "floor")

        def kinetic_energy(self, q, v, t):
            return 0.5 * v @ v

        def constraints(self, q, t):
            return jnp.array([q[0], q[0] - 1.0, q[1]])

    with pytest.raises(br.AssemblyError) as error:
        br.assemble(Torn(), [0.2, 0.3])
    assert error.value.residuals["left"] == pytest.approx(0.5, abs=1e-6)
    assert error.value.residuals["right"] == pytest.approx(0.5, abs=1e-6)
    assert error.value.residuals["floor"] < 1e-9
    assert np.allclose(error.value.q, [0.5, 0.0], rtol=0, atol=1e-6)
    assert "left by 0.5" in str(error.value)


def test_too_much_is_held():
    with pytest.raises(br.AssemblyError, match="with crank, rod held"):
        br.assemble(SliderCrank(), [0.8, -1.0], hold=("crank", "rod"))
    with pytest.raises(br.AssemblyError, match="no velocity near the guess"):
        br.assemble(SliderCrank(), [0.8, -1.6], [1.0, 1.0], hold=("crank", "rod"))


def test_unknown_names():
    with pytest.raises(br.ModelError, match="no coordinate called 'krank'"):
        br.assemble(SliderCrank(), [0.8, -1.0], hold="krank")
