"""The commands. JAX takes a second to import, so nothing here imports it before a command needs it."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from bricard.cli.models import assignments, load_model, numbers, route
from bricard.cli.terminal import (
    FAILED,
    Usage,
    complain,
    counted,
    errors_in_two_lines,
    in_background,
    show,
    show_row,
)

if TYPE_CHECKING:
    from bricard.gallery import Example
    from bricard.report import Summary
    from bricard.simulate import Trajectory

OUTPUTS = (".html", ".npz", ".csv", ".png", ".pdf", ".svg")

app = typer.Typer(
    help="Simulate constrained mechanisms: closed loops, redundant constraints, singular positions.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Model = Annotated[str, typer.Argument(help="A name from `bricard list`, or file.py:object.", show_default=False)]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", "-s", metavar="NAME=VALUE", help="Change a parameter; may be repeated.", show_default=False),
]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]


def main() -> None:
    """Entry point of the `bricard` command."""
    app(prog_name="bricard")


@app.callback()
def _options(
    version: Annotated[bool, typer.Option("--version", help="Show the version and exit.", is_eager=True)] = False,
) -> None:
    if version:
        from importlib.metadata import version as installed

        typer.echo(f"bricard {installed('bricard')}")
        raise typer.Exit


@app.command("list")
def list_models(debug: Debug = False) -> None:
    """Show the mechanisms that come with bricard."""
    with errors_in_two_lines(debug):
        _start()
        from bricard import gallery

        names = gallery.names()
        width = max(map(len, names)) + 2
        for name in names:
            show(Text(name.ljust(width), style="bold"), gallery.load(name).title)


@app.command()
def info(model: Model, set: Set = None, debug: Debug = False) -> None:
    """Say what a mechanism is: coordinates, constraints, inputs, parameters, mobility."""
    with errors_in_two_lines(debug):
        _start()
        from bricard.equations import mobility
        from bricard.report.summary import parameters

        example = load_model(model, assignments(set))
        system = example.system
        show(Text(example.title or type(system).__name__, style="bold"))
        if example.source:
            show(Text(example.source, style="dim"))
        show()
        show_row("coordinates", counted(system.coordinates))
        if system.velocity_names != tuple(system.coordinates):
            show_row("velocities", counted(system.velocity_names))
        show_row("constraints", counted(system.row_names))
        show_row("inputs", counted(system.input_names))
        show_row("parameters", ", ".join(f"{k} = {v}" for k, v in parameters(system).items()) or "none")
        show_row("duration", f"{example.t_end:g} s")
        show_row("mobility", f"{in_background(lambda: mobility(system, example.q), 'looking at the constraints')}")


@app.command()
def run(
    model: Model,
    set: Set = None,
    t_end: Annotated[float | None, typer.Option(help="Duration (s).", show_default=False)] = None,
    q: Annotated[
        str | None, typer.Option(metavar="A,B,…", help="Coordinates at the start.", show_default=False)
    ] = None,
    v: Annotated[str | None, typer.Option(metavar="A,B,…", help="Velocities at the start.", show_default=False)] = None,
    method: Annotated[
        str | None, typer.Option(help="Route to the acceleration, such as projection.", show_default=False)
    ] = None,
    rtol: Annotated[float | None, typer.Option(help="Relative tolerance of the steps.", show_default=False)] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help=f"Where to write the result: {', '.join(OUTPUTS)}.", show_default=False),
    ] = None,
    progress: Annotated[
        bool, typer.Option("--progress", help="Show how far a long run is (it is then compiled anew each time).")
    ] = False,
    debug: Debug = False,
) -> None:
    """Simulate a mechanism, and write the result: an animated page, a table, the numbers or a figure."""
    with errors_in_two_lines(debug):
        if output is not None and output.suffix.lower() not in OUTPUTS:
            raise Usage(f"--output {output}: the name has to end in one of {', '.join(OUTPUTS)}")
        changes = assignments(set)
        options: dict[str, Any] = {"t_end": t_end, "q": numbers("q", q), "v": numbers("v", v), "rtol": rtol}
        options = {name: value for name, value in options.items() if value is not None}
        _start()
        if output is not None:
            from bricard.report.files import check_writable

            check_writable(output)  # before anything is computed
        if method is not None:
            options["method"] = route(method)
        example = load_model(model, changes)
        trajectory = _simulate(example, options, progress)
        summary, page = in_background(lambda: _told(trajectory, example, options, output), "computing what follows")
        if output is not None:
            _write(trajectory, output, page)
        _report(summary, output)
    if summary.failed:
        raise typer.Exit(FAILED)


# -- steps of a run ----------------------------------------------------------------------------------------------------


def _start() -> None:
    """Import bricard, set up so that compiled programs are kept from one command to the next."""
    # Checks inside compiled programs are host callbacks, and programs with callbacks cannot be kept: failed checks
    # give NaN instead, which ends a run with a message.
    os.environ.setdefault("EQX_ON_ERROR", "nan")
    import jax

    import bricard  # noqa: F401 (sets up JAX)

    if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "bricard" / "jax"
        with suppress(OSError):  # where there is no place for it, it works without
            cache.mkdir(parents=True, exist_ok=True)
            jax.config.update("jax_compilation_cache_dir", str(cache))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)


def _simulate(example: Example, options: dict[str, Any], progress: bool) -> Trajectory:
    from bricard.errors import AssemblyError
    from bricard.simulate import assemble

    done = [0.0]
    settings = {"throw": False} | options
    if progress:
        settings["progress"] = _meter(done)

    def work() -> Trajectory:
        try:
            trajectory = example.simulate(**settings)
        except AssemblyError:
            near = assemble(example.system, settings.get("q", example.q), settings.get("v", example.v))
            show(Text("The start was moved onto the constraints.", style="yellow"))
            trajectory = example.simulate(**(settings | {"q": near.q, "v": near.v}))
        trajectory.q.block_until_ready()
        return trajectory

    def stage() -> str:
        return f"integrating, {100 * done[0]:.0f} %" if done[0] else "compiling and integrating"

    return in_background(work, stage)


def _meter(done: list[float]) -> Any:
    """A progress meter for diffrax that keeps the fraction in `done`."""
    import diffrax
    import jax
    import jax.numpy as jnp

    def tell(fraction: Any) -> None:
        done[0] = float(fraction)

    class Meter(diffrax.AbstractProgressMeter):
        def init(self):
            return jnp.zeros(())

        def step(self, state, progress):
            jax.debug.callback(tell, progress)
            return jnp.asarray(progress, float)

        def close(self, state):
            pass

    return Meter()


def _told(
    trajectory: Trajectory, example: Example, options: dict[str, Any], output: Path | None
) -> tuple[Summary, str | None]:
    """Everything about the run that takes computing."""
    from bricard.report.page import render
    from bricard.report.summary import summarize

    summary = summarize(trajectory, example.title or None, _settings(example, options))
    page = render(trajectory, summary, example.source) if output and output.suffix.lower() == ".html" else None
    return summary, page


def _settings(example: Example, options: dict[str, Any]) -> dict[str, str]:
    """Settings of `simulate` as it was called, those left to their defaults too."""
    import inspect

    from bricard.simulate import simulate

    shown = ("u", "controller", "stabilization", "solver", "rtol", "atol", "dt")
    known = {n: p.default for n, p in inspect.signature(simulate).parameters.items()} | example.settings | options
    return {n: getattr(known[n], "__name__", str(known[n])) for n in shown if known.get(n) is not None}


def _write(trajectory: Trajectory, output: Path, page: str | None) -> None:
    from bricard.report.files import replacing
    from bricard.report.table import write_table

    kind = output.suffix.lower()
    if kind == ".csv":
        write_table(trajectory, output)
        return
    figure = trajectory.plot() if kind in (".png", ".pdf", ".svg") else None
    with replacing(output) as draft:
        if page is not None:
            draft.write_text(page, encoding="utf-8")
        elif figure is not None:
            figure.savefig(draft, dpi=200)
        else:
            trajectory.save(draft)


def _report(summary: Summary, output: Path | None) -> None:
    rejected = f" (and {summary.rejected} rejected)" if summary.rejected else ""
    show(Text(summary.title or summary.name, style="bold"))
    show_row("simulated", f"{summary.span[0]:g} to {summary.span[1]:g} s, {summary.states} states saved")
    if summary.steps is not None:
        show_row("steps", f"{summary.steps}{rejected}")
    show_row("energy drift", f"{summary.energy_drift:.3g} J")
    show_row("constraint error", f"{summary.constraint_error:.3g}")
    show_row("singular", summary.singular_words)
    show_row("mobility", summary.mobility)
    if output is not None:
        show_row("written to", str(output))
    if summary.failed:
        kept = "-o file.html keeps what there is of it." if output is None else f"What there is of it is in {output}."
        complain(summary.status, kept)
