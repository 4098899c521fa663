"""On one CPU, XLA translates the functions of a program one after the other, and stops at the first that fails."""

import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="CPUs can be taken away on Linux only")
def test_contacts_without_slip_run_on_one_cpu():
    program = """
        import os
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # before JAX starts its threads
        import bricard as br
        ball = br.gallery.load("bouncing-ball")
        print(*[event.time for event in ball.simulate(t_end=0.5).events])
    """
    quick = {"XLA_FLAGS": "--xla_backend_optimization_level=0"}  # compiles faster; the translation comes before
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, env=os.environ | quick
    )
    assert done.returncode == 0, done.stderr
    times = [float(x) for x in done.stdout.split()]
    np.testing.assert_allclose(times, [np.sqrt(2 / 9.81)], rtol=0, atol=1e-9)  # a fall of one metre
