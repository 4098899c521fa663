"""Valid ranges of example parameters, given as annotations: `def pendulum(m: Positive = 1.0, …)`."""

from __future__ import annotations

import inspect
import math
import numbers
import types
import typing
from collections.abc import Callable
from typing import Annotated, Any, Literal, NamedTuple, Union

from bricard.errors import is_concrete


class Range(NamedTuple):
    """A closed interval; with `without_low`, the lower end is excluded."""

    low: float = -math.inf
    high: float = math.inf
    without_low: bool = False

    def __contains__(self, value: Any) -> bool:
        return self.low <= value <= self.high and not (self.without_low and value == self.low)

    def __str__(self) -> str:
        if self.high < math.inf:
            return f"between {self.low:g} and {self.high:g}"
        return "positive" if self.without_low else f"at least {self.low:g}"


Positive = Annotated[float, Range(0.0, without_low=True)]
"""For masses, lengths and durations."""
NonNegative = Annotated[float, Range(0.0)]
"""For moments of inertia, stiffnesses and friction coefficients."""
Fraction = Annotated[float, Range(0.0, 1.0)]
"""For coefficients of restitution."""
Count = Annotated[int, Range(1, 100)]
"""For numbers of repeated parts; larger ones would take minutes to compile."""
Delay = Annotated[int, Range(0, 100)]
"""For delays in samples."""


def parameter_problems(build: Callable[..., Any], given: dict[str, Any]) -> list[str]:
    """Problems with the parameters `given` for the function `build` of an example, compared with its annotations."""
    known = inspect.signature(build).parameters
    unknown = [p for p in given if p not in known]
    if unknown:
        listed = ", ".join(known) or "none"
        return [f"no parameter called {p!r}; its parameters are {listed}" for p in unknown]
    hints = typing.get_type_hints(build, include_extras=True)
    expected = {name: _expectation(hints[name], value) for name, value in given.items() if name in hints}
    return [f"{name} must be {x}, not {_abbreviated(given[name])}" for name, x in expected.items() if x is not None]


def _expectation(hint: Any, value: Any) -> str | None:
    """Description of the values that the annotation allows, or None if `value` is one of them."""
    if not is_concrete(value):
        return None
    origin = typing.get_origin(hint)
    if origin is Annotated:
        base, range_ = typing.get_args(hint)[:2]
        return _expectation(base, value) or (None if value in range_ else str(range_))
    if origin in (Union, types.UnionType):
        expectations = [_expectation(x, value) for x in typing.get_args(hint)]
        return None if None in expectations else next(x for x in expectations if x is not None)
    if origin is Literal:
        options = typing.get_args(hint)
        return None if any(type(value) is type(x) and value == x for x in options) else f"one of {', '.join(options)}"
    if hint is type(None):
        return None if value is None else "None"
    if hint is int:
        return None if isinstance(value, numbers.Integral) and not isinstance(value, bool) else "an integer"
    if hint is float:
        return None if _is_finite(value) else "a finite number"
    return None


def _is_finite(value: Any) -> bool:
    if isinstance(value, (bool, str, bytes, complex)) or getattr(value, "shape", ()) != ():
        return False
    try:
        return math.isfinite(value)
    except (OverflowError, TypeError, ValueError):
        return False


def _abbreviated(value: Any) -> str:
    try:
        text = repr(value)
    except ValueError:  # Python refuses to print very long integers
        text = "an integer of thousands of digits"
    return text if len(text) <= 60 else f"{text[:40]}…"
