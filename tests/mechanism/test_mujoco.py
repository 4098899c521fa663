"""Mass matrix, bias force and kinematics of random trees, against MuJoCo."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest

import bricard as br

mujoco = pytest.importorskip("mujoco")


def random_tree(seed):
    """A tree with every kind of joint that MuJoCo has, on random bodies."""
    rng = np.random.default_rng(seed)
    m = br.Mechanism(gravity=rng.normal(size=3) * 5, name="tree")
    kinds = ["free", "revolute", "prismatic", "spherical", "cylindrical", "universal", "planar", "fixed", "revolute"]
    rng.shuffle(kinds[1:])
    names = ["ground"]
    for i, kind in enumerate(kinds):
        at, axis = rng.normal(size=3), rng.normal(size=3)
        root = rng.normal(size=(3, 3)) * 0.3
        inertia = np.trace(root @ root.T) * np.eye(3) - root @ root.T
        m.body(f"b{i}", mass=rng.uniform(0.5, 2), com=at + 0.3 * rng.normal(size=3), inertia=inertia)
        pair = ("ground" if kind == "free" else str(rng.choice(names)), f"b{i}")
        if kind == "free":
            m.free(f"J{i}", *pair)
        elif kind == "spherical" or kind == "fixed":
            getattr(m, kind)(f"J{i}", *pair, at)
        elif kind == "prismatic" or kind == "planar":
            getattr(m, kind)(f"J{i}", *pair, axis, at)
        elif kind == "universal":
            m.universal(f"J{i}", *pair, at, axis, np.cross(axis, rng.normal(size=3)))
        else:
            getattr(m, kind)(f"J{i}", *pair, at, axis)
        names.append(f"b{i}")
    return m


@eqx.filter_jit
def ours(system, q, v):
    place = system.place(q)
    return system.mass_matrix(q, 0.0), system.bias(q, v, 0.0), place.p, place.R, system.twists(q, v)


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow), pytest.param(2, marks=pytest.mark.slow)])
def test_random_tree(seed):
    m = random_tree(seed)
    system = m.system("relative")
    theirs = mujoco.MjModel.from_xml_string(m.to_mjcf())
    data = mujoco.MjData(theirs)
    rng = np.random.default_rng(seed)
    q = system.normalize(system.reference + jnp.asarray(rng.normal(size=system.nq)))
    v = jnp.asarray(rng.normal(size=system.nv))
    mass, bias, p, rotation, twists = (np.asarray(x) for x in ours(system, q, v))

    columns = {"q": list(system.coordinates), "v": list(system.velocity_names)}
    order = []
    for j in range(theirs.njnt):
        name, kind = theirs.joint(j).name, theirs.jnt_type[j]
        at, dof = theirs.jnt_qposadr[j], theirs.jnt_dofadr[j]
        if kind == mujoco.mjtJoint.mjJNT_FREE:
            parts = [f"{name} {x}" for x in ("x", "y", "z", "qw", "qx", "qy", "qz")]
            rates = [f"{name} {x}" for x in ("x", "y", "z", "wx", "wy", "wz")]
        elif kind == mujoco.mjtJoint.mjJNT_BALL:
            parts, rates = ([f"{name} {x}" for x in names] for names in (("qw", "qx", "qy", "qz"), ("wx", "wy", "wz")))
        else:
            parts = rates = [name]
        data.qpos[at : at + len(parts)] = [q[columns["q"].index(x)] for x in parts]
        data.qvel[dof : dof + len(rates)] = [v[columns["v"].index(x)] for x in rates]
        order += [columns["v"].index(x) for x in rates]
    mujoco.mj_forward(theirs, data)
    full = np.zeros((theirs.nv, theirs.nv))
    for row, unit in zip(full, np.eye(theirs.nv), strict=True):
        mujoco.mj_mulM(theirs, data, row, unit)
    np.testing.assert_allclose(mass[np.ix_(order, order)], full, atol=1e-10 * np.max(full))
    np.testing.assert_allclose(bias[order], data.qfrc_bias, atol=1e-10 * np.max(np.abs(bias)))
    for i, name in enumerate(system.model.names):
        body = data.body(name)
        np.testing.assert_allclose(p[i], body.xipos, atol=1e-10)
        np.testing.assert_allclose(rotation[i], body.xmat.reshape(3, 3), atol=1e-10)
        velocity = np.zeros(6)
        mujoco.mj_objectVelocity(theirs, data, mujoco.mjtObj.mjOBJ_BODY, theirs.body(name).id, velocity, 0)
        np.testing.assert_allclose(twists[i, 3:], velocity[:3], atol=1e-10)


def test_what_mjcf_lacks_is_refused():
    m = br.Mechanism(name="screw")
    m.body("nut", mass=1.0, com=(0, 0, 0), inertia=1.0)
    m.helical("H", m.ground, "nut", (0, 0, 0), (0, 0, 1), 0.01)
    m.force("push", "nut", (0, 0, 0), (0, 0, 1))
    with pytest.raises(br.ModelError, match="no such helical joint") as error:
        m.to_mjcf()
    assert "load 'push' cannot be written yet" in str(error.value)
