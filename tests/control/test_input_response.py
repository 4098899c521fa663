"""How inputs act: against the source's projections and against brute force."""

import equinox as eqx
import jax
import numpy as np
import pytest
import scipy.linalg
from jax import numpy as jnp

import bricard as br
from bricard.control import ProjectedInverseDynamics, controllability
from bricard.control.input_response import response
from tests.control.systems import acroboter_task, random_matrices

at_rest = eqx.filter_jit(lambda s: response(s, jnp.zeros(6), jnp.zeros(6), 0.0))


def test_accelerations_and_multipliers_are_affine_in_the_inputs():
    rng = np.random.default_rng(1)
    for repeat in (False, True):
        system = random_matrices(rng, inputs=rng.normal(size=(6, 4)), repeat=repeat)
        at = at_rest(system)
        start, slope = at.multipliers, at.multiplier_gain
        for _ in range(3):
            u = rng.normal(size=4)
            exact = br.forward_dynamics(system, np.zeros(6), np.zeros(6), u, route=br.Gauss())
            np.testing.assert_allclose(at.free + at.gain @ u, exact.acceleration, rtol=0, atol=1e-9)
            force = system.rows.T @ (start + slope @ u)
            np.testing.assert_allclose(force, exact.constraint_force, rtol=0, atol=1e-8)
            if not repeat:
                np.testing.assert_allclose(start + slope @ u, exact.multipliers, rtol=0, atol=1e-8)


def test_passive_joints_as_in_the_source():
    """`f = (I + H) f_∥` of Aghili (54)-(60), with the same acceleration and the same force."""
    rng, found = np.random.default_rng(2), 0
    law = eqx.filter_jit(lambda c, q, v: c(0.0, q, v, jnp.zeros(0)))
    for _ in range(20):
        active = rng.permutation(6)[:4]
        plain = random_matrices(rng)
        basis = scipy.linalg.null_space(np.asarray(plain.rows), rcond=1e-9)
        system = random_matrices(rng, inputs=np.eye(6)[:, active])
        system = eqx.tree_at(lambda s: (s.mass, s.rows, s.pull), system, (plain.mass, plain.rows, plain.pull))
        outputs = jnp.asarray(rng.normal(size=(4, 6)))
        wanted = rng.normal(size=4)
        controller = ProjectedInverseDynamics(system, _Linear(outputs), -wanted, 1.0, 0.0)
        u = law(controller, jnp.zeros(6), jnp.zeros(6))

        mass, rows = np.asarray(system.mass), np.asarray(system.rows)
        acceleration = basis @ np.linalg.solve(np.asarray(outputs) @ basis, wanted * -1.0)
        projector = basis @ basis.T
        parallel = projector @ (mass @ acceleration - np.asarray(system.pull))
        selector = np.diag(np.isin(np.arange(6), active).astype(float))
        identity = np.eye(6)
        q_matrix = identity - selector - projector + selector @ projector
        h_matrix = -(identity - projector) @ np.linalg.pinv(q_matrix, rcond=1e-10) @ (identity - selector)
        force = (identity + h_matrix) @ parallel
        if np.max(np.abs((identity - selector) @ force)) > 1e-8:
            continue  # not controllable with these joints
        found += 1
        np.testing.assert_allclose(np.asarray(system.forces) @ u, force, rtol=0, atol=1e-8 * (1 + np.abs(force).max()))
        assert np.linalg.matrix_rank(rows) == 2
    assert found >= 10


class _Linear(br.control.Output):
    """`J q`, as a pytree so that one compiled law serves all matrices."""

    matrix: jax.Array

    @property
    def names(self):
        return tuple(f"y{i}" for i in range(self.matrix.shape[0]))

    def value(self, system, q, t):
        return self.matrix @ q


@pytest.mark.slow
def test_controllability_agrees_with_brute_force():
    """400 random cases: every wanted acceleration reached, tried out, against what the test says."""
    rng, counts = np.random.default_rng(3), {True: 0, False: 0}
    for _ in range(400):
        joints = rng.permutation(6)[: rng.integers(2, 6)]
        inputs = np.zeros((6, 5))
        inputs[joints, np.arange(len(joints))] = 1.0
        system = random_matrices(rng, inputs=inputs)
        if rng.random() < 0.5:  # a row that locks what a motor would move
            rows = np.asarray(system.rows).copy()
            rows[1] = np.eye(6)[joints[0]]
            rows[2] = 1e2 * (rows[0] - 2.0 * rows[1])
            system = eqx.tree_at(lambda s: s.rows, system, jnp.asarray(rows))
        at = at_rest(system)
        basis = scipy.linalg.null_space(np.asarray(system.rows), rcond=1e-9)
        accelerations = np.asarray(at.gain)
        reached = [np.linalg.lstsq(accelerations, motion, rcond=1e-10)[0] for motion in basis.T]
        brute = all(
            np.max(np.abs(accelerations @ u - motion)) < 1e-6 for u, motion in zip(reached, basis.T, strict=True)
        )
        said = _controllable(system)
        assert said == brute
        counts[said] += 1
    assert min(counts.values()) > 50


def _controllable(system):
    return controllability(system, np.zeros(6)).controllable


def test_names_what_no_input_reaches():
    two = br.gallery.load("two-mass").system
    assert "no input reaches 'x2'" in controllability(two, [0.0, 0.0], "x2").text
    assert controllability(two, [0.0, 0.0], "x1").controllable
    robot = br.gallery.load("acroboter")
    all_motions = controllability(robot.system, robot.q)
    assert not all_motions.controllable
    assert np.abs(all_motions.unreached[0, 0]) == 1.0, all_motions
    assert controllability(robot.system, robot.q, acroboter_task).controllable


@pytest.mark.parametrize(
    ("output", "message"),
    [("nothing", "no coordinate or sensor called 'nothing'"), (3.0, "a function of q"), ([], "a function of q")],
)
def test_bad_outputs(output, message):
    with pytest.raises(br.ModelError, match=message):
        controllability(br.gallery.load("two-mass").system, [0.0, 0.0], output)
