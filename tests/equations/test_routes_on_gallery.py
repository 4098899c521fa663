"""All rank-safe routes agree on every gallery system, as it is and with its constraint rows made redundant."""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bricard as br
from bricard.equations import Problem, solve
from bricard.equations.problem import state_problem
from bricard.mechanism import MechanismSystem
from tests.equations import oracle
from tests.equations.routes import RANK_SAFE

SIZE, ROWS = 21, 30  # of the largest system, with its rows doubled


def duplicated(a, b):
    return np.vstack([a, a]), np.concatenate([b, b])


def scaled(a, b):
    factor = np.ones(len(b))
    factor[:1] = 1e3
    return factor[:, None] * a, factor * b


def dependent(a, b):
    if not len(b):
        return a, b
    weights = np.cos(np.arange(len(b)) + 1.0)
    return np.vstack([a, weights @ a]), np.append(b, weights @ b)


VARIANTS = {"as it is": lambda a, b: (a, b), "duplicated": duplicated, "scaled": scaled, "dependent": dependent}


def states(name, example, at):
    """Random admissible states, and singular positions where there are any."""
    rng = np.random.default_rng(len(name))
    system = example.system
    if isinstance(system, MechanismSystem):
        # Tested at random states in three kinds of coordinates elsewhere; here a start is enough.
        yield jnp.asarray(example.q), jnp.asarray(example.v)
        return
    for _ in range(2):
        q = example.q + 0.05 * rng.standard_normal(system.nq)
        yield admissible(system, at, q, example.v + rng.standard_normal(system.nv))
    if name == "slider-crank":
        yield jnp.array([np.pi / 2, -np.pi]), jnp.array([1.3, -2.6])
    if name == "n-four-bar":
        n = system.n
        flat = jnp.concatenate([jnp.full(n + 1, np.pi / 2), jnp.zeros(n)])
        yield flat, jnp.concatenate([jnp.full(n + 1, 3.0), jnp.zeros(n)])


def admissible(system, at, q, v):
    """Onto the constraints by Newton's method; `br.assemble` would have to be compiled for each system."""
    q, v = jnp.asarray(q), jnp.asarray(v)
    for _ in range(8):
        problem, position, velocity = (jax.tree.map(np.asarray, x) for x in at(q, v))
        inverse = np.linalg.pinv(problem.matrix, rcond=1e-9)
        holonomic = np.pad(position, (0, len(velocity) - len(position)))
        q = system.normalize(q + system.qdot(q, jnp.asarray(-inverse @ holonomic)))
        v = v - inverse @ velocity
    _, position, velocity = at(q, v)
    assert np.max(np.abs(position), initial=0.0) < 1e-12
    assert np.max(np.abs(velocity), initial=0.0) < 1e-11
    return q, v


def padded(mass, force, matrix, target, variation):
    """The same problem among more coordinates and more rows, so that one compiled function serves all."""
    n, k = len(force), SIZE - len(force)
    big = np.eye(SIZE) * np.trace(mass) / n
    big[:n, :n] = mass
    rows = ((0, ROWS - len(target)), (0, k))
    problem = Problem.from_matrices(big, np.pad(force, (0, k)), np.pad(matrix, rows), np.pad(target, rows[0]))
    return eqx.tree_at(lambda p: p.variation, problem, jnp.asarray(np.pad(variation, rows)))


@eqx.filter_jit
def evaluate(system, q, v):
    problem = state_problem(system, q, v, jnp.zeros(system.nu), 0.3)
    return problem, system.constraints(q, 0.3), system.constraint_rate(q, v, 0.3)


# Of mechanisms each takes seconds to compile: planar and spatial, redundant and open ones stand for all.
LARGE = ("five-bar", "peaucellier", "sarrus", "flyball-governor", "planar-stewart", "stewart", "delta", "gripper")
SMALL = tuple(name for name in br.gallery.names(scenarios=False) if name not in LARGE)


@pytest.fixture(scope="module", params=[SMALL, pytest.param(LARGE, marks=pytest.mark.slow)], ids=["small", "large"])
def problems(request):
    found = {}
    for name in request.param:
        example = br.gallery.load(name)
        at = functools.partial(evaluate, example.system)
        for i, (q, v) in enumerate(states(name, example, at)):
            p = jax.tree.map(np.asarray, at(q, v)[0])
            for variant, change in VARIANTS.items():
                a, b = change(p.matrix, p.target)
                variation, _ = change(p.variation, p.target)
                found[name, i, variant] = padded(p.mass, p.force, a, b, variation)
    return found


@pytest.mark.parametrize("method", RANK_SAFE.values(), ids=RANK_SAFE)
def test_every_route_on_every_system(problems, method):
    stacked = jax.tree.map(lambda *x: jnp.stack(x), *problems.values())
    results = eqx.filter_jit(lambda p: jax.lax.map(lambda x: solve(x, method), p))(stacked)
    worst = {}
    for i, (key, p) in enumerate(problems.items()):
        expected = oracle.solve(*(np.asarray(x) for x in (p.mass, p.force, p.matrix, p.target)), rcond=1e-7)
        for value, reference in zip((results.acceleration[i], results.constraint_force[i]), expected, strict=True):
            error = np.max(np.abs(value - reference)) / (1.0 + np.max(np.abs(reference)))
            worst[key] = max(worst.get(key, 0.0), float(error))
    assert {key: e for key, e in worst.items() if not e < 1e-9} == {}
