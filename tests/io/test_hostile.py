"""Files that mean harm: they open no other file, take neither for ever nor all memory, and are refused in words."""

import os
import re
import sys
from pathlib import Path

import numpy as np
import pytest

import bricard as br
from bricard.io import mjcf_process
from bricard.io.markup import MOST_ELEMENTS, named_files, parse, write
from bricard.io.mjcf_limits import MOST_PARTS
from bricard.io.text_files import LARGEST_FILE

pytest.importorskip("mujoco")

SECRET = '<mujoco><worldbody><body name="secret"><geom size="1"/></body></worldbody></mujoco>'


def world(text, before=""):
    return f"<mujoco>{before}<worldbody>{text}</worldbody></mujoco>"


BALL = '<body name="ball"><freejoint/><geom size="0.1"/></body>'


@pytest.fixture
def refusal(tmp_path):
    """What `br.load` says of a text."""

    def told(text, name="model.xml"):
        file = tmp_path / name
        file.write_text(text, encoding="utf-8")
        with pytest.raises(br.ModelError) as error:
            br.load(file)
        return str(error.value)

    return told


@pytest.fixture
def no_process(monkeypatch):
    """MuJoCo is not even started."""

    def started(*_, **__):
        raise AssertionError("MuJoCo was started")

    monkeypatch.setattr(mjcf_process.subprocess, "run", started)


class TestOtherFiles:
    @pytest.mark.parametrize("path", ["secret.xml", "../secret.xml", "/elsewhere/secret.xml", "sub/../secret.xml"])
    @pytest.mark.parametrize("tag", ["include", "Include", "INCLUDE"])
    @pytest.mark.usefixtures("no_process")
    def test_include(self, refusal, tag, path):
        for text in (f'<mujoco><{tag} file="{path}"/></mujoco>', world(f'<body><{tag}  file = "{path}" /></body>')):
            assert f"<{tag} file={path!r}> names another file" in refusal(text)

    @pytest.mark.usefixtures("no_process")
    @pytest.mark.parametrize(
        ("text", "named"),
        [
            (world(BALL, '<asset><model name="m" file="secret.xml"/></asset>'), "<model file='secret.xml'>"),
            (world('<attach model="m" body="secret" prefix="p"/>'), "<attach>"),
            (world('<body><flexcomp name="f" type="mesh" file="secret.obj"/></body>'), "<flexcomp file='secret.obj'>"),
            (world('<body><flexcomp name="f" type="grid" count="9 9 9"/></body>'), "<flexcomp>"),
            (world(BALL, '<extension><plugin plugin="a.b"/></extension>'), "<plugin>"),
            (world('<body><plugin plugin="a.b"><config key="file" value="x"/></plugin></body>'), "<plugin>"),
            (world('<body><geom size="1" FILE="x"/></body>'), "<geom FILE='x'>"),
            (world(BALL, '<asset><mesh File="x"/></asset>'), "<mesh File='x'>"),
            (world(BALL, '<asset><volume file="x"/></asset>'), "<volume file='x'>"),
        ],
    )
    def test_every_other_way_to_a_file_is_named(self, refusal, text, named):
        assert named in refusal(text)

    def test_pictures_and_meshes_are_not_opened(self, tmp_path):
        """They are pipes: whoever opened one would wait for ever, as nobody writes to it."""
        if not hasattr(os, "mkfifo"):
            pytest.skip("needs named pipes")
        for name in ("a.stl", "b.png", "c.png", "d.skn"):
            os.mkfifo(tmp_path / name)
        asset = (
            f'<compiler meshdir="{tmp_path}" texturedir="{tmp_path}"/><asset>'
            f'<mesh name="m" file="a.stl"/><texture name="t" type="2d" file="b.png"/>'
            f'<hfield name="h" file="{tmp_path}/c.png" size="1 1 1 1"/><skin name="s" file="{tmp_path}/d.skn"/></asset>'
        )
        file = tmp_path / "model.xml"
        more = '<geom type="hfield" hfield="h"/><body name="b"><freejoint/><inertial pos="0 0 0" mass="1" '
        file.write_text(world(more + 'diaginertia="1 1 1"/><geom type="mesh" mesh="m"/></body>', asset))
        assert list(br.load(file).bodies) == ["b"]

    @pytest.mark.skipif(sys.platform == "win32", reason="limits are those of POSIX")
    def test_the_process_can_open_nothing(self, tmp_path):
        """Even if a check were missing: MuJoCo itself, told to include a file, finds that it cannot."""
        secret = tmp_path / "secret.xml"
        secret.write_text(SECRET)
        with pytest.raises(br.ModelError, match="MuJoCo cannot compile the model"):
            mjcf_process.compile_mjcf(Path("x.xml"), f'<mujoco><include file="{secret}"/></mujoco>')

    def test_loops_behind_a_link_are_not_read(self, tmp_path):
        inside, outside = tmp_path / "inside", tmp_path / "outside"
        inside.mkdir()
        outside.mkdir()
        (outside / "x.json").write_text('{"loops": []}')
        (inside / "robot.urdf").write_text('<robot name="r"><link name="a"/></robot>')
        try:
            (inside / "robot.loops.json").symlink_to(outside / "x.json")
        except OSError:
            pytest.skip("links cannot be made here")
        with pytest.raises(br.ModelError, match="link to another folder"):
            br.load(inside / "robot.urdf")
        (tmp_path / "link.urdf").symlink_to(inside / "robot.urdf")  # the user's own link to a robot is fine
        assert list(br.load(tmp_path / "link.urdf").bodies) == ["a"]

    def test_one_function_says_which_files_are_named(self):
        root = parse(
            Path("x"), '<robot><mesh filename="package://a.stl"/><a><texture fileup="b" file="c"/></a></robot>'
        )
        assert [tuple(f) for f in named_files(root.root)] == [
            ("mesh", "filename", "package://a.stl"),
            ("texture", "fileup", "b"),
            ("texture", "file", "c"),
        ]


class TestSizes:
    @pytest.mark.usefixtures("no_process")
    @pytest.mark.parametrize(
        "inner",
        [
            '<replicate count="20000000">{}</replicate>',
            '<replicate count="200"><replicate count="200">{}</replicate></replicate>',
            '<replicate count=" 20000000 ">{}</replicate>',
            '<replicate Count="20000000">{}</replicate>',
            '<composite type="cable" count="20000 1 1">{}</composite>',
            "<frame>" + '<replicate count="22">' * 3 + "{}" + "</replicate>" * 3 + "</frame>",
        ],
    )
    def test_repeated_parts(self, refusal, inner):
        assert "the model is too large" in refusal(world(inner.format(BALL)))

    @pytest.mark.usefixtures("no_process")
    @pytest.mark.parametrize("count", ["9" * 400, "1e9", "-3", "0x7fffffff", "two", "", "20000000 1e9"])
    def test_counts_that_are_no_numbers(self, refusal, count):
        text = refusal(world(f'<replicate count="{count}">{BALL}</replicate>'))
        assert "count must be whole numbers" in text
        assert len(text) < 300

    def test_repetition_within_reason(self, tmp_path):
        file = tmp_path / "model.xml"
        file.write_text(
            world('<replicate count="12" offset="1 0 0"><body><freejoint/><geom size=".1"/></body></replicate>')
        )
        assert len(br.load(file).bodies) == 12

    @pytest.mark.usefixtures("no_process")
    def test_many_elements_and_deep_nesting(self, refusal):
        assert "too large" in refusal(world(BALL * (MOST_PARTS // 2)))
        assert "too large" in refusal(f"<robot>{'<a/>' * MOST_ELEMENTS}</robot>")
        for root in ("mujoco", "robot"):
            deep = f"<{root}>{'<body>' * 100_000}"
            assert "nested more than 500 deep" in refusal(deep)
        assert "too large" in refusal(f"<robot>{' ' * LARGEST_FILE}</robot>")

    @pytest.mark.usefixtures("no_process")
    def test_entities(self, refusal):
        laughs = "".join(f'<!ENTITY a{i + 1} "{f"&a{i};" * 10}">' for i in range(20))
        text = f'<!DOCTYPE x [<!ENTITY a0 "ha">{laughs}]><mujoco>&a20;</mujoco>'
        assert "declares a document type" in refusal(text)
        assert "declares a document type" in refusal(text.replace("mujoco", "robot"))

    def test_memory_that_a_file_asks_for_is_not_reserved(self, tmp_path):
        file = tmp_path / "model.xml"
        file.write_text(
            world(BALL, '<size memory="900G" nuserdata="2000000000" njmax="2000000000" nuser_body="90000000"/>')
        )
        assert list(br.load(file).bodies) == ["ball"]


class TestProcess:
    @pytest.fixture
    def program(self, tmp_path, monkeypatch):
        """Put another program in place of the one that runs MuJoCo."""

        def put(text):
            file = tmp_path / "program.py"
            file.write_text(text)
            monkeypatch.setattr(mjcf_process.mjcf_compile, "__file__", str(file))

        return put

    def test_a_crash_is_told_in_words(self, program, refusal):
        program("import os; os.abort()")
        assert re.search(r"MuJoCo crashed on this model \(exit status -?\d+\)", refusal(world(BALL)))
        program("raise SystemExit('corrupted')")
        assert "corrupted" in refusal(world(BALL))

    def test_one_that_never_ends_is_ended(self, program, refusal, monkeypatch):
        monkeypatch.setattr(mjcf_process, "SECONDS", -9)  # ten more are granted to start
        program("import time; time.sleep(1000)")
        assert "MuJoCo needs more than" in refusal(world(BALL))

    @pytest.mark.skipif(sys.platform != "linux", reason="memory is limited by Linux only")
    def test_memory_is_limited(self, refusal, monkeypatch):
        monkeypatch.setattr(mjcf_process, "MEMORY", 1)
        assert re.search("memory|crashed", refusal(world(BALL)))

    def test_no_interpreter(self, refusal, monkeypatch):
        monkeypatch.setattr(sys, "executable", "")
        assert "needs a Python interpreter" in refusal(world(BALL))

    def test_without_mujoco_it_says_what_to_install(self, program, refusal):
        real = Path(mjcf_process.mjcf_compile.__file__).read_text("utf-8")
        program(real.replace("import mujoco", "import mujoco_is_not_here"))
        assert "pip install 'bricard[mjcf]'" in refusal(world(BALL))

    def test_a_script_without_a_guard(self, tmp_path):
        """The script is not run again by the process that it starts."""
        (tmp_path / "model.xml").write_text(world(BALL))
        script = tmp_path / "script.py"
        script.write_text("import bricard as br\nprint('once')\nprint(list(br.load('model.xml').bodies))\n")
        done = mjcf_process.subprocess.run(
            [sys.executable, script.name], cwd=tmp_path, capture_output=True, text=True, timeout=120
        )
        assert done.stdout == "once\n['ball']\n", done.stderr

    def test_errors_name_the_line_of_the_file(self, refusal):
        text = '<?xml version="1.0"?>\n<!-- a\ncomment -->\n<mujoco\n model="a">\n\n<worldbody>\n<geom sise="1"/>'
        text += "</worldbody></mujoco>"
        assert "line 8" in refusal(text)


def test_text_written_anew_says_the_same():
    """What MuJoCo sees is what was checked: names and attributes survive, with every character that needs escaping."""
    rng = np.random.default_rng(5)
    letters = list("ab&<>\"' ;#\n\täλ\u2028😀")
    values = ["".join(rng.choice(letters, size=12)) for _ in range(50)]
    made = "".join(f"<e{i} v='{escape(v)}'>" for i, v in enumerate(values))
    made += "".join(f"</e{i}>" for i in reversed(range(50)))
    first = parse(Path("x"), made)
    assert [e.get("v") for e in first.root.iter()] == values
    again = parse(Path("x"), write(first))
    assert [(e.tag, e.attrib) for e in again.root.iter()] == [(e.tag, e.attrib) for e in first.root.iter()]


def escape(value):
    return "".join(f"&#x{ord(c):x};" if c in "&<>\"'\n\t" else c for c in value)
