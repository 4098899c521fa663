"""After how many derivatives do the inputs act on an output, and what motion is left over?"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from bricard.control.output import make_output
from bricard.control.response import freedom, response, response_now
from bricard.system import System, Vector, VectorLike

ACTS_TOLERANCE = 1e-9
"""Inputs act on a derivative if their effect is above this, relative to the slopes involved."""

HIGHEST = 8
"""Derivatives are looked at up to this order; each costs twice the one before."""

State = tuple[Vector, Vector]


class Degrees(NamedTuple):
    """Relative degrees of the outputs, and the rows with which the inputs act on the derivatives of that order."""

    degrees: tuple[float, ...]
    rows: np.ndarray


def relative_degree(
    system: System, output: Any, q: VectorLike, v: VectorLike | None = None, t: ArrayLike = 0.0
) -> tuple[float, ...]:
    """How often each output must be differentiated until the inputs appear: 2 for most, `inf` if they never do.

    Two masses joined by a spring, pushed at the first: 2 seen at the first, 4 at the second.
    """
    return _degrees(system, output, q, v, t).degrees


def is_flat(system: System, output: Any, q: VectorLike, v: VectorLike | None = None, t: ArrayLike = 0.0) -> bool:
    """Whether the outputs and their derivatives determine the whole motion: no internal dynamics are left."""
    found = _degrees(system, output, q, v, t)
    whole = internal_states(system, output, q, v, t) == 0
    return whole and bool(
        np.linalg.matrix_rank(found.rows, tol=1e-9 * np.max(np.abs(found.rows))) == len(found.degrees)
    )


def internal_states(
    system: System, output: Any, q: VectorLike, v: VectorLike | None = None, t: ArrayLike = 0.0
) -> float:
    """Number of states of the internal dynamics: twice the degrees of freedom, less the sum of the relative degrees."""
    q = system.vector(q, "q")
    return 2.0 * freedom(system, q, jnp.asarray(t, dtype=float)) - sum(_degrees(system, output, q, v, t).degrees)


def _degrees(system: System, output: Any, q: VectorLike, v: VectorLike | None, t: ArrayLike) -> Degrees:
    q, time = system.vector(q, "q"), jnp.asarray(t, dtype=float)
    v = system.vector(jnp.zeros(system.nv) if v is None else v, "v")
    made = make_output(system, output)
    p, nu = len(made.names), system.nu
    degrees, rows = [math.inf] * p, np.zeros((p, nu))

    def along(x: State, u: Vector) -> State:
        at = response(system, x[0], x[1], time)
        return system.qdot(*x), at.free + at.gain @ u

    def next_derivative(function: Callable[[State], Vector]) -> Callable[[State], Vector]:
        return lambda x: jax.jvp(function, (x,), (along(x, jnp.zeros(nu)),))[1]

    def value(x: State) -> Vector:
        return made.value(system, x[0], time)

    function = value
    gain = response_now(system, q, v, time).gain
    for order in range(1, min(2 * system.nv, HIGHEST) + 1):
        slope = jax.jacfwd(lambda v, f=function: f((q, v)))(v)
        acting = np.asarray(slope @ gain)
        size = np.linalg.norm(slope, axis=1) * np.linalg.norm(gain)
        for i in range(p):
            if math.isinf(degrees[i]) and np.linalg.norm(acting[i]) > ACTS_TOLERANCE * size[i] > 0:
                degrees[i], rows[i] = float(order), acting[i]
        if not any(math.isinf(d) for d in degrees):
            break
        function = next_derivative(function)
    return Degrees(tuple(degrees), rows)
