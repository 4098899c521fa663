"""`bricard list` and `bricard info`: the gallery, and the description of one model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from bricard.cli.app import Coordinates, Debug, Model, Set, app, start
from bricard.cli.coordinates import in_coordinates
from bricard.cli.models import assignments, load_model
from bricard.cli.picture import picture
from bricard.cli.sources import gallery_names, gallery_title
from bricard.cli.terminal import counted, errors_in_two_lines, in_background, show, show_row

if TYPE_CHECKING:
    from bricard.mechanism.model.compiled_model import Model as MechanismModel


@app.command("list")
def list_models(debug: Debug = False) -> None:
    """List the mechanisms that come with bricard."""
    with errors_in_two_lines(debug):
        names = gallery_names()
        width = max(map(len, names)) + 2
        for name in names:
            show(Text(name.ljust(width), style="bold"), gallery_title(name) or _built_title(name))


def _built_title(name: str) -> str:
    start()
    from bricard import gallery

    return gallery.load(name).title


@app.command()
def info(model: Model, set: Set = None, coordinates: Coordinates = None, debug: Debug = False) -> None:
    """Describe a mechanism: bodies, joints, coordinates, constraints, parameters, mobility, and a drawing."""
    with errors_in_two_lines(debug):
        start()
        from bricard.mechanism import mobility
        from bricard.mechanism.coordinates.mechanism_system import MechanismSystem
        from bricard.report.summary import parameters

        example = in_coordinates(load_model(model, assignments(set)), coordinates)
        system = example.system
        show(Text(example.title or type(system).__name__, style="bold"))
        if example.source:
            show(Text(example.source, style="dim"))
        for line in picture(system, example.q):
            show(Text(line, style="blue"))
        show()
        is_mechanism = isinstance(system, MechanismSystem)
        if is_mechanism:
            _show_parts(system.model)
        show_row("coordinates", counted(system.coordinates))
        if system.velocity_names != tuple(system.coordinates):
            show_row("velocities", counted(system.velocity_names))
        show_row("constraints", counted(system.row_names))
        show_row("inputs", counted(system.input_names))
        if not is_mechanism:
            show_row("parameters", ", ".join(f"{k} = {v}" for k, v in parameters(system).items()) or "none")
        show_row("duration", f"{example.t_end:g} s")
        show_row("mobility", f"{in_background(lambda: mobility(system, example.q), 'analysing the constraints')}")


def _show_parts(model: MechanismModel) -> None:
    """Print bodies with masses, joints with the bodies they connect, and the number of springs."""
    bodies = tuple(f"{name} ({float(mass):.4g} kg)" for name, mass in zip(model.names, model.mass, strict=True))
    show_row("bodies", counted(bodies))
    names, frames = (*model.names, "ground"), model.frames
    joints = [
        f"{name} {kind} ({names[a]} – {names[b]})"
        for name, kind, a, b in zip(frames.names, frames.kinds, frames.parent, frames.child, strict=True)
    ]
    show_row("joints", counted((*joints, *(f"{n} rolling" for n in model.rolling.names))))
    springs = len(model.spring_lines) + len(model.sprung) + len(model.bushing_frames)
    if springs:
        show_row("springs", str(springs))
