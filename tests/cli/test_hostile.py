"""The command with invalid arguments, files and terminals: short messages, exit codes, no traceback."""

import os
import subprocess
import sys

import pytest

pytest.importorskip("typer", reason="the command line needs typer: pip install 'bricard[cli]'")

from bricard.cli.terminal import BAD_USAGE, FAILED
from tests.cli.test_cli import call, complaint

BAD = [
    ("info", "pendulum", "--set", "l=-1"),
    ("info", "pendulum", "--set", "m=0"),
    ("info", "n-four-bar", "--set", "n=-3"),
    ("info", "n-four-bar", "--set", f"n={'9' * 400}"),
    ("info", "n-four-bar", "--set", f"n={'9' * 5000}"),
    ("info", "pendulum", "--set", f"m={'9' * 400}"),
    ("info", "pendulum", "--set", "m=1e999"),
    ("info", "pendulum", "--set", "m=[1]"),
    ("info", "pendulum", "--set", "m='a'"),
    ("info", "pendulum", "--set", "m=" + "(" * 500),
    ("info", "pendulum", "--set", "m=__import__('os')"),
    ("info", "four-bar", "--set", "coordinates=3"),
    ("info", "pendulum", "--coordinates", ""),
    ("info", ""),
    ("info", "no/such.xml"),
    ("info", "no\0such.xml"),
    ("info", "/"),
    ("run", "pendulum", "--q=nan"),
    ("run", "pendulum", "--q=,"),
    ("run", "pendulum", f"--q={'9' * 400}"),
    ("run", "pendulum", "--t-end", "nan"),
    ("run", "pendulum", "--t-end", "inf"),
    ("run", "pendulum", "--rtol", "nan"),
    ("run", "pendulum", "-o", "x.docx"),
    ("run", "pendulum", "-o", "/no/such/folder/x.html"),
    ("compare", "pendulum", "--route", "none"),
    ("chart", "pendulum"),
    ("chart", "sliding-pendulum-blended", "--x", "kp=0:inf"),
    ("chart", "sliding-pendulum-blended", "--x", f"kp=0:{'9' * 400}"),
    ("bench", "no-such-model"),
    ("view", "no-such-model"),
]


@pytest.mark.parametrize("arguments", BAD, ids=lambda a: " ".join(a)[:50].replace("\0", "0"))
def test_arguments(arguments):
    text = complaint(*arguments)
    assert "Traceback" not in text
    assert len(text) < 2000


@pytest.mark.parametrize(
    "arguments", [("nonsense",), ("run",), ("chart", "x", "--points", "1000000"), ("run", "--bad")]
)
def test_arguments_that_typer_refuses(arguments):
    result = call(*arguments)
    assert result.exit_code == BAD_USAGE
    assert "Traceback" not in result.output


@pytest.mark.parametrize("content", [b"", b"\x00\x01\xff" * 50, "<robot ä".encode("latin-1"), b"<robot/>", None])
def test_files(tmp_path, content):
    file = tmp_path / "robot.urdf"
    if content is None:
        file.mkdir()
    else:
        file.write_bytes(content)
    assert "robot.urdf" in complaint("info", file)


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="a file that its owner cannot read")
def test_a_file_without_permission(tmp_path):
    file = tmp_path / "robot.urdf"
    file.write_text("<robot/>")
    file.chmod(0)
    assert "cannot be read: Permission denied" in complaint("info", file)


def command(*arguments, **settings):
    plain = {k: v for k, v in os.environ.items() if not k.startswith(("LC_", "LANG", "PYTHONIO", "PYTHONUTF8"))}
    environment = plain | settings.pop("env", {})
    program = [sys.executable, "-m", "bricard.cli", *arguments]
    return subprocess.run(program, env=environment, timeout=300, check=False, **settings)


ASCII = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": "ascii"}


def test_an_ascii_terminal(tmp_path):
    done = command("list", env=ASCII, capture_output=True)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.isascii()
    file = tmp_path / "räder.urdf"
    file.write_text(
        '<robot name="Räder"><link name="β"/><link name="α"><inertial><mass value="1"/>'
        '<inertia ixx="1" iyy="1" izz="1"/></inertial></link><joint name="γ" type="continuous"><parent link="β"/>'
        '<child link="α"/></joint></robot>',
        encoding="utf-8",
    )
    done = command("info", str(file), env=ASCII, capture_output=True)
    assert (done.returncode, done.stderr) == (0, b""), done.stderr
    assert done.stdout.isascii()


def test_files_are_utf_8_on_an_ascii_terminal(tmp_path):
    program = "import sys; from bricard.files import write_text; write_text(sys.argv[1], 'R\\xe4der \\u03b1')"
    subprocess.run([sys.executable, "-c", program, tmp_path / "x.txt"], env=os.environ | ASCII, check=True, timeout=300)
    assert (tmp_path / "x.txt").read_bytes() == "Räder α".encode()


@pytest.mark.skipif(os.name != "posix", reason="needs a pipe that is closed by its reader")
def test_a_closed_pipe():
    """`bricard list | head -1`, with a reader that exits before the first line."""
    read, write = os.pipe()
    os.close(read)
    try:
        done = command("list", stdout=write, stderr=subprocess.PIPE)
    finally:
        os.close(write)
    assert done.stderr == b""
    assert done.returncode in (0, FAILED)
