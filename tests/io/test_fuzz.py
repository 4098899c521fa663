"""Files that are damaged at random: each is read, or refused by a `ModelError` that names it, and nothing else."""

import contextlib
import json
import re

import numpy as np
import pytest

import bricard as br
from tests.io.test_load import ARM, LINKED

URDF = """<robot name="arm"><link name="base"/>
  <link name="upper"><inertial><origin xyz="0.1 0 0" rpy="0 0.1 0"/><mass value="1.5"/>
    <inertia ixx="0.1" ixy="0" ixz="0" iyy="0.1" iyz="0" izz="0.1"/></inertial></link>
  <link name="fore"><inertial><mass value="0.5"/><inertia ixx="0.1" iyy="0.1" izz="0.1"/></inertial></link>
  <joint name="A" type="revolute"><parent link="base"/><child link="upper"/><axis xyz="0 1 0"/>
    <limit lower="-1" upper="1" effort="3"/><dynamics damping="0.1"/></joint>
  <joint name="B" type="continuous"><parent link="upper"/><child link="fore"/><origin xyz="0.4 0 0"/>
    <mimic joint="A" multiplier="2" offset="0.1"/></joint>
  <transmission name="T"><joint name="A"/><actuator name="M"><mechanicalReduction>50</mechanicalReduction></actuator>
  </transmission>
</robot>"""
LOOPS = {
    "reference": {"A": 0.1},
    "loops": [
        {"joint": "coincident", "name": "C", "a": "fore", "b": "ground", "at": [0.1, 0, 0], "frame": "fore"},
        {"joint": "gear", "name": "G", "coefficients": {"A": 1.0, "B": -2}, "offset": 0.0},
        {"joint": "revolute", "name": "R", "parent": "upper", "child": "fore", "at": [0, 0, 0], "limits": [-1, 1]},
    ],
}
VALUES = (
    "nan",
    "inf",
    "-1",
    "0",
    "1e999",
    "-1e308",
    "9" * 400,
    "",
    "word",
    "1 2",
    "0 0 0",
    "true",
    "../../x",
    "λ\u2028",
)


def damaged_xml(rng, text):
    """One or more of: cut, a value replaced, a name doubled, an element removed, repeated, nested or renamed."""
    for _ in range(rng.integers(1, 4)):
        kind = rng.integers(7)
        tags = list(re.finditer(r"<(\w+)[^<>]*/>", text))
        attributes = list(re.finditer(r'(\w+)="([^"]*)"', text))
        if kind == 0 or not tags or not attributes:
            text = text[: rng.integers(len(text) + 1)]
            continue
        tag, attribute = tags[rng.integers(len(tags))], attributes[rng.integers(len(attributes))]
        if kind == 1:
            text = text[: attribute.start(2)] + str(rng.choice(VALUES)) + text[attribute.end(2) :]
        elif kind == 2:
            other = attributes[rng.integers(len(attributes))][2]
            text = text[: attribute.start(2)] + other + text[attribute.end(2) :]
        elif kind == 3:
            text = text[: tag.start()] + text[tag.end() :]
        elif kind == 4:
            text = text[: tag.start()] + tag[0] * int(rng.integers(2, 5)) + text[tag.end() :]
        elif kind == 5:
            text = text[: tag.start()] + f"<link><body>{tag[0]}</body></link>" + text[tag.end() :]
        else:
            text = (
                text[: attribute.start(1)] + str(rng.choice(["name", "file", "x", "count"])) + text[attribute.end(1) :]
            )
    return text


def damaged_json(rng, content):
    """The content with a random part replaced."""
    values = [None, True, -1, 10**400, 1e308, float("nan"), "", "word", [], [1], {}, {"a": 1}, [[1, 2, 3]], "R" * 300]
    if isinstance(content, dict) and content and rng.random() < 0.9:
        key = list(content)[rng.integers(len(content))]
        return content | {key: damaged_json(rng, content[key])}
    if isinstance(content, list) and content and rng.random() < 0.9:
        i = int(rng.integers(len(content)))
        return [*content[:i], damaged_json(rng, content[i]), *content[i + 1 :]]
    return values[rng.integers(len(values))]


@pytest.fixture
def read(tmp_path):
    """Load a text, with loops if there are some; only a refusal that names the file is allowed to come out."""

    def attempt(text, name, loops=None):
        file = tmp_path / name
        file.write_text(text, encoding="utf-8")
        with contextlib.suppress(br.ModelError):
            br.load(file, loops=loops)
            return True
        return False

    return attempt


def test_the_originals_are_read(read):
    assert read(URDF, "arm.urdf")
    assert read(ARM, "arm.xml")


@pytest.mark.parametrize("seed", range(4))
def test_urdf(read, seed):
    rng = np.random.default_rng(seed)
    outcomes = {read(damaged_xml(rng, URDF), "arm.urdf") for _ in range(60)}
    assert outcomes == {True, False}  # not everything is refused


def test_loops(read, tmp_path):
    rng = np.random.default_rng(1)
    for _ in range(120):
        content = damaged_json(rng, LOOPS)
        file = tmp_path / "loops.json"
        file.write_text(json.dumps(content))
        read(URDF, "arm.urdf", file)
        if isinstance(content, dict):
            read(URDF, "arm.urdf", content)


@pytest.mark.parametrize(
    "text", ["", "[", "[" * 100_000, '{"loops": ' + "9" * 5000 + "}", '{"reference": {"A": 1e999}}']
)
def test_loops_that_are_no_json(read, tmp_path, text):
    file = tmp_path / "loops.json"
    file.write_text(text)
    assert not read(URDF, "arm.urdf", file)


def test_mjcf(read):
    pytest.importorskip("mujoco")
    rng = np.random.default_rng(2)
    for text in (ARM, LINKED):
        for _ in range(4):
            read(damaged_xml(rng, text), "arm.xml")


@pytest.mark.slow
def test_mjcf_at_length(read):
    pytest.importorskip("mujoco")
    rng = np.random.default_rng(3)
    for text in (ARM, LINKED):
        for _ in range(60):
            read(damaged_xml(rng, text), "arm.xml")


def test_mimic_chains_of_any_length(tmp_path):
    """Without recursion: each joint follows the next one, and the last one is free."""
    n = 1200
    links = "".join(f'<link name="l{i}"/>' for i in range(n + 1))
    joints = "".join(
        f'<joint name="j{i}" type="continuous"><parent link="l{i}"/><child link="l{i + 1}"/>'
        + (f'<mimic joint="j{i + 1}" offset="0.001"/>' if i < n - 1 else "")
        + "</joint>"
        for i in range(n)
    )
    file = tmp_path / "chain.urdf"
    file.write_text(f"<robot name='chain'>{links}{joints}</robot>")
    m = br.load(file)
    assert len(m.relations) == n - 1
    file.write_text(file.read_text().replace('<child link="l1200"/>', '<child link="l1200"/><mimic joint="j0"/>'))
    with pytest.raises(br.ModelError, match="mimics itself"):
        br.load(file)
