"""URDF files as mechanisms: against Pinocchio's reading of them, with mimic joints and loops as exact constraints."""

import json

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest

import bricard as br

INERTIAL = """<inertial><origin xyz="{x} 0.02 0.01" rpy="0.3 -0.2 0.5"/><mass value="{mass}"/>
  <inertia ixx="0.02" ixy="0.001" ixz="-0.002" iyy="0.03" iyz="0.003" izz="0.025"/></inertial>"""


def link(name, mass=1.0, x=0.1):
    shape = '<geometry><mesh filename="package://nowhere/part.stl"/></geometry>'
    body = INERTIAL.format(mass=mass, x=x) + f"<visual>{shape}</visual><collision>{shape}</collision>"
    return f'<link name="{name}">{body if mass else ""}</link>'


def joint(name, kind, parent, child, xyz="0.3 0.1 0", rpy="0.4 0.2 -0.3", axis="0 0.6 0.8", more=""):
    return (
        f'<joint name="{name}" type="{kind}"><parent link="{parent}"/><child link="{child}"/>'
        f'<origin xyz="{xyz}" rpy="{rpy}"/><axis xyz="{axis}"/>{more}</joint>'
    )


LIMIT = '<limit lower="-1" upper="2" effort="40" velocity="3"/>'
MIMIC = '<mimic joint="shoulder" multiplier="-0.5" offset="0.2"/>'
TRANSMISSION = """<transmission name="drive"><type>SimpleTransmission</type><joint name="shoulder"/>
  <actuator name="motor"><mechanicalReduction>20</mechanicalReduction></actuator></transmission>"""
ARM = f"""<?xml version="1.0"?>
<robot name="arm">
  <material name="grey"><color rgba="0.5 0.5 0.5 1"/></material>
  {link("base", 0)} {link("upper", 1.5)} {link("mount", 0.2)} {link("fore", 0.7)} {link("hand", 0.3)}
  {joint("shoulder", "revolute", "base", "upper", more=LIMIT + '<dynamics damping="0.3"/>')}
  {joint("bolt", "fixed", "upper", "mount")}
  {joint("lift", "prismatic", "mount", "fore", axis="1 0 0", more=LIMIT)}
  {joint("wrist", "revolute", "fore", "hand", axis="0 -1 0", more=LIMIT)}
  {TRANSMISSION}
</robot>"""


@pytest.fixture
def write(tmp_path):
    """`write(text, **loops)`: a URDF file, with a file of loops beside it if any are given."""

    def files(text, **loops):
        file = tmp_path / "robot.urdf"
        file.write_text(text)
        if loops:
            (tmp_path / "robot.loops.json").write_text(json.dumps(loops))
        return file

    return files


@eqx.filter_jit
def matrices(system, q, v):
    return system.mass_matrix(q, 0.0), system.bias(q, v, 0.0), system.applied_force(q, v, 0.0)


@eqx.filter_jit
def constraint_rows(system, q, v):
    return system.constraint_jacobian(q, 0.0), system.constraint_bias(q, v, 0.0)


def acceleration(system, q, v):
    """By NumPy, from the equations with multipliers."""
    q, v = jnp.asarray(q), jnp.asarray(v)
    mass, bias, applied = matrices(system, q, v)
    rows, target = constraint_rows(system, q, v)
    kkt = np.block([[np.asarray(mass), np.asarray(rows).T], [np.asarray(rows), np.zeros((len(target),) * 2)]])
    return np.linalg.lstsq(kkt, np.concatenate([applied - bias, target]), rcond=1e-9)[0][: system.nv]


def pinocchio_matrices(text, q, v):
    pin = pytest.importorskip("pinocchio")
    model = pin.buildModelFromXML(text)
    data = model.createData()
    mass = pin.crba(model, data, q)
    return np.triu(mass) + np.triu(mass, 1).T, pin.rnea(model, data, q, v, np.zeros(model.nv))


def test_arm_is_that_of_pinocchio(write):
    m = br.load(write(ARM))
    system = m.system()
    assert system.coordinates == ("shoulder", "lift", "wrist")
    q, v = np.array([0.4, 0.3, -0.7]), np.array([0.5, -0.2, 1.1])
    mass, bias, applied = matrices(system, jnp.asarray(q), jnp.asarray(v))
    expected_mass, expected_bias = pinocchio_matrices(ARM, q, v)
    np.testing.assert_allclose(mass, expected_mass, atol=1e-10, rtol=0)
    np.testing.assert_allclose(bias, expected_bias, atol=1e-10, rtol=0)
    np.testing.assert_allclose(applied, [-0.3 * 0.5, 0.0, 0.0], atol=1e-12, rtol=0)
    assert system.inputs == ("motor",)
    assert system.model.limits == ((-2.0, 2.0),)
    np.testing.assert_allclose(system.input_matrix(jnp.asarray(q), 0.0), [[20.0], [0.0], [0.0]], atol=1e-12)
    assert m.joints[1].limits == (-1.0, 2.0)
    sticks = system.model.outlines[system.model.names.index("upper")]  # from the centre of mass to shoulder and bolt
    assert [line.shape for line in sticks] == [(2, 3), (2, 3)]
    assert any("collision geometry is ignored" in note for note in m.notes)


def test_mimic_is_exact(write):
    """`wrist = −0.5 shoulder + 0.2`: the accelerations are those of the two coordinates that are left."""
    text = ARM.replace(LIMIT + "</joint>", LIMIT + MIMIC + "</joint>").replace(LIMIT + MIMIC, LIMIT, 1)
    assert text.count("<mimic") == 1
    m = br.load(write(text))
    system = m.system()
    q, v = jnp.array([0.4, 0.3, -0.2]), jnp.array([0.5, -0.2, -0.25])  # the wrist from where it starts, at 0.2
    np.testing.assert_allclose(system.constraints(q, 0.0), 0.0, atol=1e-15)
    mass, bias = pinocchio_matrices(ARM, np.array([0.4, 0.3, 0.0]), np.asarray(v))
    reduce = np.array([[1.0, 0.0], [0.0, 1.0], [-0.5, 0.0]])
    force = reduce.T @ (np.array([-0.15, 0.0, 0.0]) - bias)
    expected = reduce @ np.linalg.solve(reduce.T @ mass @ reduce, force)
    np.testing.assert_allclose(acceleration(system, q, v), expected, atol=1e-9, rtol=0)


# A four-bar, drawn with its crank along x: there the loop is open. It closes at the angles of `closed`.
BAR = """<link name="{}"><inertial><origin xyz="{} 0 0"/><mass value="{}"/>
  <inertia ixx="1e-4" iyy="0.002" izz="0.002"/></inertial></link>"""
CRANK, COUPLER, ROCKER, BASE = 0.1, 0.3, 0.25, 0.3
FOUR_BAR = f"""<robot name="four-bar"><link name="base"/>
  {BAR.format("crank", CRANK / 2, 0.1)} {BAR.format("coupler", COUPLER / 2, 0.3)}
  {BAR.format("rocker", ROCKER / 2, 0.25)}
  {joint("A", "continuous", "base", "crank", "0 0 0", "0 0 0", "0 0 1")}
  {joint("B", "continuous", "crank", "coupler", f"{CRANK} 0 0", "0 0 0", "0 0 1")}
  {joint("D", "continuous", "base", "rocker", f"{BASE} 0 0", "0 0 0", "0 0 1")}
</robot>"""
LOOP = {
    "joint": "revolute",
    "name": "C",
    "parent": "coupler",
    "child": "rocker",
    "frame": "coupler",
    "at": [COUPLER, 0, 0],
    "axis": [0, 0, 1],
}


def closed():
    """Joint angles at which the crank is at 1 rad and the loop is closed, by the law of cosines."""
    from bricard.gallery.four_bar import meet

    pin = CRANK * np.array([np.cos(1.0), np.sin(1.0)])
    top = meet(pin, COUPLER, np.array([BASE, 0.0]), ROCKER)
    along, back = top - pin, top - np.array([BASE, 0.0])
    return {"A": 1.0, "B": float(np.arctan2(along[1], along[0]) - 1.0), "D": float(np.arctan2(back[1], back[0]))}


def test_loops_from_a_file_beside_it(write):
    """The same accelerations as the planar four-bar of those bodies, built by hand."""
    m = br.load(write(FOUR_BAR, reference=closed(), loops=[LOOP]))
    system = m.system(cut=["C"])
    plane = br.Mechanism(planar=True, gravity=(0, 0), name="plane")
    for name in ("crank", "coupler", "rocker"):
        shape = m.bodies[name].shape
        plane.body(name, mass=shape.mass, com=shape.com[:2], inertia=0.002)
    for part in m.joints:
        if part.kind == "revolute":
            plane.revolute(part.name, *(n.replace("base", "ground") for n in (part.parent, part.child)), part.at[:2])
    flat = plane.system(cut=["C"])
    rows = np.asarray(constraint_rows(flat, flat.reference, jnp.zeros(3))[0])
    v = 5.0 * np.linalg.svd(rows)[2][-1]  # the only motion that closes the loop
    order = [flat.velocity_names.index(n) for n in system.velocity_names]
    expected = acceleration(flat, flat.reference, v)[order]
    np.testing.assert_allclose(acceleration(system, system.reference, v[order]), expected, atol=1e-9, rtol=0)
    in_space = np.asarray(constraint_rows(system, system.reference, jnp.zeros(3))[0])
    assert (len(in_space), np.linalg.matrix_rank(in_space, tol=1e-9)) == (5, 2)  # a planar loop in space


def refusal(path, **settings):
    with pytest.raises(br.ModelError) as error:
        br.load(path, **settings)
    return str(error.value)


def test_loop_that_is_open_says_how_far(write):
    text = refusal(write(FOUR_BAR, loops=[{**LOOP, "at_child": [BASE + ROCKER - CRANK, 0, 0]}]))
    assert "'C': its frames do not meet, they are 0.15 m apart" in text


def test_wrong_loops_are_told_at_once(write, tmp_path):
    file = write(
        FOUR_BAR,
        loops=[
            {**LOOP, "at": [0, "x", 0], "colour": "red"},
            {**LOOP, "joint": "hinge"},
            {"joint": "spherical", "name": "S", "parent": "crank", "frame": "moon"},
            {**LOOP, "name": "E", "child": "nobody"},
        ],
    )
    text = refusal(file)
    for part in (
        "robot.loops.json, entry 1 ('C'): 'at' must be a list of 3 numbers",
        "unknown key 'colour'",
        "entry 2 ('C'): 'joint' must be one of revolute",
        "entry 3 ('S'): 'child' is missing",
        "'at' is missing",
        "'frame': no body called 'moon'",
        "'E': no body called 'nobody'",
    ):
        assert part in text
    assert "'loops' must be a list" in refusal(file, loops={"loops": 3})
    assert "unknown key 'turns'" in refusal(file, loops={"turns": {}})
    assert "'reference' names 'Z'" in refusal(file, loops={"reference": {"Z": 1.0}})
    broken = tmp_path / "broken.json"
    broken.write_text('{"loops": [')
    assert "is not valid JSON" in refusal(file, loops=broken)
    assert "no such file" in refusal(file, loops=tmp_path / "missing.json")


def test_wrong_robots_are_told_at_once(write):
    text = f"""<robot name="bad"> {link("base", 0)} {link("a", -1.0)} {link("a")} {link("loose")}
      {joint("J", "ball", "base", "a", axis="0 0 0", xyz="0 zero 0")}
      {joint("K", "revolute", "base", "nobody", more='<mimic joint="Q"/>')} </robot>"""
    text = refusal(write(text))
    for part in (
        "link 'a' is defined 2 times",
        "joint 'J': the type must be one of revolute",
        "joint 'J': xyz must be 3 finite numbers, not '0 zero 0'",
        "joint 'J': the axis must not be zero",
        "joint 'K': its child 'nobody' is not a link",
        "joint 'K': cannot mimic 'Q'",
        "one root link (not a child of any joint), not 2 (base, loose)",
    ):
        assert part in text
    rough = ARM.replace('damping="0.3"', 'friction="0.3"').replace('mass value="0.7"', 'mass value="-0.7"')
    text = refusal(write(rough))
    assert "joint 'shoulder': friction is not supported" in text
    assert "body 'fore': its mass is negative" in text
    assert "is not valid XML" in refusal(write(ARM[: len(ARM) // 2]))
    ring = joint("A", "fixed", "a", "b") + joint("B", "fixed", "b", "a")
    assert "not connected to the root link" in refusal(
        write(f"<robot>{link('base')}{link('a')}{link('b')}{ring}</robot>")
    )
