"""Every kind of joint: against derivatives of the energies, and against the other coordinates, in both directions."""

import jax.numpy as jnp
import numpy as np
import pytest

import bricard as br
from bricard.execution import compile as compilation
from bricard.system import System
from tests.mechanism.conftest import KINDS, in_three_kinds

CHAINS = {
    "hinge": ("revolute", "prismatic", "spherical"),
    "screw": ("helical", "cylindrical", "universal"),
    "plane": ("planar", "fixed", "free"),
}
"""Every kind of joint; three chains compile faster than a long one."""


def chain(joints, reverse):
    """A chain of joints, from the ground outwards; `reverse` swaps parents and children."""
    m = br.Mechanism(gravity=(0.3, -0.4, -9.81))
    rng = np.random.default_rng(3)
    last, at = "ground", np.zeros(3)
    for i, kind in enumerate(joints):
        end = at + rng.normal(size=3) * 0.3
        root = rng.normal(size=(3, 3)) * 0.1
        second_moments = root @ root.T
        inertia = np.trace(second_moments) * np.eye(3) - second_moments
        m.body(f"b{i}", mass=1.0 + 0.1 * i, com=(at + end) / 2 + 0.02 * rng.normal(size=3), inertia=inertia)
        pair = (f"b{i}", last) if reverse else (last, f"b{i}")
        axis = rng.normal(size=3)
        name = f"J {kind}"
        if kind in ("revolute", "cylindrical"):
            getattr(m, kind)(name, *pair, at, axis)
        elif kind == "helical":
            m.helical(name, *pair, at, axis, pitch=0.5)
        elif kind == "prismatic":
            m.prismatic(name, *pair, axis, at, at_child=at + 0.1 * axis / np.linalg.norm(axis))
        elif kind == "universal":
            m.universal(name, *pair, at, axis, np.cross(axis, (1.0, 2.0, 3.0)))
        elif kind == "planar":
            m.planar(name, *pair, axis, at)
        elif kind in ("spherical", "fixed"):
            getattr(m, kind)(name, *pair, at)
        else:
            m.free(name, *pair)
        last, at = f"b{i}", end
    m.spring("spring", "ground", last, (0.5, 0, 0), at, stiffness=20.0, damping=0.5, length=0.3)
    m.bushing("rubber", "b0", "b2", (0.1, 0.2, 0.3), stiffness=[10, 20, 30, 1, 2, 3], damping=0.1)
    m.force("wind", last, at, lambda t, x, v: -0.1 * v + jnp.array([0.0, 0.0, 1.0]) * x[0])
    m.torque("twist", "b1", (0.1, 0.2, 0.3))
    m.linear_actuator("jack", "b0", "b2", (0, 0, 0), (0.3, 0.3, 0.3))
    if "revolute" in joints:
        m.joint_spring("coil", "J revolute", stiffness=2.0, damping=0.1, rest=0.3)
        m.joint_spring("buffer", "J prismatic", stiffness=30.0, damping=0.2)
        m.motor("motor", "J revolute")
        m.armature("rotor", "J revolute", 0.3)
        m.armature("heavy slide", "J prismatic", 0.5)
    if "helical" in joints:
        m.motor("screw motor", "J helical", gear=-3.0)
        m.armature("screw rotor", "J helical", 0.2)
    return m


CASES = [(joints, reverse) for joints in CHAINS for reverse in (False, True)]
FAST = ("hinge", False)


def name_of(case):
    return f"{case[0]} {'inwards' if case[1] else 'outwards'}"


@pytest.fixture(
    scope="module",
    params=[pytest.param(c, id=name_of(c), marks=[] if c == FAST else [pytest.mark.slow]) for c in CASES],
)
def motions(request):
    joints, reverse = request.param
    m = chain(CHAINS[joints], reverse)
    return in_three_kinds(lambda kind: m.system(kind), step=0.4)


@pytest.mark.parametrize("kind", KINDS[1:])
def test_all_coordinates_agree(motions, kind):
    expected, got = motions[1]["relative"], motions[1][kind]
    np.testing.assert_allclose(got["rates"], expected["rates"], atol=1e-9 * np.max(np.abs(expected["rates"])), rtol=0)
    np.testing.assert_allclose(got["energy"], expected["energy"], rtol=1e-12)
    expected, got = expected["reactions"].all.world, got["reactions"].all.world
    np.testing.assert_allclose(got, expected, atol=1e-8 * np.max(np.abs(expected)), rtol=0)


def test_all_reactions_are_determinate(motions):
    assert np.all(motions[1]["relative"]["reactions"].all.determinate)


FREE = {"revolute": [5], "prismatic": [2], "cylindrical": [2, 5], "spherical": [3, 4, 5], "planar": [0, 1, 5]}
"""Components of the wrench in the axes of the joint that it does not hold."""


def test_free_components_of_joints_carry_nothing(motions):
    reactions = motions[1]["relative"]["reactions"]
    for kind, components in (FREE | {"free": [0, 1, 2, 3, 4, 5]}).items():
        if f"J {kind}" in reactions:
            np.testing.assert_allclose(reactions[f"J {kind}"].joint[np.array(components)], 0.0, atol=1e-9)
    if "J helical" in reactions:
        # A screw turns force into moment by its lead: no power for a motion of pitch 0.5 m per turn.
        screw = reactions["J helical"].joint
        np.testing.assert_allclose(screw[5] + screw[2] * 0.5 / (2 * np.pi), 0.0, atol=1e-9)


@compilation.compiled
def own_terms(system, q, v):
    own = (system.mass_matrix(q, 0.0), system.bias(q, v, 0.0))
    own += (system.constraint_jacobian(q, 0.0), system.constraint_rate(q, v, 0.0))
    return (*own, system.constraint_bias(q, v, 0.0))


@compilation.compiled
def derived_terms(system, q, v):
    derived = (System.mass_matrix(system, q, 0.0), System.bias(system, q, v, 0.0))
    derived += (System.constraint_jacobian(system, q, 0.0), System.constraint_rate(system, q, v, 0.0))
    return (*derived, System.constraint_bias(system, q, v, 0.0))


# Not in natural coordinates: there the derived mass is that of the bodies' velocities, equal for rigid motions only.
@pytest.mark.parametrize("kind", ["relative", "absolute"])
def test_matrices_are_those_of_the_energies(motions, kind):
    """Mass, bias, constraint matrix, rate and acceleration against automatic differentiation in the coordinates."""
    system, result = motions[0][kind], motions[1][kind]
    state = system, jnp.asarray(result["q"]), jnp.asarray(result["v"])
    own, derived = own_terms(*state), derived_terms(*state)
    # The coil acts on its bodies, not on the extra coordinate that counts its turns: the same up to constraint forces.
    matrix, gap = np.asarray(derived[2]).T, np.asarray(own[1] - derived[1])
    if kind == "absolute":
        own = (own[0], derived[1] + gap - matrix @ np.linalg.lstsq(matrix, gap)[0], *own[2:])
    for name, a, b in zip(("mass", "bias", "matrix", "rate", "acceleration"), own, derived, strict=True):
        scale = 1.0 + np.max(np.abs(b), initial=0.0)
        np.testing.assert_allclose(a, b, atol=1e-10 * scale, rtol=0, err_msg=name)


@compilation.compiled
def there_and_back(system, q, v):
    return system.coordinates_of(system.place(q)), system.velocities_of(q, system.twists(q, v))


def test_coordinates_of_a_placement_are_the_coordinates(motions):
    for kind, system in motions[0].items():
        q, v = (jnp.asarray(motions[1][kind][x]) for x in "qv")
        again, same_v = there_and_back(system, q, v)
        sign = np.sign(np.asarray(again) * np.asarray(q))
        off = np.minimum(
            np.abs(again - q), np.where(sign < 0, np.abs(again + q), np.inf)
        )  # a quaternion and its negative
        assert np.max(off) < 1e-12
        np.testing.assert_allclose(same_v, v, atol=1e-11)
