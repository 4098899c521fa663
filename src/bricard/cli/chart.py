"""`bricard chart`: the stable region of a controlled mechanism in a plane of two parameters."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from bricard.cli.app import Debug, Model, Set, app, start
from bricard.cli.models import assignments, load_model, numbers
from bricard.cli.terminal import Usage, errors_in_two_lines, in_background, show

if TYPE_CHECKING:
    import numpy as np

OUTPUTS = (".png", ".pdf", ".svg", ".nc")
Axis = Annotated[
    str, typer.Option(metavar="NAME=FROM:TO", help="Parameter of the controller or the system, and its range.")
]


@app.command()
def chart(
    model: Model,
    x: Axis = "kp=0:300",
    y: Axis = "kd=0:40",
    points: Annotated[int, typer.Option(help="Number of points along each axis.", min=2, max=2000)] = 100,
    set: Set = None,
    q: Annotated[
        str | None,
        typer.Option(metavar="A,B,…", help="Equilibrium; by default the initial configuration.", show_default=False),
    ] = None,
    output: Annotated[
        Path,
        typer.Option("--output", "-o", help=f"File for the chart: {', '.join(OUTPUTS)}."),
    ] = Path("chart.png"),
    debug: Debug = False,
) -> None:
    """Draw the stable region of a model with a controller, over two gains or other parameters."""
    with errors_in_two_lines(debug):
        if output.suffix.lower() not in OUTPUTS:
            raise Usage(f"--output {output}: the name has to end in one of {', '.join(OUTPUTS)}")
        changes, equilibrium = assignments(set), numbers("q", q)
        start()
        from bricard.files import check_writable
        from bricard.stability import chart as compute

        check_writable(output)
        grids = dict(_axis(text, points) for text in (x, y))
        if len(grids) < 2:
            raise Usage(f"--x {x} and --y {y}: expected two different parameters")
        example = load_model(model, changes)
        controller = example.settings.get("controller")
        if controller is None:
            advice = "Choose a scenario with a controller from `bricard list`."
            raise Usage(f"{model}: this model has no controller", advice)
        at = example.q if equilibrium is None else equilibrium
        found = in_background(
            lambda: compute(example.system, at, {model: controller}, progress=False, **grids),
            f"computing {points * points} points",
        )
        show(Text(str(found)))
        found.save(output)
        show(Text(f"Wrote {output}"))


def _axis(text: str, points: int) -> tuple[str, np.ndarray]:
    import numpy as np

    name, _, span = text.partition("=")
    low, _, high = span.partition(":")
    try:
        ends = float(low), float(high)
    except ValueError:
        raise Usage(f"{text!r}: expected NAME=FROM:TO, such as kp=0:300") from None
    if not name or not np.all(np.isfinite(ends)) or ends[0] >= ends[1]:
        raise Usage(f"{text!r}: expected a name and a range from a smaller to a larger finite number")
    return name, np.linspace(*ends, points)
