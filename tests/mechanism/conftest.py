"""Mechanisms in all three kinds of coordinates at the same state, and what follows from it."""

import functools

import jax.numpy as jnp
import numpy as np
import pytest

import bricard as br
from bricard.equations.problem import equilibrate, row_variation, state_problem
from bricard.execution import compile as compilation
from bricard.mechanism.joint_reactions import needed_wrenches

KINDS = ("relative", "absolute", "natural")


@compilation.compiled
def constraint_state(system, q, v):
    """Constraints, their matrix and their rates."""
    return system.constraints(q, 0.0), system.constraint_jacobian(q, 0.0), system.constraint_rate(q, v, 0.0)


def motion(system, q, v, u=None, t=0.0):
    """Accelerations of the bodies, reactions, what the joints must supply, energies."""
    u, t = jnp.zeros(system.nu) if u is None else u, jnp.asarray(t)
    result = _motion(system, q, v, u, t, row_variation_at(system, q, t))
    return result | {"reactions": br.reactions(system, q, v, result["acceleration"], u, t)}


@compilation.compiled
def row_variation_at(system, q, t):
    return row_variation(system, q, t)


@compilation.compiled
def _motion(system, q, v, u, t, variation):
    problem, units = equilibrate(state_problem(system, q, v, u, t, variation))
    acceleration = br.Proximal().acceleration(problem) * units.columns
    return {
        "q": q,
        "v": v,
        "acceleration": acceleration,
        "rates": system.twist_rates(q, v, acceleration),
        "needed": needed_wrenches(system, q, v, acceleration, u, t),
        "energy": jnp.stack([system.kinetic_energy(q, v, t), system.potential_energy(q, t)]),
        "mass": system.mass_matrix(q, t),
        "position": system.constraints(q, t),
        "velocity": system.constraint_rate(q, v, t),
    }


@compilation.compiled
def stepped(system, q, change):
    """The coordinates after a small motion."""
    return system.normalize(q + system.qdot(q, change))


def moved(system, seed=0, step=0.15, speed=1.0):
    """A state on the constraints away from the reference configuration, with a random admissible velocity."""
    rng = np.random.default_rng(seed)
    q, v = system.reference, jnp.asarray(speed * rng.normal(size=system.nv))
    q = stepped(system, q, jnp.asarray(step * rng.normal(size=system.nv)))
    for _ in range(30):
        phi, matrix, _ = constraint_state(system, q, v)
        if not phi.shape[0] or np.max(np.abs(phi)) < 1e-15:
            break
        change = -np.linalg.pinv(np.asarray(matrix), rcond=1e-7) @ np.asarray(phi)
        q = stepped(system, q, jnp.asarray(change))
    for _ in range(2):
        _, matrix, rate = constraint_state(system, q, v)
        if matrix.shape[0]:
            v = v - np.linalg.pinv(np.asarray(matrix), rcond=1e-7) @ np.asarray(rate)
    return jnp.asarray(q), jnp.asarray(v)


@compilation.compiled
def bodies(system, q, v):
    """Placement and twists."""
    return system.place(q), system.twists(q, v)


@compilation.compiled
def _state_of(system, place, twists):
    q = system.coordinates_of(place)
    return q, system.velocities_of(q, twists)


def state_of(system, place, twists):
    """Coordinates and velocities of bodies."""
    return tuple(jnp.asarray(x) for x in _state_of(system, place, twists))


def in_three_kinds(build, seed=0, step=0.15):
    """`motion` of the mechanism `build(kind)` in each kind of coordinates, at the same state."""
    systems = {kind: build(kind) for kind in KINDS}
    tree = systems["relative"]
    q, v = moved(tree, seed, step)
    place, twists = bodies(tree, q, v)
    u = jnp.linspace(1.0, 2.0, tree.nu)
    results = {}
    for kind, system in systems.items():
        results[kind] = motion(system, *state_of(system, place, twists), u)
    return systems, results


@pytest.fixture(scope="session")
def gallery_motions():
    """`gallery_motions(name)`: systems and `motion` of a gallery mechanism in three kinds of coordinates, made once."""

    @functools.cache
    def get(name):
        return in_three_kinds(lambda kind: br.gallery.load(name, coordinates=kind).system)

    return get
