"""Time of one acceleration of N four-bars, by each route and in MuJoCo."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

import bricard as br
from benchmarks.markdown import table
from benchmarks.problems import four_bars_model
from benchmarks.timing import cpu_time
from bricard.equations.linalg.sparse import find_structure
from bricard.equations.problem import equilibrate, row_variation, state_problem
from bricard.execution.compile import compiled
from bricard.gallery import Example
from bricard.simulation.controller import make_controller
from bricard.simulation.vector_field import Setting, State, vector_field

ROUTES = {
    "Proximal": br.Proximal(),
    "Multipliers": br.Multipliers(),
    "Gauss": br.Gauss(),
    "Projection": br.Projection(),
    "MassProjection": br.MassProjection(),
    "NullSpace": br.NullSpace(),
    "Partitioning": br.Partitioning(),
    "QuasiVelocity": br.QuasiVelocity(),
    "Penalty": br.Penalty(),
    "AugmentedLagrangian": br.AugmentedLagrangian(),
}
DEFAULT = "default, as in a run"
"""The evaluation as in `simulate`: sparse for large systems, with constant expressions hoisted."""
SIZES = (1, 2, 10, 40)
LARGE_SIZES = (100, 400)
"""Measured for the default route and MuJoCo only."""


def measure(quick: bool = False) -> dict[str, Any]:
    """Time of one evaluation (s), by tool or route and by N."""
    sizes = SIZES[:3] if quick else SIZES
    costs: dict[str, dict[str, float]] = {name: {} for name in ("MuJoCo", DEFAULT, *ROUTES)}
    for n in sizes if quick else (*SIZES, *LARGE_SIZES):
        example = br.gallery.load("n-four-bar", n=n)
        costs[DEFAULT][str(n)] = time_in_run(example)
        for name, method in ROUTES.items() if n in sizes else ():
            costs[name][str(n)] = time_route(example, method)
        peer = time_mujoco(n)
        if peer is not None:
            costs["MuJoCo"][str(n)] = peer
        shown = {name: f"{1e6 * c[str(n)]:.1f} µs" for name, c in costs.items() if str(n) in c}
        print(f"N = {n}: {shown}", flush=True)
    return {"costs": {name: c for name, c in costs.items() if c}}


def time_route(example: Example, method: Any) -> float:
    """Time of one acceleration (s), including mass matrix and bias forces, averaged over a compiled loop."""
    system = example.system
    q, v = jnp.asarray(example.q), jnp.asarray(example.v)
    variation = row_variation(system, q, 0.0)
    count = max(5, 2000 // system.nv)

    @eqx.filter_jit
    def loop(q, v):
        def one(state, _):
            q, v = state  # both change, so that XLA cannot hoist the evaluation out of the loop
            scaled, units = equilibrate(state_problem(system, q, v, jnp.zeros(system.nu), 0.0, variation))
            return (q + 1e-9 * v, v + 1e-9 * method.acceleration(scaled) * units.columns), None

        return jax.lax.scan(one, (q, v), length=count)[0]

    jax.block_until_ready(loop(q, v))
    return cpu_time(lambda: jax.block_until_ready(loop(q, v))) / count


def time_in_run(example: Example) -> float:
    """Time of one evaluation of the vector field as in a run (s), including the rates of work."""
    system, t = example.system, jnp.zeros(())
    q, v = jnp.asarray(example.q), jnp.asarray(example.v)
    controller = make_controller(system, None, None)
    structure = find_structure(system, q, t)
    count = max(50, 20_000 // system.nv)

    # By LLVM or XLA, whichever has the run: its program is larger than that of an evaluation.
    run = example.simulate(t_end=1e-6, save=2)
    compile_ = compiled if run.execution.startswith("LLVM") else eqx.filter_jit

    @compile_
    def loop(system, controller, variation, y, t):
        setting = Setting(system, br.Proximal(), br.Project(), controller, variation, structure).ready(t, y)

        def one(_, y):
            return jax.tree.map(lambda x, rate: x + 1e-9 * rate, y, vector_field(t, y, setting))

        return jax.lax.fori_loop(0, count, one, y)

    arguments = system, controller, row_variation(system, q, 0.0), State(q, v, jnp.zeros(3), ()), t
    jax.block_until_ready(loop(*arguments))
    return cpu_time(lambda: jax.block_until_ready(loop(*arguments))) / count


def time_mujoco(n: int) -> float | None:
    """Time of one evaluation in MuJoCo (s): one step of its Euler method, which costs little more than `mj_forward`."""
    try:
        from benchmarks.peers.mujoco_ import Simulation

        simulation = Simulation(four_bars_model(n), 1e-6, "Euler", 2.0)
    except ImportError:
        return None
    count = max(20, 20_000 // n)

    def work():
        simulation.reset()
        simulation.steps(count)

    return cpu_time(work) / count


def ratios(data: dict[str, Any]) -> dict[str, float]:
    """Ratio of the time of bricard to the time of MuJoCo."""
    costs = data["costs"]
    peer = costs.get("MuJoCo", {})
    return {f"evaluation N={n}": costs[DEFAULT][n] / peer[n] for n in peer if n in costs[DEFAULT]}


def markdown(data: dict[str, Any]) -> str:
    """Table of the times in microseconds, by route and N."""
    costs = data["costs"]
    sizes = sorted({int(n) for c in costs.values() for n in c})
    rows = [[name, *(_micro(c.get(str(n))) for n in sizes)] for name, c in costs.items()]
    rows.append(
        ["default over MuJoCo"]
        + [f"{r:.2g}" if (r := ratios(data).get(f"evaluation N={n}")) is not None else "" for n in sizes]
    )
    return "Time of one acceleration of N four-bars (µs):\n\n" + table(["", *(f"N = {n}" for n in sizes)], rows)


def _micro(seconds: float | None) -> str:
    return "" if seconds is None else f"{1e6 * seconds:.3g}"
