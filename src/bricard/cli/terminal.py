"""Output to the terminal, progress, and error messages of two lines."""

from __future__ import annotations

import math
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn, TypeVar

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

T = TypeVar("T")

STOP_TIMEOUT = 5.0
"""Time that the command waits for interrupted work to end (s)."""

FAILED, BAD_USAGE, INTERRUPTED = 1, 2, 130
"""Exit codes: a run that did not reach its end, invalid arguments, Ctrl-C."""


class Usage(Exception):
    """Invalid arguments of a command; `advice` says what to do."""

    def __init__(self, problem: str, advice: str = "See `bricard COMMAND --help` for the options."):
        self.advice = advice
        super().__init__(problem)


def show(*parts: Text | str) -> None:
    """Print a line."""
    # Lines are wrapped only on a terminal, not for other programs.
    line = Text.assemble(*(p if isinstance(p, Text) else Text(p) for p in parts))
    Console(highlight=False).print(line, soft_wrap=not sys.stdout.isatty())


def show_row(label: str, value: str) -> None:
    """Print a labelled value."""
    show(Text(f"  {label:<18}", style="cyan"), value)


def counted(names: tuple[str, ...], most: int = 12) -> str:
    """Number of names, and the first of them."""
    shown = ", ".join(names[:most]) + (", …" if len(names) > most else "")
    return f"{len(names)}: {shown}" if names else "none"


def show_table(table: Table) -> None:
    """Print a table; in full width if the output is not a terminal."""
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = max(console.width, 400)
    console.print(table)


@contextmanager
def progress_bar(total: int) -> Iterator[Callable[[str], str]]:
    """Yield a function that takes the name of the next of `total` tasks and returns a progress bar as text."""
    done = -1

    def advance(name: str) -> str:
        nonlocal done
        done += 1
        return f"{'━' * (20 * done // total):╌<20} {done}/{total} {name}"

    yield advance


def complain(problem: str, advice: str) -> None:
    """Print a problem and what to do about it to standard error."""
    console = Console(stderr=True, highlight=False)
    console.print(Text.assemble(("error: ", "bold red"), problem), soft_wrap=True)
    console.print(Text(advice), soft_wrap=True)


def in_background(
    work: Callable[[], T], stage: str | Callable[[], str], on_interrupt: Callable[[], bool] | None = None
) -> T:
    """Run `work` in a thread and return its result, while the terminal shows `stage` and the elapsed time.

    A thread is needed because compiled code in the main thread would block Ctrl-C. At Ctrl-C, `on_interrupt` asks the
    work to stop early and returns True if it will; otherwise, or at a second Ctrl-C, the command exits.
    """
    outcome: list[Any] = []

    def call() -> None:
        try:
            outcome.append((work(), None))
        except BaseException as error:
            outcome.append((None, error))
        finished.set()

    finished = threading.Event()  # after an interrupted `Thread.join` the thread would count as dead
    default_size = threading.stack_size(64 * 1024 * 1024)  # the compiler recurses deeply
    thread = threading.Thread(target=call, daemon=True)
    start = time.monotonic()
    try:
        with Console(stderr=True).status("") as status:
            thread.start()
            threading.stack_size(default_size)

            def wait(until: float = math.inf) -> None:
                while not finished.is_set() and time.monotonic() < until:
                    finished.wait(0.1)
                    doing = stage if isinstance(stage, str) else stage()
                    status.update(Text(f"{doing} · {time.monotonic() - start:.0f} s"))

            try:
                wait()
            except KeyboardInterrupt:
                if on_interrupt is None or not on_interrupt():
                    raise
                wait(time.monotonic() + STOP_TIMEOUT)
                if not finished.is_set():
                    raise
    except KeyboardInterrupt:
        # A normal exit of Python would wait for the thread, or destroy the interpreter while the thread runs.
        complain("interrupted", "Nothing was written.")
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(INTERRUPTED)
    value, error = outcome[0]
    if error is not None:
        raise error
    return value


@contextmanager
def errors_in_two_lines(debug: bool) -> Iterator[None]:
    """Context in which an exception is printed in two lines, problem and advice, instead of a traceback."""
    try:
        yield
    except (typer.Exit, BrokenPipeError):
        raise
    except KeyboardInterrupt:
        complain("interrupted", "Nothing was written.")
        raise typer.Exit(INTERRUPTED) from None
    except Exception as error:
        if debug:
            raise
        _fail(error)


def _fail(error: Exception) -> NoReturn:
    if isinstance(error, Usage):
        complain(str(error), error.advice)
        raise typer.Exit(BAD_USAGE) from None
    from bricard.errors import BricardError, ModelError

    problem, *more = str(error).splitlines() or [""]
    see_help, see_traceback = "See `bricard --help` for the commands.", "Use --debug to see the traceback."
    default = see_help if isinstance(error, ModelError) else see_traceback
    advice = "; ".join(line.strip(" -") for line in more) or default
    if not isinstance(error, BricardError):
        problem = f"{type(error).__name__}: {problem}"
    complain(problem, advice)
    raise typer.Exit(BAD_USAGE if isinstance(error, ModelError) else FAILED) from None
