"""References and their derivatives against closed forms."""

import numpy as np
import pytest
from jax import numpy as jnp

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


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Polynomial(0.0, 1.0, 0.0), "duration must be one positive number"),
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
