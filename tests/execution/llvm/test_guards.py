"""Zeros are left out of programs by LLVM, but no NaN or infinity is hidden by that, and no sign that matters."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bricard as br
from bricard.execution import compile as compilation
from bricard.execution.llvm import Program, Unsupported, pack
from bricard.execution.llvm.arithmetic import Code

ODD = [np.nan, np.inf, -np.inf, 1e300, -1e300, 1e160, 0.0, -0.0, 1.5, -2.0]


def by_llvm(function, zeros, *arguments):
    """Results, or None if XLA has to find them; zeros among `zeros` are known to be zero."""
    groups = [pack([zeros], find_zeros=True), pack(arguments)]
    try:
        found = Program(jax.make_jaxpr(function)(zeros, *arguments), groups)(groups)
    except Unsupported:
        return None
    structure = jax.tree.structure(jax.eval_shape(function, zeros, *arguments))
    return None if found is None else jax.tree.unflatten(structure, found)


Z = np.array([0.0, 3.0, 0.0, -0.0])

PRODUCTS = {
    "a product": lambda z, x: z[0] * x,
    "a sum": lambda z, x: z[0] * x + z[1],
    "what is needed elsewhere": lambda z, x: (z[0] * x, x + 1.0),
    "what is needed inside": lambda z, x: (z[0] * (x + 1.0) * z[1], jnp.where(x > 0, x + 1.0, 2.0)),
    "a quotient": lambda z, x: z[0] * (1.0 / x),
    "zero over it": lambda z, x: z[0] / x + z[1],
    "zero over zero": lambda z, x: z[0] / (x - x) + z[1],
    "an overflow": lambda z, x: z[0] * (x * x) + z[1],
    "a long overflow": lambda z, x: z[0] * x**9 + z[1],
    "a high power": lambda z, x: z[0] * x**400 + z[1],
    "a function": lambda z, x: z[0] * jnp.exp(x) + z[1],
    "a sine": lambda z, x: z[0] * jnp.sin(x) + z[1],
    "a root": lambda z, x: z[0] * jnp.sqrt(x) + z[1],
    "a difference": lambda z, x: z[0] * (x - x) + z[1],
    "an inner product": lambda z, x: z @ jnp.stack([x, 1.0 + x, x * x, x]),
    "a product of matrices": lambda z, x: jnp.diag(z)[:2, :2] @ jnp.stack([jnp.stack([x, x]), jnp.ones(2)]),
    "a product of many": lambda z, x: z[0] * (x + 1.0) ** 40 * x + (x + 1.0) ** 40,
    "a sine of infinity": lambda z, x: (z[0] * (jnp.sin(x) * z[1]), jnp.where(jnp.sin(x) > 0.5, 1.0, 2.0)),
    "only a comparison": lambda z, x: (z[0] * jnp.log(x), jnp.where(jnp.log(x) > 0, 1.0, 2.0)),
    "only a maximum": lambda z, x: jnp.maximum(z[0] * jnp.sqrt(x), -1.0) + jnp.minimum(jnp.sqrt(x), 3.0),
    "a minus zero": lambda z, x: z[3] * jnp.sqrt(x) + z[1],
    "minus zero of a product": lambda z, x: z[3] * (x * x * x) + z[1],
    "a way": lambda z, x: jax.lax.cond(x > 1.0, lambda: z[0] * (x * x), lambda: z[0] * jnp.exp(-x) + z[1]),
    "a quotient of a quotient": lambda z, x: z[0] * (z[1] / (z[1] / x)) + z[1],
    "a while loop": lambda z, x: jax.lax.while_loop(
        lambda s: s[0] < 3, lambda s: (s[0] + 1, s[1] + z[0] * jnp.exp(s[0] * x)), (0, z[1])
    ),
    "a condition of a loop": lambda z, x: jax.lax.while_loop(
        lambda s: (s + z[0] * jnp.sqrt(x) < 8.0) & (s < 20.0), lambda s: 2.0 * s, z[1]
    ),
    "growth in a loop": lambda z, x: jax.lax.fori_loop(
        0, 5, lambda i, s: (s[0] * x, s[1] + z[0] * (s[0] * s[0] * x)), (x, z[1])
    ),
    "zeros in a row": lambda z, x: z[0] * (z[2] * x) + z[1],
    "a choice": lambda z, x: z[0] * jnp.where(x > 0, x, -1.0) + z[1],
    "a loop": lambda z, x: jax.lax.fori_loop(0, 3, lambda i, s: s * 0.5 + z[0] * (s * x), z[1]),
    "handed on": lambda z, x: jax.lax.fori_loop(0, 3, lambda i, s: s + z[0] * s, x),
    "a factor": lambda z, x: jnp.linalg.cholesky(jnp.diag(jnp.stack([z[1], x])) + z[0] * jnp.ones((2, 2))),
    "triangular": lambda z, x: jax.scipy.linalg.solve_triangular(
        jnp.diag(jnp.stack([z[1], x])), jnp.stack([z[0], x]), lower=True
    ),
}


NEVER_USUAL = ("zero over zero", "a high power")


@pytest.mark.parametrize("name", PRODUCTS)
def test_nothing_that_is_not_finite_is_hidden(name):
    function = PRODUCTS[name]
    exact = jax.jit(function)
    for x in ODD:
        found = by_llvm(function, Z, np.array(x))
        if found is not None:
            wanted = exact(Z, np.array(x))
            for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-14, err_msg=str(x))
        assert found is not None or x != 1.5 or name in NEVER_USUAL  # what is usual is not left to XLA


def test_minus_zeros_are_left_out_too():
    """A parameter that is -0 by chance must not make a program longer."""

    def function(z, x):
        return z[0] * jnp.sin(x) + z[1] * x, x + z[0]

    lengths = []
    for zero in (0.0, -0.0):
        groups = [pack([np.array([zero, 2.0])], find_zeros=True), pack([np.array(1.5)])]
        closed = jax.make_jaxpr(function)(np.array([zero, 2.0]), np.array(1.5))
        with pytest.MonkeyPatch.context() as patch:
            made, text = [], Code.text
            patch.setattr(Code, "text", lambda self, made=made, text=text: made.append(text(self)) or made[-1])
            found = Program(closed, groups)(groups)
        assert found is not None
        np.testing.assert_allclose(found, (3.0, 1.5))
        lengths.append(len(made[0]))
    assert lengths[0] == lengths[1]


SIGNS = {
    "atan2": lambda z, x, y: jnp.arctan2(z[0] * x, y),
    "atan2 of a sum": lambda z, x, y: jnp.arctan2(x + z[0], y),
    "atan2 of two zeros": lambda z, x, y: jnp.arctan2(z[0] * x, z[2] * y),
    "atan2 of its cosine": lambda z, x, y: jnp.arctan2(x, z[0] * y),
    "a quotient": lambda z, x, y: y / (z[0] * x),
    "a quotient of a sum": lambda z, x, y: y / (x + z[0]),
    "minus zero": lambda z, x, y: y / (z[3] + x) + jnp.arctan2(z[3], y),
    "a power": lambda z, x, y: (x + z[0]) ** -3.0,
    "an integer power": lambda z, x, y: (x + z[0]) ** -3,
    "a root": lambda z, x, y: 1.0 / jnp.sqrt(x + z[0]),
    "a choice": lambda z, x, y: y / jnp.where(y > 0, z[0] * x, z[0]),
    "a loop": lambda z, x, y: y / jax.lax.fori_loop(0, 2, lambda i, s: s + z[0], x),
    "a sine": lambda z, x, y: y / jnp.sin(x + z[0]),
}


@pytest.mark.parametrize("function", SIGNS.values(), ids=SIGNS)
def test_signs_of_zeros_are_not_lost(function):
    exact = jax.jit(function)
    for x, y in itertools.product([0.0, -0.0, 1.5, -1.5], [1.0, -1.0, 0.0, -0.0]):
        found = by_llvm(function, Z, np.array(x), np.array(y))
        if found is not None:
            np.testing.assert_allclose(found, exact(Z, np.array(x), np.array(y)), rtol=1e-14, err_msg=f"{x}, {y}")


PROTECTED = {
    "a root": lambda z, x: z[0] * jnp.where(x > 0, jnp.sqrt(x), 0.0) + z[1],
    "a quotient": lambda z, x: z[0] + jnp.where(x > 0, 1.0 / jnp.where(x > 0, x, 1.0), 2.0),
    "a logarithm": lambda z, x: jnp.where(x > 0, jnp.log(x), z[0] * x),
    "ways": lambda z, x: jax.lax.cond(x > 0, lambda: jnp.sqrt(x) * z[0], lambda: z[1]),
}


@pytest.mark.parametrize("function", PROTECTED.values(), ids=PROTECTED)
@pytest.mark.parametrize("x", [-1.0, 0.0, 2.0])
def test_what_is_not_chosen_may_be_nan(function, x):
    found = by_llvm(function, Z, np.array(x))
    assert found is not None
    np.testing.assert_allclose(found, jax.jit(function)(Z, np.array(x)), rtol=1e-14)


@pytest.mark.parametrize("seed", range(12))
def test_random_programs_with_zeros(seed):
    """Sums, products, quotients and choices of numbers that are odd, many of them zero."""
    random = np.random.default_rng(seed)
    plan = random.integers(0, 10**6, (14, 3))
    zeros = np.where(random.random(6) < 0.6, 0.0, random.normal(size=6))

    def function(z, x):
        pool = [*z, *x]
        for how, a, b in plan:
            a, b = pool[a % len(pool)], pool[b % len(pool)]
            steps = [a * b, a * b, a + b, a - b, a / b, jnp.where(a > b, a, b), jnp.sin(a), jnp.arctan2(a, b)]
            pool.append(steps[how % len(steps)])
        return pool[len(z) + len(x) :][-5:]

    exact, done = jax.jit(function), 0
    groups = [pack([zeros], find_zeros=True), pack([np.zeros(3)])]
    try:
        program = Program(jax.make_jaxpr(function)(zeros, np.zeros(3)), groups)
    except Unsupported:
        return
    for _ in range(60):
        x = np.where(random.random(3) < 0.3, random.choice(ODD, 3), random.normal(size=3))
        found = program([groups[0], pack([x])])
        if found is not None:
            done += 1
            for a, b in zip(found, exact(zeros, x), strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12, err_msg=str(x))


class Mass(br.System):
    """A mass in a plane, with a force of the user's that has a parameter; zero is usual."""

    gain: jax.Array
    law: int
    coordinates = ("x", "y")

    def kinetic_energy(self, q, v, t):
        return 0.5 * v @ v

    def potential_energy(self, q, t):
        return 0.5 * q @ q

    def applied_force(self, q, v, t):
        x = q[0]
        laws = (
            lambda: self.gain * jnp.sqrt(x - 5.0),  # NaN from the start
            lambda: self.gain * jnp.sqrt(0.83 - x),  # NaN when it comes near
            lambda: self.gain * jnp.where(x > 0.5, jnp.sqrt(x - 0.5), 0.0),  # never NaN
            lambda: self.gain / (x - x),  # 0 / 0
            lambda: jnp.arctan2(self.gain * x - 0.0, -1.0),  # ±π
            lambda: self.gain * (jnp.exp(900.0 * t) - jnp.exp(900.0 * t)),  # inf - inf, after a while
            lambda: self.gain * jnp.where(t > 0.5, jnp.inf, 1.0),  # infinite at times
            lambda: jnp.where(self.gain * jnp.where((t > 0.4) & (t < 0.6), jnp.nan, t) > -1.0, 0.0, 5.0),  # compared
        )
        return jnp.stack([laws[self.law]() * 0.01, jnp.zeros(())])


@pytest.mark.parametrize("law", range(8))
def test_runs_end_as_they_do_by_xla(law, monkeypatch):
    runs = []
    for native in (True, False):
        monkeypatch.setattr(compilation, "USE_LLVM", native)
        system = Mass(jnp.array(0.0), law)
        runs.append(br.simulate(system, [0.8, -0.1], [0.3, 0.2], 1.0, save=4, throw=False))
    native, xla = runs
    assert native.failure == xla.failure
    assert native.succeeded == (law in (2, 4, 7))
    np.testing.assert_allclose(native.t, xla.t, rtol=1e-9)
    np.testing.assert_allclose(native.q, xla.q, atol=1e-8)


def test_guards_do_not_send_ordinary_runs_to_xla():
    """Structural zeros are left out, and nobody raises an alarm."""
    made, call = [], Program.__call__

    def watched(self, groups):
        made.append(call(self, groups))
        return made[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Program, "__call__", watched)  # programs that other tests compiled are watched, too
        for name in ("slider-crank", "n-four-bar", "heavy-top"):
            br.gallery.load(name).simulate(t_end=0.2, save=3)
    assert len(made) >= 6
    assert all(found is not None for found in made)
