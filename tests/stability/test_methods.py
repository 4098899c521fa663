"""Three routes to the same eigenvalues, in every kind of coordinates."""

import jax.numpy as jnp
import numpy as np
import pytest

import bricard as br
from bricard.stability import eigenvalues

from .loops import PD
from .spectra import agree, assert_same, doubled


def rod_in_space():
    """A rod that hangs from a hinge; the hinge as constraints, the rod by a quaternion."""
    m = br.Mechanism(gravity=(0, 0, -9.81))
    m.body("rod", br.rod((0, 0, 0), (0, 0, -1.4), mass=2.0, width=0.1))
    m.revolute("hinge", m.ground, "rod", at=(0, 0, 0), axis=(0, 1, 0))
    return m.system(coordinates="absolute")


@pytest.mark.parametrize("kind", ["x, y, twice", "x, y, angle", pytest.param("absolute", marks=pytest.mark.slow)])
def test_pendulum_hanging_and_standing(kind):
    if kind == "absolute":
        system = rod_in_space()
        hanging, standing = system.reference, [0, 0, 0.7, 0, 0, 1.0, 0]  # half a turn about y
        w = np.sqrt(9.81 * 0.7 / (1.4**2 / 3 + 0.1**2 / 12))
    elif kind == "x, y, angle":
        system = br.gallery.load("pendulum-xyt", l=0.7, J=0.2).system
        hanging, standing, w = [0.0, -0.7, 0.0], [0.0, 0.7, np.pi], np.sqrt(9.81 * 0.7 / (0.2 + 0.49))
    else:
        system = doubled(br.gallery.load("pendulum-xy", l=0.7).system)
        hanging, standing, w = [0.0, -0.7], [0.0, 0.7], np.sqrt(9.81 / 0.7)
    tangent, _ = agree(system, hanging)
    assert_same(tangent.physical, np.array([-1j * w, 1j * w]), 1e-10)
    assert tangent.verdict == "marginal"
    upright = eigenvalues(system, standing)
    assert_same(upright.physical, np.array([-w, w]), 1e-10)
    assert upright.verdict == "unstable"


def test_spurious_eigenvalues_are_the_roots_of_the_added_polynomial():
    system = doubled(br.gallery.load("two-mass-joined").system)
    found = eigenvalues(system, [0.0, 1.5], method="sensitivity", a1=3.0, a2=7.0)
    assert_same(found.spurious, np.roots([1.0, 3.0, 7.0]), 1e-12)
    # Exact derivatives: of s² + a₁s + a₂ = 0, and none of the physical ones.
    s = found.spurious
    slopes = np.stack([-s / (2 * s + 3.0), -1 / (2 * s + 3.0)], axis=1)
    order = [np.argmin(np.abs(x - slopes[:, 1])) for x in found.sensitivity[2:, 1]]
    np.testing.assert_allclose(found.sensitivity[2:], slopes[order], rtol=0, atol=1e-12)
    np.testing.assert_allclose(found.sensitivity[:2], 0.0, rtol=0, atol=1e-12)


def test_a_controller_with_memory_carries_a_weight():
    """`m ẍ = u − m g` with an integrator: `m s³ + kd s² + kp s + ki = 0`, at rest with a memory that is not zero."""

    class Lift(br.System):
        coordinates = ("x", "other")
        m: float = 2.0

        def kinetic_energy(self, q, v, t):
            return 0.5 * self.m * (0.25 * v[0] ** 2 + 0.75 * v[1] ** 2)

        def potential_energy(self, q, t):
            return 9.81 * self.m * q[0]

        def constraints(self, q, t):
            return jnp.array([q[0] - q[1]])

        def input_matrix(self, q, t):
            return jnp.array([[1.0], [0.0]])

    law = PD(kp=30.0, kd=8.0, ki=20.0)
    tangent, _ = agree(Lift(), [0.0, 0.0], controller=law)
    assert_same(tangent.physical, np.roots([2.0, 8.0, 30.0, 20.0]), 1e-10)
    assert tangent.stable
    np.testing.assert_allclose(tangent.loop.memory["integral"], [9.81 * 2.0], rtol=0, atol=1e-9)
    np.testing.assert_allclose(tangent.loop.u, [9.81 * 2.0], rtol=0, atol=1e-9)
    with pytest.raises(br.ModelError, match="memory changes by 2 per second"):
        eigenvalues(Lift(), [-0.1, -0.1], controller=law)


def test_free_motion_is_a_double_zero_and_not_noise():
    found = eigenvalues(br.gallery.load("two-mass", m1=1.5, m2=0.8, k=3e5).system, [0.0, 0.0])
    w = np.sqrt(3e5 * (1 / 1.5 + 1 / 0.8))
    assert_same(found.physical, np.array([0, 0, -1j * w, 1j * w]), 1e-9 * w)
    assert np.max(np.abs(np.sort(np.abs(found.physical))[:2])) < 1e-9
    assert found.verdict == "marginal"


def test_shapes_damping_and_participation():
    """Two equal masses between three springs: in step at `√(k/m)`, against each other at `√(3k/m)`."""

    class Chain(br.System):
        coordinates = ("left", "right")

        def kinetic_energy(self, q, v, t):
            return 0.5 * v @ v

        def potential_energy(self, q, t):
            return 0.5 * 4.0 * (q[0] ** 2 + q[1] ** 2 + (q[0] - q[1]) ** 2)

        def applied_force(self, q, v, t):
            return -0.4 * v

        def drawing(self, q, t):
            return {"masses": jnp.stack([q, jnp.zeros(2)], axis=1)}

    found = eigenvalues(Chain(), [0.0, 0.0])
    np.testing.assert_allclose(found.frequencies, [2, 2, 12**0.5, 12**0.5], rtol=0, atol=1e-12)
    np.testing.assert_allclose(found.damping_ratios, 0.2 / found.frequencies, rtol=0, atol=1e-12)
    np.testing.assert_allclose(found.participation, 0.25, rtol=0, atol=1e-12)
    assert found.stable
    assert abs(found.abscissa + 0.2) < 1e-12
    for index, sign in ((0, 1.0), (2, -1.0)):
        shape = found.mode(index).shape
        np.testing.assert_allclose(shape[1] / shape[0], sign, rtol=0, atol=1e-12)
    run = found.mode(2).trajectory(amplitude=0.05, frames=9, swings=1)
    np.testing.assert_allclose(run.q[:, 0], 0.05 * np.cos(np.linspace(0, 2 * np.pi, 9)), rtol=0, atol=1e-12)
    np.testing.assert_allclose(run.q[:, 1], -run.q[:, 0], rtol=0, atol=1e-12)
    np.testing.assert_allclose(run.t[-1], 2 * np.pi / np.sqrt(12 - 0.04), rtol=0, atol=1e-12)
    data = found.to_xarray()
    assert list(data.velocity.values) == ["left", "right"]
    assert data.attrs["verdict"] == "stable"
    assert "mostly left, right" in str(found) or "mostly right, left" in str(found)
    with pytest.raises(br.ModelError, match="there are 4 modes"):
        found.mode(4)
