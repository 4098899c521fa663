"""Draw the figures of the README and the documentation: `python docs/pictures.py`."""

from pathlib import Path

import jax
import jax.numpy as jnp
import matplotlib as mpl
import numpy as np
from matplotlib import pyplot as plt

import bricard as br
from bricard.cli.picture import flattened
from bricard.gallery.running import maps_figure as running_maps
from bricard.report.curves import PALETTE
from bricard.report.mechanism_drawing import parts
from bricard.report.scene import drawings

IMAGES = Path(__file__).parent / "images"


def slider_crank():
    """The slider-crank passing its dead point, and the norm of its constraint Jacobian."""
    example = br.gallery.load("slider-crank")
    run = example.simulate()
    norm = jax.vmap(lambda q, t: jnp.linalg.norm(example.system.constraint_jacobian(q, t)))(run.q, run.t)
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.3), width_ratios=(1.35, 1), layout="constrained")

    frames = np.flatnonzero((run.t >= 0.3) & (run.t <= 1.12))[::3]
    colours = mpl.colormaps["viridis"](np.linspace(0.0, 0.9, len(frames)))
    left.axhline(0.0, color="0.6", lw=1)
    for colour, i in zip(colours, frames, strict=True):
        pin, slider = (np.asarray(p) for p in example.system.points(run.q[i]))
        left.plot(*np.stack([np.zeros(2), pin, slider]).T, color=colour, lw=1.6, alpha=0.75, solid_capstyle="round")
        left.plot(*slider, "s", color=colour, ms=6)
    left.plot(0, 0, "o", color="0.2", ms=7)
    left.annotate(
        "dead point:\ncrank and rod coincide",
        (0.0, 1.0),
        (0.55, 1.0),
        color="0.2",
        va="center",
        arrowprops={"arrowstyle": "-", "color": "0.5"},
    )
    left.set(aspect="equal", xlim=(-1.25, 1.45), ylim=(-0.12, 1.2), xlabel="x (m)", ylabel="y (m)")
    left.set_title("a slider-crank passes its dead point", fontsize=10)

    right.plot(run.t, norm, color="#0072b2", lw=1.6)
    crossings = np.flatnonzero(np.diff(np.sign(np.cos(run["crank"]))))
    for i in crossings:
        right.axvline(float(run.t[i]), color="#d55e00", lw=0.8, ls=":")
    right.set(xlabel="time (s)", ylabel="norm of the constraint Jacobian (m)", ylim=(0, None), xlim=(0, 10))
    right.set_title(
        f"{len(crossings)} dead points: energy error {float(run.energy.drift):.0e} J,\n"
        f"constraint error {float(run.constraint_error.position.max()):.0e} m",
        fontsize=10,
    )
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(IMAGES / "slider_crank.png", dpi=110)


def running():
    """Share of a runner's kinetic energy that is lost when the foot touches the ground."""
    running_maps().savefig(IMAGES / "running.png", dpi=70)


def charts():
    """Stable regions of blended and periodic servo-constraints: a pendulum on a cart, and a platform on cables."""
    cart = br.gallery.load("sliding-pendulum").system
    blended = {
        f"κ = {kappa}": br.control.Blended(cart, _tip, "cart", [0.0], 1.0, 1.0, kappa) for kappa in (0.2, 0.4, 0.6)
    }
    loops = {label: br.control.Sampled(law, 0.03, delay_samples=1) for label, law in blended.items()}
    chart = br.stability.chart(cart, [0.0, 0.0], loops, kp=np.linspace(0, 300, 150), kd=np.linspace(0, 40, 150))
    print(chart)
    chart.plot().savefig(IMAGES / "sliding_pendulum_chart.png", dpi=70)

    example = br.gallery.load("acroboter")
    law, other = (
        br.control.Blended(example.system, _platform, _by_connector, [0.5, 0.0, -1.5, 0.0], 1.0, 1.0, kappa)
        for kappa in (0.8, 0.9)
    )
    laws = {"κ = 0.8": law, "κ = 0.9": other, "periodic, k = 4, l = 1": br.control.Periodic(law, 4, 1)}
    loops = {label: br.control.Sampled(law, 0.01, delay_samples=1) for label, law in laws.items()}
    chart = br.stability.chart(
        example.system, example.q, loops, kp=np.linspace(0, 3000, 150), kd=np.linspace(0, 100, 150)
    )
    print(chart)
    chart.plot().savefig(IMAGES / "acroboter_chart.png", dpi=70)


def _tip(q):
    return q[:1] + 0.9 * jnp.sin(q[1:])


def _platform(q):
    return jnp.array([q[1] - 0.5 * (q[3] + q[5]), 0.5 * (q[2] + q[4]), 0.5 * (q[3] + q[5]), q[3] - q[5]])


def _by_connector(q):
    return _platform(q).at[1].set(q[0])


def gallery():
    """Thumbnail of every system at its initial configuration."""
    folder = IMAGES / "gallery"
    folder.mkdir(exist_ok=True)
    for name in br.gallery.names(scenarios=False):
        example = br.gallery.load(name)
        q = np.asarray(example.q)[None]
        bodies = drawings(example.system, q, np.zeros(1))
        joints = [p[0] for (role, _), p in parts(example.system, q).items() if role == "joint"]
        springs = [p[0] for (role, _), p in parts(example.system, q).items() if role in ("spring", "actuator")]
        figure, axes = plt.subplots(figsize=(1.8, 1.35))
        for i, points in enumerate(bodies.values()):
            line = flattened(points[0])
            closed = len(line) > 3 and np.allclose(line[0], line[-1], rtol=0.0, atol=1e-9)
            colour = PALETTE[i % len(PALETTE)]
            if closed:
                axes.fill(*line.T, color=colour, alpha=0.15, lw=0)
            axes.plot(*line.T, "o-" if len(line) == 1 else "-", color=colour, lw=2.0 if len(line) <= 4 else 1.1, ms=6)
        for spring in springs:
            axes.plot(*flattened(spring).T, ":", color="0.4", lw=1.4)
        for joint in joints:
            axes.plot(*flattened(joint).T, "o", color="0.15", mfc="white", ms=3.2, mew=0.8)
        axes.set_aspect("equal", adjustable="datalim")
        axes.margins(0.08)
        axes.set_axis_off()
        figure.subplots_adjust(0, 0, 1, 1)
        with mpl.rc_context({"svg.hashsalt": "bricard"}):  # reproducible files
            figure.savefig(folder / f"{name}.svg", metadata={"Date": None})
        plt.close(figure)


if __name__ == "__main__":
    mpl.use("Agg")
    slider_crank()
    running()
    charts()
    gallery()
