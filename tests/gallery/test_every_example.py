"""What every example of the gallery promises."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bricard as br


@eqx.filter_jit
def look(system, q, v, t):
    moved = q + 1e-2 * system.qdot(q, v + 1.0)
    return system.constraints(q, t), system.constraint_rate(q, v, t), system.drawing(q, t), system.drawing(moved, t)


@pytest.fixture(scope="module", params=br.gallery.names(scenarios=False))
def example(request):
    return br.gallery.load(request.param)


@pytest.fixture(scope="module")
def seen(example):
    return look(example.system, jnp.asarray(example.q), jnp.asarray(example.v), 0.0)


def test_start_is_on_the_constraints(example, seen):
    position, velocity, _, _ = (np.asarray(x) if not isinstance(x, dict) else x for x in seen)
    assert position.size == 0 or np.max(np.abs(position)) < 1e-14
    assert velocity.size == 0 or np.max(np.abs(velocity)) < 1e-14 * (1.0 + np.max(np.abs(example.v)))


def test_rows_and_inputs_have_names(example):
    system = example.system
    assert system.n_constraints == 0 or system.constraint_names is not None
    assert system.nu == 0 or system.inputs is not None


def test_drawing_is_in_one_space_and_moves(seen):
    drawing, moved = seen[2:]
    assert {shape.shape[1] for shape in drawing.values()} in ({2}, {3})
    assert all(np.all(np.isfinite(shape)) for shape in drawing.values())
    assert any(not np.allclose(drawing[name], moved[name]) for name in drawing)


def test_says_what_it_is_and_where_it_comes_from(example):
    assert example.title
    assert example.source
    assert example.t_end > 0
    assert type(example.system).__doc__
    for leaf in jax.tree.leaves(eqx.filter(example.system, eqx.is_array)):
        assert np.all(np.isfinite(leaf)), example.title


def test_unknown_names_get_a_hint():
    with pytest.raises(br.ModelError, match="did you mean 'pendulum'"):
        br.gallery.load("pendulun")
    with pytest.raises(br.ModelError, match="no parameter called 'mass'; its parameters are m, l, g, J"):
        br.gallery.load("pendulum", mass=1.0)
