"""The animation of the page: `System.drawing` along a run, packed compactly for JSON."""

from __future__ import annotations

import base64
import re
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from bricard.errors import ModelError
from bricard.execution.compile import xla_jit
from bricard.report.mechanism_drawing import Forces, forces, parts
from bricard.report.motion import configurations
from bricard.simulation.trajectory import Trajectory
from bricard.system import Scalar, System, Vector

FRAMES = (600, 1500)
"""Smallest and largest number of frames, which are interpolated from the saved states."""
MAX_NUMBERS = 400_000
"""In all frames together, about a megabyte."""
MAX_TRACES = 4
LINK = 4
"""Lines of up to this many points are links with joints at their ends; longer ones are outlines, springs or paths."""
STEPS = 32_000
"""Coordinates are quantised to integers from −STEPS to STEPS; −STEPS − 1 stands for a value that is not finite."""


class Line(NamedTuple):
    """A polyline, or a point, along a run."""

    name: str
    role: str
    """"body", or one of the roles of `mechanism_drawing`."""
    points: Float[np.ndarray, "f n d"]


def scene(trajectory: Trajectory, max_frames: int = FRAMES[1]) -> dict[str, Any] | None:
    """The animation of a run as data for JSON; None for a system without a drawing."""
    if len(trajectory) == 0:
        return None
    system = trajectory.system
    names, numbers = _contents(system)
    if not names:
        return None
    span = np.asarray(trajectory.t)[[0, -1]]
    count = min(np.clip(len(trajectory), *FRAMES), max_frames, max(MAX_NUMBERS // numbers, 2))
    times = np.linspace(span[0], span[1], int(count) if span[1] > span[0] else 1)
    q = configurations(trajectory, times)
    lines = [Line(name, "body", points) for name, points in drawings(system, q, times).items()]
    lines += [Line(name, role, points) for (role, name), points in parts(system, q).items()]
    return _packed(lines, span, forces(trajectory, times))


def drawings(
    system: System, q: Float[np.ndarray, "f nq"], t: Float[np.ndarray, " f"]
) -> dict[str, Float[np.ndarray, "f _ d"]]:
    """Points of each line of `System.drawing` at `f` configurations, in its order; `ModelError` for a wrong shape."""
    names, _ = _contents(system)
    if not names:
        return {}
    drawn = _drawings(system, jnp.asarray(q, dtype=float), jnp.asarray(t, dtype=float))
    return _checked(system, {name: np.asarray(drawn[name]) for name in names})


def _contents(system: System) -> tuple[list[str], int]:
    """Names of the lines in the order of the drawing (JAX sorts dictionary keys), and the numbers in one frame."""
    names: list[str] = []

    def draw(q: Vector, t: Scalar) -> dict[str, Array]:
        drawn = system.drawing(q, t)
        names.extend(drawn)
        return drawn

    try:
        shapes = jax.eval_shape(draw, np.zeros(system.nq), np.zeros(()))
    except Exception as error:
        raise ModelError(type(system).__name__, [f"`drawing` failed: {type(error).__name__}: {error}"]) from error
    return names, sum(int(np.prod(x.shape)) for x in shapes.values())


@xla_jit
def _drawings(system: System, q: Float[Array, "f nq"], t: Float[Array, " f"]) -> dict[str, Array]:
    def draw(q: Vector, t: Scalar) -> dict[str, Array]:
        return {
            name: jnp.asarray(points, dtype=float) for name, points in system.drawing(system.normalize(q), t).items()
        }

    return jax.vmap(draw)(q, t)


def _checked(system: System, lines: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """All polylines as arrays (frames, n, d) with the same d, or a `ModelError` that names those of wrong shape."""
    problems = [
        f"`drawing`: {name!r} has shape {points.shape[1:]}, expected (n, 2) or (n, 3) with n > 0"
        for name, points in lines.items()
        if points.ndim != 3 or points.shape[2] not in (2, 3) or points.shape[1] == 0
    ]
    if problems:
        raise ModelError(type(system).__name__, problems)
    dimension = max(points.shape[2] for points in lines.values())
    # A planar line in a spatial drawing lies in the plane z = 0.
    return {n: np.pad(p, ((0, 0), (0, 0), (0, dimension - p.shape[2]))) for n, p in lines.items()}


def _packed(lines: list[Line], span: np.ndarray, loads: Forces | None) -> dict[str, Any]:
    vertices = np.concatenate([line.points for line in lines], axis=1)
    low, high = _box(vertices)
    size = float(np.max(high - low)) or 1.0
    middle = 0.5 * (low + high)
    scale = 0.5 * size / STEPS
    with np.errstate(invalid="ignore"):
        still = np.all(np.abs(vertices - vertices[:1]) < 1e-6 * size, axis=(0, 2))
    quantised = _quantised((vertices - middle) / scale)
    slots = _slots(lines)
    moving = [line.role == "body" and not np.all(still[at]) for line, at in zip(lines, slots, strict=True)]
    groups = list(dict.fromkeys(_group(line.name) for line, moves in zip(lines, moving, strict=True) if moves))
    described = [
        {
            "name": line.name,
            "role": line.role,
            "start": at.start,
            "size": at.stop - at.start,
            "group": groups.index(_group(line.name)) if moves else -1,
            "pivots": np.flatnonzero(still[at]).tolist() if moves and at.stop - at.start <= LINK else [],
            "closed": bool(
                at.stop - at.start > 3
                and np.all(np.abs(vertices[:, at.start] - vertices[:, at.stop - 1]) < 1e-6 * size)
            ),
        }
        for line, at, moves in zip(lines, slots, moving, strict=True)
    ]
    return {
        "dimension": vertices.shape[2],
        "span": span.tolist(),
        "frames": vertices.shape[0],
        "vertices": vertices.shape[1],
        "still": np.flatnonzero(still).tolist(),
        "low": low.tolist(),
        "high": high.tolist(),
        "middle": middle.tolist(),
        "scale": scale,
        "groups": groups,
        "lines": described,
        "traces": _traces(lines, slots, vertices, still, size),
        "forces": _packed_forces(lines, slots, loads),
        # Vertices that never move are stored once, ahead of the frames.
        "data": _base64(np.concatenate([quantised[0, still].ravel(), quantised[:, ~still].ravel()])),
    }


def _packed_forces(lines: list[Line], slots: list[slice], loads: Forces | None) -> dict[str, Any] | None:
    """Force arrows at the joints, quantised relative to the largest force; None without joints or forces."""
    if loads is None:
        return None
    sizes = np.linalg.norm(loads.values, axis=2)
    finite = sizes[np.isfinite(sizes)]
    if not finite.size or not np.max(finite) > 0.0:
        return None
    # `largest` sets the arrow length: a short peak must not make all other arrows too small to see.
    typical = float(np.median(np.max(np.where(np.isfinite(sizes), sizes, 0.0), axis=1)))
    largest = min(float(np.percentile(finite, 99)), 3.0 * typical) or float(np.max(finite))
    at = {line.name: slot.start for line, slot in zip(lines, slots, strict=True) if line.role == "joint"}
    top = float(np.max(finite))
    return {
        "names": list(loads.names),
        "vertices": [at[name] for name in loads.names],
        "determinate": loads.determinate.tolist(),
        "largest": largest,
        "scale": top / STEPS,
        "data": _base64(_quantised(loads.values / (top / STEPS))),
    }


def _quantised(values: np.ndarray) -> np.ndarray:
    """Values rounded and clipped to ±STEPS; −STEPS − 1 for values that are not finite."""
    with np.errstate(invalid="ignore"):
        return np.where(np.isfinite(values), np.clip(np.round(values), -STEPS, STEPS), -STEPS - 1)


def _base64(numbers: np.ndarray) -> str:
    return base64.b64encode(numbers.astype("<i2").tobytes()).decode("ascii")


def _slots(lines: list[Line]) -> list[slice]:
    """Slice of the vertices of all lines that each line occupies."""
    sizes = [line.points.shape[1] for line in lines]
    ends = np.cumsum(sizes).tolist()
    return [slice(end - size, end) for size, end in zip(sizes, ends, strict=True)]


def _group(name: str) -> str:
    """The name without a trailing number, such as `rocker` for `rocker 12`: lines of one group share a colour."""
    return re.sub(r"([\s_-]*\d+)+$", "", name) or name


def _box(points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Corners of the visible box: all points, except outliers of a motion that diverges."""
    flat = points.reshape(-1, points.shape[2])
    flat = flat[np.all(np.isfinite(flat), axis=1)]
    if not len(flat):
        return np.zeros(points.shape[2]), np.ones(points.shape[2])
    near, far = np.percentile(flat, [1, 99], axis=0)
    margin = 2.0 * np.max(far - near)
    return np.maximum(flat.min(axis=0), near - margin), np.minimum(flat.max(axis=0), far + margin)


def _traces(lines: list[Line], slots: list[slice], vertices: np.ndarray, still: np.ndarray, size: float) -> list[int]:
    """Vertices whose paths are drawn, without duplicates: point sensors if there are any, else masses and link ends."""
    roles = [(line.role, at) for line, at in zip(lines, slots, strict=True)]
    sensors = [at.start for role, at in roles if role == "point"]
    masses = [at.start for role, at in roles if role == "body" and at.stop - at.start == 1]
    bodies = [at for role, at in roles if role == "body" and 1 < at.stop - at.start <= LINK]
    ends = [i for at in bodies for i in (at.start, at.stop - 1)]
    chosen: list[int] = []
    # A point sensor is an explicit request for a path, so it replaces the default choice.
    for i in sensors or masses + ends:
        distinct = all(np.max(np.abs(vertices[:, i] - vertices[:, j])) > 1e-3 * size for j in chosen)
        if not still[i] and distinct and len(chosen) < MAX_TRACES:
            chosen.append(i)
    return chosen
