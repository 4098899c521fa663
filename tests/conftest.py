"""Strict settings for every test: shapes and types are checked at run time, ranks are never promoted."""

import jax
from jaxtyping import install_import_hook

jax.config.update("jax_numpy_rank_promotion", "raise")
jax.config.update("jax_enable_x64", True)

# The compiler handles every number of a program by itself: checked at each call, it would take ten times as long. Its
# own tests compare what it computes with XLA.
import bricard.execution.llvm  # noqa: E402

with install_import_hook("bricard", "beartype.beartype"):
    import bricard

    for _name in bricard.__all__:  # names are imported when used: all of them now, under the hook
        getattr(bricard, _name)
    import bricard.report
    import bricard.symbolic

import collections  # noqa: E402
import json  # noqa: E402
from pathlib import Path  # noqa: E402

import hypothesis  # noqa: E402
import pytest  # noqa: E402

hypothesis.settings.register_profile("bricard", deadline=None, derandomize=True, max_examples=25)
hypothesis.settings.load_profile("bricard")

REFERENCE = Path(__file__).parent / "reference"

LONG_TESTS = Path(__file__).parent / "long_tests.txt"
"""Tests that took more than `LONG` seconds when they were measured. They count as slow, as if they were marked."""
LONG = 5.0


def pytest_addoption(parser):
    parser.addoption("--measure", action="store_true", help="write tests/long_tests.txt anew, from this run")
    parser.addoption("--listed", action="store_true", help="run the tests of tests/long_tests.txt alone")


def pytest_configure(config):
    if config.getoption("--measure") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Measurement())


@pytest.hookimpl(tryfirst=True)  # before tests are deselected by their marks
def pytest_collection_modifyitems(config, items):
    if config.getoption("--measure"):
        return
    long_tests = set(LONG_TESTS.read_text().splitlines())
    if config.getoption("--listed"):
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in long_tests])
        items[:] = [item for item in items if item.nodeid in long_tests]
    for item in items:
        if item.nodeid in long_tests:
            item.add_marker(pytest.mark.slow)


class Measurement:
    """Durations of all tests, fixtures included."""

    def __init__(self):
        self.seconds = collections.Counter()

    def pytest_runtest_logreport(self, report):
        self.seconds[report.nodeid] += report.duration

    def pytest_sessionfinish(self):
        found = sorted(test for test, seconds in self.seconds.items() if seconds > LONG)
        LONG_TESTS.write_text("".join(f"{test}\n" for test in found))


MAPS = Path("/proc/self/maps")


@pytest.fixture(autouse=True)
def forget_compiled_programs():
    """Each compiled program holds memory maps, of which a process may have some 65 000: more than the whole suite."""
    yield
    if MAPS.exists() and MAPS.read_bytes().count(b"\n") > 20_000:
        jax.clear_caches()


@pytest.fixture(scope="module", autouse=True)
def forget_programs_of_other_files():
    """Memory too is limited."""
    yield
    jax.clear_caches()


@pytest.fixture(scope="session")
def reference():
    """Numbers computed independently: `reference("pendulum")` is the content of `reference/pendulum.json`."""
    return lambda name: json.loads((REFERENCE / f"{name}.json").read_text())
