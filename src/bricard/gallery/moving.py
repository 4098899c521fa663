"""Gallery examples from mechanisms, in a choice of coordinates and with given initial joint rates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import jax.numpy as jnp
import numpy as np

from bricard.equations.routes.proximal import Proximal
from bricard.gallery.example import Example
from bricard.mechanism import Mechanism
from bricard.mechanism.coordinates.mechanism_system import MechanismSystem

Coordinates = Literal["relative", "absolute", "natural"]

ALWAYS_REDUNDANT = {"route": Proximal(mu=1e-7)}
"""Settings for loops whose constraint rows are dependent in every position.

The stages of a step lie slightly off the constraints, where the rows are only nearly dependent. The default `mu` does
not suppress the redundant rows there, and a simulation takes twice as many steps for the same accuracy.
"""


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
    """Example that starts in the reference configuration, with given `rates` (rad/s, m/s) of some joints.

    The rates of the other joints follow from the constraints. `cut` names the joints at which loops are cut in relative
    coordinates.
    """
    system = m.system(coordinates, cut=cut) if coordinates == "relative" else m.system(coordinates)
    v = np.zeros(system.nv)
    if rates:
        tree = system if coordinates == "relative" else m.system("relative")
        joint_rates = _admissible_velocity(tree, dict(rates))
        twists = tree.twists(tree.reference, jnp.asarray(joint_rates))
        v = joint_rates if tree is system else np.asarray(system.velocities_of(system.reference, twists))
    q = np.asarray(system.reference)
    return Example(system, title, source, q, np.asarray(v), t_end, settings or {})


def _admissible_velocity(system: MechanismSystem, rates: dict[str, float]) -> np.ndarray:
    """Minimum-norm velocity that satisfies the constraints and has the given rates."""
    selection = np.zeros((len(rates), system.nv))
    selection[np.arange(len(rates)), np.asarray(system.index(list(rates), "velocity_names"))] = 1.0
    constraint_rows = np.asarray(system.constraint_jacobian(system.reference, 0.0))
    matrix = np.concatenate([selection, constraint_rows])
    target = np.concatenate([list(rates.values()), np.zeros(constraint_rows.shape[0])])
    inverse = np.linalg.pinv(matrix)
    v = inverse @ target
    return v + inverse @ (target - matrix @ v)  # one step of iterative refinement
