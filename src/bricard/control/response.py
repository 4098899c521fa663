"""How do the inputs act? Accelerations, outputs and constraint forces are affine in `u`; every law solves this.

On the motions that the constraints allow (basis `N` of `null(A)`) the equations of motion read
`NᵀMN w = Nᵀ(f + H u − h − M A⁺b)`, `v̇ = A⁺b + N w`: rank-safe, with redundant rows and at singular positions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float

from bricard.control.output import Output, make_output
from bricard.equations.problem import row_variation, scales
from bricard.equations.rank import determinate, null_basis, pinv
from bricard.errors import ModelError
from bricard.system import Scalar, System, Vector, VectorLike

REACH_TOLERANCE = 1e-7
"""An input does not act on an output if the cosine between the two, measured by the mass matrix, is below this."""


class Response(NamedTuple):
    """`v̇ = free + gain u` at one state, and the matrices behind it."""

    free: Float[Array, " nv"]
    gain: Float[Array, "nv nu"]
    mobility: Float[Array, "nv nv"]
    """`N (NᵀMN)⁻¹ Nᵀ`: the acceleration that a generalised force gives."""
    basis: Float[Array, "nv nv"]
    """`N`, orthonormal in scaled units; unused columns are zero."""
    mass: Float[Array, "nv nv"]
    force: Float[Array, " nv"]
    """`f − h`."""
    inputs: Float[Array, "nv nu"]
    """`H`."""
    to_multipliers: Float[Array, "m nv"]
    """`(Aᵀ)⁺`, rank-safe: from a constraint force to the multipliers of least norm (in scaled rows)."""
    determinate: Bool[Array, " m"]

    def multipliers(self) -> tuple[Float[Array, " m"], Float[Array, "m nu"]]:
        """`λ = start + slope u`, with the acceleration following the inputs."""
        start = self.to_multipliers @ (self.mass @ self.free - self.force)
        return start, self.to_multipliers @ (self.mass @ self.gain - self.inputs)


def response(system: System, q: Vector, v: Vector, t: Scalar) -> Response:
    """The response at a state."""
    mass, matrix = system.mass_matrix(q, t), system.constraint_matrix(q, t)
    units = scales(mass, matrix, row_variation(system, q, t))
    columns = units.columns
    scaled = matrix * columns[None, :] / units.rows[:, None]
    inverse = pinv(scaled)
    basis = columns[:, None] * null_basis(scaled)
    unused = jax.lax.stop_gradient(jnp.all(basis == 0.0, axis=0)).astype(float)
    mobility = basis @ jnp.linalg.solve(basis.T @ mass @ basis + jnp.diag(unused), basis.T)
    force = system.applied_force(q, v, t) - system.bias(q, v, t)
    inputs = system.input_matrix(q, t)
    particular = columns * (inverse @ (system.constraint_acceleration(q, v, t) / units.rows))
    return Response(
        free=particular + mobility @ (force - mass @ particular),
        gain=mobility @ inputs,
        mobility=mobility,
        basis=basis,
        mass=mass,
        force=force,
        inputs=inputs,
        to_multipliers=(inverse.T * columns[None, :]) / units.rows[:, None],
        determinate=determinate(scaled),
    )


def scaled_reach(
    at: Response, jacobian: Float[Array, "p nv"]
) -> tuple[Float[Array, "p nu"], Float[Array, " p"], Float[Array, " nu"]]:
    """Cosines between outputs and inputs, and the lengths that make them so; all without units."""
    rows = jnp.sqrt(jnp.clip(jnp.sum((jacobian @ at.mobility) * jacobian, axis=1), 0.0))
    columns = jnp.sqrt(jnp.clip(jnp.sum(at.inputs * at.gain, axis=0), 0.0))
    rows, columns = (jnp.where(x > 0.0, x, 1.0) for x in (rows, columns))
    return (jacobian @ at.gain) / rows[:, None] / columns[None, :], rows, columns


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


def controllability(system: System, q: VectorLike, output: object = None, t: ArrayLike = 0.0) -> Controllability:
    """Can the inputs move every output (or, without one, every motion that the constraints allow) as they like?

    For motions this is `rank(NᵀH) = k`, for outputs that the accelerations `ÿ` can all be chosen.
    """
    q, t = system.vector(q, "q"), jnp.asarray(t, dtype=float)
    at = response(system, q, jnp.zeros(system.nv), t)
    if output is None:
        basis = np.asarray(at.basis)
        basis = basis[:, np.any(basis != 0, axis=0)]
        root = np.linalg.cholesky(basis.T @ np.asarray(at.mass) @ basis)
        unit = np.linalg.solve(root, basis.T).T  # admissible velocities of unit kinetic energy
        reach, names, demanded = unit.T @ np.asarray(at.inputs), system.velocity_names, basis.shape[1]
        sizes = np.linalg.norm(reach, axis=0)
        missing = _left_null(reach / np.where(sizes > 0, sizes, 1.0)) @ unit.T
    else:
        made = make_output(system, output)
        jacobian = made.jacobian(system, q, t)
        scaled, rows, _ = scaled_reach(at, jacobian)
        names, demanded = made.names, len(made.names)
        missing = _left_null(np.asarray(scaled)) * np.asarray(rows)
    sizes = np.max(np.abs(missing), axis=1, keepdims=True, initial=0.0)
    return Controllability(names, jnp.asarray(missing / np.where(sizes > 0, sizes, 1.0)), demanded)


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
