"""Methods traced once and functions compiled once: the same values, derivatives and batches, with less work."""

import copy
import pickle

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bricard as br
from bricard.execution.cache import trace_cached
from bricard.execution.compile import compiled

Q = jnp.array([0.4, -1.1, 2.0])


class Curve(eqx.Module):
    """`Σ scale (sin q)^power."""

    scale: jax.Array
    power: int = eqx.field(static=True, default=2)

    def plain(self, q):
        return jnp.sum(self.scale * jnp.sin(q) ** self.power)

    value = trace_cached(plain)


class Counted(eqx.Module):
    scale: jax.Array
    power: int = eqx.field(static=True, default=2)

    @trace_cached
    def value(self, q):
        TRACED.append(self.power)
        return jnp.sum(self.scale * jnp.sin(q) ** self.power)


TRACED: list[int] = []


@pytest.fixture(autouse=True)
def forget():
    TRACED.clear()


def test_a_program_traces_a_method_once():
    def program(scale, q):
        curve = Counted(scale)
        return curve.value(q), jax.grad(curve.value)(q), jax.hessian(curve.value)(2 * q), curve.value(q + 1)

    jax.jit(program)(jnp.array(1.0), Q)
    jax.jit(lambda scale, q: program(scale, q)[3])(jnp.array(3.0), Q)
    assert TRACED == [2]


def test_objects_that_differ_in_more_than_numbers_are_not_mixed_up():
    def program(scale, q):
        return [Counted(scale, power).value(q) for power in (4, 3, 4)]

    found = jax.jit(program)(jnp.array(2.0), Q)
    np.testing.assert_allclose(found, [2 * np.sum(np.sin(Q) ** n) for n in (4, 3, 4)], rtol=1e-14)
    assert TRACED == [4, 3]


def test_outside_of_programs_nothing_changes():
    curve = Counted(jnp.array(1.0))
    for _ in range(3):
        curve.value(Q)
    curve.value(q=Q)
    assert TRACED == [2] * 4


def test_parameters_that_cannot_be_recognised_are_traced_each_time():
    curve = Counted(np.array(1.0))  # pyright: ignore[reportArgumentType]
    jax.jit(lambda q: curve.value(q) + curve.value(2 * q))(Q)
    assert TRACED == [2, 2]


@pytest.mark.parametrize(
    "transform",
    [
        lambda f: f,
        jax.grad,
        jax.hessian,
        lambda f: jax.vmap(f, in_axes=0),
        lambda f: jax.vmap(jax.hessian(f)),
        lambda f: jax.jacrev(jax.vmap(jax.grad(f))),
        lambda f: lambda q: jax.jvp(jax.grad(f), (q,), (jnp.cos(q),))[1],
    ],
)
def test_derivatives_and_batches(transform):
    q = jnp.stack([Q, Q**2]) if "vmap" in str(transform.__code__.co_names) else Q

    def of(method):
        return jax.jit(lambda scale, q: transform(lambda q: method(Curve(scale, 3), q))(q))(jnp.array(1.7), q)

    np.testing.assert_allclose(of(Curve.value), of(Curve.plain), rtol=1e-14, atol=1e-14)


def test_derivatives_by_parameters():
    def of(method):
        return jax.jit(jax.grad(lambda scale: method(Curve(scale), Q)))(jnp.array(1.7))

    np.testing.assert_allclose(of(Curve.value), of(Curve.plain), rtol=1e-14)


def test_models_of_users_are_traced_once():
    count = []

    class Pendulum(br.System):
        coordinates = ("angle",)

        def kinetic_energy(self, q, v, t):
            count.append(1)
            return 0.5 * v @ v

        def potential_energy(self, q, t):
            return -9.81 * jnp.cos(q[0])

    pendulum = Pendulum()
    built = len(count)
    br.simulate(pendulum, [0.3], [0.0], 0.1, save=2)
    assert len(count) - built <= 2  # the checks of a start look at numbers, the rest was seen when it was built


def test_functions_are_compiled_once_for_all_numbers():
    @compiled
    def function(curve, q, *, times):
        TRACED.append(curve.power)
        return {"value": times * curve.plain(q)}

    for scale, power, times in ((1.0, 2, 3), (2.0, 2, 3), (1.0, 3, 3), (1.0, 3, 4), (1.5, 3, 4)):
        for q in (Q, np.array([1.0, 2.0, 3.0])):
            curve = Curve(jnp.array(scale), power)
            found = function(curve, q, times=times)["value"]
            np.testing.assert_allclose(found, times * scale * np.sum(np.sin(q) ** power), rtol=1e-14)
    assert TRACED == [2, 3, 3]  # numbers of Python are no arrays: they are part of the program
    np.testing.assert_allclose(jax.grad(lambda s: function(Curve(s), Q, times=1)["value"])(1.0), np.sum(np.sin(Q) ** 2))


def test_what_was_found_out_is_not_copied():
    system = br.gallery.load("slider-crank").system
    br.simulate(system, [0.0, 0.0], [1.0, -2.0], 0.01, save=2)
    for other in (copy.deepcopy(system), pickle.loads(pickle.dumps(system))):
        np.testing.assert_array_equal(other.mass_matrix(jnp.ones(2), 0.0), system.mass_matrix(jnp.ones(2), 0.0))
