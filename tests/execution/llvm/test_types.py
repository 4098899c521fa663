"""Every operation on every type of numbers, at the edges of the type: LLVM and XLA agree to the last bit.

A type or an operation may be refused (then XLA takes it), but never be computed otherwise.
"""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from bricard.execution.llvm import Program, Unsupported, pack

INTEGERS = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]


def by_llvm(function, *arguments):
    group = pack(arguments)
    found = Program(jax.make_jaxpr(function)(*arguments), [group])([group])
    assert found is not None
    return jax.tree.unflatten(jax.tree.structure(jax.eval_shape(function, *arguments)), found)


def assert_same(found, wanted):
    """Bit by bit; a NaN is a NaN."""
    for (path, a), b in zip(jax.tree.leaves_with_path(found), jax.tree.leaves(wanted), strict=True):
        a, b = np.asarray(a), np.asarray(b)
        assert (a.dtype, a.shape) == (b.dtype, b.shape), path
        if a.dtype.kind == "f":
            assert np.array_equal(np.isnan(a), np.isnan(b)), path
            a, b = (np.where(np.isnan(x), 0.0, x).view(np.int64) for x in (a, b))
        np.testing.assert_array_equal(a, b, err_msg=jax.tree_util.keystr(path))


def edges(dtype):
    info = np.iinfo(dtype)
    bits = info.bits
    values = {info.min, info.min + 1, info.max, info.max // 3, 0, 1, 2, 3, bits - 1, bits, bits + 1}
    if info.min:
        values |= {-1, -2, -bits, info.min // 2}
    return np.array([x for x in sorted(values) if info.min <= x <= info.max], dtype=dtype)


def pairs(dtype):
    info = np.iinfo(dtype)
    values = {info.min, info.max, info.max // 3, 0, 1, 3, info.bits - 1, info.bits} | ({-1, -5} if info.min else set())
    x, y = np.array(list(itertools.product(sorted(values), repeat=2)), dtype=dtype).T
    return x.copy(), y.copy()


def arithmetic(x, y):
    return {
        "add": x + y,
        "sub": x - y,
        "mul": x * y,
        "div": lax.div(x, y),
        "rem": lax.rem(x, y),
        "max": lax.max(x, y),
        "min": lax.min(x, y),
        "clamp": lax.clamp(y, x, y + 3),
        "compare": [x < y, x <= y, x > y, x >= y, x == y, x != y],
    }


def bits(x, y):
    return {
        "and": x & y,
        "or": x | y,
        "xor": x ^ y,
        "left": lax.shift_left(x, y),
        "right": lax.shift_right_logical(x, y),
        "arithmetic right": lax.shift_right_arithmetic(x, y),
        "select": jnp.where(x > y, x, y),
    }


def single(x):
    signed = jnp.issubdtype(x.dtype, jnp.signedinteger)
    return {
        "neg": -x,
        "not": ~x,
        "sign": lax.sign(x),
        "abs": lax.abs(x) if signed else x,
        "powers": [lax.integer_pow(x, n) for n in (0, 1, 2, 3, 7)],
        "population": lax.population_count(x),
        "zeros": lax.clz(x),
        "bits": x.astype(bool),
        "float": x.astype(float),
        "others": [x.astype(name) for name in INTEGERS],
        "known": [x + 1, x * 3, lax.div(x, jnp.full_like(x, 3)), lax.rem(x, jnp.full_like(x, 3)), x * 0, x * 1],
        "known shifts": [f(x, jnp.full_like(x, 3)) for f in (lax.shift_left, lax.shift_right_logical)],
        "modulo": x % jnp.full_like(x, 7),
    }


def whole(x):
    return {
        "sum": [lax.reduce_sum(x, (0,)), jnp.sum(x)],
        "extremes": [jnp.max(x), jnp.min(x), jnp.argmax(x), jnp.argmin(x)],
        "running": [lax.cumsum(x, axis=0), lax.cumsum(x, axis=0, reverse=True)],
        "bits": [lax.reduce_and(x, (0,)), lax.reduce_or(x, (0,))],
        "count": lax.iota(x.dtype, 300)[-3:],
        "short count": lax.iota(x.dtype, 5) - 2,
        "scattered": x.at[jnp.array([0, 0, 1])].add(x[-1]),
        "loop": lax.fori_loop(0, 7, lambda i, s: s * 5 + x[3] + i.astype(x.dtype), x[-1]),
        "rounds": lax.scan(lambda c, r: (c * 31 + r, c), x[0], x),
        "either": lax.cond(x[0] < x[1], lambda z: z * z, lambda z: z - 1, x[-1]),
    }


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integers_at_the_edges(dtype):
    (x, y), z = pairs(dtype), edges(dtype)

    def everything(x, y, z):
        return arithmetic(x, y), bits(x, y), single(z), whole(z)

    wanted = jax.jit(everything)(x, y, z)
    for part, of, expected in zip((arithmetic, bits, single, whole), ((x, y), (x, y), (z,), (z,)), wanted, strict=True):
        assert_same(by_llvm(part, *of), expected)
        constant = by_llvm(lambda part=part, of=of: part(*map(jnp.asarray, of)))  # numbers that are known in advance
        assert_same(constant, expected)


FLOATS = np.array(
    [
        *(0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 127.0, 128.0, -128.9, -129.0, 255.9, 256.0, 2.0**31),
        *(-(2.0**31), 2.0**31 - 1, 2.0**32, 2.0**63, -(2.0**63), 2.0**64, 1e300, -1e300, 1e-300, 1e10),
        *(np.inf, -np.inf, np.nan),
    ]
)


def test_conversions_of_doubles_saturate():
    def function(x):
        return [x.astype(name) for name in INTEGERS], x.astype(bool), jnp.isfinite(x), jnp.isnan(x)

    wanted = jax.jit(function)(FLOATS)
    assert_same(by_llvm(function, FLOATS), wanted)
    assert_same(by_llvm(lambda: function(jnp.asarray(FLOATS))), wanted)


def test_doubles_at_the_edges():
    """Single operations are rounded once, so that they agree to the last bit, and in the signs of zeros and NaN."""
    x, y = np.array(list(itertools.product(FLOATS, repeat=2))).T.copy()

    def function(x, y):
        return {
            "arithmetic": [x + y, x - y, x * y, x / y, -x, jnp.abs(x)],
            "rest": lax.rem(x, y),
            "roots": [jnp.sqrt(jnp.abs(x))],
            "rounded": [jnp.floor(x), jnp.ceil(x), jnp.round(x), lax.round(x)],
            "compared": [x < y, x <= y, x == y, x != y],
            "sign": jnp.sign(x),
            "power": [x**2, x**3],
            "extremes": [jnp.where(x == y, 0.0, f(x, y)) for f in (jnp.maximum, jnp.minimum)],
            "next": jnp.nextafter(x, y),
            "places": [jnp.argmax(x), jnp.argmin(x), jnp.max(x), jnp.min(x)],
            "chosen": jnp.where(x > 0, x, y),
        }

    wanted = jax.jit(function)(x, y)
    group, refused = pack([x, y]), []
    for name, expected in wanted.items():
        found = Program(jax.make_jaxpr(lambda x, y, name=name: function(x, y)[name])(x, y), [group])([group])
        if found is None:  # something was left out, and there are infinities: XLA has to do it
            refused.append(name)
        else:
            assert_same(found, jax.tree.leaves(expected))
    assert len(refused) <= 1


def test_bits():
    x = np.array([True, True, False, False])
    y = np.array([True, False, True, False])

    def function(x, y):
        logic = [x & y, x | y, x ^ y, ~x, x == y, x != y, x < y, x >= y, lax.max(x, y), lax.min(x, y)]
        return logic, [x.astype(name) for name in INTEGERS], jnp.where(x, 1, 2), jnp.argmax(x), jnp.sum(x), x + y, x * y

    wanted = jax.jit(function)(x, y)
    assert_same(by_llvm(function, x, y), wanted)
    assert_same(by_llvm(lambda: function(jnp.asarray(x), jnp.asarray(y))), wanted)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_indices_of_any_type(dtype):
    table = np.arange(12.0).reshape(6, 2)
    i = edges(dtype)

    def function(table, i):
        rows = [lax.dynamic_slice(table, (k, jnp.zeros_like(k)), (2, 1)) for k in i]
        written = [lax.dynamic_update_slice(table, table[:1] - 50.0, (k, jnp.zeros_like(k))) for k in i]
        return rows, written, table.at[i].get(mode="clip"), table.at[i].get(mode="fill"), table[i % 6]

    wanted = jax.jit(function)(table, i)
    try:
        found = by_llvm(function, table, i)
    except Unsupported:
        assert dtype == "uint64"
        return
    assert_same(found, wanted)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int4"])
def test_other_types_are_refused(dtype):
    with pytest.raises(Unsupported):
        by_llvm(lambda x: (x.astype(dtype) * 3).astype(float), np.ones(3))
    with pytest.raises(Unsupported):
        pack([jnp.ones(3, dtype=dtype)])
    with pytest.raises(Unsupported):
        by_llvm(lambda x: lax.dot(x, x, preferred_element_type=jnp.float32).astype(float), np.ones(3))


def test_random_numbers_are_refused_or_right():
    """JAX' own generator works on keys, which only XLA knows."""

    def function(x):
        return x + jax.random.uniform(jax.random.PRNGKey(3), (2,))

    try:
        found = by_llvm(function, np.ones(2))
    except Unsupported:
        return
    assert_same(found, jax.jit(function)(np.ones(2)))


def xorshift(seed):
    """Marsaglia's generator (2003) of 32 bits, which is nothing but overflow."""
    seed = seed ^ (seed << 13)
    seed = seed ^ (seed >> 17)
    return seed ^ (seed << 5)


def test_generators_of_random_numbers():
    """Against Python's integers, which never overflow."""

    def function(n):
        start = n.astype(jnp.uint32)
        congruential = lax.fori_loop(0, 50, lambda i, s: s * np.uint32(1664525) + np.uint32(1013904223), start)
        shifted = lax.fori_loop(0, 50, lambda i, s: xorshift(s), start)
        signed = lax.fori_loop(0, 50, lambda i, s: s * np.int32(1103515245) + np.int32(12345), n.astype(jnp.int32))
        return congruential, shifted, signed, congruential.astype(float) / 2**32

    found = by_llvm(function, np.array(7))
    congruential = shifted = signed = 7
    for _ in range(50):
        congruential = (congruential * 1664525 + 1013904223) % 2**32
        shifted ^= shifted << 13 & 0xFFFFFFFF
        shifted ^= shifted >> 17
        shifted ^= shifted << 5 & 0xFFFFFFFF
        signed = (signed * 1103515245 + 12345 + 2**31) % 2**32 - 2**31
    assert [int(x) for x in found[:3]] == [congruential, shifted, signed]
    assert found[3] == congruential / 2**32


KINDS = ["int8", "int32", "int64", "uint8", "uint32", "uint64", "bool", "float64"]


def random_program(seed):
    """A function of arrays of mixed types, in fifteen random steps."""
    random = np.random.default_rng(seed)
    plan = [tuple(random.integers(0, 10**6, 4)) for _ in range(15)]

    def function(*arrays):
        pool = list(arrays)
        for choice, first, second, kind in plan:
            x, y = pool[first % len(pool)], pool[second % len(pool)]
            dtype = jnp.dtype(KINDS[kind % len(KINDS)])
            y = y.astype(x.dtype)
            if x.dtype == bool:
                steps = [x & y, x ^ y, ~x, jnp.where(x, y, ~y), x.astype(dtype)]
            elif x.dtype == float:
                steps = [x + y, x - 0.5, jnp.where(x < y, x, -y), jnp.floor(x), x.astype(dtype), jnp.abs(x)]
            else:
                steps = [
                    *(x + y, x - y, x * y, x & y, x ^ y, ~x, lax.div(x, y), lax.rem(x, y), lax.shift_left(x, y)),
                    *(lax.shift_right_logical(x, y), jnp.where(x < y, x, y), x.astype(dtype), lax.cumsum(x), x[::-1]),
                ]
            pool.append(steps[choice % len(steps)])
        return pool[len(arrays) :]

    return function


@pytest.mark.parametrize("seed", range(12))
def test_random_programs_of_mixed_types(seed):
    random = np.random.default_rng(1000 + seed)
    arrays = []
    for name in KINDS:
        bits = random.integers(0, 2**63, 4, dtype=np.uint64)
        plain = random.integers(0, 5, 4)
        mixed = np.where(random.random(4) < 0.5, bits, plain.astype(np.uint64))
        arrays.append(mixed.astype(name) if name != "float64" else random.normal(size=4) * 10.0**plain)
    function = random_program(seed)
    # Operation by operation: XLA crashes on some of these programs as a whole.
    assert_same(by_llvm(function, *arrays), function(*map(jnp.asarray, arrays)))
