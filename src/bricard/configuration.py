"""`br.configure`: options for the whole process that are set only on request."""

from __future__ import annotations

import os

from bricard.errors import ModelError
from bricard.execution.compile import xla_options


def configure(*, small_loops: int | None = None) -> None:
    """Set options of XLA for the whole process. Call it before the first computation.

    `small_loops`: XLA compiles loops whose iterations access less memory than this (bytes) as one piece. Runs of
    medium-sized systems become up to four times faster, and their compilation takes two to four times as long.
    `300_000` suits systems that are simulated many times.
    """
    if small_loops is not None:
        if xla_options.cache_info().currsize:
            raise ModelError("configure", ["XLA has compiled a program already: call it before the first computation"])
        flags = [x for x in os.environ.get("XLA_FLAGS", "").split() if "xla_cpu_small_while_loop" not in x]
        option = f"--xla_backend_extra_options=xla_cpu_small_while_loop_byte_threshold={int(small_loops)}"
        os.environ["XLA_FLAGS"] = " ".join([*flags, option])
