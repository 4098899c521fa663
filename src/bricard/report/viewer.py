"""A live viewer in the browser (extra `view`): sliders for time, initial state and parameters, and pushes."""

from __future__ import annotations

import contextlib
import io
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from bricard.errors import BricardError, ModelError
from bricard.report.curves import PALETTE
from bricard.report.guard import check_guarded, guarded
from bricard.report.session import Session

LOOPBACK = "127.0.0.1"
FRAME = 1.0 / 30.0
"""Time between two frames (s)."""
MAX_SLIDERS = 10
"""In one folder; further coordinates or parameters cannot be changed."""


class Viewer:
    """Shows a session at `http://host:port`; with the default `host`, to this machine only.

    If the port is taken, the next free one is used. Requests for another host name, or from a page of another site, are
    refused.
    """

    def __init__(self, session: Session, host: str = LOOPBACK, port: int = 8080):
        try:
            import viser
        except ModuleNotFoundError as error:
            raise ModelError("view", ["viser is not installed; run pip install 'bricard[view]'"]) from error

        check_host(host)
        self.session = session
        # viser prints a banner, which is discarded.
        with contextlib.redirect_stdout(io.StringIO()), guarded(host):
            self.server = viser.ViserServer(host=host, port=port, label="bricard", verbose=False)
        try:
            check_guarded(host, self.server.get_port())
        except ModelError:
            self.server.stop()
            raise
        self.server.gui.configure_theme(show_share_button=False, control_width="medium")
        self.host, self.port = host, self.server.get_port()
        self.lines: dict[str, Any] = {}
        self.busy = threading.Lock()
        self.stopped = threading.Event()
        self._controls()
        self._run_task(self.session.run)
        self._camera()
        threading.Thread(target=self._play, daemon=True).start()

    @property
    def address(self) -> str:
        """URL of the viewer."""
        return f"http://{self.host}:{self.port}"

    def stop(self) -> None:
        """Stop the server."""
        self.stopped.set()
        self.server.stop()

    # -- controls --------------------------------------------------------------------------------------------------

    def _controls(self) -> None:
        gui, session, system = self.server.gui, self.session, self.session.system
        gui.add_markdown(f"**{_plain(session.title)}**")
        self.status = gui.add_markdown("…")
        self.playing = gui.add_checkbox("play", True)
        self.time = gui.add_slider("time (s)", 0.0, session.t_end, session.t_end / 1000, 0.0)
        self.speed = gui.add_slider("speed", 0.05, 3.0, 0.05, 1.0)
        with gui.add_folder("initial state"):
            self.start = _sliders(gui, system.coordinates, session.q)
            names = tuple(n if n not in system.coordinates else f"velocity of {n}" for n in system.velocity_names)
            self.rates = _sliders(gui, names, session.v)
        parameters = session.parameters()
        if parameters:
            with gui.add_folder("parameters"):
                self.parameters = _sliders(gui, tuple(parameters), np.array(list(parameters.values())), least=0.0)
        else:
            self.parameters = {}
        gui.add_button("rerun").on_click(lambda _: self._run_task(self._rerun))
        with gui.add_folder("push"):
            self.pushed = gui.add_dropdown("velocity", system.velocity_names)
            largest = float(np.max(np.abs(session.v), initial=1.0))
            self.size = gui.add_slider("change (m/s, rad/s)", -largest, largest, largest / 50, largest / 5)
            gui.add_button("push now").on_click(lambda _: self._run_task(self._push))

    def _rerun(self) -> None:
        session = self.session
        session.set_parameters({name: slider.value for name, slider in self.parameters.items()})
        q, v = session.q.copy(), session.v.copy()
        held = _apply(q, self.start)
        if held + _apply(v, self.rates):
            session.run(q, v, tuple(n for n in held if n in session.system.velocity_names))
        else:
            session.run()
        for sliders, values in ((self.start, session.q), (self.rates, session.v)):
            for slider, value in zip(sliders.values(), values, strict=False):
                slider.value = float(np.clip(value, slider.min, slider.max))
        self.time.value = 0.0

    def _push(self) -> None:
        self.session.push(self.time.value, self.pushed.value, self.size.value)

    def _run_task(self, task: Callable[[], Any]) -> None:
        """Run a task unless another one is running, and show its outcome in the status line."""
        if not self.busy.acquire(blocking=False):
            return
        try:
            self.status.content = "computing …"
            task()
            run = self.session.latest
            self.status.content = (
                f"{_plain(run.status)}; energy drift {float(run.energy.drift):.1e} J, "
                f"constraint error {float(run.constraint_error.max()):.1e}"
            )
        except BricardError as error:
            self.status.content = f"**{_plain(str(error))}**"
        finally:
            self.busy.release()

    # -- animation -------------------------------------------------------------------------------------------------

    def _play(self) -> None:
        shown, previous = -1.0, time.monotonic()
        while not self.stopped.wait(FRAME):
            now = time.monotonic()
            if self.playing.value and not self.busy.locked():
                t = self.time.value + (now - previous) * self.speed.value
                self.time.value = t if t <= self.session.t_end else 0.0
            previous = now
            if self.time.value != shown:
                shown = self.time.value
                self.draw(shown)

    def draw(self, t: float) -> None:
        """Draw the frame at time `t`."""
        with self.server.atomic():
            for name, points in self.session.frame(t).items():
                if np.all(np.isfinite(points)):
                    self._line(name, points.astype(np.float32))

    def _line(self, name: str, points: np.ndarray) -> None:
        handle, scene = self.lines.get(name), self.server.scene
        colour = _rgb(PALETTE[(len(self.lines) if handle is None else 0) % len(PALETTE)])
        if len(points) == 1:
            if handle is None:
                handle = self.lines[name] = scene.add_icosphere(f"/{name}", 0.03 * self._extent(), colour)
            handle.position = points[0]
            return
        segments = np.stack([points[:-1], points[1:]], axis=1)
        if handle is None:
            width = 5.0 if len(points) <= 4 else 2.5
            self.lines[name] = scene.add_line_segments(
                f"/{name}", segments, colour, thickness=width, thickness_units="screen"
            )
        else:
            handle.points = segments

    def _extent(self) -> float:
        points = np.concatenate(list(self.session.frame(0.0).values()))
        return float(np.max(np.ptp(points, axis=0))) or 1.0

    def _camera(self) -> None:
        """Set the initial camera and the grid: planar drawings from the front, spatial ones from a corner."""
        frame = self.session.frame(0.0)
        if not frame:
            return
        vertices = np.concatenate(list(frame.values()))
        middle, size = 0.5 * (vertices.min(axis=0) + vertices.max(axis=0)), self._extent()
        planar = bool(np.all(vertices[:, 1] == 0.0))
        camera = self.server.initial_camera
        camera.look_at = middle
        camera.position = middle + size * (np.array([0.0, -1.0, 0.0]) if planar else np.array([0.9, -0.9, 0.55]))
        self.server.scene.add_grid(
            "/grid", 3 * size, 3 * size, plane="xz" if planar else "xy", cell_size=size / 5, section_size=size,
            position=(middle[0], 0.0, middle[2]) if planar else (middle[0], middle[1], float(vertices[:, 2].min())),
        )  # fmt: skip


def check_host(host: str) -> None:
    """Raise `ModelError` if this machine cannot listen on `host`; viser itself would wait for ever."""
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            probe.bind((host, 0))
    except (OSError, UnicodeError) as error:
        raise ModelError("view", [f"cannot listen on {host}: {getattr(error, 'strerror', None) or error}"]) from error


def _sliders(gui: Any, names: tuple[str, ...], values: np.ndarray, least: float | None = None) -> dict[str, Any]:
    """Sliders for the first values, by name, from `least` (default: minus the maximum) to at least twice the value."""
    sliders = {}
    for name, value in list(zip(names, values.tolist(), strict=True))[:MAX_SLIDERS]:
        reach = max(2.0 * abs(value), 3.2 if least is None else 1.0)
        low = -reach if least is None else least
        sliders[name] = gui.add_slider(_plain(name), low, max(reach, low + 1e-6), (reach - low) / 1000, value)
    return sliders


def _apply(values: np.ndarray, sliders: dict[str, Any]) -> list[str]:
    """Write the sliders that were moved by more than a step into `values`; return their names."""
    moved = [(i, name) for i, (name, s) in enumerate(sliders.items()) if abs(s.value - values[i]) > s.step]
    for i, name in moved:
        values[i] = sliders[name].value
    return [name for _, name in moved]


def _rgb(colour: str) -> tuple[int, int, int]:
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)


def _plain(text: str) -> str:
    """Text with Markdown characters escaped."""
    return "".join(f"\\{c}" if c in "\\`*_{}[]()#+!|<>" else c for c in text)
