"""Which joints are too many, in words: "joint D: 3 of its 5 requirements repeat what A, B and C already require".

Asked of the velocities of the bodies, where every joint is a constraint, so that the answer is the same in all kinds of
coordinates. Of joints that repeat each other the one described last is blamed.
"""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from bricard.equations.rank import DETERMINATE_TOLERANCE, RANK_TOLERANCE, row_dependence
from bricard.execution.compile import xla_jit
from bricard.mechanism.coordinates.mechanism_system import MechanismSystem
from bricard.mechanism.description.joint_types import KINDS
from bricard.mechanism.model.compiled_model import Model
from bricard.system import Scalar, Vector

MOST_NAMES = 6
"""More joints than this are counted, not named."""


def repetitions(system: MechanismSystem, q: Vector, t: Scalar) -> tuple[str, ...]:
    """One sentence for each joint or constraint that requires something again, at configuration `q`."""
    matrix, dependence = (np.asarray(x) for x in _rows(system, q, t))
    owners = _owners(system.model)
    names = list(dict.fromkeys(owners))
    basis, sentences = np.zeros((0, matrix.shape[1])), []
    for name in names:
        own = np.array([owner == name for owner in owners])
        fresh = matrix[own] - (matrix[own] @ basis.T) @ basis
        _, sizes, directions = np.linalg.svd(fresh, full_matrices=False)
        new = sizes > RANK_TOLERANCE * 10  # rows have size 1, and were projected
        basis = np.concatenate([basis, directions[new]])
        if np.sum(new) < np.sum(own):
            linked = np.any(np.abs(dependence[own]) > DETERMINATE_TOLERANCE, axis=0)
            others = [n for n in names[: names.index(name)] if linked[[owner == n for owner in owners]].any()]
            sentences.append(_sentence(name, int(np.sum(own)), int(np.sum(new)), others))
    return tuple(sentences)


@xla_jit
def _rows(system: MechanismSystem, q: Vector, t: Scalar) -> tuple[Float[Array, "m k"], Float[Array, "m m"]]:
    """Rows of all joints and constraints, each of size 1, and which of them cancel together."""
    model = system.model
    wrenches = model.all_row_wrenches(system.place(q), t)
    parts = np.array([0, 1, 5]) if model.planar else np.arange(6)
    units = jnp.where(parts < 3, 1.0, model.scale)  # moments count as forces at the mechanism's size
    matrix = (wrenches[:, :, parts] / units[None, None]).reshape(wrenches.shape[0], -1)
    size = jnp.linalg.norm(matrix, axis=1, keepdims=True)
    matrix = matrix / jnp.where(size > RANK_TOLERANCE * jnp.max(size, initial=0.0), size, 1.0)
    return matrix, row_dependence(matrix)


def _owners(model: Model) -> list[tuple[str, str]]:
    """Of each row of `Model.all_row_names`, what it belongs to: a word for it and its name."""
    frames, tangents = model.frames, 1 if model.planar else 2
    words = ["joint" if KINDS[kind].is_joint else "constraint" for kind in frames.kinds]
    wheels = [("wheel", n) for n in model.rolling.names]
    return [
        *((words[j], frames.names[j]) for j, _ in model.rows),
        *wheels,
        *(("relation", n) for n in model.relations.names),
        *(("constraint", c.name) for c in model.user for _ in range(c.size)),
        *(w for w in wheels for _ in range(tangents)),
    ]


def _sentence(name: tuple[str, str], count: int, new: int, others: list[tuple[str, str]]) -> str:
    who, repeats = f"{name[0]} {name[1]}", "repeats"
    if new:
        who += f": {count - new} of its {count} requirements"
        repeats = "repeats" if count - new == 1 else "repeat"
    if not others:
        return f"{who} {repeats} what is required already"
    shown = [n for _, n in others[:MOST_NAMES]]
    if len(others) > MOST_NAMES:
        shown.append(f"{len(others) - MOST_NAMES} more")
    listed = shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"
    return f"{who} {repeats} what {listed} already require{'s' if len(others) == 1 else ''}"
