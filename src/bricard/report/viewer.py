"""A live viewer in the browser (extra `view`): sliders for start and parameters, a hand on time, a push."""

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
"""Between two pictures (s)."""
MOST_SLIDERS = 10
"""Of a kind; more coordinates or parameters keep their values."""


class Viewer:
    """Shows a session on `http://host:port`, for this machine alone unless another `host` is asked for.

    Requests that name another host, or come from a page of another site, are refused.
    """

    def __init__(self, session: Session, host: str = LOOPBACK, port: int = 8080):
        try:
            import viser
        except ModuleNotFoundError as error:
            raise ModelError("view", ["needs viser: pip install 'bricard[view]'"]) from error

        check_host(host)
        self.session = session
        # Its banner is not shown; the address is told by whoever asked for it.
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
        self._work(self.session.run)
        self._camera()
        threading.Thread(target=self._play, daemon=True).start()

    @property
    def address(self) -> str:
        """Where to look at it."""
        return f"http://{self.host}:{self.port}"

    def stop(self) -> None:
        """Close the page for good."""
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
        with gui.add_folder("start"):
            self.start = _sliders(gui, system.coordinates, session.q)
            names = tuple(n if n not in system.coordinates else f"rate of {n}" for n in system.velocity_names)
            self.rates = _sliders(gui, names, session.v)
        knobs = session.knobs()
        if knobs:
            with gui.add_folder("parameters"):
                self.knobs = _sliders(gui, tuple(knobs), np.array(list(knobs.values())), least=0.0)
        else:
            self.knobs = {}
        gui.add_button("run again").on_click(lambda _: self._work(self._again))
        with gui.add_folder("push"):
            self.where = gui.add_dropdown("velocity", system.velocity_names)
            largest = float(np.max(np.abs(session.v), initial=1.0))
            self.size = gui.add_slider("size", -largest, largest, largest / 50, largest / 5)
            gui.add_button("push now").on_click(lambda _: self._work(self._push))

    def _again(self) -> None:
        session = self.session
        session.turn({name: slider.value for name, slider in self.knobs.items()})
        q, v = session.q.copy(), session.v.copy()
        held = _set(q, self.start)
        if held + _set(v, self.rates):
            session.run(q, v, tuple(n for n in held if n in session.system.velocity_names))
        else:
            session.run()
        for sliders, values in ((self.start, session.q), (self.rates, session.v)):
            for slider, value in zip(sliders.values(), values, strict=False):
                slider.value = float(np.clip(value, slider.min, slider.max))
        self.time.value = 0.0

    def _push(self) -> None:
        self.session.push(self.time.value, self.where.value, self.size.value)

    def _work(self, work: Callable[[], Any]) -> None:
        """Do something that takes a while, and say how it went."""
        if not self.busy.acquire(blocking=False):
            return
        try:
            self.status.content = "computing …"
            work()
            run = self.session.latest
            self.status.content = (
                f"{_plain(run.status)}; energy drift {float(run.energy.drift):.1e} J, "
                f"constraint error {float(run.constraint_error.max()):.1e}"
            )
        except BricardError as error:
            self.status.content = f"**{_plain(str(error))}**"
        finally:
            self.busy.release()

    # -- the picture -----------------------------------------------------------------------------------------------

    def _play(self) -> None:
        shown, before = -1.0, time.monotonic()
        while not self.stopped.wait(FRAME):
            now = time.monotonic()
            if self.playing.value and not self.busy.locked():
                t = self.time.value + (now - before) * self.speed.value
                self.time.value = t if t <= self.session.t_end else 0.0
            before = now
            if self.time.value != shown:
                shown = self.time.value
                self.draw(shown)

    def draw(self, t: float) -> None:
        """Show the picture at time `t`."""
        with self.server.atomic():
            for name, points in self.session.frame(t).items():
                if np.all(np.isfinite(points)):
                    self._line(name, points.astype(np.float32))

    def _line(self, name: str, points: np.ndarray) -> None:
        known, scene = self.lines.get(name), self.server.scene
        colour = _rgb(PALETTE[(len(self.lines) if known is None else 0) % len(PALETTE)])
        if len(points) == 1:
            if known is None:
                known = self.lines[name] = scene.add_icosphere(f"/{name}", 0.03 * self._extent(), colour)
            known.position = points[0]
            return
        segments = np.stack([points[:-1], points[1:]], axis=1)
        if known is None:
            width = 5.0 if len(points) <= 4 else 2.5
            self.lines[name] = scene.add_line_segments(
                f"/{name}", segments, colour, thickness=width, thickness_units="screen"
            )
        else:
            known.points = segments

    def _extent(self) -> float:
        points = np.concatenate(list(self.session.frame(0.0).values()))
        return float(np.max(np.ptp(points, axis=0))) or 1.0

    def _camera(self) -> None:
        """Look at the whole: the plane face on, space from a corner."""
        frame = self.session.frame(0.0)
        if not frame:
            return
        every = np.concatenate(list(frame.values()))
        middle, size = 0.5 * (every.min(axis=0) + every.max(axis=0)), self._extent()
        planar = bool(np.all(every[:, 1] == 0.0))
        camera = self.server.initial_camera
        camera.look_at = middle
        camera.position = middle + size * (np.array([0.0, -1.0, 0.0]) if planar else np.array([0.9, -0.9, 0.55]))
        self.server.scene.add_grid(
            "/grid", 3 * size, 3 * size, plane="xz" if planar else "xy", cell_size=size / 5, section_size=size,
            position=(middle[0], 0.0, middle[2]) if planar else (middle[0], middle[1], float(every[:, 2].min())),
        )  # fmt: skip


def check_host(host: str) -> None:
    """Raise `ModelError` if this machine cannot listen there; the server itself would wait for ever."""
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            probe.bind((host, 0))
    except (OSError, UnicodeError) as error:
        raise ModelError("view", [f"cannot listen on {host}: {getattr(error, 'strerror', None) or error}"]) from error


def _sliders(gui: Any, names: tuple[str, ...], values: np.ndarray, least: float | None = None) -> dict[str, Any]:
    """A slider for each of the first values, wide enough to change it much."""
    made = {}
    for name, value in list(zip(names, values.tolist(), strict=True))[:MOST_SLIDERS]:
        reach = max(2.0 * abs(value), 3.2 if least is None else 1.0)
        low = -reach if least is None else least
        made[name] = gui.add_slider(_plain(name), low, max(reach, low + 1e-6), (reach - low) / 1000, value)
    return made


def _set(values: np.ndarray, sliders: dict[str, Any]) -> list[str]:
    """Put the sliders' values in place; names of those that were moved by more than a step."""
    moved = [(i, name) for i, (name, s) in enumerate(sliders.items()) if abs(s.value - values[i]) > s.step]
    for i, name in moved:
        values[i] = sliders[name].value
    return [name for _, name in moved]


def _rgb(colour: str) -> tuple[int, int, int]:
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)


def _plain(text: str) -> str:
    """Text that Markdown leaves as it is."""
    return "".join(f"\\{c}" if c in "\\`*_{}[]()#+!|<>" else c for c in text)
