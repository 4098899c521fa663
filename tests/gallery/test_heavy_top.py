import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bricard as br
from bricard.spatial import axis_angle, rotation_matrix

TIMES = np.linspace(0.0, 2.0, 9)
TIGHT = {"save": TIMES, "rtol": 1e-11, "atol": 1e-11}
MASS, LENGTH, AXIS, GRAVITY = 15.0, 1.0, 0.46875, 9.81
ACROSS = 0.234375 + MASS * LENGTH**2  # About the pivot.


@pytest.fixture(scope="module")
def run():
    return br.gallery.load("heavy-top").simulate(**TIGHT)


def test_energy_and_angular_momentum_are_kept(run):
    assert run.energy.drift < 1e-9 * run.energy.total[0]
    momentum = jax.vmap(run.system.angular_momentum)(run.q, run.v)
    np.testing.assert_allclose(momentum[:, 2], ACROSS * -4.61538, rtol=1e-9)
    np.testing.assert_allclose(run.v[:, 4], 150.0, rtol=1e-9)
    assert run.constraint_error.max() < 1e-12


def test_nutation_against_euler_angles(solve_ode):
    """Independent: tilt and azimuth of the axis, with both momenta as constants.

    Let go with a level axis, it dips and turns. (The start of the gallery leads through the downward vertical, where
    Euler angles fail.)
    """
    spin = AXIS * 150.0

    def rates(t, y):
        tilt, tilt_rate, _ = y
        turn = -spin * np.cos(tilt) / (ACROSS * np.sin(tilt) ** 2)
        pull = MASS * GRAVITY * LENGTH + ACROSS * turn**2 * np.cos(tilt) - spin * turn
        return [tilt_rate, np.sin(tilt) * pull / ACROSS, turn]

    tilt, _, azimuth = solve_ode(rates, [np.pi / 2, 0.0, np.pi / 2], TIMES).T
    expected = np.stack([np.sin(tilt) * np.cos(azimuth), np.sin(tilt) * np.sin(azimuth), np.cos(tilt)], axis=1)
    assert np.min(expected[:, 2]) < -0.5
    example = br.gallery.load("heavy-top")
    v = np.array([0.0, 0.0, 0.0, 0.0, 150.0, 0.0])
    run = br.simulate(example.system, example.q, v, 2.0, **TIGHT)
    np.testing.assert_allclose(run.q[:, :3], LENGTH * expected, rtol=0, atol=1e-8)


def test_pivot_force_moves_the_centre(run):
    """The pivot carries weight and acceleration of the centre, taken here from the angular momentum alone."""
    q, v = run.q[3], run.v[3]
    e, turn = run.system.axis(q), rotation_matrix(q[3:]) @ v[3:]
    # `I ω̇ = moment − ω × L` about the pivot, then `a = ω̇ × r + ω × (ω × r)`.
    inertia = ACROSS * jnp.eye(3) + (AXIS - ACROSS) * jnp.outer(e, e)
    moment = jnp.cross(LENGTH * e, jnp.array([0.0, 0.0, -MASS * GRAVITY]))
    rate = jnp.linalg.solve(inertia, moment - jnp.cross(turn, inertia @ turn))
    acceleration = jnp.cross(rate, LENGTH * e) + jnp.cross(turn, jnp.cross(turn, LENGTH * e))
    np.testing.assert_allclose(run.multipliers[3], MASS * (acceleration + jnp.array([0, 0, GRAVITY])), rtol=1e-9)


def test_steady_precession():
    """In closed form: at a tilt of 60° and the right spin the axis turns evenly."""
    tilt, turn = np.pi / 3, 3.0
    momentum = ACROSS * turn * np.cos(tilt) + MASS * GRAVITY * LENGTH / turn
    quaternion = axis_angle(jnp.array([1.0, 0.0, 0.0]), jnp.asarray(np.pi / 2 - tilt))
    rotation = np.asarray(rotation_matrix(quaternion))
    e = rotation[:, 1]
    vertical = np.array([0.0, 0.0, 1.0])
    omega = turn * vertical + (momentum / AXIS - turn * e[2]) * e
    start = np.concatenate([LENGTH * e, quaternion]), np.concatenate([np.cross(omega, LENGTH * e), rotation.T @ omega])
    run = br.simulate(br.gallery.load("heavy-top").system, *start, 2.0, **TIGHT)
    azimuth = np.pi / 2 + turn * TIMES
    level = np.sin(tilt) * np.stack([np.cos(azimuth), np.sin(azimuth)], axis=1)
    np.testing.assert_allclose(run.q[:, :2], level, rtol=0, atol=1e-9)
    np.testing.assert_allclose(run.q[:, 2], np.cos(tilt), rtol=0, atol=1e-9)
