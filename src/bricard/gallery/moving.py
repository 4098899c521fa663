"""A mechanism as an example: its system in the wanted coordinates, and a start with given joint rates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import jax.numpy as jnp
import numpy as np

from bricard.equations.proximal import Proximal
from bricard.gallery.example import Example
from bricard.mechanism import Mechanism
from bricard.mechanism.base import MechanismSystem

Coordinates = Literal["relative", "absolute", "natural"]

ALWAYS_REDUNDANT = {"method": Proximal(mu=1e-7)}
"""For loops with rows that depend on each other all the time. Off the constraints, at the stages of a step, they do so
only nearly; with the default they count there a little, and a run takes twice as many steps to the same accuracy."""


def mechanism_example(
    m: Mechanism,
    coordinates: Coordinates,
    *,
    title: str,
    source: str,
    t_end: float,
    rates: Mapping[str, float] | None = None,
    settings: dict[str, Any] | None = None,
    cut: tuple[str, ...] = (),
) -> Example:
    """Start in the reference configuration, with `rates` (rad/s, m/s) of some joints, the others as they must be."""
    system = m.system(coordinates, cut=cut) if coordinates == "relative" else m.system(coordinates)
    v = np.zeros(system.nv)
    if rates:
        tree = system if coordinates == "relative" else m.system("relative")
        joint_rates = _admissible(tree, dict(rates))
        twists = tree.twists(tree.reference, jnp.asarray(joint_rates))
        v = joint_rates if tree is system else np.asarray(system.velocities_of(system.reference, twists))
    q = np.asarray(system.reference)
    return Example(system, title, source, q, np.asarray(v), t_end, settings or {})


def _admissible(system: MechanismSystem, rates: dict[str, float]) -> np.ndarray:
    """The smallest velocity that meets the constraints and has the given rates."""
    given = np.zeros((len(rates), system.nv))
    given[np.arange(len(rates)), np.asarray(system.index(list(rates), "velocity_names"))] = 1.0
    rows = np.asarray(system.constraint_matrix(system.reference, 0.0))
    matrix = np.concatenate([given, rows])
    target = np.concatenate([list(rates.values()), np.zeros(rows.shape[0])])
    inverse = np.linalg.pinv(matrix)
    v = inverse @ target
    return v + inverse @ (target - matrix @ v)
