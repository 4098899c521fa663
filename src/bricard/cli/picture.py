"""Drawings in the terminal, made of Braille characters."""

from __future__ import annotations

import itertools
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    from bricard.system import System

WIDTH, HEIGHT = 56, 14
"""Size in characters, each of which has 2 × 4 dots."""

DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
"""Bit of each dot of a Braille character, by row and column."""


def picture(system: System, q: Any) -> list[str]:
    """The drawing at configuration `q` as lines of text; empty without a drawing or if the terminal lacks Braille."""
    import numpy as np

    from bricard.report.scene import drawings

    if "utf" not in (sys.stdout.encoding or "").lower():
        return []
    lines = [points[0] for points in drawings(system, np.asarray(q)[None], np.zeros(1)).values()]
    if not lines:
        return []
    return _raster([flattened(points) for points in lines])


def flattened(points: np.ndarray) -> np.ndarray:
    """Points projected to the picture plane, shape (n, 2); spatial points are seen from a corner above."""
    import numpy as np

    if points.shape[1] == 2:
        return points
    yaw, pitch = -0.9, 0.42  # as on the HTML page
    right = np.cos(yaw) * points[:, 0] + np.sin(yaw) * points[:, 1]
    away = -np.sin(yaw) * points[:, 0] + np.cos(yaw) * points[:, 1]
    return np.stack([right, np.cos(pitch) * points[:, 2] + np.sin(pitch) * away], axis=1)


def _raster(lines: list[np.ndarray]) -> list[str]:
    import numpy as np

    vertices = np.concatenate(lines)
    if not np.all(np.isfinite(vertices)):
        return []
    low, size = vertices.min(axis=0), np.ptp(vertices, axis=0)
    unit = min((2 * WIDTH - 1) / max(size[0], 1e-9), (4 * HEIGHT - 1) / max(size[1], 1e-9))
    columns, rows = int(size[0] * unit) // 2 + 1, int(size[1] * unit) // 4 + 1
    cells = np.zeros((rows, columns), dtype=int)
    for points in lines:
        dots = np.concatenate([_segment(a, b, unit) for a, b in itertools.pairwise(points)] or [points])
        x, y = np.floor((dots - low) * unit + 1e-9).astype(int).T
        y = int(size[1] * unit) - y
        np.bitwise_or.at(cells, (y // 4, x // 2), np.array(DOTS)[y % 4, x % 2])
    return ["  " + "".join(chr(0x2800 + c) for c in row).rstrip("\u2800") for row in cells]


def _segment(a: np.ndarray, b: np.ndarray, unit: float) -> np.ndarray:
    """Points on the segment from `a` to `b`, at most one dot apart."""
    import numpy as np

    count = int(np.max(np.abs(b - a)) * unit) + 2
    return a + np.linspace(0.0, 1.0, count)[:, None] * (b - a)
