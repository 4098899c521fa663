"""Gradients and batches through a closed loop and its singular positions."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bricard as br
from bricard.gallery.n_four_bar import NFourBar
from bricard.gallery.slider_crank import SliderCrank


def crank_end(parameters):
    """Crank angle after the first singular position, from a length and a speed."""
    length, speed = parameters
    run = br.simulate(SliderCrank(l=length), jnp.array([0.3, -0.6]), speed * jnp.array([1.0, -2.0]), 1.0, save=2)
    return run.q[-1, 0]


def four_bar_end(parameters):
    """Rocker angle after two singular positions."""
    length, speed = parameters
    run = br.simulate(NFourBar(n=1, l=length), jnp.zeros(3), speed * jnp.array([1.0, 1.0, 0.0]), 1.3, save=2)
    return run.q[-1, 0]


@pytest.mark.parametrize(
    ("function", "at"), [(crank_end, [1.0, 4.0]), pytest.param(four_bar_end, [1.0, 1.0], marks=pytest.mark.slow)]
)
def test_gradients_match_finite_differences(function, at):
    at, h = jnp.array(at), 1e-3
    gradient = jax.grad(function)(at)
    value = jax.jit(function)
    for i in range(2):
        step = h * jnp.eye(2)[i]
        near, far = (value(at + k * step) - value(at - k * step) for k in (1, 2))
        assert float(gradient[i]) == pytest.approx(float((8 * near - far) / (12 * h)), rel=1e-6)


def test_forward_mode_gives_the_same_derivative():
    import diffrax

    def end(length):
        run = br.simulate(
            SliderCrank(l=length),
            jnp.array([0.3, -0.6]),
            jnp.array([4.0, -8.0]),
            1.0,
            save=2,
            adjoint=diffrax.ForwardMode(),
        )
        return run.q[-1, 0]

    h = 1e-3
    near, far = (end(1.0 + k * h) - end(1.0 - k * h) for k in (1, 2))
    assert float(jax.jacfwd(end)(1.0)) == pytest.approx(float((8 * near - far) / (12 * h)), rel=1e-6)


@pytest.mark.slow
def test_a_thousand_variations_in_one_vmap():
    lengths = jnp.linspace(0.8, 1.2, 1000)

    def run(length):
        return br.simulate(SliderCrank(l=length), jnp.array([0.3, -0.6]), jnp.array([4.0, -8.0]), 1.0, save=3)

    batch = jax.vmap(run)(lengths)
    assert batch.q.shape == (1000, 3, 2)
    assert np.all(batch.succeeded)
    single = br.simulate(SliderCrank(l=lengths[137]), [0.3, -0.6], [4.0, -8.0], 1.0, save=3)
    assert np.allclose(batch.q[137], single.q, atol=1e-9)
    few = jax.tree.map(lambda x: x[:3], batch)
    assert few.energy.drift.shape == (3,)
    assert np.all(few.energy.drift < 1e-7)
    with pytest.raises(br.ModelError, match="batch of runs"):
        batch.to_xarray()
