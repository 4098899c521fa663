"""Time of a stability chart of 300 × 300 points, after compilation."""

from __future__ import annotations

import time

import jax.numpy as jnp
import numpy as np

import bricard as br
from benchmarks.markdown import table

SIZE = 300
"""Points along each axis."""


def tip(q):
    return q[:1] + 0.9 * jnp.sin(q[1:])


def platform(q):
    return jnp.array([q[1] - 0.5 * (q[3] + q[5]), 0.5 * (q[2] + q[4]), 0.5 * (q[3] + q[5]), q[3] - q[5]])


def by_connector(q):
    return platform(q).at[1].set(q[0])


def timed(name, system, q, law, period, kp, kd):
    """Smallest wall time and CPU time (s) of three charts, after compilation."""
    loop = br.control.Sampled(law, period, delay_samples=1)
    grids = {"kp": np.linspace(0, kp, SIZE), "kd": np.linspace(0, kd, SIZE)}
    br.stability.chart(system, q, loop, **{n: g[:: SIZE // 10] for n, g in grids.items()})  # compiles
    wall, work = [], []
    for _ in range(3):
        start = time.perf_counter(), time.process_time()
        br.stability.chart(system, q, loop, **grids)
        wall.append(time.perf_counter() - start[0])
        work.append(time.process_time() - start[1])
    print(f"{name}: {min(wall):.2f} s, {min(work):.2f} s CPU time", flush=True)
    return {"name": name, "wall": min(wall), "work": min(work)}


def measure(quick=False):
    """Times for the sliding pendulum and, unless `quick`, the Acroboter."""
    cart = br.gallery.load("sliding-pendulum").system
    law = br.control.Blended(cart, tip, "cart", [0.0], 1.0, 1.0, 0.6)
    rows = [timed("sliding pendulum", cart, [0.0, 0.0], law, 0.03, 300, 40)]
    if not quick:
        example = br.gallery.load("acroboter")
        law = br.control.Blended(example.system, platform, by_connector, [0.5, 0.0, -1.5, 0.0], 1.0, 1.0, 0.9)
        rows.append(timed("Acroboter", example.system, example.q, law, 0.01, 3000, 80))
    return {"rows": rows, "size": SIZE}


def markdown(data):
    """Table with one row per system."""
    points = data["size"] ** 2
    rows = [
        [r["name"], f"{r['wall']:.2f} s", f"{r['work']:.2f} s", f"{1e6 * r['work'] / points:.1f} µs"]
        for r in data["rows"]
    ]
    head = ["", "time", "CPU time", "CPU time per point"]
    return f"Stability charts of {data['size']} × {data['size']} points, one sample of delay:\n\n" + table(head, rows)
