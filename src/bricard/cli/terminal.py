"""What the command shows on a terminal, and how it fails: in two lines."""

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

PATIENCE = 5.0
"""How long (s) the command waits for work that was asked to end."""

FAILED, BAD_USAGE, INTERRUPTED = 1, 2, 130
"""Exit codes: a run that did not reach its end, arguments that cannot be right, Ctrl-C."""


class Usage(Exception):
    """Arguments that cannot be right: what is wrong, and what to do."""

    def __init__(self, problem: str, advice: str = "`bricard COMMAND --help` explains the options."):
        self.advice = advice
        super().__init__(problem)


def show(*parts: Text | str) -> None:
    """Print a line."""
    # Lines are left whole where the output is read by another program.
    line = Text.assemble(*(p if isinstance(p, Text) else Text(p) for p in parts))
    Console(highlight=False).print(line, soft_wrap=not sys.stdout.isatty())


def show_row(label: str, value: str) -> None:
    """Print a labelled value."""
    show(Text(f"  {label:<18}", style="cyan"), value)


def counted(names: tuple[str, ...], most: int = 12) -> str:
    """How many names there are, and the first of them."""
    shown = ", ".join(names[:most]) + (", …" if len(names) > most else "")
    return f"{len(names)}: {shown}" if names else "none"


def show_table(table: Table) -> None:
    """Print a table; in full width where the output is read by another program."""
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = max(console.width, 400)
    console.print(table)


@contextmanager
def progress_bar(total: int) -> Iterator[Callable[[str], str]]:
    """Count `total` pieces of work; yields a function that turns the name of the next one into a bar."""
    done = -1

    def advance(name: str) -> str:
        nonlocal done
        done += 1
        return f"{'━' * (20 * done // total):╌<20} {done}/{total} {name}"

    yield advance


def complain(problem: str, advice: str) -> None:
    """Print what is wrong and what to do, to standard error."""
    console = Console(stderr=True, highlight=False)
    console.print(Text.assemble(("error: ", "bold red"), problem), soft_wrap=True)
    console.print(Text(advice), soft_wrap=True)


def in_background(
    work: Callable[[], T], stage: str | Callable[[], str], on_interrupt: Callable[[], bool] | None = None
) -> T:
    """Do the work in a thread, and show what goes on: compiled code in the main thread would not hear Ctrl-C.

    `on_interrupt` asks the work to end early and says whether it will; if not, or at a second Ctrl-C, the command ends.
    """
    outcome: list[Any] = []

    def keep() -> None:
        try:
            outcome.append((work(), None))
        except BaseException as error:
            outcome.append((None, error))
        finished.set()

    finished = threading.Event()  # an interrupted `Thread.join` would take the thread for dead
    usual = threading.stack_size(64 * 1024 * 1024)  # the compiler recurses deeply; some systems give threads little
    thread = threading.Thread(target=keep, daemon=True)
    began = time.monotonic()
    try:
        with Console(stderr=True).status("") as status:
            thread.start()
            threading.stack_size(usual)

            def watch(until: float = math.inf) -> None:
                while not finished.is_set() and time.monotonic() < until:
                    finished.wait(0.1)
                    doing = stage if isinstance(stage, str) else stage()
                    status.update(Text(f"{doing} · {time.monotonic() - began:.0f} s"))

            try:
                watch()
            except KeyboardInterrupt:
                if on_interrupt is None or not on_interrupt():
                    raise
                watch(time.monotonic() + PATIENCE)
                if not finished.is_set():
                    raise
    except KeyboardInterrupt:
        # Not by way of Python's own end: it would wait for the thread, or pull the ground from under it.
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
    """What went wrong and what to do about it, instead of a traceback."""
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
    usual = "`bricard --help` explains the commands." if isinstance(error, ModelError) else "--debug shows where."
    advice = "; ".join(line.strip(" -") for line in more) or usual
    if not isinstance(error, BricardError):
        problem = f"{type(error).__name__}: {problem}"
    complain(problem, advice)
    raise typer.Exit(BAD_USAGE if isinstance(error, ModelError) else FAILED) from None
