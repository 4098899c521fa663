"""`bricard run`: simulate a mechanism and write the result."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from bricard.cli.app import Coordinates, Debug, Duration, Model, RouteName, Set, Tolerance, app, start
from bricard.cli.coordinates import in_coordinates
from bricard.cli.models import assignments, load_model, make_route, numbers
from bricard.cli.terminal import (
    FAILED,
    INTERRUPTED,
    Usage,
    complain,
    errors_in_two_lines,
    in_background,
    show,
    show_row,
)

if TYPE_CHECKING:
    from bricard.gallery import Example
    from bricard.report import Summary
    from bricard.simulation import Trajectory

COMPILING = 60.0
"""How long (s) the command waits for a run that was asked to end: it may have to compile its next program first."""

OUTPUTS = (".html", ".npz", ".csv", ".png", ".pdf", ".svg")


@app.command()
def run(
    model: Model,
    set: Set = None,
    t_end: Duration = None,
    q: Annotated[
        str | None, typer.Option(metavar="A,B,…", help="Coordinates at the start.", show_default=False)
    ] = None,
    v: Annotated[str | None, typer.Option(metavar="A,B,…", help="Velocities at the start.", show_default=False)] = None,
    coordinates: Coordinates = None,
    route: RouteName = None,
    rtol: Tolerance = None,
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
        start()
        if output is not None:
            from bricard.files import check_writable

            check_writable(output)  # before anything is computed
        if route is not None:
            options["route"] = make_route(route)
        example = in_coordinates(load_model(model, changes), coordinates)
        trajectory, interrupted = _simulate(example, options, progress)
        summary, page = in_background(lambda: _told(trajectory, example, options, output), "computing what follows")
        if output is not None:
            _write(trajectory, output, page)
        _report(summary, output)
    if summary.failed:
        raise typer.Exit(INTERRUPTED if interrupted else FAILED)


# -- steps of a run ----------------------------------------------------------------------------------------------------


def _simulate(example: Example, options: dict[str, Any], progress: bool) -> tuple[Trajectory, bool]:
    """The run, or what there is of it, and whether it was interrupted."""
    from bricard.errors import AssemblyError, SimulationInterrupted
    from bricard.execution.interrupt import request_stop
    from bricard.simulation import assemble

    done, ended = [0.0], threading.Event()
    settings = {"throw": False} | options
    if progress:
        settings["progress"] = _meter(done)

    def run() -> Trajectory:
        try:
            trajectory = example.simulate(**settings)
        except AssemblyError:
            near = assemble(example.system, settings.get("q", example.q), settings.get("v", example.v))
            show(Text("The start was moved onto the constraints.", style="yellow"))
            trajectory = example.simulate(**(settings | {"q": near.q, "v": near.v}))
        trajectory.q.block_until_ready()
        return trajectory

    def work() -> Trajectory:
        try:
            return run()
        finally:
            ended.set()

    def ask_to_end() -> bool:
        return request_stop() and ended.wait(COMPILING)

    def stage() -> str:
        return f"integrating, {100 * done[0]:.0f} %" if done[0] else "compiling and integrating"

    try:
        return in_background(work, stage, ask_to_end), False
    except SimulationInterrupted as stop:
        return stop.trajectory, True


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
    """What drives the run; the trajectory itself knows solver and tolerances."""
    known = example.settings | options
    return {n: getattr(known[n], "__name__", str(known[n])) for n in ("u", "controller") if known.get(n) is not None}


def _write(trajectory: Trajectory, output: Path, page: str | None) -> None:
    from bricard.files import FIGURES, save_figure, write_text
    from bricard.report.table import write_table

    kind = output.suffix.lower()
    if kind == ".csv":
        write_table(trajectory, output)
    elif page is not None:
        write_text(output, page)
    elif kind in FIGURES:
        save_figure(trajectory.plot(), output)
    else:
        trajectory.save(output)


def _report(summary: Summary, output: Path | None) -> None:
    rejected = f" (and {summary.rejected} rejected)" if summary.rejected else ""
    show(Text(summary.title or summary.name, style="bold"))
    show_row("simulated", f"{summary.span[0]:g} to {summary.span[1]:g} s, {summary.states} states saved")
    if summary.steps is not None:
        show_row("steps", f"{summary.steps}{rejected}")
    show_row("execution", summary.execution)
    show_row("energy drift", f"{summary.energy_drift:.3g} J")
    show_row("constraint error", f"{summary.constraint_error:.3g}")
    show_row("singular", summary.singular_words)
    show_row("mobility", summary.mobility)
    if summary.contact_words:
        show_row("contact forces", summary.contact_words)
    if output is not None:
        show_row("written to", str(output))
    if summary.failed:
        kept = "-o file.html keeps what there is of it." if output is None else f"What there is of it is in {output}."
        complain(summary.status, kept)
