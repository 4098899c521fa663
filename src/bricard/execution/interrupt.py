"""Ctrl-C while a compiled program runs: the time loop ends after the current step and keeps its results.

Python runs signal handlers only between bytecode instructions, so not until a compiled run returns. However, it writes
a byte to a file descriptor immediately (`signal.set_wakeup_fd`). A thread that waits for this byte sets the stop flag
(`bricard.execution.llvm.stop`), which compiled loops check.
"""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from bricard.execution.llvm.stop import FLAG, STARTED, STOP


class Stop:
    """Whether a stop was requested during a `stoppable` block."""

    def __init__(self) -> None:
        self.requested = False


_active: list[Stop] = []


def request_stop() -> bool:
    """Make all compiled runs end after their current step; each raises `SimulationInterrupted` in its own thread.

    Returns False if no compiled run has started.
    """
    running = bool(_active and FLAG[STARTED])
    for stop in _active:
        stop.requested = True
        FLAG[STOP] = 1
    return running


@contextmanager
def stoppable() -> Iterator[Stop]:
    """Inside the `with` block, Ctrl-C ends compiled runs early; the yielded `Stop` tells whether it was pressed.

    While Python is still tracing or compiling, Ctrl-C raises `KeyboardInterrupt` as usual.
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
        else:  # another thread or another handler is responsible for signals
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
    previous = signal.set_wakeup_fd(listener.descriptor, warn_on_full_buffer=False)
    signal.signal(signal.SIGINT, _handle)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.set_wakeup_fd(previous)
        if FLAG[STOP]:
            listener.drain()


class _Listener(threading.Thread):
    """Waits for signals and sets the stop flag if a compiled program is running."""

    _instance: _Listener | None = None

    def __init__(self) -> None:
        super().__init__(daemon=True, name="bricard: Ctrl-C")
        self._process = os.getpid()
        self._reader, self._writer = socket.socketpair()
        self._writer.setblocking(False)
        self._drained = threading.Event()

    @classmethod
    def get(cls) -> _Listener:
        """The listener of this process. Threads do not survive a fork, so a child process starts its own."""
        if cls._instance is None or cls._instance._process != os.getpid():
            cls._instance = cls()
            cls._instance.start()
        return cls._instance

    @property
    def descriptor(self) -> int:
        """File descriptor to which Python writes signal numbers."""
        return self._writer.fileno()

    def run(self) -> None:
        while True:
            for number in self._reader.recv(64):
                if number == 0:
                    self._drained.set()
                elif number == signal.SIGINT and FLAG[STARTED]:
                    FLAG[STOP] = 1

    def drain(self) -> None:
        """Wait until all pending signals are handled, so that none of them stops a later run."""
        self._drained.clear()
        self._writer.send(b"\0")
        self._drained.wait(1.0)
