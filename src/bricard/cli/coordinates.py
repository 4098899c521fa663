"""Conversion of a mechanism and its initial state to another kind of coordinates."""

from __future__ import annotations

import dataclasses
import difflib
from typing import TYPE_CHECKING

from bricard.cli.completion import COORDINATES
from bricard.cli.terminal import Usage

if TYPE_CHECKING:
    from bricard.gallery import Example
    from bricard.system import System


def kind_of(system: System) -> str | None:
    """Kind of coordinates of a mechanism; None for any other system."""
    from bricard.mechanism.coordinates.absolute import Absolute
    from bricard.mechanism.coordinates.natural import Natural
    from bricard.mechanism.coordinates.relative import Relative

    classes = {Relative: "relative", Absolute: "absolute", Natural: "natural"}
    return next((kind for c, kind in classes.items() if isinstance(system, c)), None)


def in_coordinates(example: Example, kind: str | None) -> Example:
    """The example in coordinates of the given kind, with the same initial state; unchanged if `kind` is None."""
    import numpy as np

    from bricard.mechanism.coordinates.absolute import absolute
    from bricard.mechanism.coordinates.mechanism_system import MechanismSystem
    from bricard.mechanism.coordinates.natural import natural
    from bricard.mechanism.coordinates.relative import relative

    if kind is None:
        return example
    if kind not in COORDINATES:
        near = difflib.get_close_matches(kind, COORDINATES, n=1)
        advice = f"Did you mean {near[0]}?" if near else f"Choose one of {', '.join(COORDINATES)}."
        raise Usage(f"--coordinates {kind}: unknown kind of coordinates", advice)
    system = example.system
    if not isinstance(system, MechanismSystem):
        raise Usage(
            f"--coordinates {kind}: {type(system).__name__} is not a mechanism of bodies and joints",
            "A system defined by its energies cannot be converted to other coordinates.",
        )
    if kind_of(system) == kind:
        return example
    model = system.model
    converted = {"relative": relative, "absolute": absolute, "natural": natural}[kind](model)
    q, v = system.vector(example.q, "q"), system.vector(example.v, "v")
    new_q = converted.coordinates_of(system.place(q))
    new_v = converted.velocities_of(new_q, system.twists(q, v))
    return dataclasses.replace(example, system=converted, q=np.asarray(new_q), v=np.asarray(new_v))
