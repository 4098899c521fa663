"""The same mechanism and start in another kind of coordinates."""

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
    """The kind of coordinates of a mechanism; None for a system of one's own."""
    from bricard.mechanism.absolute import Absolute
    from bricard.mechanism.natural import Natural
    from bricard.mechanism.relative import Relative

    classes = {Relative: "relative", Absolute: "absolute", Natural: "natural"}
    return next((kind for c, kind in classes.items() if isinstance(system, c)), None)


def in_coordinates(example: Example, kind: str | None) -> Example:
    """`example` in that kind of coordinates, with the same start and settings; None leaves it as it is."""
    import numpy as np

    from bricard.mechanism.absolute import absolute
    from bricard.mechanism.base import MechanismSystem
    from bricard.mechanism.natural import natural
    from bricard.mechanism.relative import relative

    if kind is None:
        return example
    if kind not in COORDINATES:
        near = difflib.get_close_matches(kind, COORDINATES, n=1)
        advice = f"Did you mean {near[0]}?" if near else f"There are {', '.join(COORDINATES)}."
        raise Usage(f"--coordinates {kind}: there is no such kind", advice)
    system = example.system
    if not isinstance(system, MechanismSystem):
        raise Usage(
            f"--coordinates {kind}: {type(system).__name__} is not a mechanism of bodies and joints",
            "A system that is given by its energies has the coordinates it was written in.",
        )
    if kind_of(system) == kind:
        return example
    model = system.model
    made = {"relative": relative, "absolute": absolute, "natural": natural}[kind](model)
    q, v = system.vector(example.q, "q"), system.vector(example.v, "v")
    there = made.coordinates_of(system.place(q))
    rates = made.velocities_of(there, system.twists(q, v))
    return dataclasses.replace(example, system=made, q=np.asarray(there), v=np.asarray(rates))
