"""`bricard view`: interactive simulation in the browser."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from bricard.cli.app import Coordinates, Debug, Duration, Model, Set, app, start
from bricard.cli.coordinates import in_coordinates
from bricard.cli.models import assignments, load_model
from bricard.cli.terminal import errors_in_two_lines, in_background, show


@app.command()
def view(
    model: Model,
    set: Set = None,
    t_end: Duration = None,
    coordinates: Coordinates = None,
    host: Annotated[
        str, typer.Option(help="Address to listen on; any but the default may admit other machines.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port; if it is taken, the next free one.", min=1, max=65535)] = 8080,
    debug: Debug = False,
) -> None:
    """Simulate a mechanism live in the browser: change its initial state and parameters, push it. Stop with Ctrl-C."""
    with errors_in_two_lines(debug):
        changes = assignments(set)
        start()
        from bricard.report.session import Session
        from bricard.report.viewer import Viewer

        example = in_coordinates(load_model(model, changes), coordinates)
        duration = example.t_end if t_end is None else t_end
        session = Session(example.system, example.q, example.v, duration, example.settings, example.title)
        viewer = in_background(lambda: Viewer(session, host, port), "compiling and integrating")
        show(f"Showing {example.title or model} at {viewer.address}. Press Ctrl-C to stop.")
        try:
            while True:
                time.sleep(1.0)
        except KeyboardInterrupt:
            viewer.stop()
