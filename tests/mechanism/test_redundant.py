"""Too many joints: the right motion, the right sums, and a flag on what a rigid model cannot tell."""

import jax.numpy as jnp
import numpy as np
import pytest

import bricard as br
from bricard.equations.problem import equilibrate, state_problem
from bricard.equations.rank import subspaces
from bricard.execution import compile as compilation
from tests.mechanism.conftest import KINDS, bodies, motion, moved, state_of
from tests.properties.random_mechanisms import TREE, Sketch, random_joint


def door(hinges):
    """A door of 20 kg, 0.8 m wide and 2 m high, on hinges along z; it swings, and its weight hangs on the hinges."""
    m = br.Mechanism(gravity=(0, 0, -9.81), name="door")
    m.body("door", br.box((0.4, 0, 1.0), (0.8, 0.04, 2.0), 20.0))
    for i, z in enumerate(hinges):
        m.revolute(f"hinge {i}", m.ground, "door", (0, 0, z))
    return m


def forces(system, q, v):
    result = motion(system, q, v)
    return result["acceleration"], result["reactions"]


@pytest.mark.parametrize("kind", ["relative", "absolute"])
def test_door_with_two_hinges(kind):
    system = door((0.3, 1.7)).system(kind)
    one = door((0.3,)).system(kind)
    mobility = br.mobility(system, system.reference)
    assert (mobility.dof, mobility.redundant) == (1, 5)
    assert mobility.repetitions == ("joint hinge 1 repeats what hinge 0 already requires",)
    assert "Joint hinge 1 repeats what" in str(mobility)
    single = door((1.0,)).system("relative")
    twists = single.twists(single.reference, jnp.array([2.0]))
    v = system.velocities_of(system.reference, twists)
    acceleration, both = forces(system, system.reference, v)
    expected, alone = forces(one, one.reference, one.velocities_of(one.reference, twists))
    np.testing.assert_allclose(acceleration, expected, atol=1e-9)
    if kind == "relative":  # as a user would ask: no warning, no other method needed
        np.testing.assert_allclose(br.forward_dynamics(system, system.reference, v).acceleration, expected, atol=1e-9)
    # Weight and centripetal force: 20 · 9.81 N upwards, 20 · 0.4 · 2² N towards the hinges.
    upper, lower = both["hinge 1"], both["hinge 0"]
    np.testing.assert_allclose(upper.force + lower.force, [-32.0, 0.0, 196.2], atol=1e-9)
    moment = upper.moment + lower.moment + np.cross([0, 0, 1.4], upper.force)
    np.testing.assert_allclose(moment, alone["hinge 0"].moment, atol=1e-8)
    assert not np.any(lower.determinate[np.array([0, 1, 2])])
    assert np.all(lower.determinate[5])  # a hinge carries no moment about its axis
    np.testing.assert_allclose(lower.moment[2], 0.0, atol=1e-12)
    assert np.all(alone["hinge 0"].determinate)


@pytest.mark.slow
def test_table_with_four_legs():
    m = br.Mechanism(gravity=(0, 0, -9.81), name="table")
    m.body("top", br.plate((0, 0, 0.7), (1.0, 1.0), 10.0))
    corners = [(x, y, 0.0) for x in (-0.5, 0.5) for y in (-0.5, 0.5)]
    for i, corner in enumerate(corners):
        m.point_on_plane(f"leg {i}", m.ground, "top", corner, (0, 0, 1))
    system = m.system()
    q, v = system.reference, jnp.zeros(system.nv)
    mobility = br.mobility(system, q)
    assert (mobility.dof, mobility.redundant) == (3, 1)
    assert mobility.repetitions == ("constraint leg 3 repeats what leg 0, leg 1 and leg 2 already require",)
    _, legs = forces(system, q, v)
    up = np.array([legs[f"leg {i}"].force[2] for i in range(4)])
    np.testing.assert_allclose(up.sum(), 98.1, atol=1e-9)
    np.testing.assert_allclose(up, 98.1 / 4, atol=1e-9)  # the least of all that are possible
    assert not any(np.all(legs[f"leg {i}"].determinate) for i in range(4))
    assert all(np.all(legs[f"leg {i}"].determinate[:2]) for i in range(4))


def parallelogram(extra):
    m = br.Mechanism(gravity=(0, -9.81), planar=True, name="parallelogram")
    tops = [np.array([x, 0.0]) + 0.4 * np.array([np.sin(0.5), np.cos(0.5)]) for x in (0.0, 0.3, 0.6)]
    m.body("coupler", br.rod(tops[0], tops[2], 2.0))
    for i, x in enumerate((0.0, 0.3, 0.6)):
        if i == 1 and not extra:
            continue
        m.body(f"rocker {i}", br.rod((x, 0), tops[i], 1.0 if i != 1 else 1e-9))
        m.revolute(f"A{i}", m.ground, f"rocker {i}", (x, 0))
        m.revolute(f"B{i}", f"rocker {i}", "coupler", tops[i])
    return m


@pytest.mark.slow
def test_parallelogram_with_a_redundant_rocker():
    """The third rocker has no weight to speak of: nothing but the loads changes, and only their sum is known."""
    systems = {extra: parallelogram(extra).system() for extra in (False, True)}
    results = {}
    for extra, system in systems.items():
        # All rockers turn at 3 rad/s, and the coupler follows their ends.
        arms = system.model.home - jnp.array(
            [[float(n[-1]) * 0.3 if n[-1].isdigit() else 0.3, 0, 0] for n in system.model.names]
        )
        spin = jnp.array([[0.0 if n == "coupler" else 3.0] for n in system.model.names])
        linear = 3.0 * jnp.stack([-arms[:, 1], arms[:, 0], 0 * arms[:, 0]], axis=1)
        twists = jnp.concatenate([linear, jnp.zeros_like(arms[:, :2]), spin], axis=1)
        v = system.velocities_of(system.reference, twists)
        results[extra] = (v, *forces(system, system.reference, v))
    mobility = br.mobility(systems[True], systems[True].reference)
    assert mobility.redundant == 1
    assert mobility.repetitions == (
        "joint B2: 1 of its 2 requirements repeats what A0, B0, A1, B1 and A2 already require",
    )
    plain, redundant = results[False], results[True]
    a0 = [s.twist_rates(s.reference, r[0], r[1])[0] for s, r in ((systems[e], results[e]) for e in (False, True))]
    np.testing.assert_allclose(a0[1], a0[0], atol=1e-6)
    pins = [sum(np.asarray(r[2][n].force) for n in r[2] if n[0] == "B") for r in (plain, redundant)]
    np.testing.assert_allclose(pins[1], pins[0], atol=1e-6)
    assert np.all(plain[2].all.determinate)
    assert not np.all(redundant[2]["B1"].determinate)


def test_structure_that_cannot_move_is_no_error():
    m = br.Mechanism(gravity=(0, -9.81), planar=True, name="truss")
    m.body("a", br.rod((0, 0), (1, 1), 1.0))
    m.body("b", br.rod((2, 0), (1, 1), 1.0))
    m.revolute("A", m.ground, "a", (0, 0))
    m.revolute("B", m.ground, "b", (2, 0))
    m.revolute("C", "a", "b", (1, 1))
    system = m.system("absolute")
    mobility = br.mobility(system, system.reference)
    assert mobility.dof == 0
    assert "cannot move" in str(mobility)
    _, reactions = forces(system, system.reference, jnp.zeros(6))
    np.testing.assert_allclose(reactions["A"].force + reactions["B"].force, [0.0, 2 * 9.81], atol=1e-9)
    np.testing.assert_allclose(reactions["C"].force[1], 0.0, atol=1e-9)  # by symmetry


def tilted_door(hinges):
    """The same door on an axis that points nowhere in particular."""
    m = br.Mechanism(gravity=(0, 0, -9.81), name="tilted door")
    m.body("door", mass=20.0, com=(0.4, 0, 1.0), inertia=(2.0, 3.0, 1.0))
    axis = np.array((0.1, 0.2, 1.0))
    for i in range(hinges):
        m.revolute(f"hinge {i}", m.ground, "door", axis / np.linalg.norm(axis) * (0.3 + 1.4 * i), axis)
    return m


def hinge_acceleration():
    """Of the tilted door, from the torque and the inertia about its axis."""
    axis = np.array((0.1, 0.2, 1.0)) / np.linalg.norm((0.1, 0.2, 1.0))
    arm = np.array((0.4, 0.0, 1.0))
    inertia = axis @ np.diag((2.0, 3.0, 1.0)) @ axis + 20.0 * (arm @ arm - (axis @ arm) ** 2)
    return axis @ np.cross(arm, (0.0, 0.0, -9.81 * 20.0)) / inertia


AXIS = np.array((0.1, 0.2, 1.0)) / np.linalg.norm((0.1, 0.2, 1.0))


def turned_door(system, angle):
    """Coordinates of the tilted door after a turn about its hinges."""
    single = tilted_door(1).system()
    place, twists = bodies(single, jnp.array([angle]), jnp.zeros(1))
    return state_of(system, place, twists)


@pytest.mark.parametrize("kind", KINDS)
def test_tilted_door_on_two_hinges(kind):
    system = tilted_door(2).system(kind)
    q, v = system.reference, jnp.zeros(system.nv)
    assert br.mobility(system, q).dof == 1
    result = motion(system, q, v)
    assert hinge_acceleration() == pytest.approx(4.158, abs=5e-4)
    np.testing.assert_allclose(result["rates"][0, 3:], hinge_acceleration() * AXIS, atol=1e-9)
    needed, reactions = result["needed"][0], result["reactions"]
    hinges = [reactions["hinge 0"], reactions["hinge 1"]]
    np.testing.assert_allclose(sum(np.asarray(h.force) for h in hinges), needed[:3], atol=1e-8)
    arms = [np.asarray(h.point) - (0.4, 0.0, 1.0) for h in hinges]
    moments = [np.asarray(h.moment) + np.cross(arm, h.force) for h, arm in zip(hinges, arms, strict=True)]
    np.testing.assert_allclose(sum(moments), needed[3:], atol=1e-8)
    assert not np.any(np.asarray(hinges[0].determinate)[:5])
    for hinge in hinges:
        np.testing.assert_allclose(np.asarray(hinge.moment) @ AXIS, 0.0, atol=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_tilted_door_is_assembled_next_to_the_guess(kind):
    """In the coordinates of the body, the guess has left both hinges by some centimetres."""
    system = tilted_door(2).system(kind)
    guess = turned_door(system, 0.7)[0]
    if kind == "relative":
        np.testing.assert_allclose(br.assemble(system, guess).q, [0.7], atol=1e-14)
    else:
        off = 0.02 * np.random.default_rng(0).normal(size=system.nq)
        found = br.assemble(system, guess + off)
        assert np.max(np.abs(found.position_error)) < 1e-12
        assert np.linalg.norm(found.q - guess) < 2.0 * np.linalg.norm(off)


@pytest.mark.parametrize("kind", KINDS)
def test_tilted_door_swings_about_its_rest(kind):
    """`ω² = m g |r| |z| / J`, with the parts of arm and vertical that are normal to the axis, opposite at rest."""
    arm, up = np.array((0.4, 0.0, 1.0)), np.array((0.0, 0.0, 1.0))
    inertia = AXIS @ np.diag((2.0, 3.0, 1.0)) @ AXIS + 20.0 * (arm @ arm - (AXIS @ arm) ** 2)
    r, z = arm - (arm @ AXIS) * AXIS, up - (up @ AXIS) * AXIS
    rest = np.arctan2(AXIS @ np.cross(r, -z), r @ -z)
    omega = np.sqrt(20.0 * 9.81 * np.linalg.norm(r) * np.linalg.norm(z) / inertia)
    system = tilted_door(2).system(kind)
    roots = np.asarray(br.stability.eigenvalues(system, turned_door(system, rest)[0]).physical)
    np.testing.assert_allclose(np.sort(roots.imag), [-omega, omega], atol=1e-7)
    np.testing.assert_allclose(roots.real, 0.0, atol=1e-7)


@compilation.compiled
def acceleration(system, q, v):
    """By the default route, and the scaled constraint matrix."""
    problem, units = equilibrate(state_problem(system, q, v, jnp.zeros(system.nu), jnp.zeros(())))
    return br.Proximal().acceleration(problem) * units.columns, problem.matrix


@pytest.mark.parametrize("kind", sorted(set(TREE)))
def test_doubled_joint_changes_nothing(kind):
    """A joint is placed twice, then joined by a constraint that it implies (`parallel` across a slide)."""
    systems = []
    for times in range(3):
        s = Sketch(np.random.default_rng(0), np.random.default_rng(1))
        s.joint("revolute", -1, s.body(s.point()), s.point(), s.direction())
        _, again, implied = random_joint(s, kind, 0, s.body(s.point()), s.point())
        for add in (again, implied)[:times]:
            add()
        if times == 2 and kind == "prismatic":
            s.joint("parallel", 0, 1, s.point(), s.direction())
        systems.append(s.m.system())
    rng = np.random.default_rng(2)
    for _ in range(5):
        q = jnp.asarray(np.asarray(systems[0].reference) + rng.normal(size=systems[0].nq))
        q, v = systems[0].normalize(q), jnp.asarray(rng.normal(size=systems[0].nv))
        expected, _ = acceleration(systems[0], q, v)
        for system in systems[1:]:
            found, matrix = acceleration(system, q, v)
            assert matrix.shape[0] > 0
            assert subspaces(np.asarray(matrix)).rank == 0
            np.testing.assert_allclose(found, expected, atol=1e-9 * (1.0 + np.max(np.abs(expected))), rtol=0)


def test_planar_loop_at_an_oblique_angle():
    """A four-bar described in the plane, and the same in space, turned and moved: equal coordinates, equal motion."""
    points = np.array([(0, 0), (0.3, 1.0), (2.3, 1.4), (2.0, 0)])
    names = ("crank", "coupler", "rocker")
    frame = np.linalg.qr(np.random.default_rng(0).normal(size=(3, 3)))[0]
    frame = frame * np.sign(np.linalg.det(frame))
    systems = []
    for planar in (True, False):

        def put(x, planar=planar):
            return x if planar else np.array((3.0, -5.0, 1.0)) + frame[:, :2] @ x

        gravity = np.array((0.0, -9.81))
        m = br.Mechanism(gravity=gravity if planar else frame[:, :2] @ gravity, planar=planar)
        for k, name in enumerate(names):
            inertia = 0.3 if planar else frame @ np.diag((0.1, 0.2, 0.3)) @ frame.T
            m.body(name, mass=1.0 + k, com=put(0.5 * (points[k] + points[k + 1])), inertia=inertia)
        for k, pair in enumerate(zip(("ground", *names), (*names, "ground"), strict=True)):
            m.revolute(f"J{k}", *pair, put(points[k]), *([] if planar else [frame[:, 2]]))
        systems.append(m.system())
    flat, oblique = systems
    assert br.mobility(oblique, oblique.reference).dof == 1
    for seed in range(3):
        q, v = moved(flat, seed)
        expected, found = acceleration(flat, q, v)[0], acceleration(oblique, q, v)[0]
        np.testing.assert_allclose(found, expected, atol=1e-9 * (1.0 + np.max(np.abs(expected))), rtol=0)


@pytest.mark.slow
def test_a_second_hinge_on_a_tilted_axis_changes_nothing():
    one, two = (tilted_door(n).system() for n in (1, 2))
    q, v = two.reference, jnp.zeros(1)
    assert (br.mobility(two, q).dof, br.mobility(two, q).redundant) == (1, 5)
    for system in (one, two):
        found = br.forward_dynamics(system, q, v).acceleration
        np.testing.assert_allclose(found, [hinge_acceleration()], rtol=1e-12)
    np.testing.assert_allclose(br.assemble(two, [0.7]).q, [0.7], atol=1e-14)
    runs = [br.simulate(system, [0.3], [0.5], t_end=1.0, save=5) for system in (one, two)]
    np.testing.assert_allclose(runs[1].q, runs[0].q, atol=1e-10)
    np.testing.assert_allclose(runs[1].reactions["hinge 0"].force.shape, (5, 3))
    rest = br.stability.equilibrium(one, [0.3]).q
    roots = [br.stability.eigenvalues(system, rest).physical for system in (one, two)]
    np.testing.assert_allclose(np.sort_complex(roots[1]), np.sort_complex(roots[0]), atol=1e-8)


@pytest.mark.parametrize("kind", ["relative", pytest.param("natural", marks=pytest.mark.slow)])
def test_a_four_bar_moves_whatever_the_direction_of_its_axes(kind):
    points = np.array([(0, 0), (0.3, 1.0), (2.3, 1.4), (2.0, 0)])

    def four_bar(axis, offset):
        frame = np.linalg.qr(np.column_stack([axis, np.eye(3)[0], np.eye(3)[1]]))[0]
        frame = np.column_stack([frame[:, 1], frame[:, 2], np.cross(frame[:, 1], frame[:, 2])])
        at = [offset + frame @ np.array([*p, 0.0]) for p in points]
        m = br.Mechanism(gravity=-9.81 * frame[:, 1], name="four-bar")
        names = ("crank", "coupler", "rocker")
        for k, name in enumerate(names):
            m.body(
                name, mass=1.0 + k, com=0.5 * (at[k] + at[k + 1]), inertia=frame @ np.diag((0.1, 0.2, 0.3)) @ frame.T
            )
        for k, (a, b) in enumerate(zip(("ground", *names), (*names, "ground"), strict=True)):
            m.revolute(f"J{k}", a, b, at[k], frame[:, 2])
        return m.system(kind)

    straight = four_bar(np.array([0.0, 0.0, 1.0]), np.zeros(3))
    oblique = four_bar(np.array([1.0, 2.0, 3.0]), np.array([3.0, -5.0, 1.0]))
    for system in (straight, oblique):
        assert br.mobility(system, system.reference).dof == 1
    runs = [br.simulate(s, s.reference, jnp.zeros(s.nv), t_end=0.5, save=3) for s in (straight, oblique)]
    energies = [float(s.kinetic_energy(r.q[-1], r.v[-1], 0.5)) for s, r in zip((straight, oblique), runs, strict=True)]
    assert energies[0] > 0.1
    assert energies[1] == pytest.approx(energies[0], rel=1e-8)
