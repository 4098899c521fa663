"""What does each route cost, and how long does a run take? Best of several, as ratios to the default route.

`make bench` or `python -m benchmarks`. Times vary between machines; ratios in one run are what to compare.
"""

from __future__ import annotations

import time

import equinox as eqx
import jax
import jax.numpy as jnp

import bricard as br
from bricard.equations.problem import equilibrate, row_variation, state_problem

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


def best(function, *arguments, repeats=5):
    """Shortest of several times (s), after compilation."""
    jax.block_until_ready(function(*arguments))
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        jax.block_until_ready(function(*arguments))
        times.append(time.perf_counter() - start)
    return min(times)


def evaluation(example, method, count=200):
    """Time (s) of one acceleration, from `count` in a row inside one compiled loop."""
    system = example.system
    q, v = jnp.asarray(example.q), jnp.asarray(example.v)
    variation = row_variation(system, q, 0.0)

    @eqx.filter_jit
    def many(q, v):
        def one(v, _):
            scaled, units = equilibrate(state_problem(system, q, v, jnp.zeros(system.nu), 0.0, variation))
            return v + 1e-9 * method.acceleration(scaled) * units.columns, None

        return jax.lax.scan(one, v, length=count)[0]

    return best(many, q, v) / count


def main():
    sizes = (1, 2, 10, 40)
    print("One acceleration of N four-bars, against the default route")
    print(f"{'':20}" + "".join(f"{f'N = {n}':>10}" for n in sizes))
    examples = [br.gallery.load("n-four-bar", n=n) for n in sizes]
    default = [evaluation(e, ROUTES["Proximal"]) for e in examples]
    print(f"{'Proximal (µs)':20}" + "".join(f"{1e6 * t:10.1f}" for t in default))
    for name, method in ROUTES.items():
        ratios = [evaluation(e, method) / d for e, d in zip(examples, default, strict=True)]
        print(f"{name:20}" + "".join(f"{r:10.2f}" for r in ratios))
    print("\nA whole run with default settings")
    for name, parameters in (("slider-crank", {}), ("n-four-bar", {"n": 10}), ("andrews", {})):
        example = br.gallery.load(name, **parameters)
        start = time.perf_counter()
        example.simulate().q.block_until_ready()
        first = time.perf_counter() - start
        again = best(lambda e=example: e.simulate().q)
        print(f"{name:20} first {first:6.2f} s, then {1e3 * again:8.1f} ms")


if __name__ == "__main__":
    main()
