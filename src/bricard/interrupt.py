"""Ctrl-C while a compiled program runs: the loop over time ends after its step, and what it has is kept.

Python handles a signal only between its own instructions, and so not before a compiled run is over. But it writes a
byte to a file descriptor at once (`signal.set_wakeup_fd`); a thread that waits for it sets the word that loops look at.
"""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from bricard.native.stop import FLAG, STARTED, STOP


class Stop:
    """Whether a run was told to stop."""

    def __init__(self) -> None:
        self.requested = False


_active: list[Stop] = []


def request_stop() -> bool:
    """Let all compiled runs end after their present step: each raises `SimulationInterrupted` in its own thread.

    False if there is none: nothing was computed yet.
    """
    running = bool(_active and FLAG[STARTED])
    for stop in _active:
        stop.requested = True
        FLAG[STOP] = 1
    return running


@contextmanager
def stoppable() -> Iterator[Stop]:
    """While it lasts, Ctrl-C makes compiled runs end early instead of waiting for them; the outcome tells.

    Where Python is still tracing or compiling, Ctrl-C raises `KeyboardInterrupt` as ever.
    """
    stop = Stop()
    if not _active:
        FLAG[:] = 0
    _active.append(stop)
    try:
        if (
            threading.current_thread() is threading.main_thread()
            and signal.getsignal(signal.SIGINT) is signal.default_int_handler
        ):
            with _listening():
                yield stop
        else:  # signals are not ours to handle
            yield stop
    finally:
        _active.remove(stop)
        if not _active:
            FLAG[:] = 0


def _handle(number: int, frame: Any) -> None:
    if FLAG[STOP] or FLAG[STARTED]:
        request_stop()
    else:
        signal.default_int_handler(number, frame)


@contextmanager
def _listening() -> Iterator[None]:
    listener = _Listener.get()
    before = signal.set_wakeup_fd(listener.descriptor, warn_on_full_buffer=False)
    signal.signal(signal.SIGINT, _handle)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.set_wakeup_fd(before)
        if FLAG[STOP]:
            listener.drain()


class _Listener(threading.Thread):
    """Waits for signals, and sets the flag if a compiled program runs."""

    _one: _Listener | None = None

    def __init__(self) -> None:
        super().__init__(daemon=True, name="bricard: Ctrl-C")
        self._process = os.getpid()
        self._reader, self._writer = socket.socketpair()
        self._writer.setblocking(False)
        self._drained = threading.Event()

    @classmethod
    def get(cls) -> _Listener:
        """The one of this process; a fork has none of its own yet."""
        if cls._one is None or cls._one._process != os.getpid():
            cls._one = cls()
            cls._one.start()
        return cls._one

    @property
    def descriptor(self) -> int:
        """Where Python writes the numbers of signals."""
        return self._writer.fileno()

    def run(self) -> None:
        while True:
            for number in self._reader.recv(64):
                if number == 0:
                    self._drained.set()
                elif number == signal.SIGINT and FLAG[STARTED]:
                    FLAG[STOP] = 1

    def drain(self) -> None:
        """Wait until all signals so far have been seen: none must stop a later run."""
        self._drained.clear()
        self._writer.send(b"\0")
        self._drained.wait(1.0)
