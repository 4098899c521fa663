"""Ctrl-C during a run, by a real signal to a process: it ends soon, and what was computed is kept."""

import os
import signal
import subprocess
import sys
import time

import pytest

import bricard as br
from bricard.errors import SimulationInterrupted
from bricard.execution.interrupt import request_stop, stoppable
from bricard.execution.llvm.stop import FLAG

pytestmark = pytest.mark.skipif(os.name != "posix", reason="sends signals")

LONG = 60.0
"""A process that has not answered for so long (s) will not."""

SCRIPT = """
import signal, threading, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # a process in the background would ignore it
import jax
import jax.numpy as jnp
import bricard as br
from bricard.errors import SimulationInterrupted
from bricard.execution.llvm.stop import FLAG

class Pendulum(br.System):
    coordinates = ("x", "y")
    def kinetic_energy(self, q, v, t):
        return 0.5 * v @ v
    def potential_energy(self, q, t):
        return 9.81 * q[1]
    def constraints(self, q, t):
        return jnp.array([q @ q - 1.0])

class Slow(Pendulum):  # a step of equal length takes some 10 ms
    def applied_force(self, q, v, t):
        return 1e-9 * jax.lax.fori_loop(0, 30_000, lambda i, x: jnp.sin(x + q[0]), 0.0) * q

settings = {settings}
system = {system}()
start = ([1.0, 0.0], [0.0, 0.0])

def tell():  # once a compiled program has been running for a while
    running = 0
    while running < 30:
        time.sleep(0.01)
        running = running + 1 if FLAG[1] else 0
    print("ready", flush=True)

threading.Thread(target=tell, daemon=True).start()
try:
    br.simulate(system, *start, {t_end}, **(settings | {{"save": {save}, "max_steps": 10**9}}))
    print("finished")
except SimulationInterrupted as stop:
    run = stop.trajectory
    assert isinstance(stop, KeyboardInterrupt)
    assert run.failure == f"interrupted at t = {{stop.t:.6g}} s", run.failure
    assert 0.0 < stop.t < {t_end} and float(run.t[-1]) == stop.t
    assert bool(jnp.all(jnp.isfinite(run.q))) and float(jnp.max(jnp.abs(run.constraint_error.max()))) < 1e-6
    print("kept", run.t.shape[0], stop.t, flush=True)
short = br.simulate(system, *start, 0.01, save=2)  # nothing is left of it
print("again", short.succeeded, flush=True)
"""

CASES = {
    "LLVM": ("Pendulum", {}, "1e6", 5, "1"),
    "LLVM, many saved": ("Pendulum", {}, "1e6", 2000, "1"),
    "LLVM, sampled": (
        "Pendulum",
        {"controller": "br.control.Sampled(lambda t, q, v: jnp.zeros(0), 1.0)"},
        "4e5",
        5,
        "1",
    ),
    "XLA": ("Pendulum", {}, "1e6", 5, "0"),
    "XLA, equal steps": ("Pendulum", {"dt": "1e-2"}, "1e6", 5, "0"),
    "XLA, a few slow steps": ("Slow", {"dt": "1e-3"}, "19.0", 5, "0"),
}


@pytest.mark.parametrize("case", CASES)
def test_ctrl_c_ends_a_run_and_keeps_it(case, tmp_path):
    system, settings, t_end, save, native = CASES[case]
    written = "{" + ", ".join(f'"{name}": {value}' for name, value in settings.items()) + "}"
    script = tmp_path / "run.py"
    script.write_text(SCRIPT.format(system=system, settings=written, t_end=t_end, save=save))
    environment = os.environ | {"BRICARD_LLVM": native}
    with subprocess.Popen(
        [sys.executable, str(script)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment, text=True
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            process.send_signal(signal.SIGINT)
            told, _ = process.communicate(timeout=LONG)
        finally:
            process.kill()
    assert told.startswith("kept"), told
    kept, again = told.splitlines()
    assert int(kept.split()[1]) >= 2
    assert again == "again True"
    assert process.returncode == 0


COMMAND = """
import os, signal, sys, threading, time
signal.signal(signal.SIGINT, signal.default_int_handler)
from bricard.execution.llvm.stop import FLAG

def interrupt():  # once the run has been going on for a while
    while not FLAG[1]:
        time.sleep(0.01)
    time.sleep(0.5)
    os.kill(os.getpid(), signal.SIGINT)

threading.Thread(target=interrupt, daemon=True).start()
from bricard.cli import main
sys.argv = ["bricard", "run", "bouncing-ball", "--set", "restitution=1", "--t-end", "1e5", "-o", {output!r}]
main()
"""


def test_ctrl_c_writes_what_there_is_of_a_run_with_contacts(tmp_path):
    """A ball that would bounce for a day."""
    output = tmp_path / "ball.html"
    done = subprocess.run(
        [sys.executable, "-c", COMMAND.format(output=str(output))], capture_output=True, text=True, timeout=5 * LONG
    )
    assert done.returncode == 130, done.stderr
    assert "interrupted at t = " in done.stderr
    assert f"What there is of it is in {output}." in " ".join(done.stderr.split())
    assert "Interrupted at t = " in output.read_text()


def test_equal_steps_are_counted_one_by_one():
    """The loop looks for a request once in several steps, but ends after as many steps as it may take."""
    example = br.gallery.load("pendulum")
    exact = example.simulate(t_end=0.1, dt=1e-3, save=3, max_steps=101)
    assert exact.succeeded
    assert int(exact.stats["num_steps"]) in (100, 101)
    short = example.simulate(t_end=0.1, dt=1e-3, save=3, max_steps=37, throw=False)
    assert "maximum number of steps" in short.status
    assert float(short.t[-1]) == pytest.approx(0.037, abs=1e-12)


def test_a_stop_from_another_thread_ends_the_run():
    import threading

    example = br.gallery.load("pendulum-xy")
    example.simulate(t_end=0.1, save=3)

    def stop():
        while not FLAG[1]:  # until a compiled program runs
            time.sleep(0.01)
        time.sleep(0.05)
        request_stop()

    threading.Thread(target=stop, daemon=True).start()
    with pytest.raises(SimulationInterrupted, match="interrupted at t = ") as caught:
        example.simulate(t_end=1e6, save=3, max_steps=10**9)
    assert 0.0 < caught.value.t < 1e6
    assert caught.value.trajectory.t.shape == (2,)
    assert example.simulate(t_end=0.1, save=3).succeeded


def test_a_request_without_a_run_changes_nothing():
    request_stop()
    assert not FLAG.any()
    before = signal.getsignal(signal.SIGINT)
    with stoppable() as stop:
        pass
    assert not stop.requested
    assert signal.getsignal(signal.SIGINT) is before


def test_ctrl_c_while_python_works_is_the_usual_one():
    with pytest.raises(KeyboardInterrupt) as caught, stoppable():
        signal.raise_signal(signal.SIGINT)
    assert not isinstance(caught.value, SimulationInterrupted)
    assert not FLAG.any()
