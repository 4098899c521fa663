"""Work–precision diagrams: error against CPU time, one panel per problem."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

IMAGE = Path(__file__).parents[1] / "docs" / "images" / "work_precision.png"
COLOURS = {"bricard": "#0072b2", "MuJoCo": "#d55e00", "Pinocchio": "#009e73", "Exudyn": "#cc79a7"}
MARKS = {"bricard": "o", "MuJoCo": "s", "Pinocchio": "^", "Exudyn": "D"}


def family(setting: str) -> str:
    """Method of a setting without its step size or tolerance; the settings of one family form one curve."""
    return setting.split(", h =")[0].split(", rtol =")[0]


def _can_be_drawn(run: dict[str, Any]) -> bool:
    """True if error and time are positive and finite."""
    return all(run[k] is not None and math.isfinite(run[k]) and run[k] > 0 for k in ("error", "seconds"))


def draw(runs: list[dict[str, Any]], path: Path = IMAGE) -> None:
    """Write the diagrams to `path`; each curve joins the settings of one method."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    names = list(dict.fromkeys(r["problem"] for r in runs))
    columns = min(4, len(names))
    lines = -(-len(names) // columns)
    figure, axes = plt.subplots(
        lines, columns, figsize=(2.9 * columns, 2.6 * lines + 0.4), layout="constrained", squeeze=False
    )
    for panel in axes.flat[len(names) :]:
        panel.set_axis_off()
    styles = ("-", ":", "--")
    for panel, name in zip(axes.flat, names, strict=False):
        for tool, colour in COLOURS.items():
            own = [r for r in runs if r["problem"] == name and r["tool"] == tool and _can_be_drawn(r)]
            for style, kind in zip(styles, dict.fromkeys(family(r["setting"]) for r in own), strict=False):
                curve = [(r["seconds"], r["error"]) for r in own if family(r["setting"]) == kind]
                panel.plot(
                    *zip(*curve, strict=True),
                    style,
                    marker=MARKS[tool],
                    color=colour,
                    ms=4,
                    lw=1.3,
                    label=f"{tool} {kind}",
                )
        for goal in (1e-6, 1e-8):
            panel.axhline(goal, color="0.75", lw=0.8, zorder=0)
        panel.set(xscale="log", yscale="log", ylim=(1e-13, 3))
        panel.set_title(name, fontsize=10)
        panel.spines[["top", "right"]].set_visible(False)
        panel.tick_params(labelsize=8)
    for panel in axes[:, 0]:
        panel.set_ylabel("position error (m)", fontsize=9)
    for panel in axes[-1]:
        panel.set_xlabel("CPU time (s)", fontsize=9)
    labels = {}
    for panel in axes.flat:
        for handle, label in zip(*panel.get_legend_handles_labels(), strict=True):
            labels.setdefault(label, handle)
    order = sorted(labels, key=lambda text: list(COLOURS).index(text.split(" ")[0]))
    if axes.size > len(names):
        axes.flat[-1].legend([labels[k] for k in order], order, fontsize=7.5, loc="center", frameon=False)
    else:
        figure.legend([labels[k] for k in order], order, fontsize=7.5, loc="outside lower center", ncols=3)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=100)
    plt.close(figure)
