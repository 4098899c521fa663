"""Shell completion. It must not import JAX, which would delay every completion by a second."""

from __future__ import annotations

import os
from pathlib import Path

import typer

from bricard.cli.sources import gallery_names, gallery_parameters

ROUTES = (
    "augmented-lagrangian",
    "gauss",
    "mass-projection",
    "multipliers",
    "null-space",
    "partitioning",
    "penalty",
    "projection",
    "proximal",
    "quasi-velocity",
)
"""Names of the routes on the command line; a test compares them with the classes in `bricard.equations`."""

COORDINATES = ("relative", "absolute", "natural")


def complete_model(incomplete: str) -> list[str]:
    """Names in the gallery, directories, and files that may contain a model."""
    folder, _, start = incomplete.rpartition("/")
    directory = Path(folder or ("/" if incomplete.startswith("/") else "."))
    found = sorted(directory.iterdir()) if directory.is_dir() else []
    kinds = (".py", ".xml", ".urdf", ".mjcf")
    files = [p for p in found if p.name.startswith(start) and (p.suffix.lower() in kinds or p.is_dir())]
    shown = [f"{folder}/{p.name}" if incomplete.count("/") else p.name for p in files if not p.name.startswith(".")]
    return [n for n in gallery_names() if n.startswith(incomplete)] + shown


def complete_assignment(ctx: typer.Context, incomplete: str) -> list[str]:
    """`name=` for each parameter of the model on the command line."""
    # click stops parsing at an option without a value, so the words of the shell are searched too. The first word is
    # the command `bricard` itself, which is also the name of an example.
    typed = " ".join(os.environ.get(n, "") for n in ("COMP_WORDS", "_TYPER_COMPLETE_ARGS")).split()[1:]
    known = gallery_names()
    model = next((w for w in (str(ctx.params.get("model")), *typed) if w in known), "")
    return [f"{n}=" for n in gallery_parameters(model) if n.startswith(incomplete)]


def complete_method(incomplete: str) -> list[str]:
    """Names of the routes."""
    return [n for n in ROUTES if n.startswith(incomplete.lower())]


def complete_coordinates(incomplete: str) -> list[str]:
    """Kinds of coordinates."""
    return [n for n in COORDINATES if n.startswith(incomplete.lower())]
