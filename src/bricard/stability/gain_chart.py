"""Stability charts: the spectral radius (or abscissa) of a loop over a grid of two parameters."""

from __future__ import annotations

import contextlib
import dataclasses
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.ndimage
import scipy.optimize
from jax.typing import ArrayLike

from bricard.errors import ModelError, needs_numbers
from bricard.extensions import extension
from bricard.files import FIGURES, named_as, replacing, save_figure
from bricard.stability.parameter_sweep import Family, Place
from bricard.system import System

if TYPE_CHECKING:
    import xarray

CHECKS = 2000
"""Number of random points between grid points at which a chart is checked."""


@dataclasses.dataclass(frozen=True)
class StableRegion:
    """Summary of the stable region of one loop in a chart."""

    area: float
    """Area of the stable region, in units of the two parameters."""
    best: tuple[float, float]
    """Parameters with the smallest value, refined to at least 4 digits."""
    value: float
    """The value at `best`: spectral radius per sample, or spectral abscissa (1/s)."""
    stable: bool
    """Whether the loop is stable at `best`."""
    pieces: int
    """Number of separate stable regions that the grid shows."""
    on_edge: bool
    """Whether the best point is on the edge of the grid, so that a better one may lie beyond."""
    missed: int | None
    """Number of unstable points among `CHECKS` random points between stable grid points: islands that the grid misses.

    None if this was not checked: because it would be expensive (the law is not linear in the parameters, or the system
    depends on them), or because no cell of the grid has four stable corners.
    """


@dataclasses.dataclass(frozen=True)
class Chart:
    """A stability chart of one or several loops; `print` shows a summary."""

    data: xarray.Dataset
    """`value` (loop, second parameter, first parameter); infinite where a law is not defined."""
    regions: dict[str, StableRegion]
    limit: float
    """1 for sampled loops (spectral radius per sample), 0 for continuous ones (abscissa)."""

    @property
    def axes(self) -> tuple[str, str]:
        """Names of the two parameters, in the order they were given."""
        _, y, x = self.data["value"].dims
        return str(x), str(y)

    @property
    def best(self) -> dict[str, float]:
        """Parameters with the smallest value of all loops."""
        region = min(self.regions.values(), key=lambda r: r.value)
        return dict(zip(self.axes, region.best, strict=True))

    @property
    def resolution(self) -> tuple[float, float]:
        """Largest grid steps of the two parameters; smaller islands can be missed."""
        x, y = (float(np.max(np.diff(self.data[n].values))) for n in self.axes)
        return x, y

    def __str__(self) -> str:
        (x, y), (dx, dy) = self.axes, self.resolution
        kind = "spectral radius" if self.limit == 1.0 else "abscissa"
        lines = []
        for name, r in self.regions.items():
            where = f"{x} = {r.best[0]:.5g}, {y} = {r.best[1]:.5g}" + (" (on the edge)" if r.on_edge else "")
            if not r.stable:
                lines.append(f"{name}: no stable point in this range; the smallest {kind} is {r.value:.6g} at {where}")
                continue
            many = f" in {r.pieces} pieces" if r.pieces > 1 else ""
            islands = "; not checked between the points of the grid"
            if r.missed is not None:
                islands = f"; {r.missed} of {CHECKS} points in between are unstable: refine" if r.missed else ""
            lines.append(f"{name}: stable area {r.area:.5g}{many}, smallest {kind} {r.value:.6g} at {where}{islands}")
        return "\n".join([*lines, f"Islands smaller than the grid's steps of {dx:.3g} by {dy:.3g} may be missed."])

    def plot(self) -> Any:
        """Contours of the value and the limit of stability, loops side by side: a matplotlib figure (extra `plot`)."""
        x, y = self.axes
        make_panel, panels = extension("chart panel"), []
        for name, region in self.regions.items():
            z = np.asarray(self.data["value"].sel(loop=name))
            # Clipped: values far beyond the limit would dominate the colour scale.
            shown = np.minimum(z, self.limit + max(1.0, abs(region.value)))
            panels.append(make_panel(name, shown, region.best if region.stable else None, region.value))
        return extension("chart figure")(
            np.asarray(self.data[x]),
            np.asarray(self.data[y]),
            panels,
            x_label=x,
            y_label=y,
            level=self.limit,
            z_label=str(self.data["value"].attrs["long_name"]),
        )

    def show(self) -> None:
        """Open the picture in a window."""
        import matplotlib.pyplot as plt

        self.plot()
        plt.show()

    def save(self, path: str | Path) -> Path:
        """Write the values to a NetCDF file (`.nc`), or the picture (`.png`, `.svg`, `.pdf`); returns its path."""
        path = named_as(path, (".nc", *FIGURES))
        if path.suffix.lower() != ".nc":
            return save_figure(self.plot(), path)
        with replacing(path) as draft:
            self.data.to_netcdf(draft)
        return path


@needs_numbers
def chart(
    system: System,
    q: Place,
    loop: Any,
    *,
    t: ArrayLike = 0.0,
    progress: bool | None = None,
    **parameters: Any,
) -> Chart:
    """Stability over a grid of two parameters: `chart(system, q, loop, kp=grid, kd=grid)`.

    - `q`: the equilibrium; or, if a parameter of the system moves it, a function of the system that returns it.
    - `loop`: `Sampled(controller, period, delay_samples)` for the spectral radius per sample (decay index of a periodic
      controller), or a continuous controller for the spectral abscissa. Several loops are compared if given as a
      mapping from names.
    - parameters: two grids (increasing), each named like a field of the controller (`kp`, `kd`, `kappa`), `period`, or
      a field of the system (`m`, `l`), which also changes the model inside the controller. If a name is ambiguous,
      give more of its path: `**{"output.kappa": …}`.
    - `progress`: show a progress bar; by default for large charts in a terminal.
    """
    import xarray

    names, axes = _checked_axes(parameters)
    loops = _named_loops(loop)
    x, y = axes
    points = np.stack([a.ravel() for a in np.meshgrid(x, y)], axis=1)
    values, regions, limits = [], {}, set()
    with _progress(progress, len(points) * len(loops)) as advance:
        for label, one in loops.items():
            family = Family(system, q, one, names, [x[0], y[0]], [x[-1], y[-1]], t)
            limits.add(family.limit)
            z = family.value(points, advance).reshape(len(y), len(x))
            values.append(z)
            regions[label] = _region(family, x, y, z)
    if len(limits) > 1:
        raise ModelError("chart", ["sampled and continuous loops cannot be compared in one chart"])
    quantity = "spectral radius per sample" if limits == {1.0} else "spectral abscissa"
    data = xarray.Dataset(
        {"value": (("loop", names[1], names[0]), np.stack(values), {"long_name": quantity})},
        coords={"loop": list(loops), names[0]: x, names[1]: y},
        attrs={"system": type(system).__name__},
    )
    return Chart(data, regions, limits.pop())


def _checked_axes(parameters: Mapping[str, Any]) -> tuple[tuple[str, ...], list[np.ndarray]]:
    problems, axes = [], []
    if len(parameters) != 2:
        given = ", ".join(parameters) or "none"
        problems.append(f"name two parameters with a grid each, such as kp=..., kd=...; given: {given}")
    for name, grid in parameters.items():
        values = np.asarray(grid, dtype=float)
        if values.ndim != 1 or values.size < 2:
            problems.append(f"{name}: a grid needs at least two points, not shape {values.shape}")
        elif not np.all(np.isfinite(values)) or np.any(np.diff(values) <= 0):
            problems.append(f"{name}: the values of a grid must be finite and increasing")
        axes.append(values)
    if problems:
        raise ModelError("chart", problems)
    return tuple(parameters), axes


def _named_loops(loop: Any) -> dict[str, Any]:
    if isinstance(loop, Mapping):
        return dict(loop)
    if isinstance(loop, (list, tuple)):
        return {f"loop {i}": x for i, x in enumerate(loop)}
    return {"loop": loop}


def _region(family: Family, x: np.ndarray, y: np.ndarray, z: np.ndarray) -> StableRegion:
    stable = z < family.limit
    weights = np.outer(_cell_widths(y), _cell_widths(x))
    best, value = _refined(family, x, y, z)
    edge = any(p in (grid[0], grid[-1]) for p, grid in zip(best, (x, y), strict=True))
    return StableRegion(
        area=float(np.sum(weights * stable)),
        best=best,
        value=value,
        stable=value < family.limit,
        pieces=_pieces(stable),
        on_edge=edge,
        missed=_missed(family, x, y, stable),
    )


def _pieces(stable: np.ndarray) -> int:
    """Number of connected regions; diagonal neighbours count as connected."""
    labelled: Any = scipy.ndimage.label(stable, np.ones((3, 3)))
    return int(labelled[1])


def _cell_widths(grid: np.ndarray) -> np.ndarray:
    """Width of the cell around each grid point."""
    steps = np.diff(grid)
    return 0.5 * (np.concatenate([[0.0], steps]) + np.concatenate([steps, [0.0]]))


def _refined(family: Family, x: np.ndarray, y: np.ndarray, z: np.ndarray) -> tuple[tuple[float, float], float]:
    """The best point and its value, refined from the three best local minima of the grid.

    The value is not smooth where eigenvalues meet, which is usual at its minimum; the Nelder–Mead method needs no
    gradient.
    """
    low = scipy.ndimage.minimum_filter(z, size=3, mode="nearest") == z
    rows, columns = np.nonzero(low & np.isfinite(z))
    if len(rows) == 0:
        return (float(x[0]), float(y[0])), np.inf
    starts = np.argsort(z[rows, columns])[:3]
    span = np.array([x[-1] - x[0], y[-1] - y[0]])
    step = np.array([np.max(np.diff(x)), np.max(np.diff(y))])
    best, value = (float(x[0]), float(y[0])), np.inf
    for i in starts:
        start = np.array([x[columns[i]], y[rows[i]]])
        end, reached = descend(family, start, step, np.array([x[0], y[0]]), np.array([x[-1], y[-1]]), 1e-7 * span)
        if reached < value:
            best, value = (float(end[0]), float(end[1])), reached
    return best, value


def descend(
    family: Family, start: np.ndarray, step: np.ndarray, low: np.ndarray, high: np.ndarray, tolerance: np.ndarray
) -> tuple[np.ndarray, float]:
    """A local minimum of the value within bounds and the value there, by a restarted Nelder–Mead method."""
    scale = tolerance / 1e-7

    def at(p: np.ndarray) -> float:
        return float(family.value((p * scale)[None])[0])

    point, value = start / scale, at(start / scale)
    bounds = list(zip(low / scale, high / scale, strict=True))
    for shrink in (1.0, 0.1):
        simplex = np.vstack([point, *(point + shrink * d for d in np.diag(step / scale))])
        simplex = np.clip(simplex, low / scale, high / scale)
        for i, row in enumerate(simplex[1:]):  # reflect a corner that was clipped onto the start
            if row[i] == point[i]:
                row[i] = np.clip(point[i] - shrink * step[i] / scale[i], low[i] / scale[i], high[i] / scale[i])
        found = scipy.optimize.minimize(
            at,
            point,
            method="Nelder-Mead",
            bounds=bounds,
            options={"initial_simplex": simplex, "xatol": 1e-7, "fatol": 1e-9},
        )
        if found.fun < value:
            point, value = found.x, float(found.fun)
    return point * scale, value


def _missed(family: Family, x: np.ndarray, y: np.ndarray, stable: np.ndarray) -> int | None:
    """Number of unstable points of `CHECKS` random ones in cells with four stable corners; None if not checked."""
    cells = stable[1:, 1:] & stable[1:, :-1] & stable[:-1, 1:] & stable[:-1, :-1]
    rows, columns = np.nonzero(cells)
    expensive = family.moves_system or set(family.affine) != {0, 1}  # each point needs its own linearisation
    if len(rows) == 0 or expensive:
        return None
    rng = np.random.default_rng(0)
    pick = rng.integers(len(rows), size=CHECKS)
    part = rng.uniform(size=(CHECKS, 2))
    i, j = columns[pick], rows[pick]
    inside = np.stack([x[i] + part[:, 0] * (x[i + 1] - x[i]), y[j] + part[:, 1] * (y[j + 1] - y[j])], axis=1)
    return int(np.sum(family.value(inside) >= family.limit))


@contextlib.contextmanager
def _progress(wanted: bool | None, total: int) -> Iterator[Callable[[int], None]]:
    """A progress bar on stderr, drawn by rich if installed; by default only for large charts in a terminal."""
    if wanted is None:
        wanted = sys.stderr.isatty() and total >= 10_000
    if not wanted:
        yield lambda count: None
        return
    try:
        from rich.console import Console
        from rich.progress import Progress
    except ImportError:
        done = 0

        def advance(count: int) -> None:
            nonlocal done
            done += count
            print(f"\rchart: {done / total:4.0%}", end="" if done < total else "\n", file=sys.stderr, flush=True)

        yield advance
        return
    with Progress(console=Console(stderr=True)) as bar:
        task = bar.add_task("chart", total=total)
        yield lambda count: bar.advance(task, count)
