"""The linearised equations, against closed forms and against differences of the nonlinear ones."""

import jax.numpy as jnp
import numpy as np
import pytest

import bricard as br
from bricard.equations.linearization import tangent_model


def eigenvalues(system, q, v=None, u=None):
    rest = (jnp.zeros(system.nv) if v is None else jnp.asarray(v)), (jnp.zeros(system.nu) if u is None else u)
    return np.sort_complex(np.linalg.eigvals(tangent_model(system, jnp.asarray(q, dtype=float), *rest).a))


class TwiceHeld(br.gallery.load("pendulum-xy").system.__class__):
    constraint_names = ("rod", "rod squared")

    def constraints(self, q, t):
        gap = q @ q - self.l**2
        return jnp.array([gap, 3.0 * gap + gap**2])


@pytest.mark.parametrize("kind", [type(br.gallery.load("pendulum-xy").system), TwiceHeld])
def test_the_force_in_the_rod_is_the_stiffness_of_a_pendulum(kind):
    system, w = kind(l=0.7), np.sqrt(9.81 / 0.7)
    np.testing.assert_allclose(eigenvalues(system, [0.0, -0.7]), [-1j * w, 1j * w], rtol=0, atol=1e-12)
    np.testing.assert_allclose(eigenvalues(system, [0.0, 0.7]), [-w, w], rtol=0, atol=1e-12)


def test_matches_differences_of_the_nonlinear_equations():
    example = br.gallery.load("acroboter")
    system, q, u = example.system, jnp.asarray(example.q), jnp.asarray(example.settings["u"])
    model = tangent_model(system, q, jnp.zeros(6), u)
    np.testing.assert_allclose(model.reduce @ model.embed, np.eye(10), rtol=0, atol=1e-14)
    rng = np.random.default_rng(1)
    x, du, size = rng.normal(size=10), rng.normal(size=4), 1e-4

    def rates(scale):
        near = model.embed @ x * scale
        start = br.assemble(system, q + near[:6], near[6:])
        moved = br.forward_dynamics(system, start.q, start.v, u + scale * du).acceleration
        return model.reduce @ np.concatenate([start.v, moved])

    coarse, fine = ((rates(s) - rates(-s)) / (2 * s) for s in (size, 0.5 * size))
    change = (4 * fine - coarse) / 3
    np.testing.assert_allclose(change, model.a @ x + model.b @ du, rtol=0, atol=1e-5)


@pytest.mark.slow
def test_a_disc_on_its_edge_falls_over_with_rolling_constraints_and_quaternions():
    system = br.gallery.load("rolling-disc").system
    upright = [0.0, 0.0, float(system.r), 1.0, 0.0, 0.0, 0.0]
    got = eigenvalues(system, upright)
    w = np.sqrt(4 * 9.81 / (5 * float(system.r)))
    assert got.shape == (2 * 6 - 1 - 3,)  # one holonomic row, three rows on velocities
    np.testing.assert_allclose(got[[0, -1]], [-w, w], rtol=0, atol=1e-10)
    np.testing.assert_allclose(got[1:-1], 0.0, rtol=0, atol=1e-6)


class SphericalPendulum(br.System):
    coordinates = ("polar", "azimuth")
    l: float = 0.8

    def kinetic_energy(self, q, v, t):
        return 0.5 * self.l**2 * (v[0] ** 2 + (jnp.sin(q[0]) * v[1]) ** 2)

    def potential_energy(self, q, t):
        return -9.81 * self.l * jnp.cos(q[0])


def test_a_steady_rotation_has_eigenvalues_too():
    system, spin = SphericalPendulum(), 5.0
    cosine = 9.81 / (0.8 * spin**2)
    got = eigenvalues(system, [np.arccos(cosine), 0.3], [0.0, spin])
    w = spin * np.sqrt(1 + 3 * cosine**2)
    np.testing.assert_allclose(np.sort(got.imag)[[0, -1]], [-w, w], rtol=0, atol=1e-10)
    with pytest.raises(br.ModelError, match=r"polar accelerates by 1\.32"):
        eigenvalues(system, [np.arccos(cosine), 0.3], [0.0, spin + 0.3])
    with pytest.raises(br.ModelError, match="mass changes along the motion"):
        eigenvalues(Wheel(), [0.3], [2.0])


class Wheel(br.System):
    coordinates = ("angle",)

    def mass_matrix(self, q, t):
        return jnp.full((1, 1), 2.0 + jnp.sin(q[0]))

    def bias(self, q, v, t):
        return jnp.zeros(1)


def test_what_cannot_be_linearised_is_refused():
    system = br.gallery.load("pendulum-xy").system
    with pytest.raises(br.ModelError, match=r"not an equilibrium: y accelerates by -9\.81 .*equilibrium finds one"):
        eigenvalues(system, [1.0, 0.0])
    with pytest.raises(br.ModelError, match=r"misses rod by .*assemble"):
        eigenvalues(system, [0.0, -1.2])
    with pytest.raises(br.ModelError, match=r"singular configuration.*tangent space.*not defined"):
        eigenvalues(br.gallery.load("slider-crank").system, [np.pi / 2, -np.pi])
