"""Mass matrix, bias force and kinematics of random trees, screws included, against Pinocchio."""

import numpy as np
import pytest

from tests.mechanism.random_trees import KINDS, SCREWS, random_tree

pin = pytest.importorskip("pinocchio")  # no wheels for Windows

BALL = ("qx", "qy", "qz", "qw"), ("wx", "wy", "wz")
PARTS = {
    "spherical": BALL,
    "free": (("x", "y", "z", *BALL[0]), ("x", "y", "z", *BALL[1])),
    "cylindrical": (("slide", "turn"),) * 2,
    "universal": (("first", "second"),) * 2,
    "planar": (("x", "y", "angle"),) * 2,
}
"""Our names of coordinates and velocities in Pinocchio's order; a joint that is not here has only one."""


def native(joint):
    """Pinocchio's own joint, in the frame `joint.axes`."""
    x, y, z = np.eye(3)
    return {
        "revolute": lambda: pin.JointModelRevoluteUnaligned(z),
        "prismatic": lambda: pin.JointModelPrismaticUnaligned(z),
        "helical": lambda: pin.JointModelHelicalUnaligned(z, 1.0 / joint.thread),
        "universal": lambda: pin.JointModelUniversal(x, y),
        "spherical": pin.JointModelSpherical,
        "planar": pin.JointModelPlanar,
        "free": pin.JointModelFreeFlyer,
        "cylindrical": lambda: two_joints(pin.JointModelPZ(), pin.JointModelRZ()),
    }[joint.kind]()


def two_joints(first, second):
    both = pin.JointModelComposite(first)
    both.addJoint(second)
    return both


def outwards(mechanism, body):
    """Joints branch by branch: Pinocchio takes for granted that those of a branch have numbers in a row."""
    for joint in mechanism.joints:
        if joint.parent == body:
            yield joint
            yield from outwards(mechanism, joint.child)


def same_tree(mechanism):
    """The tree in Pinocchio; of each body its joint, and its frame in the frame of that joint."""
    model = pin.Model()
    model.gravity = pin.Motion(mechanism.gravity, np.zeros(3))
    frames, joints, bodies = {0: pin.SE3.Identity()}, {"ground": 0}, {}
    for joint in outwards(mechanism, "ground"):
        body, above = mechanism.bodies[joint.child], joints[joint.parent]
        if joint.kind == "fixed":
            number = above
        else:
            frame = pin.SE3(joint.axes, joint.at)
            # The coordinates of a free body say where it is in the world.
            start = pin.SE3.Identity() if joint.kind == "free" else frames[above].inverse() * frame
            number = model.addJoint(above, native(joint), start, joint.name)
            frames[number] = frame
        placement = frames[number].inverse() * pin.SE3(np.eye(3), body.shape.com)
        inertia = pin.Inertia(body.shape.mass, np.zeros(3), body.shape.inertia)
        model.appendBodyToJoint(number, inertia, placement)
        joints[joint.child], bodies[joint.child] = number, (number, placement)
    return model, bodies


def state(tree, model):
    """Pinocchio's `q`; `T` with `their v = T v`; and `Ṫ v`.

    Their free and planar joints have the velocity in the moving frame, ours in the resting one.
    """
    q, T, rate = pin.neutral(model), np.zeros((model.nv, model.nv)), np.zeros(model.nv)
    for joint in tree.mechanism.joints:
        if joint.kind == "fixed":
            continue
        theirs = model.joints[model.getJointId(joint.name)]
        places, rates = PARTS.get(joint.kind, (("",), ("",)))
        x, columns = tree.coordinates(joint.name, places), tree.columns(joint.name, rates)
        rows = np.arange(theirs.idx_v, theirs.idx_v + theirs.nv)
        T[rows, columns] = 1.0
        if joint.kind == "planar":
            x = np.array([x[0], x[1], np.cos(x[2]), np.sin(x[2])])
            R, spin = np.array([[x[2], -x[3]], [x[3], x[2]]]), tree.v[columns[2]] * np.array([[0, -1], [1, 0]])
        elif joint.kind == "free":
            R, spin = pin.Quaternion(x[3:]).matrix(), pin.skew(tree.v[columns[3:]])
        if joint.kind in ("planar", "free"):
            k = len(R)
            T[np.ix_(rows[:k], columns[:k])] = R.T
            rate[rows[:k]] = -spin @ R.T @ tree.v[columns[:k]]
        q[theirs.idx_q : theirs.idx_q + theirs.nq] = x
    return q, T, rate


@pytest.mark.parametrize("kinds", [KINDS, SCREWS], ids=["all but screws", "screws"])
@pytest.mark.parametrize("seed", [0, *(pytest.param(k, marks=pytest.mark.slow) for k in (1, 2))])
def test_random_tree(seed, kinds):
    tree = random_tree(seed, kinds)
    model, bodies = same_tree(tree.mechanism)
    data = model.createData()
    q, T, rate = state(tree, model)
    mass = pin.crba(model, data, q).copy()
    mass = np.triu(mass) + np.triu(mass, 1).T
    bias = pin.rnea(model, data, q, T @ tree.v, rate)  # what accelerations of zero take in our velocities
    np.testing.assert_allclose(tree.mass, T.T @ mass @ T, atol=1e-10 * np.max(mass), rtol=0)
    np.testing.assert_allclose(tree.bias, T.T @ bias, atol=1e-10 * np.max(np.abs(bias)), rtol=0)
    pin.forwardKinematics(model, data, q, T @ tree.v)
    for i, name in enumerate(tree.system.model.names):
        joint, placement = bodies[name]
        world = data.oMi[joint] * placement
        twist = placement.actInv(data.v[joint])
        np.testing.assert_allclose(tree.p[i], world.translation, atol=1e-10, rtol=0)
        np.testing.assert_allclose(tree.R[i], world.rotation, atol=1e-10, rtol=0)
        np.testing.assert_allclose(tree.twists[i, :3], world.rotation @ twist.linear, atol=1e-10, rtol=0)
        np.testing.assert_allclose(tree.twists[i, 3:], world.rotation @ twist.angular, atol=1e-10, rtol=0)
