import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

import bricard as br

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)

# A headless browser schedules animation frames irregularly; timers follow the virtual time budget of `browse`.
FRAMES = "window.requestAnimationFrame = (f) => setTimeout(() => f(performance.now()), 20);"


@pytest.fixture(scope="session")
def slider_crank():
    """A run of ten seconds with eight singular positions."""
    return br.gallery.load("slider-crank").simulate()


@pytest.fixture(scope="session")
def slider_crank_page(slider_crank, tmp_path_factory):
    return slider_crank.report(tmp_path_factory.mktemp("report") / "slider_crank.html")


class Cone(br.System):
    """A mass on a string that moves on a horizontal circle."""

    coordinates = ("x", "y", "z")
    constraint_names = ("string </script><script>boom()</script>",)

    def kinetic_energy(self, q, v, t):
        return 0.5 * v @ v

    def potential_energy(self, q, t):
        return 9.81 * q[2]

    def constraints(self, q, t):
        return jnp.array([q @ q - 1.0])

    def drawing(self, q, t):
        return {"string": jnp.stack([jnp.zeros(3), q]), "mass": q[None], "ground": jnp.array([[-1.0, 0.0], [1.0, 0.0]])}


class Flywheel(br.System):
    """One coordinate, no constraint, no drawing."""

    coordinates = ("angle",)

    def kinetic_energy(self, q, v, t):
        return 0.5 * v @ v


def made_up(system, t, q, v, failure=None):
    """A trajectory with given states, loaded from a file: nothing is integrated."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.npz"
        zero = np.zeros((len(t), 3))
        names = np.array(system.coordinates)
        np.savez(path, t=t, q=q, v=v, work=zero, u=zero[:, : system.nu], coordinates=names, failure=failure or "")
        return br.Trajectory.load(path, system)


@pytest.fixture(scope="session")
def cone():
    """A conical pendulum, in closed form."""
    depth = 0.6
    rate = np.sqrt(9.81 / depth)
    t = np.linspace(0.0, 2.0, 60)
    c, s, one = 0.8 * np.cos(rate * t), 0.8 * np.sin(rate * t), np.ones_like(t)
    q = np.stack([c, s, -depth * one], axis=1)
    v = np.stack([-rate * s, rate * c, 0.0 * one], axis=1)
    return made_up(Cone(), t, q, v)


class Opened:
    """The page after the browser has run it."""

    def __init__(self, dom: str, log: str):
        self.dom = dom
        self.console = [line for line in log.splitlines() if "CONSOLE" in line]
        self.plots = re.findall(r'<figure class="plot">.*?</figure>', dom, re.S)
        self.curves = re.findall(r'<path class="curve[^"]*"[^>]* d="(M[^"]+)"', dom)
        moment = re.search(r'data-time="([^"]+)"[^>]*>\s*<head>', dom)
        self.time = float(moment[1]) if moment else None


@pytest.fixture
def browse(tmp_path):
    """Open a page from disk without network for some seconds of virtual time; `script` runs at the end of the body."""
    if CHROMIUM is None:
        missing = "no chromium (or chrome) on the PATH to open the page with"
        (pytest.fail if os.environ.get("CI") else pytest.skip)(missing)

    def open_page(path: Path, seconds: float = 2.0, script: str = "", size: str = "1280,900") -> Opened:
        page = tmp_path / "opened.html"
        text = path.read_text("utf-8").replace("<head>", f"<head><script>{FRAMES}</script>", 1)
        page.write_text(text.replace("</body>", f"<script>{script}</script></body>"), "utf-8")
        command = [
            CHROMIUM,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--disable-quic",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--host-resolver-rules=MAP * ~NOTFOUND",
            f"--user-data-dir={tempfile.mkdtemp(dir=tmp_path)}",
            f"--window-size={size}",
            "--enable-logging=stderr",
            f"--virtual-time-budget={int(1000 * seconds)}",
            "--dump-dom",
            page.as_uri(),
        ]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
        return Opened(done.stdout, done.stderr)

    return open_page
