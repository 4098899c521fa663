import inspect
import os
import re
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

pytest.importorskip("typer", reason="the command line needs typer: pip install 'bricard[cli]'")
from typer.testing import CliRunner

import bricard
from bricard.cli import bench, compare, completion, picture, sources
from bricard.cli.commands import app
from bricard.cli.coordinates import in_coordinates
from bricard.cli.terminal import BAD_USAGE, FAILED, INTERRUPTED
from bricard.gallery import Example
from bricard.gallery.n_four_bar import n_four_bar
from bricard.report.comparison import Outcome

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


@pytest.fixture
def crank():
    """A rod of 3 kg and 1 m that turns about its end, at 0.3 rad and 2 rad/s."""
    m = bricard.Mechanism(gravity=(0, 0), planar=True)
    m.body("crank", bricard.rod((0.0, 0.0), (1.0, 0.0), 3.0))
    m.revolute("A", m.ground, "crank", (0.0, 0.0))
    return Example(m.system(), "Crank", "", q=np.array([0.3]), v=np.array([2.0]), t_end=1.0)


def call(*arguments):
    return CliRunner().invoke(app, [str(a) for a in arguments])


def complaint(*arguments, code=BAD_USAGE):
    """Error output of a command that fails: two lines, no traceback."""
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

    def test_titles_are_those_of_the_examples(self):
        for name in ("pendulum", "andrews", "four-bar", "planar-stewart", "stewart"):
            title = sources.gallery_title(name)
            assert title
            if name in ("pendulum", "andrews"):
                assert title == bricard.gallery.load(name).title
        assert sources.gallery_title("slider-crnk") is None


class TestInfo:
    def test_of_an_example(self):
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

    def test_output_formats(self, tmp_path):
        for kind in (".csv", ".npz", ".svg"):
            result = call("run", "slider-crank", "-o", tmp_path / f"out{kind}")
            assert result.exit_code == 0, result.output
        table = np.loadtxt(tmp_path / "out.csv", delimiter=",", skiprows=1)
        with np.load(tmp_path / "out.npz") as saved:
            np.testing.assert_array_equal(saved["t"], table[:, 0])
            np.testing.assert_array_equal(saved["q"], table[:, 1:3])
        assert (tmp_path / "out.svg").read_text().startswith("<?xml")

    def test_a_start_off_the_constraints_is_projected(self):
        result = call("run", "slider-crank", "--q=0.3,-0.55")
        assert result.exit_code == 0, result.output
        assert "The start was moved onto the constraints." in result.stdout

    def test_a_failed_run_is_written(self, model, tmp_path):
        page = tmp_path / "torn.html"
        result = call("run", f"{model}:Swing", "--set", "end=1.5", "--q=1", "--t-end", 2, "-o", page)
        assert result.exit_code == FAILED
        assert "error: stopped at t = 1.5 s" in result.stderr
        assert "Stopped at t = 1.5 s" in page.read_text()


class TestCompare:
    def test_routes_in_one_table(self, model):
        result = call("compare", f"{model}:Swing", "--t-end", 0.5, "--route", "gauss", "--route", "proximal")
        assert result.exit_code == 0, result.output
        lines = result.stdout.splitlines()
        headings = "route first run (s) second run (s) steps deviation energy drift (J) constraint error"
        assert " ".join(lines[1].split()) == headings
        assert [line.split()[0] for line in lines[2:4]] == ["Proximal", "Gauss"]
        for line in lines[2:4]:
            first, again, _, *small = (float(x) for x in line.split()[1:])
            assert first > again > 0.0
            assert all(x < 1e-9 for x in small)
        assert "\x1b" not in result.output

    def test_kinds_of_coordinates_of_a_mechanism(self, crank):
        cases = list(compare._cases(crank, ("gauss", "proximal"), False))
        own = [("proximal", "relative"), ("gauss", "relative")]
        assert cases == [*own, ("proximal", "absolute"), ("proximal", "natural")]
        assert len(list(compare._cases(crank, ("gauss", "proximal"), True))) == 6

    def test_a_start_is_the_same_in_all_coordinates(self, crank):
        for kind in ("absolute", "natural"):
            there = in_coordinates(crank, kind)
            assert type(there.system).__name__.lower() == kind
            q, v = jnp.asarray(there.q), jnp.asarray(there.v)
            # ½ (m l²/3) ω² of a rod about its end
            assert float(there.system.kinetic_energy(q, v, 0.0)) == pytest.approx(0.5 * 3.0 / 3.0 * 2.0**2, abs=1e-12)
            back = in_coordinates(there, "relative")
            np.testing.assert_allclose(back.q, crank.q, rtol=0, atol=1e-12)
            np.testing.assert_allclose(back.v, crank.v, rtol=0, atol=1e-12)

    def test_it_fails_if_all_routes_fail(self, model, monkeypatch):
        failed = Outcome("Gauss", "", *[np.nan] * 2, 0, *[np.nan] * 3, failure="stopped at t = 0.1 s: it tore.")
        monkeypatch.setattr(compare, "_measured", lambda *_: [failed])
        result = call("compare", f"{model}:Swing")
        assert result.exit_code == FAILED
        assert "Gauss: stopped at t = 0.1 s: it tore." in result.stdout


class TestBench:
    def test_a_row_for_each_route(self, model, monkeypatch):
        monkeypatch.setattr(bench, "ROUTES", ("proximal", "gauss"))
        result = call("bench", f"{model}:short")
        assert result.exit_code == 0, result.output
        assert re.search(r"^proximal +[\d.]+$", result.stdout, re.M)
        assert re.search(r"^gauss +[\d.]+$", result.stdout, re.M)
        assert "Time of a complete run" in result.stdout


class TestCompletion:
    def complete(self, words):
        environment = os.environ | {
            "_BRICARD_COMPLETE": "complete_bash",
            "COMP_WORDS": words,
            "COMP_CWORD": str(len(words.split(" ")) - 1),
        }
        program = (
            "import sys, atexit; atexit.register(lambda: sys.stderr.write('jax' * ('jax' in sys.modules)));"
            "from bricard.cli import main; main()"
        )
        command = [sys.executable, "-c", program]
        done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60)
        assert done.stderr == ""  # no error, and JAX was not imported
        return done.stdout.split()

    def test_models_and_options(self):
        assert self.complete("bricard run slider") == ["slider-crank", "slider-crank-driven"]
        assert "--output" in self.complete("bricard run slider-crank --ou")
        assert self.complete("bricard run slider-crank --route pro") == ["projection", "proximal"]
        assert self.complete("bricard run n-four-bar --set ") == [
            f"{n}=" for n in inspect.signature(n_four_bar).parameters
        ]

    def test_files(self, model, monkeypatch):
        monkeypatch.chdir(model.parent)
        assert completion.complete_model("swing") == ["swing_model.py"]
        assert completion.complete_model(f"{model.parent}/swing") == [str(model)]

    def test_names_match_the_gallery_and_the_routes(self):
        assert tuple(sources.gallery_names()) == bricard.gallery.names()
        kinds = [k for k in vars(bricard.equations).values() if isinstance(k, type) and issubclass(k, bricard.Route)]
        routes = {k.__name__.lower() for k in kinds if k is not bricard.Route}
        assert {n.replace("-", "") for n in completion.ROUTES} == routes


class TestPicture:
    def test_a_line_of_braille_dots(self):
        assert picture._raster([np.array([[0.0, 0.0], [1.0, 0.0]])]) == ["  " + "\u2809" * 56]

    def test_of_a_mechanism(self):
        text = call("info", "four-bar", "--coordinates", "absolute").stdout
        assert re.search("[\u2801-\u28ff]{2}", text)
        assert "revolute (ground – " in text
        assert "model = " not in text


class TestBadUsage:
    def test_coordinates(self):
        assert "Did you mean natural?" in complaint("run", "four-bar", "--coordinates", "naturl")
        assert "not a mechanism" in complaint("run", "slider-crank", "--coordinates", "natural")

    def test_a_typo(self):
        assert "did you mean 'slider-crank'?" in complaint("run", "slider-crnk")

    def test_an_unknown_parameter(self):
        assert "its parameters are m, l, g" in complaint("run", "slider-crank", "--set", "mass=2")

    def test_invalid_values(self):
        assert "expected name=value" in complaint("run", "slider-crank", "--set", "m")
        assert "'heavy' is not a number" in complaint("run", "slider-crank", "--set", "m=heavy")
        assert "expected numbers" in complaint("run", "slider-crank", "--q=a,b")
        assert "expected 2 numbers (crank, rod)" in complaint("run", "slider-crank", "--q=1")
        assert "t_end must be after the start" in complaint("run", "slider-crank", "--t-end=-1")
        assert "rtol must be positive" in complaint("run", "slider-crank", "--rtol=0")

    def test_an_unknown_method(self):
        assert "Did you mean Projection?" in complaint("run", "slider-crank", "--route", "projecton")

    def test_an_invalid_output(self, tmp_path):
        assert ".html, .npz" in complaint("run", "slider-crank", "-o", tmp_path / "x.doc")
        assert "does not exist" in complaint("run", "slider-crank", "-o", tmp_path / "no" / "x.html")
        assert list(tmp_path.iterdir()) == []

    def test_files(self, model, tmp_path):
        assert "there is no such file" in complaint("run", tmp_path / "none.py")
        assert "The file contains Swing, short." in complaint("run", model)
        assert "The file contains Swing, short." in complaint("run", f"{model}:Swinger")
        assert "expected a System or an Example, got int" in complaint("run", f"{model}:number")
        assert "Its parameters are length, end." in complaint("run", f"{model}:Swing", "--set", "m=1")
        assert "there is no such file" in complaint("run", tmp_path / "robot.xml")
        broken = tmp_path / "broken_model.py"
        broken.write_text("def (:")
        assert "SyntaxError" in complaint("run", broken)
        text = tmp_path / "notes.txt"
        text.write_text("hello")
        assert "no example called" in complaint("run", text)

    def test_a_viewer_on_an_address_of_another_machine(self):
        pytest.importorskip("viser", reason="the live viewer needs viser: pip install 'bricard[view]'")
        assert "cannot listen on 203.0.113.5" in complaint("view", "pendulum", "--host", "203.0.113.5")

    def test_debug_raises_the_error(self):
        result = call("run", "slider-crnk", "--debug")
        assert isinstance(result.exception, bricard.ModelError)


class TestProcess:
    def test_help_does_not_import_jax(self):
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

    def test_without_typer_the_message_says_what_to_install(self):
        program = "import sys; sys.modules['typer'] = None; import bricard.cli"
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
        assert done.returncode == 1
        assert "pip install 'bricard[cli]'" in done.stderr
        assert "Traceback" not in done.stderr

    @pytest.mark.skipif(os.name != "posix", reason="sends a signal")
    def test_an_interrupted_command_writes_nothing(self, tmp_path):
        # A process started in the background ignores SIGINT by inheritance; restore the default handler.
        program = (
            "import signal; signal.signal(signal.SIGINT, signal.default_int_handler);"
            "from bricard.cli import main; main()"
        )
        command = [sys.executable, "-c", program, "run", "slider-crank", "-o", str(tmp_path / "x.html")]
        # The signal is sent when JAX logs its first compilation.
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


class TestChart:
    def test_the_chart_is_drawn(self, tmp_path):
        target = tmp_path / "chart.png"
        arguments = ["chart", "sliding-pendulum-blended", "--points", "12", "--q", "0,0", "-o", str(target)]
        result = CliRunner().invoke(app, arguments)
        assert result.exit_code == 0, result.output
        assert "smallest spectral radius" in " ".join(result.output.split())
        assert target.read_bytes().startswith(b"\x89PNG")
        assert [p.name for p in tmp_path.iterdir() if p.name != "cache"] == [target.name]

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["slider-crank"], "this model has no controller"),
            (["sliding-pendulum-blended", "--x", "kp=3:1"], "from a smaller to a larger"),
            (["sliding-pendulum-blended", "--x", "kp"], "expected NAME=FROM:TO"),
            (["sliding-pendulum-blended", "--x", "kd=0:1"], "two different parameters"),
            (["sliding-pendulum-blended", "-o", "chart.txt"], "has to end in one of"),
        ],
    )
    def test_bad_usage(self, arguments, message):
        result = CliRunner().invoke(app, ["chart", *arguments])
        assert result.exit_code == BAD_USAGE
        assert message in " ".join(result.output.split())


@pytest.mark.skipif(os.name != "posix", reason="sends a signal")
def test_an_interrupted_run_is_written(tmp_path):
    """Ctrl-C during a compiled run: the states up to then are written, and the exit code is that of an interrupt."""
    output = tmp_path / "run.npz"
    code = (
        "import os, signal, sys, threading, time\n"
        "from bricard.execution.llvm.stop import FLAG\n"
        "def interrupt():\n"
        "    running = 0\n"
        "    while running < 30:\n"
        "        time.sleep(0.01)\n"
        "        running = running + 1 if FLAG[1] else 0\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "threading.Thread(target=interrupt, daemon=True).start()\n"
        "from bricard.cli import main\n"
        f"sys.argv = ['bricard', 'run', 'pendulum-xy', '--t-end', '30000', '-o', {str(output)!r}]\n"
        "main()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert done.returncode == 130, done.stderr
    assert "interrupted at t = " in done.stderr
    assert str(output) in done.stderr
    assert output.exists()
