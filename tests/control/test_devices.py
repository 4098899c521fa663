"""Limits, quantisation and noise around a law with memory, against NumPy, alone and inside one another."""

import equinox as eqx
import jax
import numpy as np
import pytest
from jax import numpy as jnp

import bricard as br
from bricard.control import Controller, Limited, Noisy, Quantized


class Integrating(Controller):
    """`u = −K q − D v + memory`, where the memory integrates the first two coordinates."""

    k: jax.Array
    d: jax.Array

    def start(self, t, q, v):
        return q[:2] + t

    def __call__(self, t, q, v, memory):
        return memory - self.k @ q - self.d @ v

    def rate(self, t, q, v, memory):
        return q[:2]

    def signals(self, t, q, v, memory):
        return {"memory": memory}


def all_of(law, t, q, v, memory):
    """Everything that the simulation asks of a law."""
    return (
        law.start(t, q, v),
        law(t, q, v, memory),
        law.rate(t, q, v, memory),
        law.step(t, q, v, memory, jnp.asarray(0.1)),
        law.signals(t, q, v, memory),
    )


compiled = eqx.filter_jit(all_of)


def rounded(x, step):
    """To the nearest multiple, halves to even ones; exact where the step is zero."""
    return np.array([a if s == 0.0 else s * np.rint(a / s) for a, s in zip(x, step, strict=True)])


@pytest.mark.parametrize("outside", ["limits", "steps"])
def test_limits_around_steps_and_steps_around_limits(outside):
    """At random scales; the law sees rounded states everywhere, and signals show the true memory."""
    rng = np.random.default_rng(5)
    for _ in range(20):
        scale = 10.0 ** rng.uniform(-4, 4, 3)
        k, d = rng.normal(size=(2, 3)) / scale, rng.normal(size=(2, 3)) / scale
        q, v, memory, t = scale * rng.normal(size=3), scale * rng.normal(size=3), rng.normal(size=2), rng.normal()
        steps = [np.where(rng.random(n) < 0.3, 0.0, s * rng.uniform(0.01, 2.0, n)) for n, s in ((3, scale), (3, scale))]
        step_u = np.where(rng.random(2) < 0.3, 0.0, rng.uniform(0.01, 2.0, 2))
        low, high = -rng.uniform(0, 1, 2), rng.uniform(0, 1, 2)
        inner = Integrating(jnp.asarray(k), jnp.asarray(d))
        sizes = {"q": steps[0], "v": steps[1], "u": step_u}
        if outside == "limits":
            law = Limited(Quantized(inner, **sizes), low, high)
        else:
            law = Quantized(Limited(inner, low, high), **sizes)
        start, u, rate, (stepped, after), signals = compiled(law, *map(jnp.asarray, (t, q, v, memory)))
        seen, seen_v = rounded(q, steps[0]), rounded(v, steps[1])
        wanted = memory - k @ seen - d @ seen_v
        if outside == "limits":
            expected = np.clip(rounded(wanted, step_u), low, high)
        else:
            expected = rounded(np.clip(wanted, low, high), step_u)
        np.testing.assert_allclose(u, expected, rtol=1e-12, atol=1e-13)
        np.testing.assert_array_equal(stepped, u)
        np.testing.assert_allclose(start, seen[:2] + t, rtol=1e-14)
        np.testing.assert_allclose(rate, seen[:2], rtol=1e-14)
        np.testing.assert_allclose(after, memory + 0.1 * seen[:2], rtol=1e-13, atol=1e-15)
        np.testing.assert_array_equal(signals["memory"], memory)


def test_noise_has_the_given_sizes_and_is_independent():
    """4000 samples: means, standard deviations and correlations of what the law sees and sends, within 5 σ."""
    count, rng = 4000, np.random.default_rng(6)
    sizes = {"q": np.array([0.0, 3.0, 1e-5]), "v": 0.2, "u": np.array([50.0, 0.0])}
    q, v = rng.normal(size=3), rng.normal(size=3)

    class Shown(Controller):
        """Sends what it sees."""

        def start(self, t, q, v):
            return jnp.zeros(6)

        def __call__(self, t, q, v, memory):
            return jnp.zeros(2)

        def step(self, t, q, v, memory, period):
            return jnp.zeros(2), jnp.concatenate([q, v])

    @eqx.filter_jit
    def run(law):
        def sample(memory, _):
            u, memory = law.step(0.0, jnp.asarray(q), jnp.asarray(v), memory, 0.1)
            return memory, jnp.concatenate([memory[0], u])

        return jax.lax.scan(sample, law.start(0.0, jnp.asarray(q), jnp.asarray(v)), None, length=count)

    (_, counted), seen = run(Noisy(Shown(), seed=3, **sizes))
    assert float(counted) == count
    noise = np.asarray(seen) - np.concatenate([q, v, np.zeros(2)])
    expected = np.concatenate([sizes["q"], np.full(3, 0.2), sizes["u"]])
    quiet = expected == 0.0
    assert np.all(noise[:, quiet] == 0.0)
    unit = noise[:, ~quiet] / expected[~quiet]
    bound = 5.0 / np.sqrt(count)
    assert np.max(np.abs(unit.mean(axis=0))) < bound
    assert np.max(np.abs(unit.std(axis=0) - 1.0)) < bound
    correlation = unit.T @ unit / count
    assert np.max(np.abs(correlation - np.diag(np.diag(correlation)))) < bound  # between signals
    assert np.max(np.abs(np.mean(unit[1:] * unit[:-1], axis=0))) < bound  # from sample to sample
    other = np.asarray(run(Noisy(Shown(), seed=4, **sizes))[1]) - np.concatenate([q, v, np.zeros(2)])
    assert np.max(np.abs(np.mean(unit * other[:, ~quiet] / expected[~quiet], axis=0))) < bound


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda law: Limited(law, [-1.0, -1.0], [1.0, 1.0, 1.0]), "one number, or one for each input"),
        (lambda law: Limited(law, [[0.0]], 1.0), "one number, or one for each input"),
        (lambda law: Limited(law, float("nan"), 1.0), "low = nan is above high"),
        (lambda law: Quantized(law, u=float("inf")), "u: a size that is finite"),
        (lambda law: Noisy(law, q=[1.0, float("nan")]), "q: a size that is finite"),
        (lambda law: Limited(3.0, 0.0, 1.0), "a Controller or a function"),
    ],
)
def test_bad_input(make, message):
    with pytest.raises(br.ModelError, match=message):
        make(Integrating(jnp.zeros((2, 3)), jnp.zeros((2, 3))))
