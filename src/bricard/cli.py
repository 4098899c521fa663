"""`bricard …`: from a mechanism to a picture, without writing a program.

JAX takes a second to import, so nothing here imports it before a command needs it.
"""

from __future__ import annotations

import ast
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, TypeVar

try:
    import typer
    from rich.console import Console
    from rich.text import Text
except ModuleNotFoundError as missing:
    sys.exit(f"bricard: the command line needs {missing.name}, which is not installed.\npip install 'bricard[cli]'")

if TYPE_CHECKING:
    from bricard.gallery import Example
    from bricard.report import Summary
    from bricard.simulate import Trajectory

T = TypeVar("T")

FAILED, BAD_USAGE, INTERRUPTED = 1, 2, 130
"""Exit codes: a run that did not reach its end, arguments that cannot be right, Ctrl-C."""

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
    with _errors_in_two_lines(debug):
        _start()
        from bricard import gallery

        names = gallery.names()
        width = max(map(len, names)) + 2
        for name in names:
            _print(Text(name.ljust(width), style="bold"), gallery.load(name).title)


@app.command()
def info(model: Model, set: Set = None, debug: Debug = False) -> None:
    """Say what a mechanism is: coordinates, constraints, inputs, parameters, mobility."""
    with _errors_in_two_lines(debug):
        _start()
        from bricard.equations import mobility
        from bricard.report.summary import parameters

        example = _load(model, _assignments(set))
        system = example.system
        _print(Text(example.title or type(system).__name__, style="bold"))
        if example.source:
            _print(Text(example.source, style="dim"))
        _print()
        _row("coordinates", _counted(system.coordinates))
        if system.velocity_names != tuple(system.coordinates):
            _row("velocities", _counted(system.velocity_names))
        _row("constraints", _counted(system.row_names))
        _row("inputs", _counted(system.input_names))
        _row("parameters", ", ".join(f"{k} = {v}" for k, v in parameters(system).items()) or "none")
        _row("duration", f"{example.t_end:g} s")
        _row("mobility", f"{_in_background(lambda: mobility(system, example.q), 'looking at the constraints')}")


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
    with _errors_in_two_lines(debug):
        if output is not None and output.suffix.lower() not in OUTPUTS:
            raise Usage(f"--output {output}: the name has to end in one of {', '.join(OUTPUTS)}")
        assignments = _assignments(set)
        options: dict[str, Any] = {"t_end": t_end, "q": _numbers("q", q), "v": _numbers("v", v), "rtol": rtol}
        options = {name: value for name, value in options.items() if value is not None}
        _start()
        if output is not None:
            from bricard.report.files import check_writable

            check_writable(output)  # before anything is computed
        if method is not None:
            options["method"] = _route(method)
        example = _load(model, assignments)
        trajectory = _simulate(example, options, progress)
        summary, page = _in_background(lambda: _told(trajectory, example, options, output), "computing what follows")
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
            _print(Text("The start was moved onto the constraints.", style="yellow"))
            trajectory = example.simulate(**(settings | {"q": near.q, "v": near.v}))
        trajectory.q.block_until_ready()
        return trajectory

    def stage() -> str:
        return f"integrating, {100 * done[0]:.0f} %" if done[0] else "compiling and integrating"

    return _in_background(work, stage)


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
    _print(Text(summary.title or summary.name, style="bold"))
    _row("simulated", f"{summary.span[0]:g} to {summary.span[1]:g} s, {summary.states} states saved")
    if summary.steps is not None:
        _row("steps", f"{summary.steps}{rejected}")
    _row("energy drift", f"{summary.energy_drift:.3g} J")
    _row("constraint error", f"{summary.constraint_error:.3g}")
    _row("singular", summary.singular_words)
    _row("mobility", summary.mobility)
    if output is not None:
        _row("written to", str(output))
    if summary.failed:
        _complain(summary.status, "What there is of the run was kept.")


# -- arguments ---------------------------------------------------------------------------------------------------------


class Usage(Exception):
    """Arguments that cannot be right: what is wrong, and what to do."""

    def __init__(self, problem: str, advice: str = "`bricard run --help` explains the options."):
        self.advice = advice
        super().__init__(problem)


def _assignments(given: list[str] | None) -> dict[str, Any]:
    """`name=value` pairs as a dictionary."""
    values = {}
    for text in given or []:
        name, equals, value = text.partition("=")
        if not equals or not name.strip().isidentifier():
            raise Usage(f"--set {text}: expected name=value")
        values[name.strip()] = _value(text, value.strip())
    return values


def _value(text: str, value: str) -> Any:
    if value.lower() in ("true", "false"):
        return value.lower() == "true"
    try:
        return ast.literal_eval(value)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        raise Usage(
            f"--set {text}: {value!r} is not a number", "Lists are written as [1, 2], words in quotes."
        ) from None


def _numbers(name: str, text: str | None) -> list[float] | None:
    if text is None:
        return None
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise Usage(f"--{name} {text}: expected numbers with commas between them, as in --{name}=0.3,-0.6") from None


def _route(name: str) -> Any:
    import difflib

    import bricard.equations as equations

    routes = {
        n.lower(): kind
        for n, kind in vars(equations).items()
        if isinstance(kind, type) and issubclass(kind, equations.Route) and kind is not equations.Route
    }
    plain = name.lower().replace("-", "").replace("_", "")
    if plain in routes:
        return routes[plain]()
    near = difflib.get_close_matches(plain, routes, n=1)
    shown = ", ".join(sorted(kind.__name__ for kind in routes.values()))
    advice = f"Did you mean {routes[near[0]].__name__}?" if near else f"There are {shown}."
    raise Usage(f"--method {name}: there is no such route", advice)


def _load(model: str, assignments: dict[str, Any]) -> Example:
    """A gallery entry, or what a Python file holds."""
    from bricard import gallery
    from bricard.errors import BricardError

    path, colon, name = model.rpartition(":")
    if not colon or len(path) == 1:  # `C:\model.py` has a colon too
        path, name = model, ""
    if Path(path).suffix.lower() in (".xml", ".urdf", ".mjcf"):
        raise Usage(
            f"{path}: MJCF and URDF files cannot be read yet", "Give a name from `bricard list` or file.py:object."
        )
    try:
        if Path(path).suffix == ".py":
            return _from_file(Path(path), name, assignments)
        return gallery.load(model, **assignments)
    except (BricardError, Usage):
        raise
    except Exception as error:
        raise Usage(f"{model}: {type(error).__name__}: {error}", "--debug shows where.") from error


def _from_file(path: Path, name: str, assignments: dict[str, Any]) -> Example:
    """The system or example called `name` in a Python file; running the file is what was asked for."""
    import importlib.util

    from bricard.gallery import Example
    from bricard.system import System

    if not path.is_file():
        raise Usage(f"{path}: there is no such file", "Give a name from `bricard list` or file.py:object.")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    sys.path.insert(0, str(path.parent.resolve()))
    spec.loader.exec_module(module)
    own = {
        n: value
        for n, value in vars(module).items()
        if isinstance(value, (System, Example))
        or (isinstance(value, type) and issubclass(value, System) and value.__module__ == module.__name__)
    }
    there = f"There {'is' if len(own) == 1 else 'are'} {', '.join(own) or 'no system in it'}."
    if not name:
        if len(own) != 1:
            raise Usage(f"{path}: say which object, as in {path.name}:object", there)
        (name,) = own
    found = vars(module).get(name)
    if found is None:
        raise Usage(f"{path}: there is no {name!r} in it", there)
    return _as_example(found, name, assignments)


def _as_example(found: Any, name: str, assignments: dict[str, Any]) -> Example:
    """An example of a system, of a class of systems, or of a function that makes one of them."""
    import dataclasses
    import inspect

    import numpy as np

    from bricard.gallery import Example
    from bricard.system import System

    if callable(found) and not isinstance(found, (System, Example)):
        known = list(inspect.signature(found).parameters)
        _check_known(name, assignments, known)
        found, assignments = found(**assignments), {}
    if isinstance(found, System):
        title = (inspect.getdoc(type(found)) or "").splitlines()[:1] if type(found).__doc__ else []
        found = Example(found, "".join(title), "", q=np.zeros(found.nq), v=np.zeros(found.nv), t_end=10.0)
    if not isinstance(found, Example):
        raise Usage(f"{name}: neither a System nor an Example, but {type(found).__name__}")
    _check_known(name, assignments, [f.name for f in dataclasses.fields(found.system)])
    return dataclasses.replace(found, system=dataclasses.replace(found.system, **assignments)) if assignments else found


def _check_known(name: str, assignments: dict[str, Any], known: list[str]) -> None:
    for parameter in assignments:
        if parameter not in known:
            raise Usage(
                f"{name}: no parameter called {parameter!r}", f"Its parameters are {', '.join(known) or 'none'}."
            )


# -- terminal ----------------------------------------------------------------------------------------------------------


def _print(*parts: Text | str) -> None:
    # Lines are left whole where the output is read by another program.
    line = Text.assemble(*(p if isinstance(p, Text) else Text(p) for p in parts))
    Console(highlight=False).print(line, soft_wrap=not sys.stdout.isatty())


def _row(label: str, value: str) -> None:
    _print(Text(f"  {label:<18}", style="cyan"), value)


def _counted(names: tuple[str, ...], most: int = 12) -> str:
    shown = ", ".join(names[:most]) + (", …" if len(names) > most else "")
    return f"{len(names)}: {shown}" if names else "none"


def _complain(problem: str, advice: str) -> None:
    console = Console(stderr=True, highlight=False)
    console.print(Text.assemble(("error: ", "bold red"), problem), soft_wrap=True)
    console.print(Text(advice), soft_wrap=True)


def _in_background(work: Callable[[], T], stage: str | Callable[[], str]) -> T:
    """Do the work in a thread, and show what goes on: compiled code in the main thread would not hear Ctrl-C."""
    outcome: list[Any] = []

    def keep() -> None:
        try:
            outcome.append((work(), None))
        except BaseException as error:
            outcome.append((None, error))

    threading.stack_size(64 * 1024 * 1024)  # the compiler recurses deeply; some systems give threads little
    thread = threading.Thread(target=keep, daemon=True)
    began = time.monotonic()
    try:
        with Console(stderr=True).status("") as status:
            thread.start()
            while thread.is_alive():
                thread.join(0.1)
                doing = stage if isinstance(stage, str) else stage()
                status.update(Text(f"{doing} · {time.monotonic() - began:.0f} s"))
    except KeyboardInterrupt:
        # Not by way of Python's own end: it would wait for the thread, or pull the ground from under it.
        _complain("interrupted", "Nothing was written.")
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(INTERRUPTED)
    value, error = outcome[0]
    if error is not None:
        raise error
    return value


@contextmanager
def _errors_in_two_lines(debug: bool) -> Iterator[None]:
    """What went wrong and what to do about it, instead of a traceback."""
    try:
        yield
    except typer.Exit:
        raise
    except KeyboardInterrupt:
        _complain("interrupted", "Nothing was written.")
        raise typer.Exit(INTERRUPTED) from None
    except Exception as error:
        if debug:
            raise
        _fail(error)


def _fail(error: Exception) -> NoReturn:
    if isinstance(error, Usage):
        _complain(str(error), error.advice)
        raise typer.Exit(BAD_USAGE) from None
    from bricard.errors import BricardError, ModelError

    problem, *more = str(error).splitlines() or [""]
    advice = "; ".join(line.strip(" -") for line in more) or "--debug shows where."
    if not isinstance(error, BricardError):
        problem = f"{type(error).__name__}: {problem}"
    _complain(problem, advice)
    raise typer.Exit(BAD_USAGE if isinstance(error, ModelError) else FAILED) from None


if __name__ == "__main__":
    main()
