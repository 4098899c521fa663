"""Mechanisms in all three kinds of coordinates at the same state, and what follows from it."""

import functools

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest

import bricard as br
from bricard.equations.problem import equilibrate, state_problem
from bricard.equations.reactions import needed_wrenches

KINDS = ("relative", "absolute", "natural")


@eqx.filter_jit
def constraint_state(system, q, v):
    """Constraints, their matrix and their rates."""
    return system.constraints(q, 0.0), system.constraint_matrix(q, 0.0), system.constraint_rate(q, v, 0.0)


def motion(system, q, v, u=None, t=0.0):
    """Accelerations of the bodies, reactions, what the joints must supply, energies."""
    return _motion(system, q, v, jnp.zeros(system.nu) if u is None else u, jnp.asarray(t))


# All at once: compiling the parts one by one takes far longer.
@eqx.filter_jit
def _motion(system, q, v, u, t):
    rows = jnp.zeros((system.n_constraints, system.nv))
    problem, units = equilibrate(state_problem(system, q, v, u, t, rows))
    acceleration = br.Proximal().acceleration(problem) * units.columns
    return {
        "q": q,
        "v": v,
        "acceleration": acceleration,
        "rates": system.twist_rates(q, v, acceleration),
        "reactions": br.reactions(system, q, v, acceleration, u, t),
        "needed": needed_wrenches(system, q, v, acceleration, u, t),
        "energy": jnp.stack([system.kinetic_energy(q, v, t), system.potential_energy(q, t)]),
        "mass": system.mass_matrix(q, t),
        "position": system.constraints(q, t),
        "velocity": system.constraint_rate(q, v, t),
    }


def moved(system, seed=0, step=0.15, speed=1.0):
    """A state on the constraints away from the reference configuration, with a random admissible velocity."""
    rng = np.random.default_rng(seed)
    q, v = system.reference, jnp.asarray(speed * rng.normal(size=system.nv))
    q = system.normalize(q + system.qdot(q, jnp.asarray(step * rng.normal(size=system.nv))))
    for _ in range(30):
        phi, matrix, _ = constraint_state(system, q, v)
        if not phi.shape[0] or np.max(np.abs(phi)) < 1e-15:
            break
        change = -np.linalg.pinv(np.asarray(matrix), rcond=1e-7) @ np.asarray(phi)
        q = system.normalize(q + system.qdot(q, jnp.asarray(change)))
    for _ in range(2):
        _, matrix, rate = constraint_state(system, q, v)
        if matrix.shape[0]:
            v = v - np.linalg.pinv(np.asarray(matrix), rcond=1e-7) @ np.asarray(rate)
    return q, jnp.asarray(v)


def in_three_kinds(build, seed=0, step=0.15):
    """`motion` of the mechanism `build(kind)` in each kind of coordinates, at the same state."""
    systems = {kind: build(kind) for kind in KINDS}
    tree = systems["relative"]
    q, v = moved(tree, seed, step)
    place, twists = tree.place(q), tree.twists(q, v)
    u = jnp.linspace(1.0, 2.0, tree.nu)
    results = {}
    for kind, system in systems.items():
        own_q = system.coordinates_of(place)
        results[kind] = motion(system, own_q, system.velocities_of(own_q, twists), u)
    return systems, results


@pytest.fixture(scope="session")
def gallery_motions():
    """`gallery_motions(name)`: systems and `motion` of a gallery mechanism in three kinds of coordinates, made once."""

    @functools.cache
    def get(name):
        return in_three_kinds(lambda kind: br.gallery.load(name, coordinates=kind).system)

    return get
