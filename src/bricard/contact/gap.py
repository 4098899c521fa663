"""Where two things can touch: a gap that cannot become negative, with restitution and friction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float

from bricard.errors import ModelError, is_concrete
from bricard.mechanism.coordinates.mechanism_system import MechanismSystem
from bricard.system import Scalar, System, Vector

MAX_FRICTION = 1e4
"""An infinite coefficient of friction (never slips) is computed as this one."""


class Contact(eqx.Module):
    """A contact that only pushes: `gap(q, t) ≥ 0` (m or rad), a scalar written in `jax.numpy`.

    - `slip(q, v, t)`: velocity (k,) of the touching surfaces along each other, linear in `v`, k = 1 or 2; needed for
      friction. For a fixed point of a body `br.point_contact` writes gap and slip.
    - `restitution`: 0 stays in touch, 1 gives all energy back.
    - `friction`: coefficient of Coulomb; infinite never slips.
    - `when(q, t)`: whether it can be hit. A closed contact stays closed while this is false, but lets go as soon as
      another contact is hit.
    """

    gap: Callable[..., Any]
    slip: Callable[..., Any] | None = None
    restitution: ArrayLike = 0.0
    friction: ArrayLike = 0.0
    name: str = eqx.field(static=True, default="contact")
    when: Callable[..., Any] | None = None

    def __check_init__(self):
        """Refuse what no contact can have."""
        problems = coefficient_problems(self.restitution, self.friction)
        if not callable(self.gap):
            problems.append(f"gap: a function of (q, t), not {self.gap!r}")
        if self.slip is None and is_concrete(self.friction) and not problems and float(np.asarray(self.friction)) > 0.0:
            problems.append("friction needs `slip`, the velocity along the contact; br.point_contact writes it")
        if problems:
            raise ModelError(self.name, problems)
        for field in ("restitution", "friction"):
            object.__setattr__(self, field, jnp.asarray(getattr(self, field), dtype=float))

    def enabled(self, q: Vector, t: Scalar) -> Bool[Array, ""]:
        """Whether it can be hit now."""
        return jnp.asarray(True if self.when is None else self.when(q, t))


def coefficient_problems(restitution: Any, friction: Any) -> list[str]:
    """What is wrong with these coefficients."""
    problems = []
    if is_concrete(restitution) and not np.all((np.asarray(restitution) >= 0) & (np.asarray(restitution) <= 1)):
        problems.append(f"restitution must lie between 0 and 1, not {restitution}")
    if friction is not None and is_concrete(friction) and not np.all(np.asarray(friction) >= 0):
        problems.append(f"friction must not be negative, not {friction}")
    return problems


class _PlaneGap(eqx.Module):
    position: Callable[..., Any]
    normal: Float[Array, " d"]
    offset: Float[Array, ""]

    def __call__(self, q: Vector, t: Scalar) -> Float[Array, ""]:
        return self.normal @ self.position(q, t) - self.offset


class _PlaneSlip(eqx.Module):
    position: Callable[..., Any]
    tangents: Float[Array, "k d"]
    qdot: Callable[..., Any] | None

    def __call__(self, q: Vector, v: Vector, t: Scalar) -> Float[Array, " k"]:
        t = jnp.asarray(t, dtype=float)
        rate = v if self.qdot is None else self.qdot(q, v)
        return self.tangents @ jax.jvp(self.position, (q, t), (rate, jnp.ones_like(t)))[1]


class _Sensor(eqx.Module):
    system: MechanismSystem
    name: str = eqx.field(static=True)

    def __call__(self, q: Vector, t: Scalar) -> Float[Array, " d"]:
        return self.system.measure(q, jnp.zeros(self.system.nv))[self.name].value


def _position(position: Callable[..., Any] | str, system: System | None, name: str) -> Callable[..., Any]:
    if not isinstance(position, str):
        return position
    if not isinstance(system, MechanismSystem):
        raise ModelError(name, [f"position: the sensor {position!r} needs the mechanism's `system`"])
    if position not in system.model.sensor_names:
        known = ", ".join(system.model.sensor_names) or "none"
        raise ModelError(name, [f"position: no sensor called {position!r}; there are {known}"])
    return _Sensor(system, position)


def point_contact(
    position: Callable[..., Any] | str,
    normal: Sequence[float] = (0.0, 1.0),
    offset: ArrayLike = 0.0,
    *,
    system: System | None = None,
    restitution: ArrayLike = 0.0,
    friction: ArrayLike = 0.0,
    name: str = "contact",
    when: Callable[..., Any] | None = None,
) -> Contact:
    """Contact of a point of a body, `position(q, t)`, (2,) or (3,), with the plane `normal · position = offset`.

    The point stays on the side to which `normal` shows. `position` may be the name of a mechanism's point sensor.
    `system` is needed for that, and where `q̇ ≠ v` (quaternions).
    """
    position = _position(position, system, name)
    n = np.asarray(normal, dtype=float)
    if n.shape not in ((2,), (3,)) or not np.all(np.isfinite(n)) or np.linalg.norm(n) == 0.0:
        raise ModelError(name, [f"normal: a direction of 2 or 3 numbers, not {normal!r}"])
    n = n / np.linalg.norm(n)
    # The other axes of an orthonormal basis; for two dimensions the tangent points to the right of the normal.
    tangents = np.array([[n[1], -n[0]]]) if n.shape == (2,) else np.linalg.svd(n[None])[2][1:]
    chart = system.qdot if system is not None and system.has_chart else None
    return Contact(
        gap=_PlaneGap(position, jnp.asarray(n), jnp.asarray(offset, dtype=float)),
        slip=_PlaneSlip(position, jnp.asarray(tangents), chart),
        restitution=restitution,
        friction=friction,
        name=name,
        when=when,
    )


class _Below(eqx.Module):
    index: int = eqx.field(static=True)
    bound: float = eqx.field(static=True)
    sign: float = eqx.field(static=True)

    def __call__(self, q: Vector, t: Scalar) -> Float[Array, ""]:
        return self.sign * (q[self.index] - self.bound)


def joint_limits(system: System, restitution: ArrayLike = 0.0) -> tuple[Contact, ...]:
    """The limits of a mechanism's joints as contacts, for `simulate(…, contacts=br.joint_limits(system))`.

    Only of joints that are coordinates: in relative coordinates, and not of joints that close a loop.
    """
    if not isinstance(system, MechanismSystem):
        raise ModelError("joint_limits", [f"{type(system).__name__} is no mechanism: it has no joints"])
    found, problems = [], []
    model = system.model
    for joint, bounds in zip(model.frames.names, model.joint_limits, strict=True):
        if bounds is None:
            continue
        if joint not in system.coordinates:
            problems.append(
                f"the limits of {joint!r} need {joint!r} as a coordinate: use relative coordinates, cut others"
            )
            continue
        index = system.coordinates.index(joint)
        for word, bound, sign in (("lower", bounds[0], 1.0), ("upper", bounds[1], -1.0)):
            if np.isfinite(bound):
                name = f"{joint}: {word} limit"
                found.append(Contact(_Below(index, float(bound), sign), restitution=restitution, name=name))
    if problems:
        raise ModelError("joint_limits", problems)
    return tuple(found)


def slip_sizes(system: System, contacts: Sequence[Contact]) -> list[int]:
    """Number of slip velocities of each contact."""
    q, v, t = (jax.ShapeDtypeStruct(s, jnp.float64) for s in ((system.nq,), (system.nv,), ()))
    return [0 if c.slip is None else jax.eval_shape(c.slip, q, v, t).shape[0] for c in contacts]


def slip_size(system: System, contacts: Sequence[Contact]) -> int:
    """Largest number of slip velocities of a contact."""
    return max(slip_sizes(system, contacts), default=0)


def existing_rows(system: System, contacts: Sequence[Contact]) -> Bool[np.ndarray, "c rows"]:
    """Which rows (normal, slips) each contact has; all are filled up to the same number."""
    sizes = np.array(slip_sizes(system, contacts), dtype=int)
    return np.arange(1 + max(sizes, default=0))[None, :] <= sizes[:, None]


def gaps(contacts: Sequence[Contact], q: Vector, t: Scalar) -> Float[Array, " c"]:
    """The gap of each contact."""
    return jnp.stack([jnp.asarray(contact.gap(q, t), dtype=float) for contact in contacts])


def gap_rates(system: System, contacts: Sequence[Contact], q: Vector, v: Vector, t: Scalar) -> Float[Array, " c"]:
    """The rate of each gap."""
    t = jnp.asarray(t, dtype=float)
    return jax.jvp(lambda q, t: gaps(contacts, q, t), (q, t), (system.qdot(q, v), jnp.ones_like(t)))[1]


def slips(system: System, contacts: Sequence[Contact], q: Vector, v: Vector, t: Scalar, k: int) -> Float[Array, "c k"]:
    """Slip velocities of each contact, filled up with zeros to `k`."""
    rows = []
    for contact in contacts:
        slip = jnp.zeros(0) if contact.slip is None else jnp.asarray(contact.slip(q, v, t), dtype=float)
        rows.append(jnp.concatenate([slip, jnp.zeros(k - slip.shape[0])]))
    return jnp.stack(rows) if rows else jnp.zeros((0, k))


def relative_velocity(
    system: System, contacts: Sequence[Contact], q: Vector, v: Vector, t: Scalar, k: int
) -> Float[Array, "c rows"]:
    """Rate of the gap, then slip velocities (`k` of them), of each contact."""
    normal = gap_rates(system, contacts, q, v, t)[:, None]
    if k == 0:
        # Taking the slips out of a concatenation with nothing makes XLA's simplifier give up, silently, and leave
        # functions of the program as they were. On one CPU these are those that call LAPACK: "not registered".
        return normal
    return jnp.concatenate([normal, slips(system, contacts, q, v, t, k)], axis=1)


def checked_contacts(system: System, contacts: Any) -> tuple[Contact, ...]:
    """`contacts` (one or several) as a tuple; raises `ModelError` with all problems, each under its contact's name."""
    contacts = (contacts,) if isinstance(contacts, Contact) else tuple(contacts)
    wrong = [f"contacts: expected br.Contact, got {c!r}" for c in contacts if not isinstance(c, Contact)]
    if wrong:
        raise ModelError(type(system).__name__, wrong)
    if not contacts:
        return contacts
    q, v, t = (jax.ShapeDtypeStruct(s, jnp.float64) for s in ((system.nq,), (system.nv,), ()))
    problems = [f"two contacts are called {n!r}" for n in {c.name for c in contacts} if _count(contacts, n) > 1]
    for contact in contacts:
        for label, function, arguments, dims in (
            ("gap", contact.gap, (q, t), ()),
            ("slip", contact.slip, (q, v, t), (1, 2)),
            ("when", contact.when, (q, t), ()),
        ):
            if function is None:
                continue
            try:
                shape = jnp.shape(jax.eval_shape(function, *arguments))
            except Exception as error:
                problems.append(
                    f"{contact.name}: `{label}` fails: {type(error).__name__}: {str(error).splitlines()[0]}"
                )
                continue
            fits = shape == () if dims == () else len(shape) == 1 and shape[0] in dims
            if not fits:
                wanted = "a scalar" if dims == () else "an array of 1 or 2 velocities"
                problems.append(f"{contact.name}: `{label}` must return {wanted}, not shape {shape}")
    if problems:
        raise ModelError(type(system).__name__, problems)
    return contacts


def _count(contacts: Sequence[Contact], name: str) -> int:
    return sum(c.name == name for c in contacts)
