"""What depends on the model alone is computed once: the same values and derivatives, fewer equations in the loop."""

import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bricard.execution.hoist import hoist


def slow_start(p, x, y):
    expensive = jnp.linalg.inv(jnp.outer(p, p) + jnp.eye(3)) @ jnp.sin(p)
    return {"a": expensive * x + jnp.sum(y**2), "b": (jax.jit(lambda x, e: x @ e)(x, expensive), p)}


P, X, Y = jnp.array([0.3, -1.2, 2.0]), jnp.array([1.0, 2.0, -0.5]), jnp.array([[2.0]])


def test_values_are_the_same():
    found = hoist(lambda x, y: slow_start(P, x, y), X, Y)(2.0 * X, Y)
    expected = slow_start(P, 2.0 * X, Y)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=0, atol=1e-15), found, expected)


def test_what_is_known_is_out_of_the_loop():
    def total(p, x):
        ready = hoist(lambda x, y: slow_start(p, x, y), x, Y)
        return jax.lax.fori_loop(0, 5, lambda _, x: ready(x, Y)["a"], x)

    text = str(jax.make_jaxpr(total)(P, X))
    loop = text[text.index("body_jaxpr") if "body_jaxpr" in text else text.index("scan") :]
    assert "sin" not in loop
    assert "sin" in text


def test_derivatives_pass_through():
    def ready(p, x):
        return hoist(lambda x, y: slow_start(p, x, y), x, Y)(x, Y)["b"][0]

    for which in (0, 1):
        found = jax.grad(ready, argnums=which)(P, X)
        expected = jax.grad(lambda p, x: slow_start(p, x, Y)["b"][0], argnums=which)(P, X)
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-14)


def test_the_same_work_is_done_once():
    def twice(x):
        return jnp.exp(x) * jax.jit(jnp.exp)(x)

    program = hoist(twice, X).program
    assert [e.primitive.name for e, *_ in program.steps].count("exp") == 1


def test_what_nobody_needs_is_left_out():
    def value_too(x):
        jnp.cosh(x)
        return jax.jvp(jnp.tanh, (x,), (x,))[1], jax.jit(lambda x: (jnp.sinh(x), 2.0 * x))(x)[1]

    names = [e.primitive.name for e, *_ in hoist(value_too, X).program.steps]
    assert "tanh" in names
    assert not {"cosh", "sinh"} & set(names)


def in_rounds(p, x):
    """Of what a round does, `exp(p)` is known before all of them, `sin(x)` before the first."""

    def round(carry, weight):
        return carry * jnp.exp(p) + jnp.outer(p, p) @ jnp.sin(x), weight * carry[0]

    return jax.lax.scan(round, x, jnp.arange(3.0))


def test_loops_do_what_varies_alone():
    ready = hoist(lambda x: in_rounds(P, x), X)
    found, expected = ready(2.0 * X), in_rounds(P, 2.0 * X)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-14), found, expected)
    names = [e.primitive.name for e, *_ in ready.program.steps]
    assert "sin" in names
    assert "exp" not in names
    loop = str(next(e for e, *_ in ready.program.steps if e.primitive.name == "scan").params["jaxpr"])
    assert not any(word in loop for word in ("exp", "sin", "dot_general"))


def test_derivatives_of_loops():
    def total(p, x):
        return jnp.sum(hoist(lambda x: in_rounds(p, x), x)(x)[0])

    for which in (0, 1):
        found = jax.grad(total, argnums=which)(P, X)
        expected = jax.grad(lambda p, x: jnp.sum(in_rounds(p, x)[0]), argnums=which)(P, X)
        np.testing.assert_allclose(found, expected, rtol=1e-13)


def test_what_a_result_owes_to_no_argument():
    found = hoist(lambda x: (P, 3.0, x), X)(Y[0])
    np.testing.assert_array_equal(found[0], P)
    assert float(found[1]) == 3.0


@pytest.mark.parametrize(
    "form", ["ij,jk->ik", "ji,kj->ik", "bij,bjk->bik", "ij,kj->ik", "aij,ijb->ab", "abi,ic->abc", "ij,kl->ijkl"]
)
def test_products_as_sums(form):
    """Whatever is summed or kept."""
    lengths = dict(zip("abcijkl", (2, 3, 9, 8, 3, 10, 2), strict=True))
    rng = np.random.default_rng(0)
    left, right = (rng.normal(size=[lengths[i] for i in part]) for part in form.split("->")[0].split(","))
    found = hoist(lambda x, y: jnp.einsum(form, x, y), left, right)(left, right)
    np.testing.assert_allclose(found, np.einsum(form, left, right), rtol=0, atol=1e-13)


ONE_PIECE = """
import bricard as br
br.configure(small_loops=300_000)
import jax, jax.numpy as jnp
from bricard.equations.problem import row_variation
from bricard.simulation.controller import make_controller
from bricard.simulation.vector_field import Setting, State, vector_field
example = br.gallery.load("{name}")
system, q, v = example.system, jnp.asarray(example.q), jnp.asarray(example.v)
variation = row_variation(system, q, 0.0)
setting = Setting(system, br.Proximal(), br.Project(), make_controller(system, None, None), variation)
def run(y):
    ready = setting.ready(jnp.zeros(()), y)
    return jax.lax.fori_loop(0, 10, lambda _, y: vector_field(jnp.zeros(()), y, ready), y)
text = jax.jit(run).lower(State(q, v, jnp.zeros(3), ())).compile().as_text()
assert "xla_cpu_small_call" in text
"""


@pytest.mark.parametrize(
    "name", ["slider-crank", *(pytest.param(x, marks=pytest.mark.slow) for x in ("andrews", "bricard"))]
)
def test_evaluations_in_a_loop_are_compiled_as_one_piece(name):
    """No library is called, no product is left to Eigen: else XLA runs a hundred pieces, each with its overhead."""
    subprocess.run([sys.executable, "-c", ONE_PIECE.format(name=name)], check=True)
