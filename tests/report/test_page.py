import base64
import dataclasses
import html
import json
import re

import jax.numpy as jnp
import numpy as np
import pytest

import bricard as br
from bricard.contact.closed_contacts import Modes
from bricard.contact.record import ContactEvent, ContactRecord
from bricard.report import write_report
from bricard.report.scene import STEPS, scene
from tests.report.conftest import Flywheel, made_up


def embedded(text):
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', text)[1])


class TestInTheBrowser:
    def test_it_runs_without_console_messages(self, slider_crank_page, browse):
        opened = browse(slider_crank_page)
        assert opened.console == []
        assert opened.time > 0.0
        titles = [re.search(r"<figcaption>(.*?) <", plot)[1] for plot in opened.plots]
        assert titles[:3] == ["Coordinates", "Velocities", "Energy"]
        assert {"Energy balance", "Constraint error", "Constraint multipliers"} <= set(titles)
        assert len(opened.curves) >= len(opened.plots)
        assert all("NaN" not in curve for curve in opened.curves)

    def test_the_animation_plays(self, slider_crank_page, browse):
        assert browse(slider_crank_page, 4.0).time > browse(slider_crank_page, 1.5).time + 1.0

    def test_space_pauses_and_singular_positions_are_buttons(self, slider_crank_page, browse):
        go = "document.querySelectorAll('.passed button')[2].click();"
        press = "document.body.dispatchEvent(new KeyboardEvent('keydown', { key: ' ', bubbles: true }));"
        assert browse(slider_crank_page, script=go).time == pytest.approx(3.05, abs=0.01)
        stopped = browse(slider_crank_page, script=f"{go}{press}{press}")
        assert stopped.time == pytest.approx(3.05, abs=0.01)
        assert browse(slider_crank_page, script=f"{go}{press}").time > 3.5

    def test_dragging_in_a_plot_sets_the_time(self, slider_crank_page, browse):
        script = """
        const svg = document.querySelector(".plot svg");
        const box = svg.getBoundingClientRect();
        svg.setPointerCapture = () => {};
        const at = { clientX: box.left + 46 + (box.width - 64) / 2, clientY: box.top + 50, pointerId: 1, buttons: 1 };
        svg.dispatchEvent(new PointerEvent("pointerdown", at));
        """
        opened = browse(slider_crank_page, script=script)
        assert opened.console == []
        assert opened.time == pytest.approx(5.0, abs=0.05)

    def test_the_scene_is_drawn(self, slider_crank_page, browse):
        script = """
        const canvas = document.getElementById("scene");
        const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
        document.body.dataset.colours = new Set(new Uint32Array(pixels.buffer)).size;
        """
        opened = browse(slider_crank_page, script=script)
        assert int(re.search(r'data-colours="(\d+)"', opened.dom)[1]) > 20

    def test_spatial_scenes_can_be_rotated(self, cone, tmp_path, browse):
        path = cone.report(tmp_path / "cone.html")
        script = """
        const canvas = document.getElementById("scene");
        canvas.setPointerCapture = () => {};
        document.body.dispatchEvent(new KeyboardEvent("keydown", { key: "Home", bubbles: true }));
        const before = canvas.toDataURL();
        for (const [name, x] of [["pointerdown", 100], ["pointermove", 160], ["pointerup", 160]])
          canvas.dispatchEvent(new PointerEvent(name, { clientX: x, clientY: 90, pointerId: 1 }));
        document.body.dataset.turned = before !== canvas.toDataURL();
        """
        opened = browse(path, script=script)
        assert opened.console == []
        assert 'data-turned="true"' in opened.dom
        assert "boom" not in re.sub(r"<script.*?</script>|<li>.*?</li>", "", opened.dom, flags=re.S)

    def test_on_a_phone(self, slider_crank_page, browse):
        wide = "document.body.dataset.wide = document.documentElement.scrollWidth > innerWidth;"
        opened = browse(slider_crank_page, size="500,800", script=wide)
        assert opened.console == []
        assert 'data-wide="false"' in opened.dom

    def test_a_system_without_drawing_gets_plots(self, tmp_path, browse):
        t = np.linspace(0.0, 1.0, 20)
        path = made_up(Flywheel(), t, t[:, None], np.ones((20, 1))).report(tmp_path / "flywheel.html")
        opened = browse(path)
        assert opened.console == []
        assert opened.time > 0.0
        assert len(opened.plots) == 4

    @pytest.mark.parametrize("states", [0, 1, 5])
    def test_failed_runs_are_labelled(self, states, tmp_path, browse):
        t = np.linspace(0.0, 0.1, states)
        v = np.ones((states, 1))
        v[-1:] = np.nan
        failed = made_up(Flywheel(), t, t[:, None], v, failure="stopped at t = 0.1 s: <everything> became NaN.")
        path = failed.report(tmp_path / "failed.html")
        assert "Stopped at t = 0.1 s: &lt;everything&gt; became NaN." in path.read_text()
        opened = browse(path)
        assert opened.console == []
        assert all("NaN" not in curve for curve in opened.curves)


class TestContent:
    def test_system_settings_and_results_are_shown(self, slider_crank_page):
        text = slider_crank_page.read_text()
        for words in (
            "Two massless links of equal length",
            "1 degree of freedom: 2 coordinates, 1 constraint of rank 1",
            "Passed 8 singular positions",
            "Proximal(",
            "completed",
            "Energy drift",
            "<th>jax</th>",
            "<th>bricard</th>",
            "<th>l</th><td>1</td>",
        ):
            assert words in text

    def test_it_is_self_contained(self, slider_crank_page):
        text = slider_crank_page.read_text()
        assert set(re.findall(r'(?:src|href)="(.*?)"', text)) == {"data:,"}
        assert "default-src 'none'" in text
        assert "@import" not in text
        assert "{{" not in text
        assert len(text) < 400_000

    def test_names_are_escaped(self, cone, tmp_path):
        path = write_report(cone, tmp_path / "cone.html", title="<b>{{data}}</b>", source="a & b", settings={"<": ">"})
        text = path.read_text()
        assert text.count("<script") == 2
        assert "&lt;b&gt;{{data}}&lt;/b&gt;" in text
        names = [c["name"] for plot in embedded(path.read_text())["plots"] for c in plot["curves"]]
        assert "string </script><script>boom()</script>" in names

    def test_long_runs_stay_small_and_keep_their_peaks(self, tmp_path):
        t = np.linspace(0.0, 10.0, 30_001)
        q = np.zeros((30_001, 1))
        q[12_345] = 1.0
        path = made_up(Flywheel(), t, q, 0.0 * q).report(tmp_path / "long.html")
        data = embedded(path.read_text())
        assert len(data["t"]) <= 2002
        assert data["t"][-1] == 10.0
        assert max(data["plots"][0]["curves"][0]["y"]) == 1.0
        assert path.stat().st_size < 200_000

    def test_contacts(self, tmp_path):
        """A ball of 2 kg at rest on the floor: a closed contact, but no constraint."""
        ball = br.gallery.load("bouncing-ball", m=2.0)
        t, zero = np.linspace(0.0, 1.0, 5), np.zeros((5, 1))
        run = dataclasses.replace(
            made_up(ball.system, t, zero, zero),
            record=ContactRecord(
                sources=tuple(ball.settings["contacts"]),
                modes=Modes(jnp.ones((5, 1)), jnp.zeros((5, 1)), jnp.zeros((5, 1, 0))),
                events=(ContactEvent(0.25, "floor", "impact", (3.0,)), ContactEvent(0.5, "floor", "rest")),
            ),
        )
        text = run.report(tmp_path / "ball.html").read_text("utf-8")
        assert "<strong>1 impact</strong>" in text
        assert 'data-time="0.250000"' in text
        (force,) = [p for p in embedded(text)["plots"] if p["title"] == "Normal contact forces"]
        np.testing.assert_allclose(force["curves"][0]["y"], 2.0 * 9.81, rtol=0, atol=1e-3)  # pages round
        assert "1 degree of freedom: 1 coordinate, no constraints." in text
        assert "Constraint error" not in text

    def test_notebooks_get_a_smaller_page(self, slider_crank, slider_crank_page):
        light = embedded(html.unescape(re.search(r'srcdoc="(.*?)"', slider_crank._repr_html_(), re.S)[1]))
        assert light["scene"]["frames"] == 240
        assert len(light["t"]) <= 402
        whole = embedded(slider_crank_page.read_text())
        assert whole["scene"]["frames"] == 600
        assert [p["title"] for p in light["plots"]] == [p["title"] for p in whole["plots"]]


class TestWriting:
    def test_returns_the_path(self, slider_crank_page):
        assert slider_crank_page.name == "slider_crank.html"

    @pytest.mark.parametrize("where", ["no/such/directory/x.html", "."])
    def test_unwritable(self, cone, tmp_path, where):
        with pytest.raises(br.ModelError, match=r"cannot be written") as caught:
            cone.report(tmp_path / where)
        assert str(tmp_path) in str(caught.value)
        assert list(tmp_path.iterdir()) == []

    def test_a_failure_keeps_the_old_file(self, cone, tmp_path, monkeypatch):
        path = tmp_path / "x.html"
        path.write_text("before")

        def interrupted(*_):
            raise KeyboardInterrupt

        monkeypatch.setattr("os.replace", interrupted)
        with pytest.raises(KeyboardInterrupt):
            cone.report(path)
        assert path.read_text() == "before"
        assert list(tmp_path.iterdir()) == [path]

    def test_a_full_disk_is_named(self, cone, tmp_path, monkeypatch):
        def full(*_):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr("os.replace", full)
        with pytest.raises(br.ModelError, match=r"x\.html: cannot be written: No space left on device"):
            cone.report(tmp_path / "x.html")
        assert list(tmp_path.iterdir()) == []


def unpacked(packed):
    """Points of a scene, (frames, vertices, dimension)."""
    values = np.frombuffer(base64.b64decode(packed["data"]), "<i2").reshape(-1, packed["dimension"])
    still = np.isin(np.arange(packed["vertices"]), packed["still"])
    points = np.empty((packed["frames"], packed["vertices"], packed["dimension"]))
    points[:, still] = values[: still.sum()]
    points[:, ~still] = values[still.sum() :].reshape(packed["frames"], -1, packed["dimension"])
    return points * packed["scale"] + packed["middle"]


class TestScene:
    def test_packed_points_match_the_drawing(self, slider_crank):
        packed = scene(slider_crank)
        points = unpacked(packed)
        lines = {line["name"]: line for line in packed["lines"]}
        last = slider_crank.system.drawing(slider_crank.q[-1], 10.0)
        for name, expected in last.items():
            at = lines[name]["start"]
            np.testing.assert_allclose(points[-1, at : at + len(expected)], expected, atol=5.0 / STEPS)

    def test_lines_that_do_not_move_are_ground(self, slider_crank):
        packed = scene(slider_crank)
        lines = {line["name"]: line for line in packed["lines"]}
        assert packed["groups"] == ["crank", "rod", "slider"]
        assert lines["guide"]["group"] == -1
        assert lines["crank"]["pivots"] == [0]
        assert lines["rod"]["pivots"] == []
        assert packed["dimension"] == 2

    def test_few_states_are_interpolated(self, cone):
        packed = scene(cone)
        assert packed["frames"] == 600
        assert packed["dimension"] == 3
        mass = unpacked(packed)[:, next(line["start"] for line in packed["lines"] if line["name"] == "mass")]
        np.testing.assert_allclose(np.linalg.norm(mass, axis=1), 1.0, atol=1e-3)

    def test_a_drawing_of_wrong_shape_is_reported(self, cone):
        class Flat(type(cone.system)):
            def drawing(self, q, t):
                return {"string": q}

        with pytest.raises(br.ModelError, match=r"'string' has shape \(3,\)"):
            scene(dataclasses.replace(cone, system=Flat()))
