"""The search for a balance of forces, on problems written by hand."""

import numpy as np
import pytest

from bricard.stability.force_balance import Point, search


def pendulum(x):
    """A mass on the unit circle, pulled down: coordinates and one multiplier."""
    p, tension = x[:2], x[2]
    residual = [*(np.array([0.0, 1.0]) - 2 * tension * p), p @ p - 1.0]
    slope = np.zeros((3, 3))
    slope[:2, :2], slope[:2, 2], slope[2, :2] = -2 * tension * np.eye(2), -2 * p, 2 * p
    return Point(x, np.array(residual), slope, (2, 0), (2, 1))


@pytest.mark.parametrize(("start", "height"), [((0.1, -1.1), -1.0), ((-0.1, 0.9), 1.0)])
def test_a_pendulum_hangs_or_stands(start, height):
    found = search(pendulum, np.array([*start, 0.0]))
    np.testing.assert_allclose(found, [0.0, height, 0.5 * height], rtol=0, atol=1e-12)


def test_a_pendulum_held_level():
    """There the force along the circle is largest, and its derivative vanishes."""
    found = search(pendulum, np.array([1.0, 0.0, 0.0]))
    np.testing.assert_allclose([found[0], abs(found[1])], [0.0, 1.0], rtol=0, atol=1e-12)


def overconstrained(x):
    """`y = 0` and `(1 + x) y = 0`: on the line they say the same, beside it they can push along x. A spring to 0.5."""
    p, y, a, b = x
    residual = [p - 0.5 - b * y, -a - b * (1 + p), y, (1 + p) * y]
    slope = [[1.0, -b, 0.0, -y], [-b, 0.0, -1.0, -(1 + p)], [0.0, 1.0, 0.0, 0.0], [y, 1 + p, 0.0, 0.0]]
    return Point(x, np.array(residual), np.array(slope), (2, 0), (2, 2))


def test_large_forces_beside_the_constraints_balance_nothing():
    found = search(overconstrained, np.array([0.0, 0.2, 0.0, 0.0]))
    np.testing.assert_allclose(found, [0.5, 0.0, 0.0, 0.0], rtol=0, atol=1e-12)


def pushed(x):
    """A slider between walls that an input may push: the spring needs 2 N at the place that is asked for."""
    p, u = x
    return Point(x, np.array([2.0 * p - u, p - 1.0]), np.array([[2.0, -1.0], [1.0, 0.0]]), (1, 1), (1, 0))


def test_inputs_and_a_task():
    np.testing.assert_allclose(search(pushed, np.zeros(2)), [1.0, 2.0], rtol=0, atol=1e-12)


def test_nothing_to_be_found():
    """A constant force and nothing against it: the search ends, where it began."""

    def falls(x):
        return Point(x, np.array([9.81]), np.zeros((1, 1)), (1, 0), (1, 0))

    assert abs(search(falls, np.zeros(1))[0]) < 1.0


def test_not_a_number():
    def undefined(x):
        return Point(x, np.array([np.nan]), np.zeros((1, 1)), (1, 0), (1, 0))

    np.testing.assert_array_equal(search(undefined, np.array([0.3])), [0.3])
