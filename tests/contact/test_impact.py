"""The law of impact: by independent routes, and what it may never do."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import nnls

import bricard as br
from bricard.errors import ModelError

from .random_contacts import Gap, Linear, Rows, Slip, random_case


class Disc(br.System):
    """A uniform disc in the plane."""

    m: float = 2.0
    r: float = 0.5
    coordinates = ("x", "y", "turn")

    def mass_matrix(self, q, t):
        return jnp.diag(jnp.stack([self.m, self.m, 0.5 * self.m * self.r**2]))


def height(q, t):
    return q[1] - 0.5


def rubbing(q, v, t):
    return (v[0] + 0.5 * v[2])[None]


def floor(**settings):
    return br.Contact(height, rubbing, name="floor", **settings)


def kinetic(system, v):
    return 0.5 * v @ np.asarray(system.mass_matrix(jnp.zeros(system.nq), 0.0)) @ v


def balance(system, q, v, hit):
    """What is missing in `M(v⁺ − v⁻) = Aᵀ impulses`, own constraints included."""
    change = system.mass_matrix(q, 0.0) @ (hit.v - v)
    by_contacts = jnp.einsum("ia,ian->n", hit.impulses, hit.matrix)
    return np.abs(change - by_contacts - system.constraint_jacobian(q, 0.0).T @ hit.reactions).max()


def test_a_disc_sticks_or_slides_as_the_textbook_says():
    disc, q, v = Disc(), [0.0, 0.5, 0.0], np.array([1.0, -2.0, 0.0])
    rough = br.impact(disc, q, v, floor(restitution=0.5, friction=0.3))
    # Sticking: angular momentum about the contact is kept, x' + r turn' = 0; it needs |I_t|/|I_n| = 1/9 of friction.
    np.testing.assert_allclose(rough.v, [2 / 3, 1.0, -4 / 3], rtol=0, atol=1e-13)
    np.testing.assert_allclose(rough.friction_needed, [(2.0 / 3) / 6.0], rtol=0, atol=1e-13)
    assert rough.sticking[0]
    assert not rough.sliding[0]
    smooth = br.impact(disc, q, v, floor(restitution=0.5, friction=0.1))
    np.testing.assert_allclose(smooth.v, [1 - 0.1 * 3.0, 1.0, -0.1 * 6.0 * 0.5 / 0.25], rtol=0, atol=1e-13)
    assert smooth.sliding[0]
    assert not smooth.sticking[0]
    np.testing.assert_allclose(smooth.energy_lost, kinetic(disc, v) - kinetic(disc, np.asarray(smooth.v)), atol=1e-13)


def test_contacts_that_part_get_no_impulse():
    hit = br.impact(Disc(), [0.0, 0.5, 0.0], [1.0, 2.0, 0.0], floor(restitution=0.5, friction=0.3))
    np.testing.assert_array_equal(hit.v, [1.0, 2.0, 0.0])
    assert float(hit.energy_lost) == 0.0
    assert np.isnan(hit.friction_needed[0])


@pytest.mark.parametrize("seed", range(4))
def test_constraints_that_appear_project_the_velocity(seed):
    """`v⁺ = (I − (1+e)P_c) v⁻` with `P_c = A‡A`, own constraints among the rows of `A`."""
    system, v, _, normals, _ = random_case(seed)
    mass, both = np.asarray(system.mass), np.concatenate([np.asarray(system.rows), normals])
    weighted = np.linalg.solve(mass, both.T)
    lost = weighted @ np.linalg.pinv(both @ weighted, rcond=1e-10) @ both
    for e in (0.0, 0.6):
        hit = br.impact(system, np.zeros(6), v, Rows(jnp.asarray(normals)), restitution=e)
        np.testing.assert_allclose(hit.v, v - (1 + e) * lost @ v, rtol=0, atol=1e-10)
        t_c = 0.5 * (lost @ v) @ mass @ (lost @ v)
        np.testing.assert_allclose(hit.constrained_energy, t_c, rtol=0, atol=1e-10)
        np.testing.assert_allclose(hit.energy_lost, (1 - e**2) * t_c, rtol=0, atol=1e-10)
        assert balance(system, jnp.zeros(6), v, hit) < 1e-10


@pytest.mark.parametrize("seed", range(6))
def test_without_friction_the_impulses_are_those_of_least_squares(seed):
    """Stopping is the nearest admissible velocity in the metric of the mass: non-negative least squares (SciPy)."""
    system, v, contacts, normals, _ = random_case(seed, friction=0.0, restitution=0.0)
    basis = np.linalg.svd(np.asarray(system.rows))[2][1:].T  # the two own rows are dependent
    factor = np.linalg.cholesky(basis.T @ np.asarray(system.mass) @ basis)
    half = np.linalg.solve(factor, basis.T @ normals.T)
    x, _ = nnls(half, -factor.T @ np.linalg.lstsq(basis, v, rcond=None)[0])
    change = basis @ np.linalg.solve(factor.T, half @ x)
    stopped = br.impact(system, np.zeros(6), v, contacts)
    np.testing.assert_allclose(stopped.v, v + change, rtol=0, atol=1e-9)
    bouncing = random_case(seed, friction=0.0, restitution=0.7)[2]
    rebound = br.impact(system, np.zeros(6), v, bouncing)
    closing = normals @ v < 0
    assert np.all(normals @ np.asarray(rebound.v) >= -0.7 * np.where(closing, normals @ v, 0) - 1e-9)


@pytest.mark.parametrize("slips", [1, 2])
def test_energy_never_rises_and_momentum_balances(slips):
    rng = np.random.default_rng(slips)
    for seed in range(40):
        e, mu = rng.uniform(0, 1, 3) if seed % 2 else rng.uniform(), rng.choice([0.0, 0.2, 1.0, 5.0])
        system, v, contacts, normals, _ = random_case(100 + seed, slips=slips, restitution=e, friction=float(mu))
        hit = br.impact(system, np.zeros(6), v, contacts)
        before, after = kinetic(system, v), kinetic(system, np.asarray(hit.v))
        assert after <= before * (1 + 1e-11)
        np.testing.assert_allclose(hit.energy_lost, before - after, rtol=0, atol=1e-10 * before)
        assert balance(system, jnp.zeros(6), v, hit) < 1e-10
        assert np.all(np.asarray(hit.impulses[:, 0]) >= 0)
        slip_impulse = np.linalg.norm(hit.impulses[:, 1:], axis=1)
        assert np.all(slip_impulse <= mu * np.asarray(hit.impulses[:, 0]) + 1e-9)
        assert np.all(normals @ np.asarray(hit.v) >= -1e-7)
        np.testing.assert_allclose(system.rows @ hit.v, 0.0, rtol=0, atol=1e-9)


def test_full_restitution_without_friction_conserves_energy():
    moved = 0
    for seed in range(30):
        system, v, contacts, *_ = random_case(300 + seed, restitution=1.0, friction=0.0)
        hit = br.impact(system, np.zeros(6), v, contacts)
        before = kinetic(system, v)
        assert abs(kinetic(system, np.asarray(hit.v)) - before) < 1e-10 * max(before, 1.0)
        moved += bool(np.any(np.asarray(hit.impulses[:, 0]) > 0))
    assert moved > 20


@pytest.mark.parametrize("seed", range(6))
def test_friction_of_one_contact_against_the_cases_by_hand(seed):
    """Stick if the impulse that needs lies in the cone, else slide the way that opposes the slip left over.

    Two more contacts without any motion of their own take no part; so the program is that of other tests.
    """
    mu = 0.4
    system, v, _, normals, tangents = random_case(400 + seed, contacts=1, friction=mu, restitution=0.0)
    rows = np.concatenate([normals, tangents[0]])
    rows = rows * np.where(normals @ v < 0, 1.0, -1.0)  # let it be hit
    basis = np.linalg.svd(np.asarray(system.rows))[2][1:].T
    g = rows @ basis @ np.linalg.inv(basis.T @ np.asarray(system.mass) @ basis) @ basis.T @ rows.T
    w = rows @ v
    stick = np.linalg.solve(g, -w)
    found = [stick] if abs(stick[1]) <= mu * stick[0] else []
    for sign in (1.0, -1.0):
        cone = np.array([1.0, -mu * sign])
        push = -w[0] / (g[0] @ cone)
        if push > 0 and sign * (w + g @ cone * push)[1] > 0:
            found.append(push * cone)
    contacts = tuple(
        br.Contact(Gap(jnp.asarray(x[0])), Slip(jnp.asarray(x[1:])), friction=mu, restitution=0.0, name=f"contact {i}")
        for i, x in enumerate((rows, 0.0 * rows, 0.0 * rows))
    )
    hit = br.impact(system, np.zeros(6), v, contacts)
    np.testing.assert_array_equal(hit.impulses[1:], 0.0)
    assert min(np.abs(np.asarray(hit.impulses[0]) - x).max() for x in found) < 1e-9


@pytest.mark.slow
def test_impacts_jit_and_differentiate_forwards():
    disc, contact = Disc(), floor(restitution=0.5, friction=0.3)

    def after(v):
        return br.impact(disc, jnp.array([0.0, 0.5, 0.0]), v, contact).v

    v = jnp.array([1.0, -2.0, 0.0])
    slope, value = jax.jit(jax.jacfwd(lambda v: (after(v),) * 2, has_aux=True))(v)
    np.testing.assert_allclose(value, after(v), rtol=0, atol=1e-14)
    steps = [(after(v + h) - after(v - h)) / 2e-6 for h in 1e-6 * jnp.eye(3)]
    np.testing.assert_allclose(slope, jnp.stack(steps, axis=1), rtol=0, atol=1e-8)


def test_a_moving_wall_gives_energy():
    """A bat at 3 m/s against a ball at rest: the ball leaves at (1+e)·3 m/s."""
    ball = Linear(jnp.eye(6), jnp.zeros((0, 6)))
    bat = br.Contact(lambda q, t: q[0] - 3.0 * t, restitution=0.5)
    hit = br.impact(ball, np.zeros(6), np.zeros(6), bat)
    np.testing.assert_allclose(hit.v[0], 4.5, rtol=0, atol=1e-13)
    np.testing.assert_allclose(hit.energy_lost, -0.5 * 4.5**2, rtol=0, atol=1e-12)


@pytest.mark.slow
def test_the_same_impact_in_other_coordinates():
    """A pendulum's rod against a stop, by its angle and by the position of its mass."""
    angle, cartesian = br.gallery.load("pendulum").system, br.gallery.load("pendulum-xy").system
    q, rate = 0.3, -2.0
    l = float(angle.l)
    stop = br.Contact(lambda q, t: q[0] - 0.3, restitution=0.4)
    by_angle = br.impact(angle, [q], [rate], stop)
    place = l * np.array([np.sin(q), -np.cos(q)])
    moving = l * rate * np.array([np.cos(q), np.sin(q)])
    wall = br.Contact(lambda q, t: q[0] - place[0], restitution=0.4)
    by_place = br.impact(cartesian, place, moving, wall)
    np.testing.assert_allclose(by_place.v, -0.4 * moving, rtol=0, atol=1e-12)
    np.testing.assert_allclose(by_place.energy_lost, by_angle.energy_lost, rtol=0, atol=1e-12)
    assert balance(cartesian, jnp.asarray(place), moving, by_place) < 1e-12


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"restitution": 1.5}, "restitution must lie between 0 and 1, not 1.5"),
        ({"restitution": -0.1}, "restitution must lie between"),
        ({"friction": -1.0}, "friction must not be negative"),
        ({"restitution": float("nan")}, "restitution must lie between"),
    ],
)
def test_impossible_coefficients(settings, message):
    with pytest.raises(ModelError, match=message):
        floor(**settings)
    with pytest.raises(ModelError, match=message):
        br.impact(Disc(), [0.0, 0.5, 0.0], np.zeros(3), floor(), **settings)


def test_what_does_not_touch_cannot_hit():
    with pytest.raises(ModelError, match=r"floor does not touch: it is open by 0\.5"):
        br.impact(Disc(), [0.0, 1.0, 0.0], np.zeros(3), floor())
    with pytest.raises(ModelError, match=r"penetrated by 0\.25"):
        br.impact(Disc(), [0.0, 0.25, 0.0], np.zeros(3), floor())


def test_friction_must_know_its_direction():
    with pytest.raises(ModelError, match="friction needs `slip`"):
        br.Contact(lambda q, t: q[0], friction=0.5)
    with pytest.raises(ModelError, match="needs contacts that say which way is normal"):
        br.impact(Disc(), [0.0, 0.5, 0.0], np.zeros(3), lambda q, t: q, friction=0.5)
    with pytest.raises(ModelError, match="`gap` must return a scalar, not shape"):
        br.impact(Disc(), [0.0, 0.5, 0.0], np.zeros(3), br.Contact(lambda q, t: q, name="x"))
