"""Joints, axes, springs, sensors and reaction forces of a mechanism on the page, compared with closed forms."""

import base64
import re

import numpy as np
import pytest

import bricard as br
from bricard.report.curves import panels
from bricard.report.scene import STEPS, scene
from bricard.report.singular import SingularPositions
from tests.report.conftest import made_up

LENGTH, MASS, RATE, G = 2.0, 3.0, 1.5, 9.81


@pytest.fixture(scope="module")
def turning():
    """A rod driven about its end at constant rate, with a spring of zero stiffness at its tip."""
    m = br.Mechanism(gravity=(0, -G), planar=True)
    m.body("rod", br.rod((0.0, 0.0), (LENGTH, 0.0), MASS))
    m.revolute("A", m.ground, "rod", (0.0, 0.0))
    m.spring("spring", m.ground, "rod", (0.0, 4.0), (LENGTH, 0.0), stiffness=0.0, length=1.0)
    m.point_sensor("tip", "rod", (LENGTH, 0.0))
    m.drive("turn", "A", lambda t: RATE * t)
    t = np.linspace(0.0, 2.0, 41)
    return made_up(m.system(), t, RATE * t[:, None], np.full((41, 1), RATE))


@pytest.fixture(scope="module")
def packed(turning):
    return scene(turning)


def numbers(text, *shape):
    return np.frombuffer(base64.b64decode(text), "<i2").reshape(*shape).astype(float)


def test_parts_have_their_roles(packed):
    roles = [(line["role"], line["name"]) for line in packed["lines"]]
    assert roles == [("body", "rod"), ("spring", "spring 0"), ("joint", "A"), ("point", "tip")]


def test_the_path_of_a_sensor_is_traced(packed):
    (traced,) = packed["traces"]
    assert traced == next(line["start"] for line in packed["lines"] if line["role"] == "point")


def test_arrows_show_the_reaction_of_the_pivot(packed):
    """Newton: force = m (a − g), with the acceleration a of the centre of mass towards the pivot."""
    forces = packed["forces"]
    assert (forces["names"], forces["determinate"]) == (["A"], [True])
    t = np.linspace(0.0, 2.0, packed["frames"])
    inward = -0.5 * LENGTH * RATE**2 * np.stack([np.cos(RATE * t), np.sin(RATE * t)], axis=1)
    expected = MASS * (inward + np.array([0.0, G]))
    sent = numbers(forces["data"], packed["frames"], 1, 2)[:, 0] * forces["scale"]
    top = np.max(np.linalg.norm(expected, axis=1))
    # Tolerance: quantisation, and linear interpolation between 41 states.
    np.testing.assert_allclose(sent, expected, rtol=0, atol=top * (1.0 / STEPS + (RATE * 0.05) ** 2 / 8))


def test_reactions_and_drives_have_panels(turning):
    shown = {p.title: p for p in panels(turning, SingularPositions(np.zeros(0), ()))}
    assert [c.name for c in shown["Joint forces"].curves] == ["A"]
    assert "Joint moments" not in shown
    (drive,) = shown["Efforts of drives, gears and user constraints"].curves
    t = np.asarray(turning.t)
    # At constant rate the drive only carries the weight.
    np.testing.assert_allclose(drive.values, MASS * G * 0.5 * LENGTH * np.cos(RATE * t), rtol=0, atol=1e-9)


def test_in_the_browser(turning, tmp_path, browse):
    count = """
    const canvas = document.getElementById("scene");
    const colours = () => {
      const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
      return new Set(new Uint32Array(pixels.buffer)).size;
    };
    const before = canvas.toDataURL();
    const labels = [...document.querySelectorAll("[data-shows]")].filter((l) => !l.hidden);
    document.body.dataset.labels = labels.map((l) => l.textContent.trim()).join();
    labels.find((l) => l.dataset.shows === "loaded").firstChild.click();
    document.body.dataset.changed = before !== canvas.toDataURL();
    document.body.dataset.colours = colours();
    """
    stop = "document.body.dispatchEvent(new KeyboardEvent('keydown', { key: 'Home', bubbles: true }));"
    opened = browse(turning.report(tmp_path / "turning.html"), script=stop + count)
    assert opened.console == []
    assert 'data-labels="traces,joints,forces"' in opened.dom
    assert 'data-changed="true"' in opened.dom
    assert int(re.search(r'data-colours="(\d+)"', opened.dom)[1]) > 20


class TestNotebook:
    def test_the_page_is_an_iframe(self, turning):
        text = turning._repr_html_()
        assert text.startswith('<iframe sandbox="allow-scripts"')
        assert "&lt;!doctype html&gt;" in text
        assert "<script" not in text
        assert len(text) < 150_000

    def test_nothing_to_show(self, turning):
        nothing = made_up(turning.system, np.zeros(0), np.zeros((0, 1)), np.zeros((0, 1)), failure="stopped")
        assert nothing._repr_html_() is None
