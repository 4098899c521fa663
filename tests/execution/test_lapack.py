"""LAPACK under `vmap`: the same numbers and derivatives as those of `jax.numpy.linalg`, and programs that return."""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import diffrax
import jax
import jax.numpy as jnp
import jax.scipy.linalg as jsl
import numpy as np
import pytest

import bricard as br
from bricard.execution import lapack

SOURCE = Path(br.__file__).parent
RNG = np.random.default_rng(5)
N = 5
SQUARE = jnp.asarray(RNG.normal(size=(3, N, N)) + 3.0 * np.eye(N))
DEFINITE = SQUARE @ jnp.swapaxes(SQUARE, 1, 2)
VECTOR = jnp.asarray(RNG.normal(size=(3, N)))
TALL = jnp.asarray(RNG.normal(size=(3, N, 3)))

# Ours, the one of JAX, and arguments with a batch axis in front.
FUNCTIONS = {
    "cholesky": (lapack.cholesky, jnp.linalg.cholesky, (DEFINITE,)),
    "forward": (
        lapack.solve_triangular,
        lambda a, x: jsl.solve_triangular(a, x, lower=True),
        (jnp.tril(SQUARE), VECTOR),
    ),
    "backward": (
        lambda a, x: lapack.solve_triangular(a, x, trans=1),
        lambda a, x: jsl.solve_triangular(a, x, lower=True, trans=1),
        (jnp.tril(SQUARE), TALL),
    ),
    "cho_solve": (
        lambda a, x: lapack.cho_solve(lapack.cholesky(a), x),
        lambda a, x: jsl.cho_solve((jnp.linalg.cholesky(a), True), x),
        (DEFINITE, VECTOR),
    ),
    "solve": (lapack.solve, jnp.linalg.solve, (SQUARE, TALL)),
    "solve one": (lapack.solve, jnp.linalg.solve, (SQUARE, VECTOR)),
    "inv": (lapack.inv, jnp.linalg.inv, (SQUARE,)),
    "singular values": (lapack.singular_values, lambda a: jnp.linalg.svd(a, compute_uv=False), (TALL,)),
    "eigvalsh": (lapack.eigvalsh, jnp.linalg.eigvalsh, (DEFINITE,)),
    "lstsq": (lapack.lstsq, lambda a, x: jnp.linalg.lstsq(a, x)[0], (TALL, VECTOR)),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_values_and_derivatives_are_those_of_jax(name):
    ours, theirs, batch = FUNCTIONS[name]
    one = [x[0] for x in batch]
    np.testing.assert_allclose(ours(*one), theirs(*one), rtol=0, atol=1e-11)
    which = tuple(range(len(one)))
    expected = [jax.vmap(jax.jacrev(theirs, which))(*batch), jax.vmap(jax.jacfwd(theirs, which))(*batch)]
    found = [jax.jit(jax.vmap(jax.jacrev(ours, which)))(*batch), jax.jacfwd(ours, which)(*one)]
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=0, atol=1e-9), found[0], expected[0])
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b[0], rtol=0, atol=1e-9), found[1], expected[1])
    if name == "cholesky":
        twice = [jax.jacfwd(jax.jacrev(f))(*one) for f in (ours, theirs)]
        np.testing.assert_allclose(*twice, rtol=0, atol=1e-9)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_batches_of_batches_and_arguments_without_a_batch(name):
    ours, theirs, batch = FUNCTIONS[name]
    doubled = [jnp.stack([x, 2.0 * x]) for x in batch]
    np.testing.assert_allclose(
        jax.vmap(jax.vmap(ours))(*doubled), jax.vmap(jax.vmap(theirs))(*doubled), rtol=0, atol=1e-10
    )
    if len(batch) == 2:
        for axes in ((None, 0), (0, None)):
            some = [x if a == 0 else x[0] for x, a in zip(batch, axes, strict=True)]
            found, expected = (jax.vmap(f, in_axes=axes)(*some) for f in (ours, theirs))
            np.testing.assert_allclose(found, expected, rtol=0, atol=1e-10)


def test_what_has_no_derivative():
    u, s, vt = jax.vmap(lapack.svd)(TALL)
    np.testing.assert_allclose((u * s[:, None, :]) @ vt, TALL, rtol=0, atol=1e-12)
    np.testing.assert_allclose(jax.vmap(lapack.det)(SQUARE), np.linalg.det(SQUARE), rtol=1e-12)
    order = jax.vmap(lapack.column_order)(TALL)
    largest = np.argmax(np.linalg.norm(TALL, axis=1), axis=1)
    np.testing.assert_array_equal(order[:, 0], largest)


def lapack_calls(lowered):
    """Shapes of the first operand of each LAPACK call in a program."""
    lines = [line for line in lowered.as_text().splitlines() if "@lapack_" in line]
    return [re.search(r": \(tensor<([0-9x]*)xf64>", line).group(1).split("x") for line in lines]


ROUTES = [br.Proximal(), br.Multipliers(), br.Gauss(), br.MassProjection(), br.NullSpace(), br.Projection()]
ROUTES += [br.QuasiVelocity(), br.Partitioning(), br.Penalty(), br.AugmentedLagrangian()]


@pytest.mark.parametrize("route", ROUTES, ids=lambda r: type(r).__name__)
def test_no_route_makes_a_batched_call(route):
    """Each call of LAPACK in a batched program is one for a single matrix."""
    problem = br.equations.problem.Problem.from_matrices(np.eye(20), np.ones(20), np.eye(20)[:18], np.ones(18))
    many = jax.tree.map(lambda x: jnp.stack([x] * 7), problem)
    program = jax.jit(jax.vmap(lambda p: br.equations.dynamics.solve(p, route).acceleration))
    calls = lapack_calls(program.lower(many))
    assert calls
    assert all(len(shape) == 2 for shape in calls), calls


class Rod(br.System):
    coordinates = ("x", "y")
    constraint_names = ("rod",)

    def kinetic_energy(self, q, v, t):
        return 0.5 * v @ v

    def constraints(self, q, t):
        return jnp.stack([q @ q - 1.0])


@pytest.mark.parametrize(
    "function",
    [
        lambda q: br.assemble(Rod(), q, jnp.zeros(2)).q,
        lambda q: br.simulate(Rod(), q, jnp.zeros(2), t_end=0.1, save=2, solver=diffrax.Kvaerno3()).q,
    ],
    ids=["assembly", "an implicit solver"],
)
def test_no_iteration_makes_a_batched_call(function):
    calls = lapack_calls(jax.jit(jax.vmap(function)).lower(jnp.asarray(RNG.normal(size=(6, 2)))))
    assert calls
    assert all(len(shape) == 2 for shape in calls), calls


def test_a_batch_of_assemblies():
    """The nearest point of a circle."""
    guesses = RNG.normal(size=(6, 2))
    found = jax.vmap(lambda q: br.assemble(Rod(), q, jnp.zeros(2)).q)(jnp.asarray(guesses))
    np.testing.assert_allclose(found, guesses / np.linalg.norm(guesses, axis=1)[:, None], rtol=0, atol=1e-12)


def test_a_batched_call_would_be_seen():
    assert [len(shape) for shape in lapack_calls(jax.jit(jnp.linalg.cholesky).lower(DEFINITE))] == [3]


LINEAR_ALGEBRA = {
    "cholesky",
    "solve",
    "inv",
    "pinv",
    "svd",
    "svdvals",
    "eigh",
    "eigvalsh",
    "qr",
    "lstsq",
    "det",
    "slogdet",
}


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda p: str(p.relative_to(SOURCE)))
def test_traced_code_calls_lapack_safely(path):
    """No module but `lapack` calls what may be batched."""
    if path in (SOURCE / "execution" / "lapack.py", SOURCE / "simulation" / "linear_solver.py"):
        return
    tree = ast.parse(path.read_text())
    imported = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert imported.isdisjoint({"jax.scipy.linalg", "jax.numpy.linalg", "jax.lax.linalg"})
    used = {ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    assert used.isdisjoint(f"jnp.linalg.{name}" for name in LINEAR_ALGEBRA)
    assert not any(name.startswith(("jax.scipy.linalg.", "jax.lax.linalg.")) for name in used)


MANY_FACTORS = """
import jax, jax.numpy as jnp, numpy as np
import bricard as br
from bricard.equations.linalg.factor import Factor

rng = np.random.default_rng(0)
root = rng.normal(size=(1000, 24, 24))
mass = jnp.asarray(root @ root.swapaxes(1, 2) + 24 * np.eye(24))

def solutions(mass, x):
    return sum(Factor(mass + k * jnp.eye(24)).solve(x) for k in range(8))

@jax.jit
def repeat(mass, x):
    return jax.lax.fori_loop(0, 20, lambda _, x: jax.vmap(solutions)(mass, x), x)

print("finite" if bool(jnp.all(jnp.isfinite(repeat(mass, jnp.ones((1000, 24)))))) else "not finite")
"""


def run_alone(program, timeout):
    """What a program prints in a process of its own; a deadlock becomes `subprocess.TimeoutExpired`."""
    environment = os.environ | {"PYTHONPATH": str(SOURCE.parent)}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_many_factorisations_at_once_return():
    """With batched LAPACK calls, all threads of XLA soon wait for each other."""
    assert run_alone(MANY_FACTORS, timeout=300) == ["finite"]


MANY_RUNS = """
import sys
import jax, jax.numpy as jnp, numpy as np
import bricard as br

example = br.gallery.load(sys.argv[1], **eval(sys.argv[3]))
count = int(sys.argv[2])
ends = jnp.linspace(0.5, 1.0, count) * min(1e-3, example.t_end)
run = lambda t: br.simulate(example.system, example.q, example.v, t_end=t, save=2, **example.settings).q[-1]
found = jax.jit(jax.vmap(run))(ends)
alone = jax.jit(run)(ends[-1])
assert bool(jnp.allclose(found[-1], alone, rtol=0, atol=1e-9)), (found[-1], alone)
print("finite" if bool(jnp.all(jnp.isfinite(found))) else "not finite")
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "count", "parameters"),
    [("stewart", 1000, {}), ("delta", 1000, {}), ("n-four-bar", 2000, {"n": 20}), ("six-axis-arm", 1000, {})],
)
def test_many_runs_of_large_systems_return(name, count, parameters):
    program = MANY_RUNS.replace("sys.argv[1]", repr(name)).replace("sys.argv[2]", repr(count))
    assert run_alone(program.replace("eval(sys.argv[3])", repr(parameters)), timeout=900) == ["finite"]
