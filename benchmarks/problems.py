"""The problems A01 to A05 of the IFToMM benchmark library, with their reference motions.

The error of a run is the largest distance (m) of the compared point from the reference at the reference times.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.integrate import solve_ivp

from benchmarks.models import GROUND, Body, Loop, Model, Spring, slender

REFERENCE = Path(__file__).parents[1] / "tests" / "reference"
Z = np.array([0.0, 0.0, 1.0])


@dataclass(frozen=True)
class Problem:
    """One benchmark problem."""

    name: str
    title: str
    model: Model
    times: np.ndarray
    """Reference times (s), shape (k,), evenly spaced from the start."""
    points: np.ndarray
    """Reference positions of the compared point (m), shape (k, c)."""
    axes: tuple[int, ...]
    """Indices of the c compared components of the point."""
    gallery: str
    """Name of the example in the gallery of bricard."""
    parameters: dict[str, Any]
    """Parameters of the example."""
    track: Callable[[Any, Any], Any]
    """Function of the system and its coordinates that returns the compared components."""

    def error(self, points: np.ndarray) -> float:
        """Largest distance (m) of `points`, shape (k, 3) or (k, c), from the reference; inf if one is not finite."""
        points = np.asarray(points)
        if points.shape[1] != len(self.axes):
            points = points[:, list(self.axes)]
        distance = np.linalg.norm(points - self.points, axis=1)
        return float(np.max(distance)) if np.all(np.isfinite(distance)) else float("inf")


def reference(name: str) -> dict[str, Any]:
    """Definition and reference results of a problem, from the folder of the tests."""
    return json.loads(next(REFERENCE.glob(f"{name}_*.json")).read_text())


def pendulum() -> Problem:
    r = reference("A01")["reference"]
    start = np.array([-1.0, 0, 0])
    mass = Body("mass", GROUND, np.zeros(3), Z, 1.0, start, np.zeros((3, 3)))
    return Problem(
        name="A01",
        title="A01 pendulum, 10 s",
        model=Model((mass,), ("mass", start)),
        times=np.array(r["t"]),
        points=np.stack([r["x"], r["y"]], axis=1),
        axes=(0, 1),
        gallery="pendulum-xy",
        parameters={},
        track=lambda system, q: q,
    )


def four_bars(n: int) -> Problem:
    times, angle = _four_bars_reference(n)
    return Problem(
        name=f"A02 N={n}",
        title=f"A02 {n} four-bars, 10 s",
        model=four_bars_model(n),
        times=times,
        points=np.stack([np.sin(angle), np.cos(angle)], axis=1),
        axes=(0, 1),
        gallery="n-four-bar",
        parameters={"n": n},
        track=lambda system, q: system.pins(q)[0][0],
    )


def four_bars_model(n: int) -> Model:
    """N four-bars in a row: rockers on the ground, couplers on the rockers, pins that close the loops."""
    feet = [np.array([i, 0.0, 0.0]) for i in range(n + 1)]
    tops = [np.array([i, 1.0, 0.0]) for i in range(n + 1)]
    bodies = []
    for i in range(n + 1):
        # The rockers turn clockwise, about −z.
        bodies.append(Body(f"rocker {i}", GROUND, feet[i], -Z, rate=1.0, **slender(feet[i], tops[i], 1.0)))
        if i < n:
            # The coupler turns back relative to its rocker, so that it translates initially.
            rod = slender(tops[i], tops[i + 1], 1.0)
            bodies.append(Body(f"coupler {i}", f"rocker {i}", tops[i], Z, rate=1.0, **rod))
    loops = tuple(Loop(f"coupler {i}", f"rocker {i + 1}", (tops[i + 1],)) for i in range(n))
    return Model(tuple(bodies), ("rocker 0", tops[0]), loops)


def _four_bars_reference(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Times, and angles of the rockers from the upward vertical: stored, or from the equation in one coordinate."""
    r = reference("A02")["reference"]
    times = np.array(r["t"])
    if f"N{n}" in r:
        return times, np.array(r[f"N{n}"]["theta"])
    factor = 9.81 * ((n + 1) / 2 + n) / ((n + 1) / 3 + n)
    run = solve_ivp(
        lambda t, y: [y[1], factor * np.sin(y[0])],
        (0.0, times[-1]),
        [0.0, 1.0],
        method="DOP853",
        t_eval=times,
        rtol=1e-13,
        atol=1e-13,
    )
    return times, run.y[0]


def andrews() -> Problem:
    data = reference("A03")
    r, p = data["reference_iftomm"], data["definition"]["parameters"]
    return Problem(
        name="A03",
        title="A03 Andrews' squeezer, 0.05 s",
        model=_andrews_model(p, r["q0"], data["definition"]["drive_torque_Nm"]),
        times=np.array(r["t"]),
        points=np.stack([r["F_x"], r["F_y"]], axis=1),
        axes=(0, 1),
        gallery="andrews",
        parameters={"beta": r["q0"][0]},
        track=lambda system, q: system.points(q)[12],
    )


def _andrews_model(p: dict[str, Any], q0: list[float], torque: float) -> Model:
    """Seven bodies in four chains that meet at E, in the notation of the Test Set for IVP Solvers."""
    beta, theta, gamma, phi, delta, omega, epsilon = q0

    def along(angle):
        return np.array([np.cos(angle), np.sin(angle), 0.0])

    def below(angle):
        return np.array([np.sin(angle), -np.cos(angle), 0.0])

    def left(e):
        return np.array([-e[1], e[0], 0.0])

    o, a, b, c = np.zeros(3), *(np.array([p["x" + k], p["y" + k], 0.0]) for k in "abc")
    crank, rod, arm, across = along(beta), -along(beta + theta), below(gamma), along(gamma)
    knee_g, link_g, knee_h, link_h = along(delta), below(phi + delta), below(epsilon), along(omega + epsilon)
    f, g, h = p["rr"] * crank, a + p["zt"] * knee_g, a + p["u"] * knee_h
    e = f + p["d"] * rod
    centres = (
        p["ra"] * crank,
        f + p["da"] * rod,
        b + p["sa"] * arm + p["sb"] * across,
        g + (p["e"] - p["ea"]) * link_g,
        a + p["ta"] * knee_g + p["tb"] * left(knee_g),
        h + (p["zf"] - p["fa"]) * link_h,
        a + p["ua"] * knee_h - p["ub"] * left(knee_h),
    )
    tree = (("K1", GROUND, o), ("K2", "K1", f), ("K3", GROUND, b), ("K5", GROUND, a), ("K4", "K5", g))
    tree += (("K7", GROUND, a), ("K6", "K7", h))
    bodies = []
    for name, parent, at in tree:
        i = int(name[1]) - 1
        inertia = p["I"][i] * np.eye(3)  # planar motion: only the entry about z matters
        drive = torque if name == "K1" else 0.0
        bodies.append(Body(name, parent, at, Z, p["m"][i], centres[i], inertia, force=drive))
    loops = tuple(Loop("K2", other, (e,)) for other in ("K3", "K4", "K6"))
    d = b + p["sc"] * arm + p["sd"] * across
    spring = Spring(GROUND, "K3", c, d, p["c0"], 0.0, p["l0"])
    return Model(tuple(bodies), ("K1", f), loops, (spring,), gravity=np.zeros(3))


def bricard() -> Problem:
    data = reference("A04")
    r, corners = data["reference"]["slender"], np.array(data["definition"]["joints"])
    axes = [np.eye(3)["xyz".index(k)] for k in data["definition"]["axes"]]
    bodies = [
        Body(
            f"rod {i}", f"rod {i - 1}" if i else GROUND, corners[i], axes[i], **slender(corners[i], corners[i + 1], 1.0)
        )
        for i in range(5)
    ]
    hinge = Loop("rod 4", GROUND, (corners[5], corners[5] + 0.5 * axes[5]))
    return Problem(
        name="A04",
        title="A04 Bricard's linkage, 10 s",
        model=Model(tuple(bodies), ("rod 2", corners[3]), (hinge,), planar=False),
        times=np.array(r["t"]),
        points=np.stack([r["P3_x"], r["P3_y"], r["P3_z"]], axis=1),
        axes=(0, 1, 2),
        gallery="bricard",
        parameters={},
        track=lambda system, q: system.measure(q, np.zeros(system.nv))["P3"].value,
    )


def governor() -> Problem:
    data = reference("A05")
    r, d = data["reference"], data["definition"]
    middle = 0.3 / 12
    shaft = Body("shaft", GROUND, np.zeros(3), Z, 0.3, 0.5 * Z, _box(0.3, 0.01, 0.01, 1.0), rate=2 * np.pi)
    collar = Body("collar", "shaft", 0.5 * Z, Z, 3.0, 0.5 * Z, _box(3.0, 0.1, 0.1, 0.1), slides=True)
    bodies, springs = [shaft, collar], []
    for side, name in ((1.0, "right"), (-1.0, "left")):
        hinge = np.array([0.05 * side, 0, 1.0])
        along = np.array([side * np.cos(np.pi / 6), 0, -np.sin(np.pi / 6)])
        tip = hinge + along
        centre = hinge + along * (0.3 * 0.5 + 5.0) / 5.3
        across = np.eye(3) - np.outer(along, along)
        # Rod of square cross-section and point mass at its tip, about their common centre of mass.
        inertia = middle * (across * (1 + 0.01**2) + 2 * 0.01**2 * np.outer(along, along))
        inertia = (
            inertia + (0.3 * np.sum((centre - hinge - along / 2) ** 2) + 5.0 * np.sum((tip - centre) ** 2)) * across
        )
        bodies.append(Body(f"{name} arm", "shaft", hinge, np.array([0, -side, 0]), 5.3, centre, inertia))
        foot = np.array([0.05 * side, 0, 0.5])
        springs.append(Spring("collar", f"{name} arm", foot, hinge + along / 2, d["K"], d["C"], d["rest_length"]))
    return Problem(
        name="A05",
        title="A05 flyball governor, 10 s",
        model=Model(
            tuple(bodies), ("collar", 0.5 * Z), (), tuple(springs), gravity=np.array(d["gravity"]), planar=False
        ),
        times=np.array(r["t"]),
        points=np.array(r["s"])[:, None],
        axes=(2,),
        gallery="flyball-governor",
        parameters={},
        track=lambda system, q: system.measure(q, np.zeros(system.nv))["collar"].value[2:],
    )


def _box(mass: float, *sides: float) -> np.ndarray:
    squares = np.square(sides)
    return mass / 12 * np.diag(np.sum(squares) - squares)


BUILD: dict[str, Callable[[], Problem]] = {
    "A01": pendulum,
    **{f"A02 N={n}": functools.partial(four_bars, n) for n in (2, 10, 40)},
    "A03": andrews,
    "A04": bricard,
    "A05": governor,
}
