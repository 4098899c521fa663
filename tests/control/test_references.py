"""References and their derivatives against closed forms."""

import equinox as eqx
import jax
import numpy as np
import pytest
from jax import numpy as jnp
from scipy.interpolate import make_interp_spline

import bricard as br
from bricard.control import (
    Circle,
    CirclePath,
    Constant,
    FunctionReference,
    LinePath,
    Polynomial,
    Sinusoid,
    Trapezoid,
    Waypoints,
    minimum_jerk,
)


def close(a, b, atol=1e-12):
    np.testing.assert_allclose(a, b, rtol=0, atol=atol)


def test_the_polynomial_of_degree_nine(reference):
    wanted = reference("sliding_pendulum")["u_CTC"]
    close(np.ravel(Polynomial(0.0, 0.5, 10.0).derivatives(3.0)), wanted["traj_4_13_xd_vd_ad"], 1e-15)


@pytest.mark.parametrize("degree", [5, 7, 9])
def test_polynomials_start_and_end_at_rest(degree):
    path = Polynomial([1.0, 2.0], [3.0, -1.0], 2.0, begin=1.0, degree=degree)
    for t, value in ((-5.0, [1.0, 2.0]), (1.0, [1.0, 2.0]), (3.0, [3.0, -1.0]), (9.0, [3.0, -1.0])):
        found = path.derivatives(t, (degree - 1) // 2)
        close(found[0], value)
        for derivative in found[1:]:
            close(derivative, [0.0, 0.0])
    middle = path.derivatives(2.0, 1)
    close(middle[0], [2.0, 0.5])


def test_minimum_jerk_has_the_least_jerk():
    # Any other motion from rest to rest adds a bump; the integral of the squared jerk grows.
    t = np.linspace(0.0, 1.0, 2001)
    jerk = np.array(60.0 - 360.0 * t + 360.0 * t**2)
    at = minimum_jerk(0.0, 1.0, 1.0).derivatives(0.3, 3)
    close(at[3], [60.0 - 360.0 * 0.3 + 360.0 * 0.09], 1e-10)
    bump = np.gradient(np.gradient(np.gradient(t**3 * (1 - t) ** 3, t), t), t)
    assert abs(np.trapezoid(jerk * bump, t)) < 1e-2 * np.trapezoid(bump**2, t)


def test_sinusoid_circle_and_function():
    close(Sinusoid(1.0, 2.0, 0.5, 0.1).derivatives(0.7)[2], [-2.0 * np.pi**2 * np.sin(0.7 * np.pi + 0.1)], 1e-10)
    flat, space = Circle([1.0, 2.0], 0.5, 4.0), Circle([1.0, 2.0, 3.0], 0.5, 4.0, normal=[1.0, 1.0, 1.0])
    close(flat(1.0), [1.0, 2.5])
    for t in (0.0, 0.3, 2.0):
        offset = space(t) - jnp.array([1.0, 2.0, 3.0])
        close(offset @ jnp.ones(3), 0.0)
        close(jnp.linalg.norm(offset), 0.5)
        close(jnp.linalg.norm(space.derivatives(t)[1]), 0.5 * np.pi / 2)
    close(FunctionReference(lambda t: t**3).derivatives(2.0)[2], [12.0])
    close(Constant([1.0, 2.0]).derivatives(5.0)[1], [0.0, 0.0])


def test_trapezoidal_velocity(reference):
    arm = reference("two_link_arm")["sim"][0]
    path = Trapezoid(CirclePath([0.0, 0.2], 0.5, np.pi, clockwise=True), np.pi, 0.7, 1.0)
    close(path.duration, arm["T_traj"])
    for t, speed, acceleration in ((0.0, 0.0, 1.0), (0.5, 0.5, 1.0), (2.0, 0.7, 0.0), (5.0, arm["T_traj"] - 5.0, -1.0)):
        position, velocity, bend = path.derivatives(t)
        close(jnp.linalg.norm(velocity), speed)
        outward = (position - jnp.array([0.0, 0.2])) / 0.5
        close(bend @ outward, -(speed**2) / 0.5)
        close(bend @ jnp.array([outward[1], -outward[0]]), acceleration)
    close(path(0.0), [-0.5, 0.2])
    close(path(99.0), [-0.5, 0.2])
    short = Trapezoid(LinePath([0.0, 0.0], [3.0, 4.0]), 1.0, 10.0, 1.0)  # too short for full speed
    close(short(1.0), [0.3, 0.4])
    close(short.duration, 2.0)


@pytest.mark.parametrize("degree", [3, 5])
def test_waypoints_are_met(degree):
    times, points = [0.0, 1.0, 2.5, 4.0], np.array([[0.0, 1.0], [1.0, -1.0], [2.0, 0.5], [0.0, 0.0]])
    path = Waypoints(times, points, degree)
    for t, point in zip(times, points, strict=True):
        close(path(t), point)
    close(path.derivatives(0.0)[1], [0.0, 0.0])
    close(path.derivatives(4.0)[1], [0.0, 0.0], 1e-10)
    for t in (1.0, 2.5):  # smooth where the pieces meet
        before, after = path.derivatives(t - 1e-9, degree - 1), path.derivatives(t + 1e-9, degree - 1)
        for a, b in zip(before, after, strict=True):
            close(a, b, 1e-5)


def rise(degree):
    """The polynomial from 0 to 1 with as many derivatives as possible zero at both ends, by conditions at the ends."""
    half, powers = (degree + 1) // 2, np.arange(degree + 1)
    rows = []
    for s in (0.0, 1.0):
        for k in range(half):
            falling = np.prod([powers - i for i in range(k)], axis=0) if k else np.ones(degree + 1)
            rows.append(falling * np.where(powers >= k, s ** np.maximum(powers - k, 0.0), 0.0))
    ends = np.zeros(2 * half)
    ends[half] = 1.0
    return np.polynomial.Polynomial(np.linalg.solve(np.array(rows), ends))


def along_trapezoid(t, length, speed, acceleration):
    """Distance by integrating the speed, which rises, stays and falls."""
    speed = min(speed, np.sqrt(length * acceleration))
    end = length / speed + speed / acceleration
    times = np.linspace(0.0, np.clip(t, 0.0, end), 4001)
    return np.trapezoid(np.minimum(np.minimum(acceleration * times, acceleration * (end - times)), speed), times)


def drawn(kind, rng):
    """A reference at random scales, its value at a time in plain NumPy, and times at which a derivative may jump."""
    size, unit = 10.0 ** rng.uniform(-3, 3), 10.0 ** rng.uniform(-2, 2)  # of the values and of the time
    begin, duration = unit * rng.normal(), unit * rng.uniform(0.5, 2.0)
    a, b = size * rng.normal(size=(2, 3))
    if kind.startswith("polynomial"):
        degree = int(kind[-1])
        shape = rise(degree)
        made = Polynomial(a, b, duration, begin, degree)
        return (
            made,
            lambda t: a + shape(np.clip((t - begin) / duration, 0.0, 1.0)) * (b - a),
            [begin, begin + duration],
            unit,
        )
    if kind == "sinusoid":
        frequency, phase = rng.uniform(0.1, 1.0, 3) / unit, rng.normal(size=3)
        return Sinusoid(a, b, frequency, phase), lambda t: a + b * np.sin(2 * np.pi * frequency * t + phase), [], unit
    if kind == "circle":
        normal, phase, period = rng.normal(size=3), rng.normal(), -duration
        made = Circle(a, size, period, phase, normal)
        first, n = np.asarray(made(0.0)) - a, normal / np.linalg.norm(normal)

        def turned(t):
            """`first` about `n`, to which it is orthogonal (Rodrigues)."""
            angle = 2.0 * np.pi * t / period
            return a + first * np.cos(angle) + np.cross(n, first) * np.sin(angle)

        return made, turned, [], unit
    if kind in ("trapezoid", "triangle"):
        length = size * rng.uniform(1.0, 2.0)
        slow = 0.5 if kind == "trapezoid" else 5.0  # the second never gets to full speed
        speed, acceleration = slow * length / duration, 3.0 * length / duration**2
        made = Trapezoid(LinePath(a, b), length, speed, acceleration, begin)
        n = (b - a) / np.linalg.norm(b - a)
        top = min(speed, np.sqrt(length * acceleration))
        corners = np.array([0.0, top / acceleration, length / top, length / top + top / acceleration]) + begin
        return made, lambda t: a + n * along_trapezoid(t - begin, length, speed, acceleration), list(corners), unit
    degree = int(kind[-1])
    times = begin + np.cumsum(unit * rng.uniform(0.5, 1.5, 5))
    points = size * rng.normal(size=(5, 3))
    rest = {1: None, 3: "clamped", 5: ([(1, np.zeros(3)), (2, np.zeros(3))],) * 2}[degree]
    spline = make_interp_spline(times, points, degree, bc_type=rest)
    return Waypoints(times, points, degree), lambda t: spline(np.clip(t, times[0], times[-1])), list(times), unit


ORDERS = {"polynomial 5": 3, "polynomial 7": 4, "polynomial 9": 5, "trapezoid": 2, "triangle": 2}
ORDERS |= {"waypoints 1": 1, "waypoints 3": 2, "waypoints 5": 3}


@pytest.mark.parametrize("kind", [*ORDERS, "sinusoid", "circle"])
def test_derivatives_at_random_times_and_at_the_ends(kind):
    """Values against NumPy; derivatives against differences of the one before, on both sides of every corner."""
    rng = np.random.default_rng(len(kind))
    order = ORDERS.get(kind, 3)
    all_of = eqx.filter_jit(lambda made, times: jax.vmap(lambda t: jnp.stack(made.derivatives(t, order)))(times))
    for _ in range(3):
        made, values, corners, unit = drawn(kind, rng)
        assert made.order == ORDERS.get(kind, np.inf)
        corners, h = np.array(corners), 1e-5 * unit
        low, high = (corners.min(), corners.max()) if corners.size else (-unit, unit)
        times = rng.uniform(low - 0.5 * unit, high + 0.5 * unit, 12)
        times = times[np.min(np.abs(times[:, None] - corners), axis=1, initial=np.inf) > 3 * h]
        near = np.concatenate([times, corners])[:, None] + h * np.arange(-2, 3)
        # Indices: time, place in the stencil, order of the derivative, entry.
        found = np.asarray(all_of(made, jnp.asarray(near.ravel()))).reshape(len(near), 5, order + 1, -1)
        exact = np.array([[values(t) for t in row] for row in near])
        size = np.max(np.abs(found), axis=(0, 1, 3))[:, None]  # of each derivative
        accuracy = 2e-6 if kind in ("trapezoid", "triangle") else 1e-10  # of the integral, of rounding
        np.testing.assert_allclose(found[:, :, 0], exact, rtol=0, atol=accuracy * size[0, 0])
        bound = 1e-6 * size[1:] + 1e-9 * size[:-1] / unit
        for place in (1, 3):
            slopes = (found[:, place + 1, :-1] - found[:, place - 1, :-1]) / (2 * h)
            assert np.all(np.abs(slopes - found[:, place, 1:]) < bound)
        # All derivatives but the last are continuous; the last is that of one of the two sides.
        bound = 1.5 * h * size[1:] + 1e-9 * size[:-1]
        for place in (1, 3):
            assert np.all(np.abs(found[:, place] - found[:, 2])[:, :-1] < bound)
        sides = np.abs(found[:, [1, 3], -1] - found[:, [2], -1]).min(axis=1)
        assert np.all(sides < 1e-3 * size[-1])
        if corners.size:  # as many derivatives as it says, and not one more
            jumps = np.abs(found[len(times) :, 3, -1] - found[len(times) :, 1, -1])
            assert np.max(jumps) > 0.05 * size[-1, 0]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Polynomial(0.0, 1.0, 0.0), "duration must be one positive number"),
        (lambda: Circle([0.0] * 3, 1.0, 1.0, normal=[0.0] * 3), "normal: three numbers that are not all zero"),
        (lambda: Circle([0.0] * 3, 1.0, 1.0, normal=[1.0, 0.0]), "normal: three numbers"),
        (lambda: LinePath([1.0, 2.0], [1.0, 2.0]), "two different points"),
        (lambda: LinePath([1.0, 2.0], [1.0]), "start and end must be of one size"),
        (lambda: CirclePath([1.0, 2.0], 0.0), "radius must be one positive number"),
        (lambda: Polynomial([0.0, 1.0], [1.0], 1.0), "start and end must be of one size"),
        (lambda: Polynomial(0.0, 1.0, 1.0, degree=4), "degree: 5"),
        (lambda: Circle([0.0, 0.0, 0.0], 1.0, 1.0), "normal: needed in space"),
        (lambda: Circle([0.0, 0.0], 1.0, 0.0), "period must not be zero"),
        (lambda: Waypoints([0.0, 0.0], [1.0, 2.0]), "increasing"),
        (lambda: Waypoints([0.0, 1.0], [1.0, 2.0, 3.0]), "one finite row for each time"),
        (lambda: Sinusoid([1.0, 2.0], [1.0, 2.0, 3.0], 1.0), "must fit together"),
    ],
)
def test_bad_references(make, message):
    with pytest.raises(br.ModelError, match=message):
        make()
