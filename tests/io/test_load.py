"""MJCF files as mechanisms: the same motion as MuJoCo's own, and a clear refusal of everything else."""

import re

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest

import bricard as br
from bricard.gallery.four_bar import four_bar_mechanism

mujoco = pytest.importorskip("mujoco")

ARM = """
<mujoco model="arm">
  <compiler angle="radian"/>
  <option gravity="0 0 -9.81"/>
  <worldbody>
    <body name="upper" pos="0 0 1" euler="0.3 0.2 0.1">
      <joint name="shoulder" type="hinge" axis="0 1 0" stiffness="3" damping="0.2" springref="0.4" range="-2 2"/>
      <joint name="roll" type="hinge" axis="1 0 0" pos="0.1 0 0" armature="0.1"/>
      <geom type="capsule" fromto="0 0 0 0.4 0 0" size="0.03" mass="1.5"/>
      <body name="fore" pos="0.4 0 0" quat="0.9 0.1 0.2 0.3">
        <joint name="slide" type="slide" axis="0 0 1"/>
        <geom type="box" size="0.1 0.05 0.02" pos="0.1 0.02 0" mass="0.7"/>
        <body name="hand" pos="0.2 0 0">
          <joint name="wrist" type="ball"/>
          <geom type="sphere" size="0.05" pos="0.05 0 0" mass="0.3"/>
        </body>
      </body>
    </body>
  </worldbody>
  <actuator><motor name="torque" joint="shoulder" gear="5" ctrlrange="-4 4"/></actuator>
</mujoco>
"""


@eqx.filter_jit
def matrices(system, q, v):
    return system.mass_matrix(q, 0.0), system.bias(q, v, 0.0) - system.applied_force(q, v, 0.0)


def test_open_chain_against_mujoco(tmp_path):
    file = tmp_path / "arm.xml"
    file.write_text(ARM)
    m = br.load(file)
    system = m.system("relative")
    assert m.notes
    assert system.inputs == ("torque",)
    assert system.model.limits == ((-4.0, 4.0),)
    np.testing.assert_array_equal(system.input_matrix(system.reference, 0.0)[:, 0], [5.0, 0, 0, 0, 0, 0])
    theirs = mujoco.MjModel.from_xml_string(ARM)
    theirs.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONTACT
    data = mujoco.MjData(theirs)
    rng = np.random.default_rng(0)
    turns, v = rng.normal(size=3) * 0.5, jnp.asarray(rng.normal(size=6))
    data.qpos[:3], data.qvel[:] = turns, v
    q = jnp.concatenate([jnp.asarray(turns), jnp.array([1.0, 0.0, 0.0, 0.0])])
    assert system.coordinates[:3] == ("shoulder", "roll", "slide")
    # The ball joint is in its reference position: body frames differ from MuJoCo's by a rotation, so do its rates.
    frame = data.body("hand").xmat.reshape(3, 3)
    data0 = mujoco.MjData(theirs)
    mujoco.mj_forward(theirs, data0)
    frame = data0.body("hand").xmat.reshape(3, 3)
    turned = np.eye(6)
    turned[3:, 3:] = frame  # ours (world axes of the reference) = frame @ theirs
    mujoco.mj_forward(theirs, data)
    full = np.zeros((6, 6))
    for row, unit in zip(full, np.eye(6), strict=True):
        mujoco.mj_mulM(theirs, data, row, unit)
    own_v = jnp.asarray(turned @ np.asarray(v))
    mass, bias = (np.asarray(x) for x in matrices(system, q, own_v))
    np.testing.assert_allclose(turned.T @ mass @ turned, full, atol=1e-10)
    np.testing.assert_allclose(turned.T @ bias, data.qfrc_bias - data.qfrc_passive, atol=1e-9)


def test_loop_is_closed_exactly(tmp_path):
    """A spatial four-bar, written, read back: the same mobility, and the loop stays closed."""
    m = br.Mechanism(gravity=(0, -9.81, 0), name="loop")
    plane = four_bar_mechanism()
    for name, body in plane.bodies.items():
        m.body(name, br.rod(body.shape.outline[0][0], body.shape.outline[0][-1], 1.0, width=0.01))
    for joint in plane.joints:
        kind = m.spherical if joint.name == "C" else m.revolute
        kind(joint.name, joint.parent, joint.child, joint.at)
    m.motor("motor", "A")
    file = tmp_path / "loop.xml"
    file.write_text(m.to_mjcf())
    back = br.load(file)
    system, original = back.system(), m.system()
    mobility = br.mobility(system, system.reference)
    assert (mobility.dof, mobility.constraints) == (1, 3)
    np.testing.assert_allclose(
        system.mass_matrix(system.reference, 0.0), original.mass_matrix(original.reference, 0.0), atol=1e-12
    )


def test_what_acts_on_joints_comes_back(tmp_path):
    m = br.Mechanism(gravity=(0, 0, -9.81), name="back")
    m.body("a", br.box((0, 0, 0.3), (0.1, 0.2, 0.3), 2.0))
    m.body("b", br.box((0, 0, 0.9), (0.1, 0.2, 0.3), 1.0))
    m.cylindrical("C", "a", m.ground, (0, 0, 0), (0, 0, 1))  # leads to the ground
    m.prismatic("S", "a", "b", (0, 0, 1), (0, 0, 0.5), at_child=(0, 0, 0.6))
    m.motor("turn", "C", (-1.0, 2.0), of="turn", gear=7.0)
    m.armature("rotor", "C", 0.4, of="turn")
    m.joint_spring("spring", "S", 30.0, 0.5, rest=0.3)
    file = tmp_path / "back.xml"
    file.write_text(m.to_mjcf())
    back = br.load(file)
    assert [(x.joint, x.gear, x.limits) for x in back.motors] == [("C turn", 7.0, (-1.0, 2.0))]
    assert [(x.joint, x.inertia) for x in back.armatures] == [("C turn", 0.4)]
    # A slide of MuJoCo is zero in the reference configuration, where ours is at 0.1 m.
    np.testing.assert_allclose([back.joint_springs[0].rest, back.joint_springs[0].stiffness], [0.2, 30.0], atol=1e-12)
    rates = [j.axes[:, 2] for j in back.joints if j.name.startswith("C")]
    np.testing.assert_allclose(rates, [[0, 0, -1]] * 2, atol=1e-12)


def refusal(path):
    with pytest.raises(br.ModelError) as error:
        br.load(path)
    return str(error.value)


def test_files_that_are_refused(tmp_path):
    file = tmp_path / "bad.xml"
    assert "no such file" in refusal(tmp_path / "missing.xml")
    assert "not a file" in refusal(tmp_path)
    file.write_text('<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/hostname">]><mujoco>&x;</mujoco>')
    assert "entities" in refusal(file)
    file.write_text('<mujoco><include file="other.xml"/></mujoco>')
    assert "<include file='other.xml'> names another file" in refusal(file)
    file.write_text("nonsense " * 10)
    assert "not valid XML" in refusal(file)
    file.write_text("<html><mujoco/></html>")
    assert "neither MJCF (<mujoco>) nor URDF (<robot>): its root element is <html>" in refusal(file)
    file.write_bytes(b"\xff\xfe\x00" * 100)
    assert "not UTF-8 text" in refusal(file)
    file.write_text("<mujoco><worldbody><body><nothing/></body></worldbody></mujoco>")
    assert "MuJoCo cannot compile the model" in refusal(file)
    file.write_text(ARM[: len(ARM) // 2])
    assert "not valid XML" in refusal(file)


def test_fifty_megabytes_of_nonsense(tmp_path):
    file = tmp_path / "nonsense.urdf"
    file.write_bytes(b"<robot>" + np.random.default_rng(0).bytes(50_000_000))
    assert "too large (50 MB; the limit is 10 MB)" in refusal(file)


def test_what_is_not_understood_is_named(tmp_path):
    file = tmp_path / "position.xml"
    text = ARM.replace("<motor", "<position").replace('gear="5"', 'kp="3"')
    text = text.replace('type="ball"', 'type="ball" damping="0.1"').replace('armature="0.1"', 'frictionloss="0.1"')
    text = text.replace('<body name="hand"', '<body name="hand" gravcomp="1"')
    file.write_text(text.replace("<option ", '<option density="1.2" '))
    text = refusal(file)
    for part in (
        "actuator 'torque': only motors",
        "joint 'wrist': springs, damping and armature of ball and free joints are not supported",
        "joint 'roll': frictionloss is not supported",
        "body 'hand': gravcomp is not supported",
        "a surrounding fluid",
    ):
        assert part in text


LINKED = """
<mujoco>
  <compiler angle="radian"/>
  <asset><mesh name="part" file="part.stl"/><texture name="t" type="2d" file="t.png"/>
    <material name="m" texture="t"/></asset>
  <worldbody>
    <body name="a"><joint name="A" axis="0 0 1" ref="0.5"/><geom size="0.1" material="m"/>
      <site name="s" pos="0.2 0 0"/></body>
    <body name="b" pos="1 0 0"><joint name="B" axis="0 0 1"/><geom size="0.1"/></body>
    <body name="c" pos="2 0 0"><joint name="C" type="slide" axis="1 0 0"/>
      <inertial pos="0 0 0" mass="1" diaginertia="1 1 1"/><geom type="mesh" mesh="part"/></body>
    <body name="d" pos="0.2 0 0" quat="0 1 0 0"><freejoint name="D"/><geom size="0.1"/><site name="r"/></body>
  </worldbody>
  <tendon>
    <fixed name="all"><joint joint="A" coef="2"/><joint joint="B" coef="-3"/></fixed>
    <fixed name="one"><joint joint="C" coef="5"/></fixed>
  </tendon>
  <equality>
    <tendon name="belt" tendon1="all" tendon2="one" polycoef="0.1 0.5 0 0 0"/>
    <connect name="pin" site1="s" site2="r"/>
    <weld name="glue" body1="a" body2="d"/>
    <weld name="off" body1="b" body2="c" active="false"/>
  </equality>
</mujoco>
"""


def test_tendons_and_sites_are_exact(tmp_path):
    """A relation of fixed tendons has the value of MuJoCo's own; sites are points of their bodies."""
    file = tmp_path / "linked.xml"
    file.write_text(LINKED)  # the mesh and the picture are not there, and not needed
    m = br.load(file)
    theirs = mujoco.MjModel.from_xml_string(
        re.sub('(?s:<asset>.*</asset>)|<geom type="mesh".*?/>| material="m"', "", LINKED)
    )
    data = mujoco.MjData(theirs)
    data.qpos[:3] = [0.7, 0.3, -0.2]
    mujoco.mj_forward(theirs, data)
    relation = m.relations[0]
    x = {"A": 0.7 - 0.5, "B": 0.3, "C": -0.2}  # turns are counted from the reference configuration
    value = sum(c * x[j] for j, _, c in relation.terms) - relation.offset
    np.testing.assert_allclose(value, data.efc_pos[data.efc_id == 0], atol=1e-12, rtol=0)
    assert [(j.name, j.kind) for j in m.joints[-2:]] == [("pin", "coincident"), ("glue", "fixed")]
    np.testing.assert_allclose(m.joints[-2].at, [0.2, 0, 0], atol=1e-12)
    assert any("'off' is not active" in note for note in m.notes)


def test_links_that_are_not_understood(tmp_path):
    file = tmp_path / "linked.xml"
    text = LINKED.replace('polycoef="0.1 0.5 0 0 0"', 'polycoef="0 1 2 0 0"').replace(
        '<fixed name="one">', '<fixed name="one" stiffness="3">'
    )
    text = text.replace('<inertial pos="0 0 0" mass="1" diaginertia="1 1 1"/>', "")
    file.write_text(text)
    assert "body 'c' takes its inertia from a mesh" in refusal(file)
    text = text.replace('<geom type="mesh" mesh="part"/>', '<geom size="0.1"/>')
    file.write_text(text.replace('body2="d"/>', 'body2="d" relpose="0 0 1 1 0 0 0"/>'))
    text = refusal(file)
    assert "'belt': a nonlinear relation" in text
    assert "tendon 'one': stiffness is not supported" in text
    assert "'glue': the initial pose of its bodies is not the welded pose" in text
