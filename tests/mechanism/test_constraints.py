"""Gears, drivers, rolling, distances and constraints of one's own, against what is known of them."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bricard as br
from tests.mechanism.conftest import motion


def geared_discs():
    """Two discs geared 1 : −2.5 with a motor, and their reduced inertia `J₁ + J₂/2.5²`."""
    m = br.Mechanism(gravity=(0, 0), planar=True, name="gears")
    m.body("small", mass=1.0, com=(0, 0), inertia=0.02)
    m.body("large", mass=2.0, com=(1, 0), inertia=0.3)
    m.revolute("A", m.ground, "small", (0, 0))
    m.revolute("B", m.ground, "large", (1, 0))
    m.gear("mesh", {"A": 1.0, "B": 2.5})
    m.motor("motor", "A")
    m.orientation_sensor("large", "large")
    return m, 0.02 + 0.3 / 2.5**2


@pytest.mark.parametrize("kind", ["relative", "absolute", "natural"])
def test_gears_share_the_torque(kind):
    m, inertia = geared_discs()
    system = m.system(kind)
    reactions = motion(system, system.reference, jnp.zeros(system.nv), jnp.array([0.5]))["reactions"]
    np.testing.assert_allclose(reactions.efforts["mesh"], 0.02 * 0.5 / inertia - 0.5, atol=1e-10)


@pytest.mark.parametrize(
    "kind", ["relative", *(pytest.param(k, marks=pytest.mark.slow) for k in ("absolute", "natural"))]
)
def test_gears_hold_beyond_a_turn(kind):
    m, inertia = geared_discs()
    system = m.system(kind)
    run = br.simulate(system, system.reference, jnp.zeros(system.nv), 3.0, u=[0.5], save=4)
    name = "A" if kind == "relative" else "A angle"
    np.testing.assert_allclose(run[name][-1], 0.5 * 0.5 / inertia * 9.0, rtol=1e-8)
    turned = -0.5 * 0.5 / inertia * 9.0 / 2.5
    value = run.sensors["large"].value[-1]
    np.testing.assert_allclose(np.exp(1j * value), np.exp(1j * turned), atol=1e-7)


def test_motor_and_rotor_beside_a_gear():
    """A disc of 0.02 kg m² with a rotor of 0.3 at the joint, driven through a gear; another pair is geared."""
    m = br.Mechanism(gravity=(0, 0), planar=True, name="motor")
    for name, x in (("a", 0.0), ("b", 1.0), ("c", 2.0)):
        m.body(name, mass=1.0, com=(x, 0), inertia=0.02)
        m.revolute(name.upper(), m.ground, name, (x, 0))
    m.gear("mesh", {"A": 1.0, "B": 1.0})
    m.motor("motor", "C", gear=20.0)
    m.armature("rotor", "C", 0.3)
    system = m.system()
    v = jnp.zeros(system.nv)
    np.testing.assert_array_equal(system.constraints(system.reference, 0.0), [0.0])  # an angle nobody asked for is NaN
    result = motion(system, system.reference, v, jnp.array([0.1]))
    np.testing.assert_allclose(result["acceleration"], [0.0, 0.0, 20.0 * 0.1 / 0.32], atol=1e-12)
    np.testing.assert_allclose(result["reactions"]["C"].moment, 0.0, atol=1e-12)


@pytest.mark.parametrize("kind", ["relative", "absolute"])
def test_driver_moves_a_pendulum_and_tells_its_torque(kind):
    """Prescribed angle `sin t` of a rod: the effort is the torque `J φ̈ + m g l/2 cos φ`."""
    m = br.Mechanism(gravity=(0, -9.81), planar=True, name="driven")
    m.body("rod", br.rod((0, 0), (1.2, 0), 0.7))
    m.revolute("A", m.ground, "rod", (0, 0))
    m.drive("drive", "A", jnp.sin)
    system = m.system(kind)
    for t in (0.0, 0.7, 2.0):
        (c, s), rate = (f(jnp.sin(t)) for f in (jnp.cos, jnp.sin)), jnp.cos(t)
        turned = jnp.array([[[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]]])
        place = system.place(system.reference)
        place = type(place)(0.6 * turned[:, :, 0], turned, jnp.sin(t)[None])
        q = system.coordinates_of(place)
        v = system.velocities_of(q, rate * jnp.array([[-0.6 * s, 0.6 * c, 0, 0, 0, 1.0]]))
        result = motion(system, q, v, t=t)
        np.testing.assert_allclose(result["position"], 0.0, atol=1e-14)
        np.testing.assert_allclose(result["velocity"], 0.0, atol=1e-14)
        torque = 0.7 * 1.2**2 / 3 * -np.sin(t) + 0.7 * 9.81 * 0.6 * c
        np.testing.assert_allclose(result["reactions"].efforts["drive"], torque, atol=1e-10, rtol=0)
        np.testing.assert_allclose(result["reactions"]["A"].moment, 0.0, atol=1e-9)  # the hinge itself carries none


def test_ball_rolls_down_a_plane():
    """Acceleration `5/7 g sin α`, friction `2/7 m g sin α`."""
    m = br.Mechanism(gravity=(9.81 * np.sin(0.3), 0, -9.81 * np.cos(0.3)), name="ball")
    m.body("ball", br.sphere((0, 0, 0.1), 0.1, 2.0))
    m.free("free", m.ground, "ball")
    m.rolling("contact", "ball", 0.1)
    for kind in ("relative", "absolute"):
        system = m.system(kind)
        result = motion(system, system.reference, jnp.zeros(6))
        rates, reactions = result["rates"], result["reactions"]
        np.testing.assert_allclose(rates[0, 0], 5 / 7 * 9.81 * np.sin(0.3), rtol=1e-12)
        np.testing.assert_allclose(rates[0, 4], 5 / 7 * 98.1 * np.sin(0.3), rtol=1e-12)
        expected = [-2 / 7 * 2 * 9.81 * np.sin(0.3), 0, 2 * 9.81 * np.cos(0.3)]
        np.testing.assert_allclose(reactions["contact"].force, expected, atol=1e-10)
        np.testing.assert_allclose(reactions["contact"].point, 0.0, atol=1e-12)


def test_tilted_wheel_touches_and_does_not_slip():
    """The contact row is the height of the lowest point, and its wrench its derivative, at any tilt."""
    m = br.Mechanism(gravity=(0, 0, 0), name="wheel")
    m.body("wheel", br.cylinder((0, -0.01, 0.3), (0, 0.01, 0.3), 0.3, 1.0))
    m.rolling("contact", "wheel", 0.3, axis=(0, 1, 0))
    system = m.system("absolute")
    rng = np.random.default_rng(0)
    q = system.normalize(system.reference + jnp.asarray(0.3 * rng.normal(size=7)))
    v = jnp.asarray(rng.normal(size=6))
    p, R = (np.asarray(x[0]) for x in system.place(q)[:2])
    turn = np.linspace(0, 2 * np.pi, 60001)[:, None]
    rim = p + 0.3 * (np.cos(turn) * R[:, 0] + np.sin(turn) * R[:, 2])
    np.testing.assert_allclose(system.constraints(q, 0.0)[0], rim[:, 2].min(), atol=1e-8)
    np.testing.assert_allclose(system.constraint_jacobian(q, 0.0) @ v, system.constraint_rate(q, v, 0.0), atol=1e-13)
    lowest = rim[rim[:, 2].argmin()]
    slip = np.asarray(v[:3]) + np.cross(R @ np.asarray(v[3:]), lowest - p)
    np.testing.assert_allclose(
        np.linalg.norm(system.constraint_rate(q, v, 0.0)[1:]), np.linalg.norm(slip[:2]), rtol=1e-4
    )


@pytest.mark.parametrize("kind", ["relative", "absolute", "natural"])
def test_massless_rod_is_a_distance(kind):
    """A mass on a massless rod: the tension of a pendulum, `m (g cos φ + l φ̇²)`."""
    m = br.Mechanism(gravity=(0, -9.81), planar=True, name="pendulum")
    end = np.array([np.sin(0.4), -np.cos(0.4)]) * 2.0
    m.body("bob", mass=3.0, com=end, inertia=0.1)
    m.distance("rod", m.ground, "bob", (0, 0), end)
    system = m.system(kind)
    along = 1.5 * 2.0 * np.array([np.cos(0.4), np.sin(0.4)])
    v = system.velocities_of(system.reference, jnp.array([[*along, 0, 0, 0, 0]]))
    reactions = motion(system, system.reference, v)["reactions"]
    tension = 3.0 * (9.81 * np.cos(0.4) + 2.0 * 1.5**2)
    np.testing.assert_allclose(reactions["rod"].force, -tension * end / 2.0, atol=1e-9)


def test_constraint_of_your_own_is_a_joint():
    """A point on a circle, written by hand, against a massless rod."""
    results = []
    for own in (False, True):
        m = br.Mechanism(gravity=(0, 0, -9.81), name="own")
        m.body("bob", mass=3.0, com=(1, 0, 0), inertia=0.1)
        if own:
            m.constraint(
                "sphere", lambda view, t: view.point("bob", (1.2, 0, 0)) @ view.point("bob", (1.2, 0, 0)) - 1.44
            )
        else:
            m.distance("rod", m.ground, "bob", (0, 0, 0), (1.2, 0, 0))
        system = m.system("absolute")
        v = jnp.array([0.0, 1.0, 0.0, 0.0, 0.0, -5.0])  # about the end of the rod
        results.append(motion(system, system.reference, v)["acceleration"])
    assert np.linalg.norm(results[0]) > 1.0
    np.testing.assert_allclose(results[1], results[0], atol=1e-9)


def test_numbers_can_be_differentiated():
    """Derivative of a pendulum's acceleration by its mass's position, through the system's leaves."""
    m = br.Mechanism(gravity=(0, -9.81), planar=True, name="pendulum")
    m.body("bob", mass=3.0, com=(2.0, 0), inertia=0.0)
    m.revolute("A", m.ground, "bob", (0, 0))
    system = m.system()

    def acceleration(arm):
        changed = eqx.tree_at(lambda s: s.model.frames.pb, system, jnp.array([[-1.0, 0.0, 0.0]]) * arm)
        force = -changed.bias(jnp.zeros(1), jnp.zeros(1), 0.0)
        return force[0] / changed.mass_matrix(jnp.zeros(1), 0.0)[0, 0]

    value, slope = jax.jit(jax.value_and_grad(acceleration))(2.0)
    np.testing.assert_allclose(value, -9.81 / 2.0, rtol=1e-12)
    np.testing.assert_allclose(slope, 9.81 / 4.0, rtol=1e-12)
