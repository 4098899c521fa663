"""`bricard bench`: what routes and runs cost on this machine."""

from __future__ import annotations

import os
import platform
import time
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from bricard.cli.app import Debug, app, start
from bricard.cli.completion import ROUTES, complete_model
from bricard.cli.models import load_model, route
from bricard.cli.terminal import errors_in_two_lines, in_background, progress_bar, show, show_table

if TYPE_CHECKING:
    from bricard.gallery import Example

MODELS = ("slider-crank", "n-four-bar", "andrews")
"""Small, redundant rows that become singular, many coordinates; all quickly compiled."""

EVALUATIONS, REPEATS = 200, 5


@app.command()
def bench(
    models: Annotated[
        list[str] | None,
        typer.Argument(
            help=f"Models to measure; by default {', '.join(MODELS)}.",
            show_default=False,
            autocompletion=complete_model,
        ),
    ] = None,
    debug: Debug = False,
) -> None:
    """Measure one acceleration by each route, and whole runs: best of several, on this machine."""
    with errors_in_two_lines(debug):
        start()
        examples = {name: load_model(name, {}) for name in models or MODELS}
        costs: dict[tuple[str, str], float] = {}
        runs = {}
        with progress_bar(len(examples) * (len(ROUTES) + 1)) as advance:
            for name, example in examples.items():
                for by in ROUTES:
                    costs[by, name] = in_background(
                        lambda e=example, r=by: evaluation(e, route(r)), advance(f"{name} {by}")
                    )
                runs[name] = in_background(lambda e=example: whole_run(e), advance(f"{name}, a whole run"))
        _tell(list(examples), costs, runs)


def evaluation(example: Example, method: Any) -> float:
    """Time (s) of one acceleration, from many in a row inside one compiled loop."""
    import equinox as eqx
    import jax
    import jax.numpy as jnp

    from bricard.equations.problem import equilibrate, row_variation, state_problem

    system, u = example.system, jnp.zeros(example.system.nu)
    q, v = jnp.asarray(example.q), jnp.asarray(example.v)

    @eqx.filter_jit
    def many(q, v):
        variation = row_variation(system, q, 0.0)

        def one(state, _):
            q, v = state  # both move: what stays the same might be computed once for all
            scaled, units = equilibrate(state_problem(system, q, v, u, 0.0, variation))
            acceleration = method.acceleration(scaled) * units.columns
            return (q + 1e-9 * system.qdot(q, v), v + 1e-9 * acceleration), None

        return jax.lax.scan(one, (q, v), length=EVALUATIONS)[0]

    return _best(lambda: jax.block_until_ready(many(q, v))) / EVALUATIONS


def whole_run(example: Example) -> tuple[float, float]:
    """Time (s) of a run with default settings: the first, and the best of those that follow."""
    began = time.perf_counter()
    example.simulate(throw=False).q.block_until_ready()
    first = time.perf_counter() - began
    return first, _best(lambda: example.simulate(throw=False).q.block_until_ready())


def _best(work: Any) -> float:
    work()
    times = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return min(times)


def _tell(names: list[str], costs: dict[tuple[str, str], float], runs: dict[str, tuple[float, float]]) -> None:
    import jax

    show(Text("One acceleration (µs)", style="bold"))
    table = Table(box=None, pad_edge=False, header_style="cyan")
    table.add_column("route", no_wrap=True)
    for name in names:
        table.add_column(name, justify="right", no_wrap=True)
    for by in sorted(ROUTES, key=lambda r: (r != "proximal", costs[r, names[0]])):
        table.add_row(by, *(f"{1e6 * costs[by, name]:.1f}" for name in names))
    show_table(table)
    show()
    show(Text("A whole run with default settings (s)", style="bold"))
    table = Table(box=None, pad_edge=False, header_style="cyan")
    for heading, side in (("model", "left"), ("first", "right"), ("again", "right")):
        table.add_column(heading, justify="right" if side == "right" else "left", no_wrap=True)
    for name, (first, again) in runs.items():
        table.add_row(name, f"{first:.2f}", f"{again:.3f}")
    show_table(table)
    machine = f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}, jax {jax.__version__}"
    show(Text(f"On {machine}. First runs compile, unless the cache has them; times vary, ratios less so.", style="dim"))
