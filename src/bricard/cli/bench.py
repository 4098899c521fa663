"""`bricard bench`: time of accelerations and complete runs on this machine."""

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
from bricard.cli.models import load_model, make_route
from bricard.cli.terminal import errors_in_two_lines, in_background, progress_bar, show, show_table

if TYPE_CHECKING:
    from bricard.gallery import Example

MODELS = ("slider-crank", "n-four-bar", "andrews")
"""A small model, one with singular positions, and one with many coordinates; all compile quickly."""

EVALUATIONS, REPEATS = 200, 5
"""Accelerations per timed call, and timed calls of which the fastest counts."""


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
    """Time one acceleration by each route, and complete runs, on this machine (best of several)."""
    with errors_in_two_lines(debug):
        start()
        examples = {name: load_model(name, {}) for name in models or MODELS}
        costs: dict[tuple[str, str], float] = {}
        runs = {}
        with progress_bar(len(examples) * (len(ROUTES) + 1)) as advance:
            for name, example in examples.items():
                for route in ROUTES:
                    costs[route, name] = in_background(
                        lambda e=example, r=route: evaluation(e, make_route(r)), advance(f"{name} {route}")
                    )
                runs[name] = in_background(lambda e=example: whole_run(e), advance(f"{name}, complete run"))
        _show_times(list(examples), costs, runs)


def evaluation(example: Example, route: Any) -> float:
    """Time of one acceleration (s), averaged over a compiled loop."""
    import jax
    import jax.numpy as jnp

    from bricard.equations.problem import equilibrate, row_variation, state_problem
    from bricard.execution.compile import xla_jit

    system, u = example.system, jnp.zeros(example.system.nu)
    q, v = jnp.asarray(example.q), jnp.asarray(example.v)

    @xla_jit
    def loop(q, v):
        variation = row_variation(system, q, 0.0)

        def one(state, _):
            q, v = state  # both change, so that XLA cannot hoist the evaluation out of the loop
            scaled, units = equilibrate(state_problem(system, q, v, u, 0.0, variation))
            acceleration = route.acceleration(scaled) * units.columns
            return (q + 1e-9 * system.qdot(q, v), v + 1e-9 * acceleration), None

        return jax.lax.scan(one, (q, v), length=EVALUATIONS)[0]

    return _best(lambda: jax.block_until_ready(loop(q, v))) / EVALUATIONS


def whole_run(example: Example) -> tuple[float, float]:
    """Times of runs with default settings (s): the first run, and the best of those that follow."""
    start = time.perf_counter()
    example.simulate(throw=False).q.block_until_ready()
    first = time.perf_counter() - start
    return first, _best(lambda: example.simulate(throw=False).q.block_until_ready())


def _best(work: Any) -> float:
    work()
    times = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def _show_times(names: list[str], costs: dict[tuple[str, str], float], runs: dict[str, tuple[float, float]]) -> None:
    import jax

    show(Text("Time of one acceleration (µs)", style="bold"))
    table = Table(box=None, pad_edge=False, header_style="cyan")
    table.add_column("route", no_wrap=True)
    for name in names:
        table.add_column(name, justify="right", no_wrap=True)
    for route in sorted(ROUTES, key=lambda r: (r != "proximal", costs[r, names[0]])):
        table.add_row(route, *(f"{1e6 * costs[route, name]:.1f}" for name in names))
    show_table(table)
    show()
    show(Text("Time of a complete run with default settings (s)", style="bold"))
    table = Table(box=None, pad_edge=False, header_style="cyan")
    for heading, side in (("model", "left"), ("first run", "right"), ("later runs", "right")):
        table.add_column(heading, justify="right" if side == "right" else "left", no_wrap=True)
    for name, (first, again) in runs.items():
        table.add_row(name, f"{first:.2f}", f"{again:.3f}")
    show_table(table)
    machine = f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}, jax {jax.__version__}"
    show(Text(f"Measured on {machine}. First runs include compilation, unless it is cached.", style="dim"))
