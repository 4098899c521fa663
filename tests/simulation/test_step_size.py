"""How the length of steps is chosen."""

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bricard.simulation.step_size import Steps
from bricard.simulation.vector_field import State


@pytest.mark.parametrize(("error", "kept"), [(0.0, True), (1e3, False)])
def test_a_step_cut_short_is_no_failure(error, kept):
    """Rounding may leave one last bit to a time to be saved; only a *rejected* step of that length is the end."""
    times = jnp.linspace(0.0, 20.0, 501)
    steps = Steps(jnp.array([1e-10, 1e-10, 2e-12]), adapt=True).controller(times)
    state = State(jnp.zeros(1), jnp.zeros(1), jnp.zeros(3), jnp.zeros(0))
    _, memory = steps.init(None, times[0], times[-1], state, jnp.array(1e-3), None, None, 8)
    errors = jax.tree.map(lambda x: x + error, state)
    before = jnp.nextafter(times[245], 0.0)
    keep, start, end, _, _, result = steps.adapt_step_size(before, times[245], state, state, None, errors, 8, memory)
    assert bool(keep) == kept
    assert bool(result == diffrax.RESULTS.successful) == kept
    assert float(start) == float(times[245] if kept else before)
    assert np.isfinite(end)
