"""Random mechanisms in all kinds of coordinates, by both compilers, against maximal coordinates in NumPy."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bricard as br
from bricard.equations.problem import equilibrate, row_variation, state_problem, unit_columns
from bricard.equations.rank import subspaces
from bricard.equations.routes.proximal import DEFAULT
from bricard.execution import compile as compilation
from tests.properties import maximal
from tests.properties.random_mechanisms import DRAWS, FAMILIES, sketch, spherical_loop

STATES = 16
"""States of each draw: several hundred states of each topology go through one program."""


class Motion(NamedTuple):
    """Of the bodies, at a state on the constraints."""

    p: jax.Array
    R: jax.Array
    twists: jax.Array
    accelerations: jax.Array
    matrix: jax.Array
    """Scaled constraint Jacobian, of which the mobility is the nullity."""


# Three programs, since each is small enough for the LLVM back end, and one would not be.


@compilation.compiled
def reference_units(system):
    """Natural sizes of the rows, and units of the velocities, in the reference configuration."""
    q = system.reference
    return row_variation(system, q, 0.0), unit_columns(jnp.diagonal(system.mass_matrix(q, 0.0)))


@compilation.compiled
def project(system, q, v, variation):
    """A state closer to the constraints."""
    return br.Project().project(system, system.normalize(q), v, 0.0, variation)[:2]


@compilation.compiled
def motion(system, q, v, u, variation):
    """The accelerations by the default route."""
    scaled, units = equilibrate(state_problem(system, q, v, u, jnp.zeros(()), variation))
    acceleration = DEFAULT.acceleration(scaled) * units.columns
    place = system.place(q)
    return Motion(place.p, place.R, system.twists(q, v), system.twist_rates(q, v, acceleration), scaled.matrix)


def check(case, most_missed=0.2):
    """Every state that is not next to a singular position agrees, and there are few others.

    A projection may miss the constraints from at most a fraction `most_missed` of the random starts.
    """
    found, oracle = case.found, case.oracle
    assert np.all(np.isfinite(found.accelerations))
    met = oracle.position_error < 1e-12  # a random start may be too far for a projection
    regular = met & (oracle.weakest > 1e-3) & (oracle.strongest_dropped < 1e-9) & (oracle.inertia > 1e-5)
    assert np.mean(~met) <= most_missed
    assert np.mean(regular) > 0.5
    assert np.max(oracle.velocity_error[regular]) < 1e-9 * (1.0 + np.max(np.abs(found.twists[regular])))
    size = 1.0 + np.max(np.abs(oracle.acceleration), axis=(1, 2))
    difference = np.max(np.abs(found.accelerations - oracle.acceleration), axis=(1, 2)) / size
    assert np.max(difference[regular]) < 1e-8
    np.testing.assert_array_equal(case.dof[regular], oracle.dof[regular])


@pytest.fixture(autouse=True)
def few_programs(monkeypatch):
    """One program for all draws, in place of one for each of the first patterns of zeros in them."""
    monkeypatch.setattr(compilation, "MAX_ZERO_PATTERNS", 0)


@pytest.mark.parametrize("seed", range(20))
def test_joint_coordinates_agree_with_maximal_ones(seed):
    check(run(seed, "relative"))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20, 200))
def test_more_topologies_in_joint_coordinates(seed):
    check(run(seed, "relative"))


@pytest.mark.parametrize("seed", [3, *(pytest.param(k, marks=pytest.mark.slow) for k in range(0, 200, 9))])
@pytest.mark.parametrize("kind", ["absolute", "natural"])
def test_coordinates_of_bodies_agree_with_maximal_ones(seed, kind):
    # On a spherical linkage redundant rows disagree off the constraints: the projection must leave them alone.
    check(run(seed, kind), most_missed=0.005 if FAMILIES[seed % len(FAMILIES)] is spherical_loop else 0.2)


@pytest.mark.parametrize("seed", [3, *(pytest.param(k, marks=pytest.mark.slow) for k in range(4, 200, 9))])
def test_xla_agrees_with_maximal_coordinates(seed, monkeypatch):
    monkeypatch.setattr(compilation, "USE_LLVM", False)
    check(run(seed, "relative"))


class Case(NamedTuple):
    """What the oracle says of the states that bricard found, and bricard's own answers."""

    found: Motion
    oracle: maximal.Solution
    dof: np.ndarray


def run(seed, kind):
    """Several hundred states of one topology, by bricard and by the oracle."""
    sketches = [sketch(seed, draw) for draw in range(DRAWS)]
    # In the coordinates of bodies a random start leaves the constraints of all joints, not only of those that close
    # loops.
    distance = 0.05 if kind == "relative" else 0.01
    rng = np.random.default_rng([seed, 1])
    motions, inputs = [], []
    for s in sketches:
        system = s.m.system(kind)
        variation, units = reference_units(system)
        size = np.sqrt(np.mean(s.mass)) * s.scale * np.asarray(units)
        for _ in range(STATES):
            step, rate = distance * size * rng.normal(size=system.nv), size * rng.normal(size=system.nv)
            u = rng.normal(size=system.nu) * np.mean(s.mass) * s.scale**2
            q, v = system.reference + system.qdot(system.reference, jnp.asarray(step)), rate
            for _ in range(6):
                q, v = project(system, q, v, variation)
            motions.append(motion(system, q, v, u, variation))
            inputs.append(u)
    found = Motion(*(np.stack([np.asarray(x) for x in parts]) for parts in zip(*motions, strict=True)))
    dof = np.array([found.matrix.shape[2] - subspaces(a).rank for a in found.matrix])
    return Case(found, _oracle(sketches, found, np.array(inputs)), dof)


def _repeated(values):
    return np.repeat(np.stack([np.asarray(x) for x in values]), STATES, axis=0)


def _oracle(sketches, found, inputs):
    """The same states in maximal coordinates."""
    mass, home, inertia = (_repeated([getattr(s, x) for s in sketches]) for x in ("mass", "home", "inertia"))
    joints = [_stacked([s.joints[k] for s in sketches]) for k in range(len(sketches[0].joints))]
    twists = found.twists
    batch, n = mass.shape
    gravity = _repeated([s.gravity for s in sketches])
    force = np.zeros((batch, n + 1, 6))
    force[:, :n, :3] = mass[:, :, None] * gravity[:, None, :]
    zero = np.zeros((batch, 1, 3))
    bodies = maximal.Bodies(
        np.concatenate([found.p, zero], 1),
        np.concatenate([found.R, np.broadcast_to(np.eye(3), (batch, 1, 3, 3))], 1),
        np.concatenate([twists[..., :3], zero], 1),
        np.concatenate([twists[..., 3:], zero], 1),
        np.concatenate([home, zero], 1),
    )

    def push(body, at, f):
        force[:, body, :3] += f
        force[:, body, 3:] += np.cross(at - bodies.p[:, body], f)

    for k in range(len(sketches[0].springs)):
        springs = [s.springs[k] for s in sketches]
        a, b = springs[0].a, springs[0].b
        start = bodies.point(a, _repeated([s.at for s in springs]))
        end = bodies.point(b, _repeated([s.at_child for s in springs]))
        gap = end.x - start.x
        length = np.linalg.norm(gap, axis=1)
        along = gap / length[:, None]
        rate = np.sum(along * (end.d - start.d), axis=1)
        rest = _repeated([0.8 * s.scale for s in sketches])
        stiffness, damping = (_repeated([getattr(s, x) for s in springs]) for x in ("stiffness", "damping"))
        tension = stiffness * (length - rest) + damping * rate
        push(a, start.x, tension[:, None] * along)
        push(b, end.x, -tension[:, None] * along)
    for k in range(len(sketches[0].motors)):
        joint = _stacked([s.motors[k] for s in sketches])
        axis = bodies.direction(joint.parent, joint.data["axis"]).x
        u = inputs[:, k, None]
        if joint.kind == "revolute":
            force[:, joint.child, 3:] += u * axis
            force[:, joint.parent, 3:] -= u * axis
        else:
            at = bodies.point(joint.child, joint.data["at"]).x
            push(joint.child, at, u * axis)
            push(joint.parent, at, -u * axis)
    length = _repeated([s.scale for s in sketches])
    return maximal.solve(
        found.p, found.R, twists[..., :3], twists[..., 3:], home, joints, mass, inertia, force[:, :n], length
    )


def _stacked(joints):
    """One joint of the topology with the data of all draws, repeated for their states."""
    first = joints[0]
    if first.kind == "gear":
        parts = [
            (_stacked([j.data["parts"][k][0] for j in joints]), _repeated([j.data["parts"][k][1] for j in joints]))
            for k in range(2)
        ]
        return first._replace(data={"parts": parts})
    return first._replace(data={key: _repeated([j.data[key] for j in joints]) for key in first.data})
