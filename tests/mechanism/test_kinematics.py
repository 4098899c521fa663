"""Prescribed motion: branches, coupler curves, dead points."""

import jax.numpy as jnp
import numpy as np
import pytest

import bricard as br
from bricard.gallery.four_bar import four_bar_mechanism, meet


@pytest.fixture(scope="module")
def turning():
    """A crank-rocker whose crank makes one turn."""
    system = four_bar_mechanism().system()
    return br.kinematics(system, system.reference, np.linspace(0, 1, 41), {"A": lambda t: 2 * jnp.pi * t})


def test_positions_are_where_circles_meet(turning):
    curve = np.asarray(turning.sensors["coupler point"].value)
    for t, point in zip(np.asarray(turning.t), curve, strict=True):
        angle = 1.0 + 2 * np.pi * t
        b = 0.1 * np.array([np.cos(angle), np.sin(angle)])
        np.testing.assert_allclose(point, (b + meet(b, 0.3, np.array([0.3, 0.0]), 0.25)) / 2, atol=1e-12)


@pytest.mark.slow
def test_velocities_and_accelerations_are_derivatives(turning):
    fine = br.kinematics(
        turning.system, turning.q[10], turning.t[10] + np.array([-1e-4, 0.0, 1e-4]), {"A": lambda t: 2 * jnp.pi * t}
    )
    np.testing.assert_allclose((fine.q[2] - fine.q[0]) / 2e-4, fine.v[1], atol=1e-5)
    np.testing.assert_allclose((fine.v[2] - fine.v[0]) / 2e-4, fine.acceleration[1], atol=1e-3)


def test_full_turn_stays_on_its_branch(turning):
    assert turning.converged
    assert np.all(turning.branch == 1.0)
    assert turning.dead_points.size == 0
    np.testing.assert_allclose(
        turning.q[-1, 1:] - turning.q[0, 1:],
        np.round((turning.q[-1, 1:] - turning.q[0, 1:]) / (2 * np.pi)) * 2 * np.pi,
        atol=1e-10,
    )
    assert str(turning) == "41 positions from 0 to 1 s."


@pytest.mark.slow
def test_driving_the_rocker_too_far_is_told(turning):
    """The rocker of a crank-rocker cannot turn on: the crank comes to its dead point."""
    system = turning.system
    with pytest.raises(br.AssemblyError, match="cannot follow there"):
        br.kinematics(system, system.reference, np.linspace(0, 1, 41), {"D": lambda t: 2.0 * t})


def test_too_little_is_prescribed(turning):
    with pytest.raises(br.ModelError, match="at least 1 more"):
        br.kinematics(turning.system, turning.system.reference, [0.0, 1.0])
