"""Compilation of MJCF by MuJoCo in a separate process (`mjcf_compile.py`), with limits on time and memory."""

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
"""Limit on the compilation time (s); models within the size limits need less than ten seconds."""
MEMORY = 4_000_000_000
"""Limit on the address space of the process (bytes)."""


class Compiled:
    """Compiled model. Its attributes have the names of the fields of `MjModel`, `MjData` and `MjOption`.

    Poses are those of the reference configuration.
    """

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
        """True if the installed version of MuJoCo has a field of this name."""
        return any(f"{part}.{name}" in self._archive for part in ("model", "data", "option"))

    def kind(self, name: str) -> int:
        """Integer value of an enumeration member such as `mjJNT_HINGE`."""
        return int(self._enumerations[name])

    def name(self, part: str, i: int) -> str:
        """Name of object `i` of a type such as "body" or "jnt", the prefix that MuJoCo uses in `name_jntadr`."""
        start = int(getattr(self, f"name_{part}adr")[i])
        return self._names[start : self._names.index(b"\0", start)].decode("utf-8", "replace")


def compile_mjcf(file: Path, text: str) -> Compiled:
    """Compile `text`, the content of `file`; raise a `ModelError` if it is invalid or exceeds the limits."""
    content = _run_compiler(file, text)
    with np.load(io.BytesIO(content), allow_pickle=False) as archive:
        problems = [str(p) for p in archive["problems"]] if "problems" in archive else []
    if any(p.startswith(mjcf_compile.NOT_INSTALLED) for p in problems):
        raise ModelError(str(file), ["reading MJCF needs MuJoCo: pip install 'bricard[mjcf]'"])
    if problems:
        raise ModelError(str(file), problems)
    return Compiled(content)


def _run_compiler(file: Path, text: str) -> bytes:
    if not sys.executable or getattr(sys, "frozen", False):
        raise ModelError(str(file), ["reading MJCF needs a Python interpreter to run MuJoCo, and none was found"])
    # -P keeps the directory of the script off sys.path, where its neighbours could shadow other modules.
    command = [sys.executable, "-P", mjcf_compile.__file__, str(SECONDS), str(MEMORY)]
    paths = [os.path.abspath(p) for p in sys.path]
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(paths),  # so that the process imports the same MuJoCo as this one
        "MUJOCO_GL": "disable",  # skip the import of rendering libraries
        "OPENBLAS_NUM_THREADS": "1",
        "PYTHONWARNINGS": "ignore",
    }
    try:
        process = subprocess.run(
            command, input=text.encode(), capture_output=True, env=environment, timeout=SECONDS + 10, check=False
        )
    except subprocess.TimeoutExpired:
        raise ModelError(str(file), [f"MuJoCo needs more than {SECONDS} s to compile the model"]) from None
    except OSError as error:
        raise ModelError(str(file), [f"MuJoCo cannot be started: {error.strerror or error}"]) from error
    if process.returncode == 0 and process.stdout:
        return process.stdout
    if -process.returncode in (getattr(signal, "SIGXCPU", 0), getattr(signal, "SIGKILL", 0)):
        limits = f"{SECONDS} s or {MEMORY / 1e9:.0f} GB"
        raise ModelError(str(file), [f"MuJoCo needs more than {limits} to compile the model"])
    messages = process.stderr.decode("utf-8", "replace").strip().splitlines()
    last = f": {messages[-1]}" if messages else ""
    raise ModelError(str(file), [f"MuJoCo crashed on this model (exit status {process.returncode}){last}"])
