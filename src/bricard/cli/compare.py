"""`bricard compare`: a table of all routes and kinds of coordinates on one motion."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from bricard.cli.app import Debug, Duration, Model, Set, Tolerance, app, start
from bricard.cli.completion import COORDINATES, ROUTES, complete_method
from bricard.cli.coordinates import in_coordinates, kind_of
from bricard.cli.models import assignments, load_model, make_route
from bricard.cli.terminal import FAILED, errors_in_two_lines, in_background, progress_bar, show, show_table

if TYPE_CHECKING:
    from bricard.gallery import Example
    from bricard.report.comparison import Outcome


@app.command()
def compare(
    model: Model,
    set: Set = None,
    t_end: Duration = None,
    rtol: Tolerance = None,
    route: Annotated[
        list[str] | None,
        typer.Option(help="Run only this route; may be repeated.", show_default=False, autocompletion=complete_method),
    ] = None,
    every: Annotated[
        bool, typer.Option("--every", help="Run all routes in other coordinates too, not only the default route.")
    ] = False,
    debug: Debug = False,
) -> None:
    """Simulate a mechanism by all routes and in all kinds of coordinates, and compare speed, accuracy and drift."""
    with errors_in_two_lines(debug):
        changes = assignments(set)
        start()
        example = load_model(model, changes)
        settings: dict[str, Any] = {"q": example.q, "v": example.v, "t_end": example.t_end} | example.settings
        settings |= {
            name: value for name, value in (("t_end", t_end), ("rtol", rtol), ("atol", rtol)) if value is not None
        }
        routes = {name: make_route(name) for name in route or ROUTES}
        cases = list(_cases(example, tuple(routes), every))
        outcomes = _measured(example, settings, routes, cases)
        _show_comparison(example, settings, outcomes)
    if all(o.failure for o in outcomes):
        raise typer.Exit(FAILED)


def _cases(example: Example, routes: tuple[str, ...], every: bool) -> Iterator[tuple[str, str | None]]:
    """All routes in the coordinates of the model, then the first route (or all) in the other kinds of coordinates."""
    own = kind_of(example.system)
    order = sorted(routes, key=lambda name: name != "proximal")  # the default route first
    yield from ((name, own) for name in order)
    others = [kind for kind in COORDINATES if own is not None and kind != own]
    yield from ((name, kind) for kind in others for name in (order if every else order[:1]))


def _measured(
    example: Example, settings: dict[str, Any], routes: dict[str, Any], cases: list[tuple[str, str | None]]
) -> list[Outcome]:
    from bricard.report.comparison import measure, reference_positions, with_error

    found = []
    with progress_bar(len(cases) + 1) as advance:
        for name, kind in cases:

            def one(name: str = name, kind: str | None = kind) -> tuple[Outcome, Any]:
                there = in_coordinates(example, kind)
                own = settings | {"q": there.q, "v": there.v, "route": routes[name]}
                return measure(type(routes[name]).__name__, kind or "", there.system, own)

            found.append(in_background(one, advance(" ".join(filter(None, [name, kind])))))
        # Last, so that the first run of the default route is measured with compilation.
        reference = in_background(lambda: reference_positions(example.system, settings), advance("reference run"))
    return [with_error(outcome, positions, reference) for outcome, positions in found]


def _show_comparison(example: Example, settings: dict[str, Any], outcomes: list[Outcome]) -> None:
    show(Text(example.title or type(example.system).__name__, style="bold"))
    kinds = len({o.coordinates for o in outcomes}) > 1
    table = Table(box=None, pad_edge=False, header_style="cyan")
    table.add_column("route", no_wrap=True)
    if kinds:
        table.add_column("coordinates")
    for heading in ("first run (s)", "second run (s)", "steps", "deviation", "energy drift (J)", "constraint error"):
        table.add_column(heading, justify="right", no_wrap=True)
    for o in outcomes:
        label = [o.route, o.coordinates] if kinds else [o.route]
        if o.failure:
            table.add_row(*label, *["–"] * 6, style="red")
            continue
        numbers = [f"{o.first:.2f}", f"{o.again:.3f}", str(o.steps)]
        table.add_row(*label, *numbers, *(_small(x) for x in (o.error, o.energy_drift, o.constraint_error)))
    show_table(table)
    for o in outcomes:
        if o.failure:
            show(Text(f"{o.route} {o.coordinates}".strip() + f": {o.failure}", style="red"))
    span = f"{float(settings['t_end']):g} s"
    show(
        Text(
            f"Simulated {span}. The first run includes compilation, unless it is cached. Deviation: largest distance "
            "of a drawn point (m; without a drawing, of a coordinate) from a run with tolerances of 1e-12.",
            style="dim",
        )
    )


def _small(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:.1e}"
