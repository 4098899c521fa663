"""The problems in bricard, with the settings of the gallery (mostly the defaults) and several tolerances.

The time is that of the whole call of `simulate`, including checks of the input, after a first call has compiled it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import bricard as br
from benchmarks.problems import Problem
from benchmarks.runs import Run
from benchmarks.timing import cpu_time

NAME = "bricard"


def run(problem: Problem, rtol: float, label: str = "", repeats: int = 5, **settings: Any) -> Run:
    """One run with relative and absolute tolerance `rtol`; `settings` override those of the example."""
    example = br.gallery.load(problem.gallery, **problem.parameters)
    chosen = {"rtol": rtol, "atol": rtol, "throw": False} | settings

    def work(part=1.0):
        span = {"t_end": part * problem.times[-1], "save": part * problem.times}
        return jax.block_until_ready(example.simulate(**(chosen | span)))

    start = time.process_time()
    trajectory = work()
    first = time.process_time() - start
    seconds = cpu_time(work, repeats)
    overhead = cpu_time(lambda: work(1e-6), 3)
    done = bool(trajectory.succeeded)
    energy, gap = _checks(example.system, trajectory.t, trajectory.q, trajectory.v, trajectory.work)
    return Run(
        problem=problem.name,
        tool=NAME,
        setting=f"{label or _label(example)}, rtol = {rtol:.0e}",
        seconds=seconds,
        error=problem.error(np.stack([problem.track(example.system, q) for q in trajectory.q])) if done else np.inf,
        energy=float(energy),
        gap=float(gap) if problem.model.loops else None,
        compile_seconds=max(0.0, first - seconds),
        note=f"{int(trajectory.stats['num_steps'])} steps; {1e3 * overhead:.2g} ms independent of the duration"
        + ("" if done else f"; failed: {trajectory.status}"),
    )


def _label(example: br.gallery.Example) -> str:
    """Settings of the example that differ from the defaults of `simulate`."""
    method = example.settings.get("route")
    return f"mu = {method.mu:.0e}" if isinstance(method, br.Proximal) else "default"


@eqx.filter_jit
def _checks(system, t, q, v, work):
    """Largest violation of the energy balance (J) and of a constraint over the states (k, …) of a run.

    `Trajectory.energy` and `constraint_error` return the same, but compile longer, because they also compute forces.
    """
    energy = jax.vmap(lambda t, q, v: system.kinetic_energy(q, v, t) + system.potential_energy(q, t))(t, q, v)
    balance = energy - jnp.sum(work, axis=1)
    gaps = jax.vmap(system.constraints)(q, t)
    return jnp.max(jnp.abs(balance - balance[0])), jnp.max(jnp.abs(gaps), initial=0.0)


RTOL = (1e-5, 1e-6, 1e-7, 1e-8, 1e-9, 1e-10, 1e-11)
STIFF = (
    ("SSPRK104", 1e-5),
    ("SSPRK104", 1e-6),
    ("SSPRK104", 1e-8),
    ("Bosh3", 1e-6),
    ("Tsit5", 1e-9),
    ("Kvaerno5", 1e-4),
)
"""Solver and tolerance for the governor. It is stiff, but only three decades lie between its motion and its fastest
decay, so that cheap explicit steps at the stability limit are accurate and beat implicit ones."""


def runs(problem: Problem, quick: bool = False) -> Iterator[Run]:
    """Several tolerances, coarse to fine."""
    chosen = STIFF if problem.name == "A05" else [("", rtol) for rtol in RTOL]
    for solver, rtol in chosen[1::3] if quick else chosen:
        settings = {"solver": getattr(br if solver == "SSPRK104" else diffrax, solver)()} if solver else {}
        yield run(problem, rtol, solver, 2 if quick or solver == "Kvaerno5" else 5, **settings)
