"""How do the inputs act? Accelerations, outputs and constraint forces are affine in `u`; every law solves this.

The response is computed as the default route computes accelerations (`Proximal`): rank-safe with redundant rows, and
near singular positions the law then sees the machine as the simulation does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float

from bricard.control.output import Output, make_output
from bricard.equations.problem import equilibrate, row_variation, scales, state_problem
from bricard.equations.rank import determinate, null_basis
from bricard.equations.routes.proximal import Gram
from bricard.errors import ModelError, needs_numbers
from bricard.execution.compile import xla_jit
from bricard.execution.lapack import cholesky, solve_triangular
from bricard.system import Scalar, System, Vector, VectorLike

REACH_TOLERANCE = 1e-7
"""An input does not act on an output if the acceleration it gives, in units of the inertia, is below this."""


class Response(NamedTuple):
    """`v̇ = free + gain u` and `λ = multipliers + multiplier_gain u` at one state, and the matrices behind it."""

    free: Float[Array, " nv"]
    gain: Float[Array, "nv nu"]
    multipliers: Float[Array, " m"]
    multiplier_gain: Float[Array, "m nu"]
    mobility: Float[Array, "nv nv"]
    """`N (NᵀMN)⁻¹ Nᵀ`: the acceleration that a generalised force gives."""
    rows: Float[Array, " m"]
    """Units of the constraints."""
    mass: Float[Array, "nv nv"]
    inputs: Float[Array, "nv nu"]
    """`H`."""
    units: Float[Array, " nv"]
    """Of the velocities: in them every coordinate has about unit inertia."""


def response(system: System, q: Vector, v: Vector, t: Scalar) -> Response:
    """The response at a state."""
    problem = state_problem(system, q, v, jnp.zeros(system.nu), t)
    scaled, units = equilibrate(problem)
    columns, rows = units.columns, units.rows
    inputs = system.input_matrix(q, t)
    root = cholesky(scaled.mass)
    half = solve_triangular(root, scaled.matrix.T)
    pushed = solve_triangular(
        root,
        jnp.concatenate([scaled.force[:, None], inputs * columns[:, None], jnp.eye(system.nv)], axis=1),
    )
    nu, m = inputs.shape[1], scaled.matrix.shape[0]
    target = jnp.zeros((m, pushed.shape[1])).at[:, 0].set(scaled.target)
    multipliers = jnp.zeros((0, pushed.shape[1]))
    if m:
        multipliers = Gram(half, scaled.weakest).solve(target - half.T @ pushed)
    moved = columns[:, None] * solve_triangular(root, pushed + half @ multipliers, trans=1)
    multipliers = multipliers / rows[:, None]
    return Response(
        free=moved[:, 0],
        gain=moved[:, 1 : nu + 1],
        multipliers=multipliers[:, 0],
        multiplier_gain=multipliers[:, 1 : nu + 1],
        mobility=moved[:, nu + 1 :] * columns[None, :],
        rows=rows,
        mass=problem.mass,
        inputs=inputs,
        units=columns,
    )


response_now = xla_jit(response)
"""The same, compiled: for answers outside of a run."""


@xla_jit
def admissible(system: System, q: Vector, t: Scalar) -> tuple[Float[Array, "nv nv"], Bool[Array, " m"]]:
    """Motions that the constraints allow (columns; unused ones are zero), and which multipliers are unique."""
    matrix = system.constraint_jacobian(q, t)
    units = scales(system.mass_matrix(q, t), matrix, row_variation(system, q, t))
    scaled = matrix * units.columns[None, :] / units.rows[:, None]
    return units.columns[:, None] * null_basis(scaled), determinate(scaled)


def freedom(system: System, q: Vector, t: Scalar) -> int:
    """Number of degrees of freedom here."""
    return int(jnp.sum(jnp.any(admissible(system, q, t)[0] != 0.0, axis=0)))


def scaled_reach(
    at: Response, jacobian: Float[Array, "p nv"]
) -> tuple[Float[Array, "p nu"], Float[Array, " p"], Float[Array, " nu"]]:
    """How inputs accelerate outputs, without units, and the sizes of outputs and inputs that make it so.

    Sizes are those without constraints: where the constraints hold an output or an input still, the rounding errors
    that are left must not be blown up.
    """
    rows, columns = reach_sizes(at, jacobian)
    return (jacobian @ at.gain) / rows[:, None] / columns[None, :], rows, columns


def reach_sizes(at: Response, jacobian: Float[Array, "p nv"]) -> tuple[Float[Array, " p"], Float[Array, " nu"]]:
    """Natural sizes of the accelerations of outputs, and of what a unit input does."""
    rows = jnp.sqrt(jnp.sum((jacobian * at.units[None, :]) ** 2, axis=1))
    columns = jnp.sqrt(jnp.sum((at.inputs * at.units[:, None]) ** 2, axis=0))
    rows, columns = (jnp.where(x > 0.0, x, 1.0) for x in (rows, columns))
    return rows, columns


class Controllability(eqx.Module):
    """Which motions or outputs the inputs reach, at one configuration."""

    names: tuple[str, ...] = eqx.field(static=True)
    """Of the outputs, or of the velocities."""
    unreached: Float[Array, "d p"]
    """Each row is a direction that no input reaches."""
    demanded: int = eqx.field(static=True)
    """Number of directions to be reached: the outputs, or the degrees of freedom."""

    @property
    def controllable(self) -> bool:
        """Whether every direction is reached."""
        return self.unreached.shape[0] == 0

    @property
    def text(self) -> str:
        """In words."""
        if self.controllable:
            return f"the inputs reach all {self.demanded} directions"
        listed = "; ".join(_in_words(row, self.names) for row in np.asarray(self.unreached))
        return f"no input reaches {listed}"

    def __repr__(self) -> str:
        return self.text


@needs_numbers
def controllability(system: System, q: VectorLike, output: object = None, t: ArrayLike = 0.0) -> Controllability:
    """Can the inputs move every output (or, without one, every motion that the constraints allow) as they like?

    For motions this is `rank(NᵀH) = k`, for outputs that the accelerations `ÿ` can all be chosen.
    """
    q, t = system.vector(q, "q"), jnp.asarray(t, dtype=float)
    at = response_now(system, q, jnp.zeros(system.nv), t)
    if output is None:
        basis = np.asarray(admissible(system, q, t)[0])
        basis = basis[:, np.any(basis != 0, axis=0)]
        root = np.linalg.cholesky(basis.T @ np.asarray(at.mass) @ basis)
        unit = np.linalg.solve(root, basis.T).T  # admissible velocities of unit kinetic energy
        reach, names, demanded = unit.T @ np.asarray(at.inputs), system.velocity_names, basis.shape[1]
        missing = _left_null(reach / np.asarray(scaled_reach(at, jnp.zeros((0, system.nv)))[2])) @ unit.T
    else:
        made = make_output(system, output)
        jacobian = _jacobian(made, system, q, t)
        scaled, rows, _ = scaled_reach(at, jacobian)
        names, demanded = made.names, len(made.names)
        missing = _left_null(np.asarray(scaled)) * np.asarray(rows)
    sizes = np.max(np.abs(missing), axis=1, keepdims=True, initial=0.0)
    return Controllability(names, jnp.asarray(missing / np.where(sizes > 0, sizes, 1.0)), demanded)


_jacobian = xla_jit(lambda output, system, q, t: output.jacobian(system, q, t))


def require_reach(system: System, output: Output, q: Vector, t: Scalar, subject: str) -> None:
    """Raise if the inputs cannot give every output the acceleration it needs; says which."""
    found = controllability(system, q, output, t)
    if found.controllable:
        return
    p, nu = len(output.names), system.nu
    count = f"{p} outputs and {nu} input{'s' * (nu != 1)}: " if p > nu else ""
    raise ModelError(
        subject,
        [
            f"{count}{found.text} here. Add an actuator, drop that output, or choose one the inputs act on "
            "(br.control.relative_degree tells after how many derivatives they do)"
        ],
    )


def _left_null(matrix: np.ndarray) -> np.ndarray:
    """Rows that span the directions which `matrix` does not reach."""
    if matrix.shape[1] == 0:
        return np.eye(matrix.shape[0])
    u, s, _ = np.linalg.svd(matrix)
    return u[:, np.sum(s > REACH_TOLERANCE) :].T


def _in_words(row: np.ndarray, names: Sequence[str]) -> str:
    parts = [(x, name) for x, name in zip(row, names, strict=True) if abs(x) > 1e-6]
    if len(parts) == 1:
        return repr(parts[0][1])
    return "the combination " + " ".join(f"{x:+.3g} {name!r}" for x, name in parts)
