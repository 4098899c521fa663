import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bricard as br
from bricard.spatial import rotation_matrix


@pytest.fixture(scope="module")
def expected(reference):
    return reference("rolling_disc")["reference"]


@pytest.fixture(scope="module")
def run(expected):
    return br.gallery.load("rolling-disc").simulate(save=expected["t"])


def test_parameters_and_start(reference, expected):
    definition = reference("rolling_disc")["definition"]
    example = br.gallery.load("rolling-disc")
    system = example.system
    assert (system.m, system.r) == (definition["m"], definition["radius"])
    assert (system.I_axis, system.I_across) == (definition["inertia_axis"], definition["inertia_transverse"])
    np.testing.assert_allclose(example.q, [*expected["centre"][0], *expected["quaternion_wxyz"][0]], atol=1e-16)
    turn = rotation_matrix(jnp.asarray(example.q[3:])) @ example.v[3:]
    np.testing.assert_allclose(turn, definition["omega0_global"], rtol=0, atol=1e-14)


def test_centre_and_contact(run, expected):
    np.testing.assert_allclose(run.q[:, :3], expected["centre"], rtol=0, atol=1e-10)
    contact = jax.vmap(run.system.contact)(run.q)
    np.testing.assert_allclose(contact, expected["contact_point"], rtol=0, atol=1e-10)


def test_attitude_and_turn(run, expected):
    np.testing.assert_allclose(run.q[:, 3:], expected["quaternion_wxyz"], rtol=0, atol=1e-8)
    turn = jax.vmap(lambda q, v: rotation_matrix(q[3:]) @ v[3:])(run.q, run.v)
    np.testing.assert_allclose(turn, expected["omega_global"], rtol=0, atol=1e-7)


def test_energy_and_constraints(run):
    assert run.energy.drift < 1e-8 * run.energy.total[0]
    assert run.constraint_error.max() < 1e-15
    assert np.all(run.rank == 3)


def test_floor_force_turns_the_disc(run):
    """Independent: the moment of the floor's force about the centre is the rate of the spin, in the world's frame."""
    i = 4
    q, v = np.asarray(run.q[i]), np.asarray(run.v[i])
    inertia = np.diag([5e-5, 2.5e-5, 2.5e-5])
    rotation = np.asarray(rotation_matrix(jnp.asarray(q[3:])))
    rate = inertia @ np.asarray(run.acceleration[i, 3:]) + np.cross(v[3:], inertia @ v[3:])
    normal, along_x, along_y = np.asarray(run.multipliers[i])
    arm = np.asarray(run.system.to_contact(jnp.asarray(q)))
    np.testing.assert_allclose(rotation @ rate, np.cross(arm, [along_x, along_y, normal]), rtol=1e-9)
