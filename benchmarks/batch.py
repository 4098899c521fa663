"""Throughput in runs per second: 1, 10³ and 10⁵ slider-cranks and four-bars with different initial speeds.

bricard uses `pmap` over the cores, and `vmap` or `map` on each core. MuJoCo uses `mujoco.rollout` with one thread per
core, in chunks of 1000 runs, because it stores every step. The measurement has its own process with one JAX device per
core.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from scipy.integrate import solve_ivp

from benchmarks.markdown import table
from benchmarks.models import GROUND, Body, Loop, Model
from benchmarks.problems import four_bars_model

SPAN = 2.0
"""Simulated time of each run (s)."""
SPEEDS = (1.0, 1.5)
"""Range of the initial speeds, relative to those in the gallery."""
COUNTS = (1, 1_000, 100_000)
"""Runs in a batch."""
CHUNK = 1_000
"""Runs in one call of `mujoco.rollout`."""
KINDS = ("slider-crank", "four-bar")
SETTINGS: tuple[tuple[str, float], ...] = (("vmap", 1e-4), ("vmap", 1e-5), ("map", 1e-5), ("map", 1e-6), ("map", 1e-8))
"""Transformation and tolerance: the runs on a core are vectorised (`vmap`) or sequential (`map`)."""
LARGE = 10_000
"""Larger batches are measured with one setting only."""
STEPS = (1e-3, 2e-3, 5e-3)
"""Step sizes of RK4 in MuJoCo (s)."""


def slider_crank_model() -> Model:
    """The slider-crank of the gallery at crank angle 0.3; half of the slider mass is attached to the rod end."""
    angle, z = 0.3, np.array([0.0, 0.0, 1.0])
    pin, end = np.array([np.cos(angle), np.sin(angle), 0.0]), np.array([2 * np.cos(angle), 0.0, 0.0])
    nothing, x = np.zeros((3, 3)), np.array([1.0, 0.0, 0.0])
    bodies = (
        Body("crank", GROUND, np.zeros(3), z, 1.0, pin, nothing, rate=4.0),
        Body("rod", "crank", pin, z, 0.5, end, nothing, rate=-8.0),
        Body("slider", GROUND, end, x, 0.5, end, nothing, slides=True, rate=-8.0 * np.sin(angle)),
    )
    return Model(bodies, ("crank", pin), (Loop("rod", "slider", (end,)),))


def exact(kind: str, speed: float) -> np.ndarray:
    """Final position of the compared pin, shape (2,), from the equation of motion in one coordinate."""
    if kind == "four-bar":
        factor = 9.81 * (1.0 + 1.0) / (2 / 3 + 1.0)
        start = [0.0, speed]

        def rate(t, y):
            return [y[1], factor * np.sin(y[0])]
    else:
        start = [0.3, 4.0 * speed]

        def rate(t, y):  # ½ (1 + 4 sin²φ) φ̇² + g sin φ is conserved
            s, c = np.sin(y[0]), np.cos(y[0])
            return [y[1], -(4 * s * c * y[1] ** 2 + 9.81 * c) / (1 + 4 * s**2)]

    angle = solve_ivp(rate, (0.0, SPAN), start, method="DOP853", rtol=1e-12, atol=1e-12).y[0, -1]
    return np.array([np.sin(angle), np.cos(angle)]) if kind == "four-bar" else np.array([np.cos(angle), np.sin(angle)])


def ours(kind: str, count: int, how: str, rtol: float) -> Callable[[], np.ndarray]:
    """A function that simulates the batch in bricard and returns the final positions of the pins, shape (count, 2)."""
    import diffrax
    import jax
    import jax.numpy as jnp

    import bricard as br

    example = br.gallery.load("slider-crank") if kind == "slider-crank" else br.gallery.load("n-four-bar", n=1)
    system: Any = example.system
    devices = jax.local_device_count()
    devices = 1 if count < devices else devices

    def last(speed):
        run = br.simulate(
            system,
            jnp.asarray(example.q),
            speed * jnp.asarray(example.v),
            SPAN,
            save=2,
            throw=False,
            adjoint=diffrax.ForwardMode(),
            rtol=rtol,
            atol=rtol,
        )
        q = run.q[-1]
        return system.pins(q)[0][0] if kind == "four-bar" else system.points(q)[0]

    speeds = jnp.asarray(np.linspace(*SPEEDS, count)).reshape(devices, -1)
    per_core = jax.vmap(last) if how == "vmap" else lambda speeds: jax.lax.map(last, speeds)
    batch = jax.pmap(per_core, devices=jax.devices()[:devices])
    return lambda: np.asarray(batch(speeds)).reshape(count, 2)


def mujoco(kind: str, count: int, step: float) -> Callable[[], np.ndarray]:
    """A function that simulates the batch in MuJoCo; see `ours`."""
    from mujoco import rollout

    from benchmarks.peers.mujoco_ import Simulation

    model = four_bars_model(1) if kind == "four-bar" else slider_crank_model()
    simulation = Simulation(model, step, "RK4", 0.75)
    mj, threads = simulation.mujoco, os.cpu_count() or 1
    data = [mj.MjData(simulation.model) for _ in range(threads)]
    spec = mj.mjtState.mjSTATE_FULLPHYSICS
    state = np.zeros(mj.mj_stateSize(simulation.model, spec))
    mj.mj_getState(simulation.model, simulation.data, state, spec)
    starts = np.tile(state, (count, 1))
    nv = simulation.model.nv
    starts[:, -nv:] = simulation.data.qvel * np.linspace(*SPEEDS, count)[:, None]
    steps = round(SPAN / step)

    def work():
        ends = []
        for first in range(0, count, CHUNK):
            states, _ = rollout.rollout(
                simulation.model, data, starts[first : first + CHUNK], nstep=steps, persistent_pool=True
            )
            ends.append(np.asarray(states)[:, -1, 1])  # angle of the first joint; entry 0 is the time
        angle = np.concatenate(ends)
        if kind == "four-bar":
            return np.stack([np.sin(angle), np.cos(angle)], axis=1)
        return np.stack([np.cos(0.3 + angle), np.sin(0.3 + angle)], axis=1)

    return work


def measure_here(quick: bool) -> list[dict[str, Any]]:
    """All measurements, in this process."""
    from benchmarks.timing import wall_time

    rows = []
    for kind in KINDS:
        cases: list[tuple[str, str, Callable[[int], Callable[[], np.ndarray]]]] = [
            ("bricard", f"{how}, rtol = {rtol:g}", lambda n, how=how, rtol=rtol, k=kind: ours(k, n, how, rtol))
            for how, rtol in (SETTINGS[1::2] if quick else SETTINGS)
        ]
        if find_spec("mujoco") is None:
            print("MuJoCo is not installed and is left out", file=sys.stderr)
        else:
            cases += [
                ("MuJoCo", f"RK4, h = {h:g} s", lambda n, h=h, k=kind: mujoco(k, n, h))
                for h in STEPS[: 1 if quick else 3]
            ]
        for tool, setting, prepare in cases:
            for count in COUNTS[:2] if quick else COUNTS:
                if count > LARGE and setting != "map, rtol = 1e-05":
                    continue  # MuJoCo works in chunks, so its throughput does not depend on the count
                work = prepare(count)
                start = time.perf_counter()
                ends = work()
                first = time.perf_counter() - start
                sample = np.linspace(0, count - 1, min(count, 9)).astype(int)
                expected = np.stack([exact(kind, s) for s in np.linspace(*SPEEDS, count)[sample]])
                once = tool == "MuJoCo" and first > 5.0  # its first call includes no compilation
                seconds = first if once else wall_time(work, 3 if count > 1 else 20)
                row = {"kind": kind, "tool": tool, "setting": setting, "count": count, "seconds": seconds}
                row["error"] = float(np.max(np.linalg.norm(ends[sample] - expected, axis=1)))
                rows.append(row)
                print(json.dumps(row), flush=True)
    return rows


def measure(quick: bool = False) -> dict[str, Any]:
    """All measurements, in a new process with one JAX device per core."""
    flags = os.environ.get("XLA_FLAGS", "") + f" --xla_force_host_platform_device_count={os.cpu_count() or 1}"
    command = [sys.executable, "-u", "-m", "benchmarks.batch", *(["--quick"] if quick else [])]
    rows = []
    environment, root = os.environ | {"XLA_FLAGS": flags}, Path(__file__).parents[1]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True, cwd=root) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("{"):
                rows.append(json.loads(line))
                print(_progress(rows[-1]), flush=True)
    if process.returncode:
        raise RuntimeError("the batch benchmark failed; see its output above")
    return {"rows": rows, "span": SPAN, "cores": os.cpu_count()}


def _progress(r: dict[str, Any]) -> str:
    rate = r["count"] / r["seconds"]
    return (
        f"{r['kind']:13} {r['tool']:8} {r['setting']:18} {r['count']:7} runs {rate:12.0f}/s, error {r['error']:.1e} m"
    )


def compared(data: dict[str, Any]) -> list[dict[str, Any]]:
    """Each setting of MuJoCo with the fastest setting of bricard that is at least as accurate."""
    found = []
    for peer in (r for r in data["rows"] if r["tool"] == "MuJoCo"):
        same = [
            r
            for r in data["rows"]
            if r["tool"] == "bricard" and (r["kind"], r["count"]) == (peer["kind"], peer["count"])
        ]
        accurate = [r for r in same if r["error"] <= peer["error"]]
        best = min(accurate, key=lambda r: r["seconds"], default=None)
        found.append({"peer": peer, "ours": best, "ratio": peer["seconds"] / best["seconds"] if best else None})
    return found


def ratios(data: dict[str, Any]) -> dict[str, float]:
    """Ratio of the time of bricard to the time of MuJoCo, at equal or better accuracy."""
    return {
        f"batch {c['peer']['kind']} {c['peer']['count']} {c['peer']['setting']}": 1 / c["ratio"]
        for c in compared(data)
        if c["ratio"]
    }


def markdown(data: dict[str, Any]) -> str:
    """Tables of the throughput, and of the comparison at equal accuracy."""
    rows = [
        [
            r["kind"],
            f"{r['tool']}, {r['setting']}",
            f"{r['count']}",
            f"{r['count'] / r['seconds']:.3g}",
            f"{r['error']:.0e} m",
        ]
        for r in data["rows"]
    ]
    pairs = [
        [
            c["peer"]["kind"],
            f"{c['peer']['count']}",
            _cell(c["peer"]),
            "no setting is as accurate" if c["ours"] is None else _cell(c["ours"]),
            "" if c["ratio"] is None else f"{c['ratio']:.2g}",
        ]
        for c in compared(data)
    ]
    return (
        f"Runs of {data['span']:g} s on {data['cores']} cores (target: 10 times faster than MuJoCo for 10³ runs):\n\n"
        + table(["", "runs", "MuJoCo", "bricard, at least as accurate", "speed-up"], pairs)
        + "\n\nAll settings:\n\n"
        + table(["", "tool", "runs", "runs per second", "largest error"], rows)
    )


def _cell(r: dict[str, Any]) -> str:
    return f"{r['setting']}: {r['count'] / r['seconds']:.3g}/s, {r['error']:.0e} m"


if __name__ == "__main__":
    import bricard as br

    br.configure(small_loops=300_000)  # recommended for batches: docs/performance.md
    measure_here("--quick" in sys.argv)
