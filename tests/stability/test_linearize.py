"""Linearised equations against formulas by hand and differences of the nonlinear ones."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg

import bricard as br
from bricard.stability import eigenvalues, linearize

from .loops import HANGING
from .spectra import assert_same

POINTS = [0.7j, 1.3 + 0.4j, -0.2 + 2.0j]
"""Where transfer functions are compared."""


def transfer(a, b, c, s, e=None):
    return c @ np.linalg.solve(s * (np.eye(len(a)) if e is None else e) - a, b)


def finite(pencil, count):
    """The smallest eigenvalues of a descriptor form."""
    values = scipy.linalg.eigvals(pencil.A, pencil.E)
    return values[np.argsort(np.abs(values))][:count]


def test_a_pendulum_on_a_cart_by_hand():
    s = br.gallery.load("sliding-pendulum", b=0.3).system
    model = linearize(s, HANGING)
    mass = np.array([[s.m1 + s.m2, s.m2 * s.r], [s.m2 * s.r, s.J + s.m2 * s.r**2]])
    inverse = np.linalg.inv(mass)
    lower = -inverse @ np.hstack([np.diag([0.0, s.m2 * s.g * s.r]), np.diag([0.0, s.b])])
    expected = np.vstack([np.hstack([np.zeros((2, 2)), np.eye(2)]), lower])
    np.testing.assert_allclose(model.embed @ model.A @ model.reduce, expected, rtol=0, atol=1e-12)
    np.testing.assert_allclose((model.embed @ model.B)[2:, 0], inverse[:, 0], rtol=0, atol=1e-12)
    np.testing.assert_allclose(model.D, np.zeros((4, 1)), rtol=0, atol=0)
    assert model.outputs == ("cart", "angle", "cart rate", "angle rate")


def test_the_only_stiffness_of_a_pendulum_in_x_y_is_the_rod():
    """Hanging: `ẍ = −(g/l) x`, y not moving; its descriptor form has the same finite eigenvalues."""
    model = linearize(br.gallery.load("pendulum-xy", l=0.7).system, [0.0, -0.7])
    expected = np.zeros((4, 4))
    expected[0, 2], expected[2, 0] = 1.0, -9.81 / 0.7
    np.testing.assert_allclose(model.embed @ model.A @ model.reduce, expected, rtol=0, atol=1e-10)
    assert model.descriptor.E.shape == (5, 5)
    assert model.B.shape == (2, 0)
    assert_same(finite(model.descriptor, 2), np.linalg.eigvals(model.A), 1e-8)


def test_two_masses_in_all_forms():
    """`2 s² + s + 1` from the force to either mass: reduced, with its multiplier, and in python-control."""
    control = pytest.importorskip("control", reason="python-control is optional")
    model = linearize(br.gallery.load("two-mass-joined").system, [0.0, 1.5], output="x2")
    pencil = model.descriptor
    space = model.to_control()
    assert isinstance(space, control.StateSpace)
    assert (space.input_labels, space.output_labels) == (["force on 1"], ["x2"])
    for s in POINTS:
        expected = 1.0 / (2 * s**2 + s + 1)
        for got in (
            transfer(model.A, model.B, model.C, s),
            transfer(pencil.A, pencil.B, pencil.C, s, pencil.E),
            space(s),
        ):
            np.testing.assert_allclose(np.squeeze(got), expected, rtol=0, atol=1e-12)
    assert_same(space.poles(), np.roots([2.0, 1.0, 1.0]), 1e-12)
    assert_same(finite(pencil, 2), np.roots([2.0, 1.0, 1.0]), 1e-8)


class Bent(br.control.Controller):
    """A law that is not linear in anything, at rest at `angle` with the torque that holds it there."""

    angle: float
    hold: float

    def __call__(self, t, q, v, memory):
        off = q[2:] - self.angle
        return self.hold - 4.0 * jnp.sin(off) * (1.0 + off) - 1.5 * v[2:] * jnp.exp(q[:1] + 0.3 * off)


def test_a_closed_loop_against_differences_of_the_nonlinear_one():
    """A pendulum in `x, y, angle`, moved along its constraints by hand; `(angle, rate)` is the state."""
    system, angle = br.gallery.load("pendulum-xyt", l=0.8).system, 0.6
    law = Bent(angle, 9.81 * 0.8 * np.sin(angle))

    def place(x):
        return jnp.array([0.8 * jnp.sin(x), -0.8 * jnp.cos(x), x])

    slope = jax.jacfwd(place)

    @jax.jit
    def rates(x):
        q, v = place(x[0]), slope(x[0]) * x[1]
        u = law(0.0, q, v, jnp.zeros(0))
        return jnp.array([x[1], br.forward_dynamics(system, q, v, u).acceleration[2]])

    start, h = jnp.array([angle, 0.0]), 1e-5
    steps = h * jnp.eye(2)
    expected = np.stack([(rates(start + d) - rates(start - d)) / (2 * h) for d in steps], axis=1)
    model = linearize(system, place(angle), controller=law)
    along = np.asarray(slope(angle))[:, None]
    full = np.block([[along, np.zeros((3, 1))], [np.zeros((3, 1)), along]])
    change = model.reduce @ full
    np.testing.assert_allclose(model.embed @ change, full, rtol=0, atol=1e-12)
    np.testing.assert_allclose(np.linalg.solve(change, model.A @ change), expected, rtol=0, atol=1e-8)
    assert_same(finite(model.descriptor, 2), np.linalg.eigvals(expected), 1e-7)


class Crossing(br.System):
    """On either axis; at the origin, where they cross, the constraint has no direction."""

    coordinates = ("x", "y")

    def kinetic_energy(self, q, v, t):
        return 0.5 * v @ v

    def constraints(self, q, t):
        return jnp.array([q[0] * q[1]])


def test_bad_input():
    system = br.gallery.load("pendulum-xy").system
    for ask in (linearize, eigenvalues):
        with pytest.raises(br.ModelError, match=r"not an equilibrium: y accelerates by -9\.81"):
            ask(system, [1.0, 0.0])
        with pytest.raises(br.ModelError, match="misses rod by"):
            ask(system, [0.0, -1.1])
        with pytest.raises(br.ModelError, match=r"singular configuration: .* motions branch .* not defined"):
            ask(Crossing(), [0.0, 0.0])
    assert_same(eigenvalues(Crossing(), [1.0, 0.0]).physical, np.zeros(2), 1e-12)
    with pytest.raises(br.ModelError, match="a1 and a2 belong to method='sensitivity'"):
        eigenvalues(system, [0.0, -1.0], a1=1.0)
    with pytest.raises(br.ModelError, match=r"v is not zero, and its \w+ changes along the motion"):
        linearize(Crossing(), [1.0, 0.0], [1.0, 0.0])
