"""What a shell completes. Nothing is imported for it: a shell that waits for JAX would be no help."""

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
"""Names of the routes as they are typed; a test compares them with what there is."""

COORDINATES = ("relative", "absolute", "natural")


def complete_model(incomplete: str) -> list[str]:
    """Names of the gallery, and files that may hold a model."""
    folder, _, start = incomplete.rpartition("/")
    place = Path(folder or ("/" if incomplete.startswith("/") else "."))
    found = sorted(place.iterdir()) if place.is_dir() else []
    kinds = (".py", ".xml", ".urdf", ".mjcf")
    files = [p for p in found if p.name.startswith(start) and (p.suffix.lower() in kinds or p.is_dir())]
    shown = [f"{folder}/{p.name}" if incomplete.count("/") else p.name for p in files if not p.name.startswith(".")]
    return [n for n in gallery_names() if n.startswith(incomplete)] + shown


def complete_assignment(ctx: typer.Context, incomplete: str) -> list[str]:
    """`name=` for each parameter of the model on the line."""
    # An option that still lacks its value stops click from reading the line: look at the words of the shell too. The
    # first one is the command itself, which is also the name of a linkage.
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
