"""Geometry of a mechanism besides its bodies: joints, joint axes, springs, actuators, sensor points and reactions."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from bricard.execution.compile import xla_jit
from bricard.mechanism.coordinates.mechanism_system import MechanismSystem
from bricard.mechanism.model.sensors import PointSensor
from bricard.simulation.trajectory import Trajectory
from bricard.system import System, Vector

AXIAL = ("revolute", "prismatic", "cylindrical", "helical", "universal")
"""Joint types whose axis is drawn."""
HIDDEN = ("free", "fixed")
"""Joint types that are not drawn."""
AXIS_LENGTH = 0.12
"""Length of a drawn axis, relative to the size of the mechanism."""


def parts(system: System, q: Float[np.ndarray, "f nq"]) -> dict[tuple[str, str], Float[np.ndarray, "f _ d"]]:
    """Points of each part at `f` configurations, keyed by role and name; empty if the system is not a mechanism.

    The roles are "joint", "axis", "spring", "actuator" and "point" (of a sensor).
    """
    if not isinstance(system, MechanismSystem):
        return {}
    drawn = _parts(system, jnp.asarray(q, dtype=float))
    order = [(role, name) for role in ("spring", "actuator", "axis", "joint", "point") for name in drawn[role]]
    return {(role, name): np.asarray(drawn[role][name]) for role, name in order}


@xla_jit
def _parts(system: MechanismSystem, q: Float[Array, "f nq"]) -> dict[str, dict[str, Float[Array, "f _ d"]]]:
    model = system.model
    width = 2 if model.planar else 3

    def at_configuration(q: Vector) -> dict[str, dict[str, Array]]:
        place = system.place(system.normalize(q))
        pairs = model.frames.world(place)
        half = 0.5 * AXIS_LENGTH * model.scale * pairs.A[:, :, 2]
        joints, axes = {}, {}
        for j, (name, kind) in enumerate(zip(model.frames.names, model.frames.kinds, strict=True)):
            if kind not in HIDDEN:
                joints[name] = pairs.pb[j, None, :width]
            # In planar drawings, revolute axes are perpendicular to the plane; only prismatic axes are visible.
            if kind in AXIAL and (not model.planar or kind == "prismatic"):
                axes[name] = jnp.stack([pairs.pb[j] - half[j], pairs.pb[j] + half[j]])[:, :width]

        def ends(lines, names) -> dict[str, Array]:
            if not len(lines):
                return {}
            start, end, _, _ = lines.ends(place)
            return {n: jnp.stack([start[k], end[k]])[:, :width] for k, n in enumerate(names)}

        springs = ends(model.spring_lines, [f"spring {k}" for k in range(len(model.spring_lines))])
        actuators = ends(model.actuator_lines, model.inputs[len(model.motors) :])
        points = {
            name: reader.read(place, jnp.zeros((model.n, 6))).value[None]
            for name, reader in zip(model.sensor_names, model.readers, strict=True)
            if isinstance(reader, PointSensor)
        }
        return {"joint": joints, "axis": axes, "spring": springs, "actuator": actuators, "point": points}

    return jax.vmap(at_configuration)(q)


class Forces(NamedTuple):
    """Reaction forces (N) of the joints on their child bodies at `f` times, in world axes."""

    names: tuple[str, ...]
    values: Float[np.ndarray, "f j d"]
    determinate: Bool[np.ndarray, " j"]
    """True where a rigid model determines the force for more than half of the run."""


def forces(trajectory: Trajectory, times: Float[np.ndarray, " f"]) -> Forces | None:
    """Reaction forces of the drawn joints at `times`, by linear interpolation; None without joints or with contacts."""
    system = trajectory.system
    if not isinstance(system, MechanismSystem) or trajectory.contacts:  # with contacts there are no reactions
        return None
    frames = system.model.frames
    drawn = [j for j, kind in enumerate(frames.kinds) if kind not in HIDDEN]
    if not drawn or not len(trajectory):
        return None
    every = trajectory.reactions.all
    width = every.point.shape[-1]
    saved = np.asarray(every.world)[:, drawn, :width]
    determinate = np.mean(np.all(np.asarray(every.determinate_world)[:, drawn, :width], axis=2), axis=0) > 0.5
    t = np.asarray(trajectory.t)
    flat = saved.reshape(len(t), -1)
    values = np.stack([np.interp(times, t, column) for column in flat.T], axis=1).reshape(len(times), len(drawn), width)
    return Forces(tuple(frames.names[j] for j in drawn), values, determinate)
