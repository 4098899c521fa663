"""MJCF files as mechanisms: the same motion as MuJoCo's own, and a clear refusal of everything else."""

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
      <joint name="roll" type="hinge" axis="1 0 0" pos="0.1 0 0"/>
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
  <actuator><motor name="torque" joint="shoulder" ctrlrange="-4 4" ctrllimited="true"/></actuator>
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


def refusal(path):
    with pytest.raises(br.ModelError) as error:
        br.load(path)
    return str(error.value)


def test_files_that_are_refused(tmp_path):
    file = tmp_path / "bad.xml"
    assert "no such file" in refusal(tmp_path / "missing.xml")
    file.write_text('<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/hostname">]><mujoco>&x;</mujoco>')
    assert "entities" in refusal(file)
    file.write_text('<mujoco><include file="other.xml"/></mujoco>')
    assert "includes other files" in refusal(file)
    file.write_text("nonsense " * 10)
    assert "neither MJCF" in refusal(file)
    file.write_bytes(b"\\xff\\xfe\\x00" * 100)
    assert "UTF-8" in refusal(file) or "neither" in refusal(file)
    with file.open("wb") as stream:
        stream.truncate(50_000_000)
    assert "too large" in refusal(file)
    file.write_text("<mujoco><worldbody><body><nothing/></body></worldbody></mujoco>")
    assert "MuJoCo cannot read it" in refusal(file)


def refusal_of_damped_ball(tmp_path):
    file = tmp_path / "ball.xml"
    file.write_text(ARM.replace('type="ball"', 'type="ball" damping="0.1"'))
    return refusal(file)


def test_what_is_not_understood_is_named(tmp_path):
    file = tmp_path / "position.xml"
    text = ARM.replace(
        '<motor name="torque" joint="shoulder" ctrlrange="-4 4" ctrllimited="true"/>',
        '<position name="servo" joint="roll" kp="3"/>',
    )
    file.write_text(text.replace('name="roll" type="hinge"', 'name="roll" type="hinge" armature="0.1"'))
    text = refusal(file)
    assert "springs and damping of ball" in refusal_of_damped_ball(tmp_path)
    assert "actuator 'servo'" in text
    assert "joint 'roll': armature" in text
