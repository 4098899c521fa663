"""MuJoCo's compiled model of an MJCF file, made by another process (`mjcf_compile.py`) within limits."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

from bricard.errors import ModelError
from bricard.io import mjcf_compile

SECONDS = 60
"""Time that MuJoCo may take; the models it is asked for take less than ten seconds."""
MEMORY = 4_000_000_000
"""Bytes that the process may address."""


class Compiled:
    """Numbers of the compiled model: attributes have the names that MuJoCo gives them in `MjModel`."""

    def __init__(self, content: bytes):
        self._archive = np.load(io.BytesIO(content), allow_pickle=False)
        self._names = bytes(self._archive["names"])
        self._enumerations = json.loads(str(self._archive["enumerations"]))

    def __getattr__(self, name: str) -> Any:
        for part in ("model", "data", "option"):
            if f"{part}.{name}" in self._archive:
                value = self._archive[f"{part}.{name}"]
                self.__dict__[name] = value if value.ndim else value.item()
                return self.__dict__[name]
        raise AttributeError(name)

    def has(self, name: str) -> bool:
        """Whether this version of MuJoCo knows such a number."""
        return any(f"{part}.{name}" in self._archive for part in ("model", "data", "option"))

    def kind(self, name: str) -> int:
        """The number of a kind, such as `mjJNT_HINGE`."""
        return int(self._enumerations[name])

    def name(self, part: str, i: int) -> str:
        """The name of the body, joint, … `i`, by the prefix of its address: `name("jnt", 0)`."""
        start = int(getattr(self, f"name_{part}adr")[i])
        return self._names[start : self._names.index(b"\0", start)].decode("utf-8", "replace")


def compile_mjcf(file: Path, text: str) -> Compiled:
    """MuJoCo's model of the text of `file`; `ModelError` if it cannot be made within the limits."""
    content = _answer(file, text)
    with np.load(io.BytesIO(content), allow_pickle=False) as archive:
        problems = [str(p) for p in archive["problems"]] if "problems" in archive else []
    if any(p.startswith(mjcf_compile.NOT_INSTALLED) for p in problems):
        raise ModelError(str(file), ["reading MJCF needs the extra: pip install 'bricard[mjcf]'"])
    if problems:
        raise ModelError(str(file), problems)
    return Compiled(content)


def _answer(file: Path, text: str) -> bytes:
    if not sys.executable or getattr(sys, "frozen", False):
        raise ModelError(str(file), ["reading MJCF needs a Python interpreter to run MuJoCo in, and there is none"])
    # The script lies among modules of other names; -P keeps its folder off the path.
    command = [sys.executable, "-P", mjcf_compile.__file__, str(SECONDS), str(MEMORY)]
    paths = [os.path.abspath(p) for p in sys.path]
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(paths),  # MuJoCo is found where this process would find it
        "MUJOCO_GL": "disable",  # nothing is drawn: it is imported faster
        "OPENBLAS_NUM_THREADS": "1",
        "PYTHONWARNINGS": "ignore",
    }
    try:
        done = subprocess.run(
            command, input=text.encode(), capture_output=True, env=environment, timeout=SECONDS + 10, check=False
        )
    except subprocess.TimeoutExpired:
        raise ModelError(str(file), [f"MuJoCo needs more than {SECONDS} s to read it"]) from None
    except OSError as error:
        raise ModelError(str(file), [f"MuJoCo cannot be started: {error.strerror or error}"]) from error
    if done.returncode == 0 and done.stdout:
        return done.stdout
    if -done.returncode in (getattr(signal, "SIGXCPU", 0), getattr(signal, "SIGKILL", 0)):
        raise ModelError(str(file), [f"MuJoCo needs more than {SECONDS} s or {MEMORY / 1e9:.0f} GB to read it"])
    said = done.stderr.decode("utf-8", "replace").strip().splitlines()
    what = f": {said[-1]}" if said else ""
    raise ModelError(str(file), [f"MuJoCo crashed while reading it (exit status {done.returncode}){what}"])
