"""Mass matrix, bias force and kinematics of random trees, against MuJoCo."""

import numpy as np
import pytest

import bricard as br
from tests.mechanism.random_trees import random_tree

mujoco = pytest.importorskip("mujoco")


def parts(kind):
    """Our names of the coordinates and of the velocities of a joint of MuJoCo."""
    ball = ("qw", "qx", "qy", "qz"), ("wx", "wy", "wz")
    if kind == mujoco.mjtJoint.mjJNT_FREE:
        return [("x", "y", "z", *names) for names in ball]
    return ball if kind == mujoco.mjtJoint.mjJNT_BALL else (("",), ("",))


@pytest.mark.parametrize("seed", range(3))
def test_random_tree(seed):
    tree = random_tree(seed)
    theirs = mujoco.MjModel.from_xml_string(tree.mechanism.to_mjcf())
    data = mujoco.MjData(theirs)
    order = []
    for j in range(theirs.njnt):
        name, (places, rates) = theirs.joint(j).name, parts(theirs.jnt_type[j])
        at, dof = theirs.jnt_qposadr[j], theirs.jnt_dofadr[j]
        columns = tree.columns(name, rates)
        data.qpos[at : at + len(places)] = tree.coordinates(name, places)
        data.qvel[dof : dof + len(rates)] = tree.v[columns]
        order += columns
    mujoco.mj_forward(theirs, data)
    full = np.zeros((theirs.nv, theirs.nv))
    for row, unit in zip(full, np.eye(theirs.nv), strict=True):
        mujoco.mj_mulM(theirs, data, row, unit)
    np.testing.assert_allclose(tree.mass[np.ix_(order, order)], full, atol=1e-10 * np.max(full), rtol=0)
    np.testing.assert_allclose(tree.bias[order], data.qfrc_bias, atol=1e-10 * np.max(np.abs(data.qfrc_bias)), rtol=0)
    for i, name in enumerate(tree.system.model.names):
        body = data.body(name)
        np.testing.assert_allclose(tree.p[i], body.xipos, atol=1e-10, rtol=0)
        np.testing.assert_allclose(tree.R[i], body.xmat.reshape(3, 3), atol=1e-10, rtol=0)
        velocity = np.zeros(6)
        mujoco.mj_objectVelocity(theirs, data, mujoco.mjtObj.mjOBJ_BODY, theirs.body(name).id, velocity, 0)
        np.testing.assert_allclose(tree.twists[i], np.roll(velocity, 3), atol=1e-10, rtol=0)


def test_what_mjcf_lacks_is_refused():
    m = br.Mechanism(gravity=(0, 0, 0), name="screw")
    m.body("nut", mass=1.0, com=(0, 0, 0), inertia=1.0)
    m.helical("H", m.ground, "nut", (0, 0, 0), (0, 0, 1), 0.01)
    m.force("push", "nut", (0, 0, 0), (0, 0, 1))
    with pytest.raises(br.ModelError, match="no such helical joint") as error:
        m.to_mjcf()
    assert "load 'push' cannot be written yet" in str(error.value)
