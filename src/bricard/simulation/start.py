"""The initial state of a run: it is checked, and projected onto the constraints if it is close to them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from bricard.equations.dynamics import refuse_undetermined
from bricard.equations.linalg.sparse import Structure
from bricard.equations.scaling import ScaledMatrices, scaled_matrices
from bricard.errors import AssemblyError
from bricard.execution.compile import compiled
from bricard.execution.hoist import hoist
from bricard.simulation.assembly import residuals
from bricard.simulation.integration import Start
from bricard.simulation.stabilization import Baumgarte, Project, Stabilization
from bricard.system import Numbers, Scalar, System, Vector

START_TOLERANCE = 1e-6
"""A start may miss the constraints by this many metres or radians (per second); it is then moved onto them."""
ROUNDING = 1e-14
"""A start whose constraint error, relative to its coordinates or velocities, is below this is not projected."""


class StartQuality(NamedTuple):
    """The matrices at a start, and how far it is off the constraints."""

    matrices: ScaledMatrices
    position: Float[Array, " m"]
    velocity: Float[Array, " m"]
    """Residuals of the constraints, in units of the coordinates."""
    chart: Vector
    """Change of the coordinates by `System.normalize`."""


@compiled
def examine_start(system: System, q: Vector, v: Vector, t: Scalar) -> StartQuality:
    """The quality of a start. It is one program because all parts need the same matrices."""

    def examine(q: Vector, v: Vector, t: Scalar) -> StartQuality:
        matrices = scaled_matrices(system, q, t)
        return StartQuality(matrices, *residuals(system, q, v, t, matrices.variation), system.normalize(q) - q)

    return hoist(examine, q, v, t)(q, v, t)  # reduces the program to compile


def check_start(system: System, q: Numbers, v: Numbers, stabilization: Stabilization, quality: StartQuality) -> None:
    """Raise `UndeterminedMotionError`, or `AssemblyError` if the start is off the constraints."""
    refuse_undetermined(system, q, quality.matrices)
    if isinstance(stabilization, Baumgarte) or stabilization is None:
        return  # A run that does not promise to stay on the constraints may start off them.
    position, velocity = (np.abs(np.asarray(x)) for x in (quality.position, quality.velocity))
    speed = 1.0 + float(np.max(np.abs(np.asarray(v)), initial=0.0))
    if np.all(position < START_TOLERANCE) and np.all(velocity < START_TOLERANCE * speed):
        return
    level, off = ("position", position) if np.any(position >= START_TOLERANCE) else ("velocity", velocity)
    table = dict(zip(system.row_names, (float(x) for x in off), strict=True))
    worst = max(table, key=lambda n: table[n])
    raise AssemblyError(
        f"{type(system).__name__}: the start is off the constraints: the {level} misses {worst} by {table[worst]:.3g}. "
        "br.assemble(system, q, v) finds the nearest start that meets them.",
        residuals=table,
        q=jnp.asarray(q),
        v=jnp.asarray(v),
    )


def find_start(
    system: System, q: Numbers, v: Numbers, t: Any, stabilization: Stabilization, quality: StartQuality, concrete: bool
) -> Callable[[Structure | None], Start]:
    """A function that returns the start on the constraints, by sparse or (with None) by dense algebra."""
    given: Any = q, v  # NumPy arrays become JAX arrays inside the compiled program
    as_given = Start(given[0], given[1], quality.matrices.variation)
    if not (isinstance(stabilization, Project) and system.n_constraints) or (concrete and _is_exact(q, v, quality)):
        return lambda structure: as_given
    return lambda structure: _project_start(system, as_given, t, stabilization, structure)


@compiled
def _project_start(
    system: System, start: Start, t: Scalar, stabilization: Project, structure: Structure | None
) -> Start:
    q, v, _ = stabilization.project(system, start.q, start.v, t, start.variation, structure)
    return start._replace(q=q, v=v)


def _is_exact(q: Numbers, v: Numbers, quality: StartQuality) -> bool:
    """Whether a projection would change the start by no more than rounding."""
    pairs = ((quality.position, q), (quality.chart, q), (quality.velocity, v))
    return all(_largest(off) <= ROUNDING * (1.0 + _largest(of)) for off, of in pairs)


def _largest(x: Any) -> float:
    return float(np.max(np.abs(np.asarray(x)), initial=0.0))
