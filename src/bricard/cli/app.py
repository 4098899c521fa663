"""The Typer application, the arguments that its commands share, and the set-up of JAX."""

from __future__ import annotations

import gc
import io
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from bricard.cli.completion import complete_assignment, complete_coordinates, complete_method, complete_model

app = typer.Typer(
    help="Simulate constrained mechanisms: closed loops, redundant constraints, singular positions.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Model = Annotated[
    str,
    typer.Argument(
        help="A name from `bricard list`, an MJCF or URDF file, or file.py:object.",
        show_default=False,
        autocompletion=complete_model,
    ),
]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        "-s",
        metavar="NAME=VALUE",
        help="Set a parameter of the model; may be repeated.",
        show_default=False,
        autocompletion=complete_assignment,
    ),
]
Coordinates = Annotated[
    str | None,
    typer.Option(
        help="Coordinates of a mechanism: relative, absolute or natural.",
        show_default=False,
        autocompletion=complete_coordinates,
    ),
]
RouteName = Annotated[
    str | None,
    typer.Option(
        help="Route that computes the accelerations, such as projection.",
        show_default=False,
        autocompletion=complete_method,
    ),
]
Duration = Annotated[float | None, typer.Option("--t-end", help="End time (s).", show_default=False)]
Tolerance = Annotated[float | None, typer.Option(help="Relative tolerance of the integration.", show_default=False)]
Debug = Annotated[bool, typer.Option("--debug", help="Show a traceback if the command fails.")]


def main() -> None:
    """Entry point of the `bricard` command."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # an ASCII terminal replaces other characters
            stream.reconfigure(errors="replace")
    try:
        app(prog_name="bricard")
    finally:
        try:
            sys.stdout.flush()
        except (OSError, AttributeError):  # closed pipe, as in `bricard list | head -1`
            with suppress(OSError, AttributeError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@app.callback()
def _options(
    version: Annotated[bool, typer.Option("--version", help="Show the version and exit.", is_eager=True)] = False,
) -> None:
    if version:
        from importlib.metadata import version as installed

        typer.echo(f"bricard {installed('bricard')}")
        raise typer.Exit


def start() -> None:
    """Import bricard with a persistent cache of compiled programs."""
    # Checks inside compiled programs are host callbacks, and JAX does not cache programs with callbacks. Failed checks
    # yield NaN instead, which ends a run with a message.
    os.environ.setdefault("EQX_ON_ERROR", "nan")
    gc.set_threshold(100_000)  # tracing creates many objects; frequent collections would be slow
    import jax

    import bricard  # noqa: F401 (sets up JAX)

    if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "bricard" / "jax"
        with suppress(OSError):  # an unwritable directory only disables the cache
            cache.mkdir(parents=True, exist_ok=True)
            jax.config.update("jax_compilation_cache_dir", str(cache))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
