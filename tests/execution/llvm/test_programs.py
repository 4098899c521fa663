"""Programs by LLVM against the same programs by XLA."""

import equinox.internal as eqxi
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jax import lax
from jax.scipy.linalg import solve_triangular

from bricard.execution.llvm import Program, Unsupported, pack

X = np.array([0.3, -1.2, 2.5, 0.0])
A = np.array([[2.0, 0.0, -1.0, 0.5], [0.0, 3.0, 0.0, 1.0], [-1.0, 0.0, 4.0, 0.0], [0.5, 1.0, 0.0, 5.0]])
I = np.array([2, 0, 1])


def by_llvm(function, *arguments, find_zeros=False):
    """The result; None if the program found that XLA must compute it, since a zero it left out met an infinity."""
    group = pack(arguments, find_zeros)
    found = Program(jax.make_jaxpr(function)(*arguments), [group])([group])
    if found is None:
        return None
    return jax.tree.unflatten(jax.tree.structure(jax.eval_shape(function, *arguments)), found)


def check(function, *arguments, rtol=1e-14, alarm=False):
    """Both compilers agree, or the program by LLVM raises an alarm as expected."""
    wanted = jax.jit(function)(*arguments)
    for zeros in (False, True):
        found = by_llvm(function, *arguments, find_zeros=zeros)
        assert (found is None) == alarm
        for a, b in [] if alarm else zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
            assert a.shape == b.shape
            assert a.dtype == b.dtype
            np.testing.assert_allclose(a, b, rtol=rtol, atol=1e-14)


NUMBERS = {
    "arithmetic": lambda x, y: x + y - 2.0 * x * y / (1.0 + y**2) - (-x),
    "known numbers": lambda x, y: (x * 0.0 + 1.0 * y - 0.0) / 1.0 + (0.0 - x) + jnp.zeros(4) * y,
    "powers": lambda x, y: (x**3, y**2, (x + 5.0) ** -2, jnp.abs(x) ** 1.5, jnp.square(x), x**0),
    "functions": lambda x, y: (jnp.sin(x), jnp.cos(y), jnp.exp(x), jnp.log(jnp.abs(x) + 1), jnp.sqrt(jnp.abs(y))),
    "angles": lambda x, y: (jnp.tan(x), jnp.arctan2(x, y), jnp.arctan(x), jnp.arcsin(x / 9), jnp.arccos(y / 9)),
    "hyperbolas": lambda x, y: (jnp.sinh(x), jnp.cosh(y), jnp.tanh(x), jnp.round(x), lax.round(y * 2)),
    "roots": lambda x, y: lax.rsqrt(jnp.abs(x) + 1.0),
    "rounding": lambda x, y: (jnp.floor(x), jnp.ceil(y), x.astype(int), (2 * y).astype(bool)),
    "extremes": lambda x, y: (jnp.maximum(x, y), jnp.minimum(x, 0.5), jnp.clip(x, -1.0, 1.0), jnp.max(x), jnp.min(y)),
    "signs": lambda x, y: (jnp.sign(x), jnp.abs(x), jnp.sign(y - y), jnp.sign(jnp.arange(-1, 2))),
    "next numbers": lambda x, y: (jnp.nextafter(x, y), jnp.nextafter(x[0], jnp.inf) > x[0]),
    "comparisons": lambda x, y: (x < y, x <= y, x > y, x >= y, x == y, x != y),
    "logic": lambda x, y: ((x < 0) & (y < 0), (x < 0) | (y < 0), (x < 0) ^ (y < 0), ~(x < 0), jnp.all(x < y)),
    "some": lambda x, y: (jnp.any(x > 2), jnp.any(x > 9), jnp.all(x < 9)),
    "choices": lambda x, y: jnp.where(x > y, x, jnp.where(y > 0, 1.0, 2.0)),
    "integers": lambda x, y: (jnp.arange(4) * 3 - 1, jnp.abs(jnp.arange(-2, 2)), -jnp.arange(3), jnp.arange(4) ** 2),
    "division of integers": lambda x, y: (
        jnp.arange(-3, 4) // 2,
        lax.rem(jnp.arange(-3, 4), 3),
        lax.rem(x, 0.7),
        x % 0.7,
    ),
    "unknown integers": lambda x, y: (lax.div(x.astype(int), 2), lax.rem((9 * x).astype(int), 4)),
    "places in an order": lambda x, y: jnp.searchsorted(jnp.sin(jnp.arange(40) / 40), x),
    "conversions": lambda x, y: ((x > 0).astype(float), (x > 0).astype(int), jnp.arange(3).astype(float) + x[:3]),
    "finite": lambda x, y: jnp.isfinite(x[:3] / (y - y)[:3]),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_operations_on_numbers(name):
    check(NUMBERS[name], X, X[::-1].copy() + 0.25, alarm=name == "finite")


ARRAYS = {
    "products": lambda a, x: (a @ x, x @ a, a @ a, x @ x, jnp.outer(x, x)),
    "batched products": lambda a, x: jnp.einsum("bij,bjk->bik", a.reshape(4, 2, 2), (2 * a).reshape(4, 2, 2)),
    "contractions": lambda a, x: jnp.einsum("ij,i,j->", a, x, x),
    "shapes": lambda a, x: (a.T, a.reshape(2, 8), a[1:3, ::2], a[None, :, 1], jnp.squeeze(x[:1])),
    "joining": lambda a, x: (jnp.concatenate([a, x[None]]), jnp.stack([x, -x], axis=1), jnp.split(x, 2)),
    "padding": lambda a, x: (jnp.pad(x, (1, 2)), lax.pad(x, 7.0, [(1, -1, 2)]), jnp.flip(a, 0)),
    "sums": lambda a, x: (jnp.sum(a, axis=0), jnp.sum(a), jnp.sum(a, axis=()), jnp.sum(jnp.zeros((0, 3)), axis=0)),
    "known indices": lambda a, x: (a[I], a[:, I], a[I, I], x[I][::-1]),
    "written indices": lambda a, x: (
        x.at[I].set(1.0),
        a.at[1].set(x),
        a.at[I, I].add(2.0),
        x.at[jnp.array([0, 0])].add(1.0),
    ),
    "outside": lambda a, x: (x.at[9].set(1.0), x.at[jnp.array([1, 7])].get(mode="fill", fill_value=jnp.nan)[:1]),
    "where the extremes are": lambda a, x: (jnp.argmax(a, axis=1), jnp.argmin(x), jnp.argmax(x > 0), jnp.argmax(I)),
    "sums so far": lambda a, x: (jnp.cumsum(x), jnp.cumsum(a, axis=1), lax.cumsum(a, axis=0, reverse=True)),
    "places that are not known": lambda a, x: (
        x.at[jnp.argmax(x)].set(1.0),
        a.at[jnp.argmax(x), jnp.argmin(x)].add(2.0),
        a[jnp.argmax(x)],
        x[jnp.argmax(x) + 9],
    ),
    "identities": lambda a, x: (jnp.eye(4) @ a, jnp.diag(x), jnp.diagonal(a), jnp.tril(a)),
    "factors": lambda a, x: (jnp.linalg.cholesky(a), solve_triangular(jnp.linalg.cholesky(a), x, lower=True)),
    "triangular": lambda a, x: [
        solve_triangular(a, x, lower=lower, trans=trans) for lower in (True, False) for trans in (0, 1)
    ],
    "many right sides": lambda a, x: solve_triangular(a, a.T, lower=True, unit_diagonal=True),
    "from the right": lambda a, x: lax.linalg.triangular_solve(a, a.T, left_side=False, lower=True),
    "batches": lambda a, x: jax.vmap(lambda r: jnp.where(r > 0, r, 2.0) * x)(a),
    "derivatives": lambda a, x: jax.hessian(lambda x: jnp.sum(jnp.sin(a @ x) ** 2))(x),
    "many numbers": lambda a, x: jnp.where(jnp.arange(900) < 40, jnp.full(900, x[0]), 3.0),
}


@pytest.mark.parametrize("function", ARRAYS.values(), ids=ARRAYS)
def test_operations_on_arrays(function):
    check(function, A, X, rtol=1e-13)


def swap(x):
    """Two arrays in memory that change places, one of which is read after it was written."""

    def step(i, both):
        a, b = both
        return b.at[i, 0].add(a[0, i]), a.at[0].set(b[1])

    return lax.fori_loop(0, 3, step, (x, 2.0 * x))


def kept(x):
    """An array that is needed as it was."""

    def step(s):
        i, a, total = s
        new = lax.dynamic_update_slice(a, a[i][None] * 2.0, (i, 0))
        return i + 1, new, total + a + new

    return lax.while_loop(lambda s: s[0] < 3, step, (0, x, jnp.zeros_like(x)))


def nested(x):
    def inner(y, scale):
        return lax.while_loop(lambda s: jnp.sum(s) < scale, lambda s: s * 1.5 + 0.1 + jnp.sin(scale) ** 2, y)

    return lax.fori_loop(0, 4, lambda i, y: inner(jnp.abs(y) / 7.0, 3.0 + i), x[0])


LOOPS = {
    "a loop": lambda a: lax.while_loop(lambda s: s[0] < 5, lambda s: (s[0] + 1, s[1] @ a[:, 0] * s[1] / 9), (0, a[0])),
    "no round": lambda a: lax.while_loop(lambda s: s < 0, lambda s: s + 1, 3),
    "memory": swap,
    "memory that is needed": kept,
    "loops in loops": nested,
    "rounds": lambda a: lax.scan(lambda c, x: (c + x, c * x), a[0], a),
    "rounds of single numbers": lambda a: lax.scan(lambda c, x: (c + x, c * x), a[0, 0], a[1]),
    "rounds backwards": lambda a: lax.scan(lambda c, x: (c - 2 * x, c), a[0], a, reverse=True),
    "many rounds": lambda a: lax.scan(lambda c, x: (0.9 * c + x, c[0] * x), a[0], jnp.tile(a, (30, 1))),
    "many rounds backwards": lambda a: lax.scan(
        lambda c, x: (0.9 * c - x, c), a[0], jnp.tile(a, (30, 1)), reverse=True
    ),
    "a row that is not known": lambda a: lax.fori_loop(
        0, 4, lambda i, s: s * 0.5 + a[i] + jnp.asarray(A)[i] + a[i, i], a[0]
    ),
    "ways": lambda a: [
        lax.cond(c, lambda x: jnp.sin(x), lambda x: x * 2.0 + 1.0, a[0]) for c in (a[0, 0] > 0, a[0, 0] < 0)
    ],
    "ways in loops": lambda a: lax.fori_loop(
        0, 4, lambda i, s: lax.cond(s[0] > i, lambda s: s - jnp.cos(a[0]), lambda s: s * 3.0, s), a[0]
    ),
    "a custom derivative": lambda a: jax.nn.relu(a),
    "calls": lambda a: jax.jit(lambda a: jax.checkpoint(jnp.sin)(a) + 1)(a),
}


@pytest.mark.parametrize("function", LOOPS.values(), ids=LOOPS)
def test_loops_and_calls(function):
    check(function, A, rtol=1e-13)


def rounds(n, body, *start):
    """`n` rounds of `body(i, *values) -> values`."""
    return lax.while_loop(lambda s: s[0] < n, lambda s: (s[0] + 1, *body(s[0], *s[1:])), (0, *start))[1:]


def row_set(a, i, value):
    return lax.dynamic_update_slice(a, jnp.full((1, a.shape[1]), value), (i, 0))


def asks_with_changes(n, a):
    def on(s):
        return (row_set(s[1], s[0], 5.0).sum() < 1e9) & (s[0] < n)

    return lax.while_loop(on, lambda s: (s[0] + 1, s[1] * 1.1), (0, a))


def memory(n, a):
    """An array that is in memory."""
    return rounds(n, lambda i, a: (lax.dynamic_update_slice(a, a[i][None] + 1.0, (i, 0)),), a)[0]


TRAPS = {
    "large arrays change places": lambda n, a, b: rounds(n, lambda i, x, y: (y * 2.0, x * 3.0), b, b + 1.0),
    "large arrays read themselves": lambda n, a, b: rounds(n, lambda i, x: (x + x[:, :1] - x[:1],), b),
    "large arrays are reshaped": lambda n, a, b: rounds(
        n, lambda i, x, y: (y.reshape(20, 20), x.reshape(400, 1)), b, 2.0 * b.reshape(400, 1)
    ),
    "a question that changes its copy": lambda n, a, b: asks_with_changes(n, a),
    "a constant that a round changes": lambda n, a, b: lax.scan(
        lambda c, i: (c + row_set(memory(n, a), i, 5.0).sum(), c[None]), 0.0, jnp.arange(3)
    ),
    "rows that the rounds change": lambda n, a, b: [
        lax.scan(lambda c, r: (lax.dynamic_update_slice(c, 2 * r[None], (3, 0)), r * 2), m, m) for m in [memory(n, a)]
    ],
    "long sums of long arrays": lambda n, a, b: jax.lax.fori_loop(0, 1, lambda i, x: deep(x), b.ravel()),
    "clipped places": lambda n, a, b: (a[0].at[9].set(1.0, mode="clip"), a.at[jnp.array([1, 9])].get(mode="clip")),
    "clipped windows": lambda n, a, b: jax.vmap(lambda r, i: lax.dynamic_update_slice(r, jnp.ones(2), (i,)))(
        a, jnp.array([0, 1, 3, -1])
    ),
    "filled places": lambda n, a, b: (
        a[0].at[jnp.array([1, 9])].get(mode="fill", fill_value=7.0),
        a[0].at[n + 5].get(mode="fill", fill_value=7.0),
    ),
    "integers added": lambda n, a, b: (jnp.arange(4).at[0 * I].add(n), jnp.arange(4).at[n].add(1)),
    "powers of unknown integers": lambda n, a, b: jnp.abs(a) ** n,
    "integers out of range": lambda n, a, b: (
        (a * jnp.array([[jnp.nan, jnp.inf, -1e300, 1e10]])).astype(int),
        (a * 1e10).astype(jnp.int32),
        jnp.array([jnp.nan, jnp.inf, -jnp.inf, 1e10]).astype(jnp.int32),
    ),
    "zeros with signs": lambda n, a, b: (
        a / 0.0,
        a / -0.0,
        jnp.array(1.0) / jnp.array(-0.0),
        1.0 / jnp.where(a > 0, 0.0, -0.0),
        jnp.arctan2(0.0 - a, -1.0),
    ),
    "no factor": lambda n, a, b: jnp.linalg.cholesky(a - 3.0 * jnp.eye(4)),
    "of a whole batch": lambda n, a, b: (eqxi.unvmap_any(a > 4.0), eqxi.unvmap_all(a > 4.0)),
}


def deep(x):
    for _ in range(30):
        x = x * x * 0.3 + x * 0.5
    return x


@pytest.mark.parametrize("name", TRAPS)
def test_traps(name):
    """What went wrong once."""
    function = TRAPS[name]
    n = np.array(3)
    large = np.random.default_rng(0).normal(size=(20, 20))
    wanted = jax.jit(function)(n, A, large)
    found = by_llvm(function, n, A, large)
    alarm = name == "zeros with signs"
    assert (found is None) == alarm
    for a, b in [] if alarm else zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-14)


@given(st.integers(0, 10**6))
def test_random_programs(seed):
    """Chains of operations on matrices with many zeros."""
    random = np.random.default_rng(seed)
    a = np.where(random.random((3, 3)) < 0.4, 0.0, random.normal(size=(3, 3)))
    steps = random.integers(0, 7, 12)

    def function(a, x):
        for k in steps:
            x = (
                lambda x: a @ x / 3.0,
                lambda x: x + x[::-1],
                lambda x: jnp.sin(x) * a[0],
                lambda x: jnp.where(x > 0.1, x, a[1]),
                lambda x: x / jnp.sqrt(1.0 + x @ x),
                lambda x: jnp.concatenate([x[1:], x[:1]]) - a[:, 2],
                lambda x: jnp.maximum(x, 0.2 * x),
            )[k](x)
        return x, jax.jacfwd(lambda x: jnp.cos(a @ x))(x)

    # A chain of twelve steps may multiply what fused operations round differently.
    check(function, a, random.normal(size=3), rtol=1e-10)


def test_not_a_number_is_not_lost():
    x = np.array([np.nan, 1.0, 2.0])
    found = by_llvm(lambda x: (jnp.max(x), jnp.maximum(x, 0.0), jnp.isfinite(x), jnp.sum(x), x == x), x)
    assert np.isnan(found[0])
    assert np.isnan(found[1][0])
    assert not found[2][0]
    assert np.isnan(found[3])
    assert list(found[4]) == [False, True, True]


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.astype(np.float32),
        lambda x: jnp.sort(x),
        lambda x: jax.pure_callback(np.sin, jax.ShapeDtypeStruct(x.shape, x.dtype), x),
        lambda x: jnp.linalg.eigh(jnp.outer(x, x)),
        lambda x: jnp.sum(jnp.zeros((300, 300)) + x[0]),
        lambda x: jax.vmap(lambda x: lax.while_loop(lambda s: s < 9.0, lambda s: s * s + 1.0, x))(x),
        lambda x: x.at[I].apply(jnp.sin),
        lambda x: lax.reduce(x, 1.0, lambda a, b: a * b + a, (0,)),
        lambda x: x @ jnp.arange(4),
        lambda x: lax.switch(x[0].astype(int), [jnp.sin, jnp.cos, jnp.exp], x),
    ],
    ids=["type", "sort", "callback", "eigenvalues", "many numbers", "batch", "function", "reduction", "types", "ways"],
)
def test_what_is_left_to_xla_is_refused(function):
    with pytest.raises(Unsupported):
        by_llvm(function, X)


def test_too_many_operations_are_refused():
    def function(x):
        for k in range(70):
            x = jnp.sin(jnp.outer(x, x + k)).sum(axis=0)
        return x

    with pytest.raises(Unsupported, match="too many"):
        by_llvm(function, np.linspace(0.0, 1.0, 60))
