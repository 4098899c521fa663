"""Where the output shall be at what time; derivatives follow by automatic differentiation."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from bricard.errors import ModelError, is_concrete
from bricard.system import Scalar, VectorLike


class Reference(eqx.Module):
    """`y_d(t)`, (p,)."""

    @property
    def order(self) -> float:
        """How many derivatives exist everywhere; the last one may jump."""
        return math.inf

    @abstractmethod
    def __call__(self, t: Scalar) -> Float[Array, " p"]:
        """The value at time `t` (s)."""

    def derivatives(self, t: Scalar, count: int = 2) -> tuple[Float[Array, " p"], ...]:
        """The value and its first `count` time derivatives."""
        t = jnp.asarray(t, dtype=float)
        functions: list[Callable[[Scalar], Array]] = [self]
        for _ in range(count):
            functions.append(_derivative(functions[-1]))
        return tuple(f(t) for f in functions)


def _derivative(function: Callable[[Scalar], Array]) -> Callable[[Scalar], Array]:
    return lambda t: jax.jvp(function, (t,), (jnp.ones_like(t),))[1]


class Constant(Reference):
    """Always the same."""

    value: Float[Array, " p"] = eqx.field(converter=lambda x: jnp.atleast_1d(jnp.asarray(x, dtype=float)))

    def __call__(self, t: Scalar) -> Float[Array, " p"]:
        return self.value


class FunctionReference(Reference):
    """Any function of time written in `jax.numpy`; `known` says how many derivatives it has, if not all."""

    function: Callable[[Scalar], Any]
    known: float = eqx.field(static=True, default=math.inf)

    @property
    def order(self) -> float:
        return self.known

    def __call__(self, t: Scalar) -> Float[Array, " p"]:
        return jnp.atleast_1d(jnp.asarray(self.function(t), dtype=float))


_RISES = {5: (10.0, -15.0, 6.0), 7: (35.0, -84.0, 70.0, -20.0), 9: (126.0, -420.0, 540.0, -315.0, 70.0)}
"""Polynomials from 0 to 1 that start and end flat: coefficients from the lowest power, `(degree + 1)/2`, on."""


class Polynomial(Reference):
    """From `start` at time `begin` to `end` in `duration` seconds, along a polynomial that starts and ends at rest.

    Degree 9 (Bencsik (4.13)) has four derivatives zero at both ends, degree 7 three, degree 5 (minimum jerk) two.
    """

    start: Float[Array, " p"]
    end: Float[Array, " p"]
    duration: Float[Array, ""]
    begin: Float[Array, ""]
    degree: int = eqx.field(static=True)

    def __init__(
        self, start: VectorLike, end: VectorLike, duration: VectorLike, begin: VectorLike = 0.0, degree: int = 9
    ):
        self.start, self.end = _pair("Polynomial", start, end)
        self.duration = positive("Polynomial", "duration", duration)
        self.begin = jnp.asarray(begin, dtype=float)
        if degree not in _RISES:
            raise ModelError("Polynomial", [f"degree: 5 (minimum jerk), 7 or 9, not {degree!r}"])
        self.degree = degree

    @property
    def order(self) -> float:
        return float((self.degree + 1) // 2)

    def __call__(self, t: Scalar) -> Float[Array, " p"]:
        s = _within((t - self.begin) / self.duration, 0.0, 1.0)
        lowest = (self.degree + 1) // 2
        rise = s**lowest * jnp.polyval(jnp.array(_RISES[self.degree][::-1]), s)
        return self.start + rise * (self.end - self.start)


def minimum_jerk(start: VectorLike, end: VectorLike, duration: VectorLike, begin: VectorLike = 0.0) -> Polynomial:
    """From rest to rest with the least jerk: the polynomial of degree 5."""
    return Polynomial(start, end, duration, begin, degree=5)


class Sinusoid(Reference):
    """`centre + amplitude sin(2π frequency t + phase)`; frequency in Hz, phase in radians."""

    centre: Float[Array, " p"]
    amplitude: Float[Array, " p"]
    frequency: Float[Array, " p"]
    phase: Float[Array, " p"]

    def __init__(self, centre: VectorLike, amplitude: VectorLike, frequency: VectorLike, phase: VectorLike = 0.0):
        try:
            parts = jnp.broadcast_arrays(*(_vector(x) for x in (centre, amplitude, frequency, phase)))
        except ValueError:
            raise ModelError("Sinusoid", ["centre, amplitude, frequency and phase must fit together"]) from None
        self.centre, self.amplitude, self.frequency, self.phase = parts

    def __call__(self, t: Scalar) -> Float[Array, " p"]:
        return self.centre + self.amplitude * jnp.sin(2.0 * jnp.pi * self.frequency * t + self.phase)


class Circle(Reference):
    """Round and round in a plane: `centre` (2,) or (3,), `radius` (m), `period` (s, negative is clockwise).

    In space `normal` is the axis of the circle; it starts at `phase` (rad) from the first of two axes across it.
    """

    centre: Float[Array, " p"]
    radius: Float[Array, ""]
    period: Float[Array, ""]
    phase: Float[Array, ""]
    normal: Float[Array, " 3"] | None

    def __init__(
        self,
        centre: VectorLike,
        radius: VectorLike,
        period: VectorLike,
        phase: VectorLike = 0.0,
        normal: VectorLike | None = None,
    ):
        self.centre = _vector(centre)
        self.radius = positive("Circle", "radius", radius)
        self.period, self.phase = (jnp.asarray(x, dtype=float) for x in (period, phase))
        size = self.centre.shape[0]
        problems = []
        if size not in (2, 3):
            problems.append(f"centre: two or three coordinates, not {size}")
        if (size == 3) != (normal is not None):
            problems.append("normal: needed in space, and only there")
        if is_concrete(self.period) and not (np.isfinite(self.period) and self.period != 0):
            problems.append(f"period must not be zero (s), got {period}")
        if normal is not None and not _is_direction(normal, 3):
            problems.append(f"normal: three numbers that are not all zero, not {normal!r}")
        if problems:
            raise ModelError("Circle", problems)
        self.normal = None if normal is None else _vector(normal)

    def __call__(self, t: Scalar) -> Float[Array, " p"]:
        angle = self.phase + 2.0 * jnp.pi * t / self.period
        across = self.radius * jnp.stack([jnp.cos(angle), jnp.sin(angle)])
        return self.centre + (across if self.normal is None else _across(self.normal) @ across)


def _across(normal: Float[Array, " 3"]) -> Float[Array, "3 2"]:
    """Two axes across a normal, right-handed."""
    n = normal / jnp.linalg.norm(normal)
    helper = jnp.where(jnp.abs(n[0]) < 0.9, 1.0, 0.0) * jnp.array([1.0, 0.0, 0.0])
    helper = helper + jnp.where(jnp.abs(n[0]) < 0.9, 0.0, 1.0) * jnp.array([0.0, 1.0, 0.0])
    first = jnp.cross(jnp.cross(n, helper), n)
    first = first / jnp.linalg.norm(first)
    return jnp.stack([first, jnp.cross(n, first)], axis=1)


class Trapezoid(Reference):
    """Along a path with trapezoidal velocity: `path(s)` (p,) at arc length `s` (m), `speed` (m/s), `acceleration`.

    Accelerations jump, so two derivatives exist. If the path is too short for full speed, the profile is a triangle.
    """

    path: Callable[[Scalar], Any]
    length: Float[Array, ""]
    speed: Float[Array, ""]
    acceleration: Float[Array, ""]
    begin: Float[Array, ""]

    def __init__(
        self,
        path: Callable[[Scalar], Any],
        length: VectorLike,
        speed: VectorLike,
        acceleration: VectorLike,
        begin: VectorLike = 0.0,
    ):
        self.path = path
        self.length = positive("Trapezoid", "length", length)
        self.acceleration = positive("Trapezoid", "acceleration", acceleration)
        self.speed = jnp.minimum(positive("Trapezoid", "speed", speed), jnp.sqrt(self.length * self.acceleration))
        self.begin = jnp.asarray(begin, dtype=float)

    @property
    def order(self) -> float:
        return 2.0

    @property
    def duration(self) -> Float[Array, ""]:
        """From start to end (s)."""
        return self.length / self.speed + self.speed / self.acceleration

    def distance(self, t: Scalar) -> Float[Array, ""]:
        """Arc length at time `t` (m)."""
        ramp = self.speed / self.acceleration
        t = _within(t - self.begin, 0.0, self.duration)
        back = self.duration - t
        rising, falling = 0.5 * self.acceleration * t**2, self.length - 0.5 * self.acceleration * back**2
        # A triangle has no time at full speed, in which rounding errors could place a time.
        at_speed = (t > ramp) & (back > ramp) & (self.duration - 2.0 * ramp > 1e-9 * self.duration)
        return jnp.where(at_speed, self.speed * (t - 0.5 * ramp), jnp.where(t < back, rising, falling))

    def __call__(self, t: Scalar) -> Float[Array, " p"]:
        return jnp.atleast_1d(jnp.asarray(self.path(self.distance(t)), dtype=float))


class CirclePath(eqx.Module):
    """Arc length to point, for `Trapezoid`: a circle in the plane that starts at angle `start` (rad)."""

    centre: Float[Array, " 2"] = eqx.field(converter=lambda x: jnp.asarray(x, dtype=float))
    radius: Float[Array, ""] = eqx.field(converter=lambda x: jnp.asarray(x, dtype=float))
    start: Float[Array, ""] = eqx.field(converter=lambda x: jnp.asarray(x, dtype=float), default=0.0)
    clockwise: bool = eqx.field(static=True, default=False)

    def __check_init__(self):
        positive("CirclePath", "radius", self.radius)

    def __call__(self, s: Scalar) -> Float[Array, " 2"]:
        angle = self.start + (-1.0 if self.clockwise else 1.0) * s / self.radius
        return self.centre + self.radius * jnp.stack([jnp.cos(angle), jnp.sin(angle)])


class LinePath(eqx.Module):
    """Arc length to point, for `Trapezoid`: straight from `start` towards `end`."""

    start: Float[Array, " p"] = eqx.field(converter=lambda x: jnp.asarray(x, dtype=float))
    end: Float[Array, " p"] = eqx.field(converter=lambda x: jnp.asarray(x, dtype=float))

    def __check_init__(self):
        start, end = _pair("LinePath", self.start, self.end)
        if is_concrete(start, end) and not _is_direction(end - start, start.shape[0]):
            raise ModelError("LinePath", ["start and end must be two different points"])

    def __call__(self, s: Scalar) -> Float[Array, " p"]:
        step = self.end - self.start
        return self.start + s * step / jnp.linalg.norm(step)


class Waypoints(Reference):
    """Through `points` (k, p) at `times` (k,) by a spline, at rest at both ends and before and after.

    Between the ends, degree 3 has two continuous derivatives and degree 5 four; degree 1 is straight lines with
    corners. At the ends the velocity is zero, with degree 5 the acceleration too; the next derivative jumps there.
    """

    breaks: Float[Array, " k"]
    coefficients: Float[Array, "degree+1 k-1 p"]

    def __init__(self, times: VectorLike, points: VectorLike, degree: int = 5):
        from scipy.interpolate import make_interp_spline

        t, y = np.asarray(times, dtype=float), np.asarray(points, dtype=float)
        y = y[:, None] if y.ndim == 1 else y
        problems = []
        if degree not in (1, 3, 5):
            problems.append(f"degree: 1, 3 or 5, not {degree!r}")
        if t.ndim != 1 or t.shape[0] < 2 or not np.all(np.isfinite(t)) or np.any(np.diff(t) <= 0):
            problems.append("times: at least two, finite and increasing")
        if y.ndim != 2 or y.shape[0] != t.shape[0] or not np.all(np.isfinite(y)):
            problems.append(f"points: one finite row for each time, not shape {y.shape}")
        if problems:
            raise ModelError("Waypoints", problems)
        rest = [[(i, np.zeros(y.shape[1])) for i in range(1, (degree + 1) // 2)]] * 2
        spline = make_interp_spline(t, y, k=degree, bc_type=None if degree == 1 else tuple(rest))
        breaks = np.unique(spline.t)
        taylor = [spline(breaks[:-1], nu=k) / math.factorial(k) for k in range(degree, -1, -1)]
        self.breaks, self.coefficients = jnp.asarray(breaks), jnp.asarray(np.stack(taylor))

    @property
    def order(self) -> float:
        return float(self.coefficients.shape[0] // 2)  # the ends have fewer derivatives than the points between them

    def __call__(self, t: Scalar) -> Float[Array, " p"]:
        t = _within(t, self.breaks[0], self.breaks[-1])
        i = jnp.clip(jnp.searchsorted(self.breaks, t, side="right") - 1, 0, self.breaks.shape[0] - 2)
        value = jnp.zeros(self.coefficients.shape[2])
        for row in self.coefficients:
            value = value * (t - self.breaks[i]) + row[i]
        return value


def make_reference(reference: Any, names: tuple[str, ...], order: int, subject: str) -> Reference:
    """A reference for the outputs called `names` with at least `order` derivatives, from what a user gives."""
    if not isinstance(reference, Reference):
        try:
            reference = FunctionReference(reference) if callable(reference) else Constant(reference)
        except (TypeError, ValueError):
            raise ModelError(
                subject, [f"reference: numbers, a Reference or a function of time, not {reference!r}"]
            ) from None
    try:
        shape = jax.eval_shape(reference, jnp.zeros(())).shape
    except Exception as error:
        raise ModelError(subject, [f"the reference fails: {type(error).__name__}: {error}"]) from error
    problems = []
    if shape != (len(names),):
        problems.append(f"the reference has shape {shape} for {len(names)} outputs ({', '.join(names)})")
    if reference.order < order:
        problems.append(
            f"the reference ({type(reference).__name__}) has only {reference.order:g} derivatives, {order} are needed"
        )
    if problems:
        raise ModelError(subject, problems)
    return reference


def _within(x: Scalar, low: Scalar, high: Scalar) -> Array:
    """`x` held between bounds, with the slope from inside at both of them (that of `clip` there is one half)."""
    return jnp.where(x < low, low, jnp.where(x > high, high, x))


def _is_direction(x: VectorLike, size: int) -> bool:
    """Whether these are `size` finite numbers, not all zero; traced ones cannot be judged."""
    if not is_concrete(x):
        return True
    array = np.asarray(x, dtype=float)
    return array.shape == (size,) and bool(np.all(np.isfinite(array)) and np.any(array != 0.0))


def _vector(x: VectorLike) -> Float[Array, " p"]:
    return jnp.atleast_1d(jnp.asarray(x, dtype=float))


def _pair(subject: str, start: VectorLike, end: VectorLike) -> tuple[Array, Array]:
    a, b = _vector(start), _vector(end)
    if a.shape != b.shape or a.ndim != 1:
        raise ModelError(subject, [f"start and end must be of one size, not {a.shape} and {b.shape}"])
    return a, b


def positive(subject: str, name: str, value: VectorLike) -> Float[Array, ""]:
    """One number above zero."""
    number = jnp.asarray(value, dtype=float)
    if number.shape != () or (is_concrete(number) and not (np.isfinite(number) and number > 0)):
        raise ModelError(subject, [f"{name} must be one positive number, not {value!r}"])
    return number
