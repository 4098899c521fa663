"""How long does a stability chart take? `python -m benchmarks.charts`: 300 × 300 points, after compilation."""

from __future__ import annotations

import time

import jax.numpy as jnp
import numpy as np

import bricard as br

SIZE = 300


def tip(q):
    return q[:1] + 0.9 * jnp.sin(q[1:])


def platform(q):
    return jnp.array([q[1] - 0.5 * (q[3] + q[5]), 0.5 * (q[2] + q[4]), 0.5 * (q[3] + q[5]), q[3] - q[5]])


def by_connector(q):
    return platform(q).at[1].set(q[0])


def measure(name, system, q, law, period, kp, kd):
    loop = br.control.Sampled(law, period, delay=1)
    grids = {"kp": np.linspace(0, kp, SIZE), "kd": np.linspace(0, kd, SIZE)}
    br.stability.chart(system, q, loop, **{n: g[:: SIZE // 10] for n, g in grids.items()})  # compiles
    wall, work = [], []
    for _ in range(3):
        start = time.perf_counter(), time.process_time()
        br.stability.chart(system, q, loop, **grids)
        wall.append(time.perf_counter() - start[0])
        work.append(time.process_time() - start[1])
    print(
        f"{name:20} {min(wall):6.2f} s ({1e6 * min(wall) / SIZE**2:5.1f} µs per point), "
        f"{min(work):6.2f} s of computing ({1e6 * min(work) / SIZE**2:5.1f} µs per point)"
    )


def main():
    print(f"Stability chart, {SIZE} × {SIZE} points, one sample of delay")
    cart = br.gallery.load("sliding-pendulum").system
    measure(
        "sliding pendulum", cart, [0.0, 0.0], br.control.Blended(cart, tip, "cart", [0.0], 1.0, 1.0, 0.6), 0.03, 300, 40
    )
    example = br.gallery.load("acroboter")
    law = br.control.Blended(example.system, platform, by_connector, [0.5, 0.0, -1.5, 0.0], 1.0, 1.0, 0.9)
    measure("Acroboter", example.system, example.q, law, 0.01, 3000, 80)


if __name__ == "__main__":
    main()
