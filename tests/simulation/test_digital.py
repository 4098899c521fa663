"""Controllers with memory, and digital ones, against exact solutions."""

import numpy as np
import pytest
import scipy.linalg
from jax import numpy as jnp

import bricard as br
from bricard.control import Controller, Sampled


class Slider(br.System):
    """A mass on a rail, pushed."""

    mass: float = 2.0
    stiffness: float = 3.0
    coordinates = ("x",)
    inputs = ("push",)

    def kinetic_energy(self, q, v, t):
        return 0.5 * self.mass * v[0] ** 2

    def potential_energy(self, q, t):
        return 0.5 * self.stiffness * q[0] ** 2

    def input_matrix(self, q, t):
        return jnp.ones((1, 1))


class ProportionalIntegral(Controller):
    kp: float = 5.0
    kd: float = 2.0
    ki: float = 4.0
    goal: float = 0.3

    def start(self, t, q, v):
        return jnp.zeros(1)

    def __call__(self, t, q, v, memory):
        return -self.kp * (q - self.goal) - self.kd * v - self.ki * memory

    def rate(self, t, q, v, memory):
        return q - self.goal

    def signals(self, t, q, v, memory):
        return {"error": q[0] - self.goal}


START = ([0.1], [0.4])


def test_memory_is_integrated_with_the_motion():
    c = ProportionalIntegral()
    run = br.simulate(Slider(), *START, 2.0, controller=c, save=5)
    matrix = np.array([[0, 1, 0, 0], [-8 / 2, -1, -2, 5 * 0.3 / 2], [1, 0, 0, -0.3], [0, 0, 0, 0]])
    for t, q, v, m in zip(run.t, run.q, run.v, run.memory, strict=True):
        exact = scipy.linalg.expm(matrix * t) @ [0.1, 0.4, 0.0, 1.0]
        np.testing.assert_allclose(np.concatenate([q, v, m]), exact[:3], rtol=0, atol=1e-9)
    np.testing.assert_allclose(run.signals["error"][:, 0], run["x"] - 0.3, rtol=0, atol=1e-14)
    assert "signal_error" in run.to_xarray()


@pytest.mark.parametrize(("delay", "save"), [(0, 21), (1, 8), (3, 8)])  # on the samples, and between them
def test_inputs_are_held_and_late(delay, save):
    period, c = 0.1, ProportionalIntegral()
    run = br.simulate(Slider(), *START, 2.0, controller=Sampled(c, period, delay), save=save)
    flow = scipy.linalg.expm(np.array([[0, 1, 0], [-1.5, 0, 0.5], [0, 0, 0]]) * period)
    x, memory, times = np.array([0.1, 0.4]), 0.0, np.asarray(run.t)
    queue = [-5 * (x[0] - 0.3) - 2 * x[1] - 4 * memory] * delay  # the integral has not begun to grow
    for i in range(21):
        queue.append(-5 * (x[0] - 0.3) - 2 * x[1] - 4 * memory)
        memory += period * (x[0] - 0.3)
        u = queue.pop(0)
        for k in np.flatnonzero((times >= i * period - 1e-9) & (times < (i + 1) * period - 1e-9)):
            part = scipy.linalg.expm(np.array([[0, 1, 0], [-1.5, 0, 0.5], [0, 0, 0]]) * (times[k] - i * period))
            np.testing.assert_allclose([*run.q[k], *run.v[k]], (part @ [*x, u])[:2], rtol=0, atol=1e-9)
            np.testing.assert_allclose(run.u[k], u, rtol=0, atol=1e-9)
        x = (flow @ [*x, u])[:2]


class Counter(br.control.DigitalController):
    """Sends the number of its samples, and counts them."""

    def start(self, t, q, v):
        return jnp.zeros(1)

    def step(self, t, q, v, memory, period):
        return memory, memory + 1.0


@pytest.mark.parametrize("delay", [0, 1, 2, 5])
def test_the_memory_advances_once_at_each_sample(delay):
    """Sample `i` sends `i`, which arrives `delay` samples later; before that, what sample 0 sent."""
    run = br.simulate(Slider(), *START, 0.8, controller=Sampled(Counter(), 0.1, delay), save=9)
    np.testing.assert_allclose(run.u[:, 0], np.maximum(np.arange(9) - delay, 0), rtol=0, atol=0)
    np.testing.assert_allclose(run.memory.inner[:, 0], np.arange(9) + 1, rtol=0, atol=0)


def test_fixed_steps_that_divide_the_period():
    loop = Sampled(ProportionalIntegral(), 0.1, 1)
    free = br.simulate(Slider(), *START, 1.0, controller=loop, save=11)
    fixed = br.simulate(Slider(), *START, 1.0, controller=loop, save=11, dt=0.02)
    np.testing.assert_allclose(fixed.q, free.q, rtol=0, atol=1e-9)
    with pytest.raises(br.ModelError, match=r"dt = 0\.03 s does not divide the sampling period"):
        br.simulate(Slider(), *START, 1.0, controller=loop, dt=0.03)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((ProportionalIntegral(), 0.0), "period must be positive"),
        ((ProportionalIntegral(), float("nan")), "period must be positive"),
        ((ProportionalIntegral(), [0.1, 0.2]), "period: one number"),
        ((ProportionalIntegral(), 0.1, -1), "delay_samples: a number of samples"),
        ((ProportionalIntegral(), 0.1, 0.5), "delay_samples: a number of samples"),
        ((3.0, 0.1), "controller: a Controller or a function"),
        ((Sampled(ProportionalIntegral(), 0.1), 0.1), "sampled already"),
    ],
)
def test_bad_sampling(arguments, message):
    with pytest.raises(br.ModelError, match=message):
        Sampled(*arguments)
