"""States of rest against statics by hand; and why there is none."""

import jax.numpy as jnp
import numpy as np
import pytest

import bricard as br
from bricard.stability import EquilibriumError, equilibria, equilibrium

from .loops import tip

G = 9.81


def test_a_pendulum_in_x_y_hangs_or_stands():
    """The rod carries the weight: it pulls (negative) the mass that hangs and pushes the one that stands."""
    system = br.gallery.load("pendulum-xy", m=2.0, l=0.7).system
    guesses = [[0.1, 0.6], [0.3, -0.5], [-0.2, -0.9], [-0.1, 0.8]]
    up, down = equilibria(system, guesses)
    np.testing.assert_allclose(up.q, [0.0, 0.7], rtol=0, atol=1e-10)
    np.testing.assert_allclose(down.q, [0.0, -0.7], rtol=0, atol=1e-10)
    np.testing.assert_allclose(up.multipliers, [2 * G], rtol=0, atol=1e-9)
    np.testing.assert_allclose(down.multipliers, [-2 * G], rtol=0, atol=1e-9)
    np.testing.assert_allclose(down.constraint_force, [0.0, 2 * G], rtol=0, atol=1e-9)
    np.testing.assert_allclose(down.acceleration, 0.0, rtol=0, atol=1e-9)
    assert bool(down.determinate[0])
    assert "multipliers rod = -19.62" in str(down)


def test_two_masses_pushed_held_and_brought_to_a_value():
    """`k x1 = u`; nothing but the rod acts on the second mass, so it carries no force."""
    system = br.gallery.load("two-mass-joined", k=4.0).system
    pushed = equilibrium(system, [0.0, 1.0], [2.0])
    np.testing.assert_allclose(pushed.q, [0.5, 2.0], rtol=0, atol=1e-12)
    np.testing.assert_allclose(pushed.multipliers, 0.0, rtol=0, atol=1e-12)
    held = equilibrium(system, [0.3, 1.0], hold="x1")
    np.testing.assert_allclose(held.q, [0.3, 1.8], rtol=0, atol=1e-12)
    np.testing.assert_allclose(held.u, [1.2], rtol=0, atol=1e-12)
    trimmed = equilibrium(system, [0.0, 1.5], output="x2", value=[1.0])
    np.testing.assert_allclose(trimmed.q, [-0.5, 1.0], rtol=0, atol=1e-12)
    np.testing.assert_allclose(trimmed.u, [-2.0], rtol=0, atol=1e-12)
    with pytest.raises(EquilibriumError, match="rod is off by"):
        equilibrium(system, [0.0, 1.0], hold=["x1", "x2"])


def test_trim_of_a_pendulum_on_a_cart():
    """Any place of the cart will do, the rod hanging; with a force on the cart there is none."""
    system = br.gallery.load("sliding-pendulum").system
    found = equilibrium(system, [0.1, 0.2], output=tip, value=[0.3])
    np.testing.assert_allclose(found.q, [0.3, 0.0], rtol=0, atol=1e-10)
    np.testing.assert_allclose(found.u, [0.0], rtol=0, atol=1e-9)
    with pytest.raises(EquilibriumError, match="still accelerates by"):
        equilibrium(system, [0.0, 0.1], [1.0])
    freed = equilibrium(system, [0.0, 0.1], [1.0], free="cart force")
    np.testing.assert_allclose(freed.u, [0.0], rtol=0, atol=1e-9)


def test_a_torque_too_large_has_no_equilibrium():
    """`m g l sin angle = u` has none beyond `m g l`; nearest to one is the level rod, which keeps `u − m g l`."""
    system = br.gallery.load("pendulum").system
    found = equilibrium(system, [0.2], [5.0])
    np.testing.assert_allclose(found.q, [np.arcsin(5.0 / G)], rtol=0, atol=1e-12)
    with pytest.raises(EquilibriumError, match=r"no balance of forces .* angle still accelerates by 10\.2") as caught:
        equilibrium(system, [0.2], [20.0])
    np.testing.assert_allclose(caught.value.acceleration, [20.0 - G], rtol=0, atol=1e-6)
    np.testing.assert_allclose(caught.value.q, [np.pi / 2], rtol=0, atol=1e-3)
    assert equilibria(system, [[0.2], [1.0]], [20.0]) == ()
    with pytest.raises(EquilibriumError, match="the output cannot be brought to its value"):
        equilibrium(system, [0.2], output=lambda q: jnp.sin(q), value=[1.5])


def test_bad_input():
    system = br.gallery.load("pendulum").system
    with pytest.raises(br.ModelError, match="no input called 'torqe'; there are pivot torque"):
        equilibrium(system, [0.0], free="torqe")
    with pytest.raises(br.ModelError, match="output and value belong together"):
        equilibrium(system, [0.0], output="angle")
    with pytest.raises(br.ModelError, match="angel"):
        equilibrium(system, [0.0], hold="angel")
    with pytest.raises(br.ModelError, match=r"shape \(2,\) for 1 outputs"):
        equilibrium(system, [0.0], output="angle", value=[0.1, 0.2])
