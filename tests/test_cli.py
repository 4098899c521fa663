import os
import re
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("typer", reason="the command line needs typer: pip install 'bricard[cli]'")
from typer.testing import CliRunner

import bricard
from bricard.cli.commands import app
from bricard.cli.terminal import BAD_USAGE, FAILED, INTERRUPTED

SOURCE = Path(bricard.__file__).parent

MODEL = '''
import jax.numpy as jnp
import bricard as br


class Swing(br.System):
    """A swing whose rope tears after a while."""

    length: float = 1.0
    end: float = 100.0
    coordinates = ("angle",)

    def kinetic_energy(self, q, v, t):
        return 0.5 * self.length**2 * v @ v

    def potential_energy(self, q, t):
        return jnp.where(t < self.end, 1.0, jnp.nan) * 9.81 * self.length * (1.0 - jnp.cos(q[0]))


short = Swing(length=0.5)
number = 3
'''


@pytest.fixture(autouse=True)
def _no_cache(monkeypatch, tmp_path):
    """Leave the user's cache of compiled programs alone."""
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def model(tmp_path):
    path = tmp_path / "swing_model.py"
    path.write_text(MODEL)
    return path


def call(*arguments):
    return CliRunner().invoke(app, [str(a) for a in arguments])


def complaint(*arguments, code=BAD_USAGE):
    """What a command that cannot work says: two lines, no traceback."""
    result = call(*arguments)
    assert result.exit_code == code, result.output
    lines = result.stderr.strip().splitlines()
    assert len(lines) == 2, result.stderr
    assert lines[0].startswith("error: ")
    return result.stderr


class TestList:
    def test_names_and_titles(self):
        result = call("list")
        assert result.exit_code == 0
        assert re.search(r"^slider-crank +Slider-crank with equal links", result.stdout, re.M)
        assert len(result.stdout.splitlines()) == len(bricard.gallery.names())
        assert "\x1b" not in result.stdout


class TestInfo:
    def test_in_words(self):
        text = call("info", "n-four-bar", "--set", "n=3").stdout
        assert "7: rocker 0, rocker 1" in text
        assert "6: loop 0 x" in text
        assert "inputs            none" in text
        assert "m = 1" in text
        assert "1 degree of freedom: 7 coordinates, 6 constraints of rank 6" in text
        assert "IFToMM" in text

    def test_of_a_file(self, model):
        text = call("info", f"{model}:short", "--set", "end=2").stdout
        assert text.startswith("A swing whose rope tears after a while.")
        assert "length = 0.5, end = 2" in text
        assert "constraints       none" in text


class TestRun:
    def test_slider_crank_to_a_page(self, tmp_path):
        page = tmp_path / "slider_crank.html"
        result = call("run", "slider-crank", "--output", page)
        assert result.exit_code == 0, result.output
        assert "passed 8 singular positions" in result.stdout
        assert re.search(r"steps +\d+ \(and \d+ rejected\)", result.stdout)
        assert re.search(r"energy drift +\S+e-\d+ J", result.stdout)
        assert re.search(r"constraint error +\S+e-1\d", result.stdout)
        assert f"written to        {page}" in result.stdout
        assert "\x1b" not in result.output
        text = page.read_text()
        assert "Slider-crank with equal links" in text
        assert "<th>rtol</th>" in text
        assert "<th>solver</th><td>Dopri8" in text
        assert list(tmp_path.glob(".*")) == []

    def test_to_numbers_a_table_and_a_figure(self, tmp_path):
        for kind in (".csv", ".npz", ".svg"):
            result = call("run", "slider-crank", "-o", tmp_path / f"out{kind}")
            assert result.exit_code == 0, result.output
        table = np.loadtxt(tmp_path / "out.csv", delimiter=",", skiprows=1)
        with np.load(tmp_path / "out.npz") as saved:
            np.testing.assert_array_equal(saved["t"], table[:, 0])
            np.testing.assert_array_equal(saved["q"], table[:, 1:3])
        assert (tmp_path / "out.svg").read_text().startswith("<?xml")

    def test_a_start_beside_the_constraints_is_moved(self):
        result = call("run", "slider-crank", "--q=0.3,-0.55")
        assert result.exit_code == 0, result.output
        assert "The start was moved onto the constraints." in result.stdout

    def test_a_failed_run_is_kept(self, model, tmp_path):
        page = tmp_path / "torn.html"
        result = call("run", f"{model}:Swing", "--set", "end=1.5", "--q=1", "--t-end", 2, "-o", page)
        assert result.exit_code == FAILED
        assert "error: stopped at t = 1.5 s" in result.stderr
        assert "Stopped at t = 1.5 s" in page.read_text()


class TestBadUsage:
    def test_a_typo(self):
        assert "did you mean 'slider-crank'?" in complaint("run", "slider-crnk")

    def test_an_unknown_parameter(self):
        assert "its parameters are m, l, g" in complaint("run", "slider-crank", "--set", "mass=2")

    def test_values_that_make_no_sense(self):
        assert "expected name=value" in complaint("run", "slider-crank", "--set", "m")
        assert "'heavy' is not a number" in complaint("run", "slider-crank", "--set", "m=heavy")
        assert "expected numbers" in complaint("run", "slider-crank", "--q=a,b")
        assert "expected 2 numbers (crank, rod)" in complaint("run", "slider-crank", "--q=1")
        assert "t_end must be after the start" in complaint("run", "slider-crank", "--t-end=-1")
        assert "rtol must be positive" in complaint("run", "slider-crank", "--rtol=0")

    def test_an_unknown_method(self):
        assert "Did you mean Projection?" in complaint("run", "slider-crank", "--method", "projecton")

    def test_an_output_that_cannot_be(self, tmp_path):
        assert ".html, .npz" in complaint("run", "slider-crank", "-o", tmp_path / "x.doc")
        assert "no directory" in complaint("run", "slider-crank", "-o", tmp_path / "no" / "x.html")
        assert list(tmp_path.iterdir()) == []

    def test_files(self, model, tmp_path):
        assert "there is no such file" in complaint("run", tmp_path / "none.py")
        assert "There are Swing, short." in complaint("run", model)
        assert "There are Swing, short." in complaint("run", f"{model}:Swinger")
        assert "neither a System nor an Example" in complaint("run", f"{model}:number")
        assert "Its parameters are length, end." in complaint("run", f"{model}:Swing", "--set", "m=1")
        assert "there is no such file" in complaint("run", tmp_path / "robot.xml")
        broken = tmp_path / "broken_model.py"
        broken.write_text("def (:")
        assert "SyntaxError" in complaint("run", broken)
        text = tmp_path / "notes.txt"
        text.write_text("hello")
        assert "no example called" in complaint("run", text)

    def test_debug_shows_where(self):
        result = call("run", "slider-crnk", "--debug")
        assert isinstance(result.exception, bricard.ModelError)


class TestProcess:
    def test_the_module_itself_does_not_import_jax(self):
        program = f"""
        import sys, types
        bricard = types.ModuleType("bricard")
        bricard.__path__ = [{str(SOURCE)!r}]
        sys.modules["bricard"] = bricard
        sys.argv = ["bricard", "--help"]
        import bricard.cli
        try:
            bricard.cli.main()
        finally:
            assert "jax" not in sys.modules and "numpy" not in sys.modules
        """
        done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert "run" in done.stdout
        assert "\x1b" not in done.stdout

    def test_without_typer_it_says_what_to_install(self):
        program = "import sys; sys.modules['typer'] = None; import bricard.cli"
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
        assert done.returncode == 1
        assert "pip install 'bricard[cli]'" in done.stderr
        assert "Traceback" not in done.stderr

    @pytest.mark.skipif(os.name != "posix", reason="sends a signal")
    def test_interrupted_it_leaves_nothing(self, tmp_path):
        # Started in the background, a process inherits that SIGINT is ignored; it must not be here.
        program = (
            "import signal; signal.signal(signal.SIGINT, signal.default_int_handler);"
            "from bricard.cli import main; main()"
        )
        command = [sys.executable, "-c", program, "run", "slider-crank", "-o", str(tmp_path / "x.html")]
        # What JAX says of the first program it compiles marks the moment.
        environment = os.environ | {"JAX_LOG_COMPILES": "1"}
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as process:
            assert process.stderr is not None
            for line in process.stderr:
                if "Compiling" in line:
                    break
            time.sleep(0.5)
            process.send_signal(signal.SIGINT)
            rest = process.stderr.read()
        assert process.returncode == INTERRUPTED
        assert "error: interrupted\nNothing was written." in rest
        assert "Traceback" not in rest
        assert [p.name for p in tmp_path.iterdir() if p.name != "cache"] == []
