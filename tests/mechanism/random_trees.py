"""Random trees of all kinds of joints, at random states: what other engines are asked about."""

import functools
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

import bricard as br
from bricard.execution import compile as compilation
from bricard.mechanism import MechanismSystem

KINDS = ("free", "revolute", "prismatic", "spherical", "cylindrical", "universal", "planar", "fixed", "revolute")
SCREWS = ("free", "helical", "revolute", "helical", "fixed", "helical")


class Tree(NamedTuple):
    """A tree, a state in relative coordinates, and what follows from it."""

    mechanism: br.Mechanism
    system: MechanismSystem
    q: np.ndarray
    v: np.ndarray
    mass: np.ndarray
    bias: np.ndarray
    p: np.ndarray
    R: np.ndarray
    twists: np.ndarray

    def coordinates(self, joint, parts):
        """Some coordinates of a joint: `parts` are "x", "qw", … or "" for the only one."""
        return self.q[[self.system.coordinates.index(f"{joint} {x}".strip()) for x in parts]]

    def columns(self, joint, parts):
        """Where some velocities of a joint are."""
        return [self.system.velocity_names.index(f"{joint} {x}".strip()) for x in parts]


def random_mechanism(seed, kinds):
    """Random bodies, each hung on one of those before it by a joint of the next kind."""
    rng = np.random.default_rng(seed)
    m = br.Mechanism(gravity=rng.normal(size=3) * 5, name="tree")
    names = ["ground"]
    for i, kind in enumerate([kinds[0], *rng.permutation(kinds[1:])]):
        at, axis = rng.normal(size=3), rng.normal(size=3)
        root = rng.normal(size=(3, 3)) * 0.3
        inertia = np.trace(root @ root.T) * np.eye(3) - root @ root.T
        m.body(f"b{i}", mass=rng.uniform(0.5, 2), com=at + 0.3 * rng.normal(size=3), inertia=inertia)
        pair = ("ground" if kind == "free" else str(rng.choice(names)), f"b{i}")
        arguments = {
            "free": (),
            "spherical": (at,),
            "fixed": (at,),
            "prismatic": (axis, at),
            "planar": (axis, at),
            "universal": (at, axis, np.cross(axis, rng.normal(size=3))),
            "helical": (at, axis, rng.uniform(0.2, 2.0)),
        }.get(kind, (at, axis))
        getattr(m, kind)(f"J{i}", *pair, *arguments)
        names.append(f"b{i}")
    return m


@compilation.compiled
def _evaluate(system, q, v):
    place = system.place(q)
    return system.mass_matrix(q, 0.0), system.bias(q, v, 0.0), place.p, place.R, system.twists(q, v)


@functools.cache
def random_tree(seed, kinds=KINDS):
    """A random tree with everything evaluated; the same for all engines, since compiling it takes longest."""
    m = random_mechanism(seed, kinds)
    system = m.system("relative")
    rng = np.random.default_rng(seed)
    q = system.normalize(system.reference + jnp.asarray(rng.normal(size=system.nq)))
    v = jnp.asarray(rng.normal(size=system.nv))
    return Tree(m, system, *(np.asarray(x) for x in (q, v, *_evaluate(system, q, v))))
