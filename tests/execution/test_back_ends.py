"""Runs by LLVM and by XLA are the same, and users cannot tell them apart."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bricard as br
from bricard.execution import compile as compilation
from bricard.execution.compile import compiled
from bricard.execution.llvm import Program, Unsupported


@pytest.fixture
def built(monkeypatch):
    """How many programs LLVM made, and what it refused."""
    made = []

    class Counted(Program):
        def __init__(self, *arguments):
            try:
                super().__init__(*arguments)
            except Unsupported as reason:
                made.append(str(reason))
                raise
            made.append("made")

    monkeypatch.setattr(compilation, "Program", Counted)
    return made


def both(monkeypatch, run):
    monkeypatch.setattr(compilation, "USE_LLVM", True)
    native = run()
    monkeypatch.setattr(compilation, "USE_LLVM", False)
    return native, run()


# Rank drops, redundant rows, charts, rolling, a drive that moves, other solvers: errors stay near the tolerance.
EXAMPLES = {
    "slider-crank": {"t_end": 1.0},
    "n-four-bar": {"t_end": 1.0},
    "heavy-top": {"t_end": 0.3},
    "rolling-disc": {"t_end": 0.3},
    "flyball-governor": {"t_end": 0.02},
    "prr": {"t_end": 0.5, "stabilization": br.Baumgarte(), "u": lambda t: jnp.array([jnp.sin(t), 0.0, 0.1])},
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_run_is_the_same_by_both(name, monkeypatch, built):
    example = br.gallery.load(name)
    native, xla = both(monkeypatch, lambda: example.simulate(save=7, **EXAMPLES[name]))
    assert "made" in built[-1]
    np.testing.assert_allclose(native.q, xla.q, atol=1e-8)
    np.testing.assert_allclose(native.v, xla.v, atol=1e-6, rtol=1e-7)
    np.testing.assert_allclose(native.work, xla.work, atol=1e-6, rtol=1e-7)
    assert type(native.q) is type(xla.q)
    assert jax.tree.structure(native) == jax.tree.structure(xla)


def test_many_saved_states_are_kept_in_memory(monkeypatch, built):
    example = br.gallery.load("pendulum-xy")
    native, xla = both(monkeypatch, lambda: example.simulate(t_end=2.0, save=401))
    assert built[-1] == "made"
    np.testing.assert_allclose(native.q, xla.q, atol=1e-8)


def test_a_failing_run_keeps_what_there_is(monkeypatch):
    example = br.gallery.load("slider-crank")
    native, xla = both(monkeypatch, lambda: example.simulate(max_steps=20, throw=False))
    assert not native.succeeded
    assert native.failure == xla.failure
    np.testing.assert_allclose(native.t, xla.t, rtol=1e-9)


def test_what_llvm_cannot_do_is_done_by_xla(built):
    system = br.gallery.load("prr").system

    def push(t, q, v):  # sorts
        return jnp.sort(jnp.array([0.1, -0.2, 0.3])) * jnp.cos(t)

    run = br.simulate(system, br.gallery.load("prr").q, br.gallery.load("prr").v, 0.1, controller=push, save=3)
    assert run.succeeded
    assert built[-1] == "the operation sort"


class Body(br.System):
    """One mass on a spring, in two directions."""

    mass: jax.Array
    stiffness: jax.Array
    coordinates = ("x", "y")

    def kinetic_energy(self, q, v, t):
        return 0.5 * self.mass * v @ v

    def potential_energy(self, q, t):
        return 0.5 * q @ (self.stiffness @ q)


def test_zeros_of_a_model_are_found_again_when_they_are_none(built):
    counts = []
    for off in (0.0, 0.5, 0.7, 0.0):
        stiffness = jnp.array([[4.0, off], [off, 9.0]])
        run = br.simulate(Body(jnp.array(1.0), stiffness), [1.0, -1.0], [0.0, 0.0], 1.0, save=2)
        values, vectors = np.linalg.eigh(stiffness)
        exact = vectors @ (np.cos(np.sqrt(values)) * (vectors.T @ np.array([1.0, -1.0])))
        np.testing.assert_allclose(run.q[-1], exact, atol=1e-8)
        counts.append(len(built))
    # Two programs (a look at the start, and the run) for each pattern of zeros; parameters alone compile nothing.
    assert counts == [2, 4, 4, 4]


def test_arrays_of_numpy_may_be_written_over():
    @compiled
    def total(body, x):
        return body.numbers @ x

    class Holder(eqx.Module):
        numbers: np.ndarray

    held = Holder(np.array([1.0, 0.0]))
    assert total(held, np.ones(2)) == 1.0
    held.numbers[:] = [2.0, 5.0]
    assert total(held, np.ones(2)) == 7.0


def test_many_patterns_of_zeros_end_in_one_program(built):
    @compiled
    def total(body, x):
        return body.stiffness @ x

    random = np.random.default_rng(0)
    for _ in range(12):
        stiffness = random.normal(size=(2, 2)) * (random.random((2, 2)) < 0.5)
        body = Body(jnp.array(1.0), jnp.asarray(stiffness))
        np.testing.assert_allclose(total(body, np.ones(2)), stiffness @ np.ones(2), rtol=1e-15, atol=1e-15)
    assert len(built) == compilation.MAX_ZERO_PATTERNS + 1


def test_a_mistake_in_the_compiler_is_told_and_xla_takes_over(monkeypatch):
    class Broken(Program):
        def __init__(self, *arguments):
            raise KeyError("oops")

    monkeypatch.setattr(compilation, "Program", Broken)
    with pytest.warns(UserWarning, match=r"Please report it: KeyError\('oops'\)"):
        assert compiled(lambda x: x + 1.0)(np.ones(2))[0] == 2.0


def test_machine_code_is_kept_where_jax_keeps_programs(tmp_path):
    before = jax.config.values["jax_compilation_cache_dir"]
    jax.config.update("jax_compilation_cache_dir", str(tmp_path))
    try:
        assert compiled(lambda x: jnp.sin(x) + 3.0)(np.ones(2))[0] == pytest.approx(np.sin(1.0) + 3.0, abs=1e-15)
        (kept,) = tmp_path.glob("bricard-*")
        content = kept.read_bytes()
        assert compiled(lambda x: jnp.sin(x) + 3.0)(np.zeros(2))[0] == 3.0
        kept.write_bytes(content[:-1] + b"?")  # a broken file is not used, but written again
        assert compiled(lambda x: jnp.sin(x) + 3.0)(np.zeros(2))[0] == 3.0
        assert kept.read_bytes() == content
        assert list(tmp_path.glob("tmp*")) == []
    finally:
        jax.config.update("jax_compilation_cache_dir", before)
