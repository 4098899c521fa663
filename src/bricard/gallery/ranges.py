"""Which values a parameter of an example may have, said by its annotation: `def pendulum(m: Positive = 1.0, …)`."""

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
    """An interval of numbers."""

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
"""A mass, a length, a duration."""
NonNegative = Annotated[float, Range(0.0)]
"""A moment of inertia, a stiffness, a coefficient of friction."""
Fraction = Annotated[float, Range(0.0, 1.0)]
"""A coefficient of restitution."""
Count = Annotated[int, Range(1, 100)]
"""Of parts; more would take minutes to compile."""
Delay = Annotated[int, Range(0, 100)]
"""In samples."""


def parameter_problems(build: Callable[..., Any], given: dict[str, Any]) -> list[str]:
    """What is wrong with the parameters that are given to the function of an example."""
    known = inspect.signature(build).parameters
    unknown = [p for p in given if p not in known]
    if unknown:
        listed = ", ".join(known) or "none"
        return [f"no parameter called {p!r}; its parameters are {listed}" for p in unknown]
    hints = typing.get_type_hints(build, include_extras=True)
    wanted = {name: _wanted(hints[name], value) for name, value in given.items() if name in hints}
    return [f"{name} must be {text}, not {_short(given[name])}" for name, text in wanted.items() if text is not None]


def _wanted(hint: Any, value: Any) -> str | None:
    """What the annotation asks for, if `value` is not of that kind."""
    if not is_concrete(value):
        return None
    origin = typing.get_origin(hint)
    if origin is Annotated:
        base, range_ = typing.get_args(hint)[:2]
        return _wanted(base, value) or (None if value in range_ else str(range_))
    if origin in (Union, types.UnionType):
        found = [_wanted(x, value) for x in typing.get_args(hint)]
        return None if None in found else next(x for x in found if x is not None)
    if origin is Literal:
        options = typing.get_args(hint)
        return None if any(type(value) is type(x) and value == x for x in options) else f"one of {', '.join(options)}"
    if hint is type(None):
        return None if value is None else "None"
    if hint is int:
        return None if isinstance(value, numbers.Integral) and not isinstance(value, bool) else "a whole number"
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


def _short(value: Any) -> str:
    try:
        text = repr(value)
    except ValueError:  # an integer of thousands of digits
        text = "a number of thousands of digits"
    return text if len(text) <= 60 else f"{text[:40]}…"
