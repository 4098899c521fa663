"""Interactive sessions, and the viewer that shows them to this machine only."""

import socket
import sys
import urllib.request
from importlib.metadata import version
from socket import create_connection

import equinox as eqx
import numpy as np
import pytest

import bricard as br
from bricard.report.guard import is_allowed
from bricard.report.session import Session, upright
from bricard.report.viewer import check_host
from tests.report.conftest import Cone


@pytest.fixture(scope="module")
def session():
    """A conical pendulum: v² = g r²/depth on its circle."""
    speed = float(np.sqrt(9.81 * 0.64 / 0.6))
    return Session(Cone(), [0.8, 0.0, -0.6], [0.0, speed, 0.0], 1.0, title="Cone *")


class TestSession:
    def test_frames_show_the_run(self, session):
        run = session.run()
        assert run.constraint_error.max() < 1e-12
        np.testing.assert_allclose(session.frame(1.0)["mass"][0], run.q[-1], rtol=0, atol=1e-12)
        np.testing.assert_allclose(session.frame(0.0)["mass"][0], [0.8, 0.0, -0.6], rtol=0, atol=1e-12)

    def test_a_push_is_projected_onto_the_constraint(self, session):
        before = session.run()
        after = session.push(0.5, "x", 2.0)
        i = int(np.searchsorted(before.t, float(after.t[0])))
        assert float(after.t[0]) == pytest.approx(0.5, abs=2e-3)
        n = np.asarray(before.q[i])  # unit normal of the sphere
        kick = np.array([2.0, 0.0, 0.0])
        np.testing.assert_allclose(after.v[0] - before.v[i], kick - (kick @ n) * n, rtol=0, atol=1e-9)
        assert after.constraint_error.max() < 1e-12
        # The motion before the push is unchanged.
        np.testing.assert_allclose(session.frame(0.25)["mass"][0], before.q[125], rtol=0, atol=1e-12)
        np.testing.assert_allclose(session.frame(1.0)["mass"][0], after.q[-1], rtol=0, atol=1e-12)

    def test_an_initial_state_is_projected_onto_the_constraints(self, session):
        was = session.q, session.v
        session.run(q=[0.6, 0.0, -0.7], hold=("x",))
        assert session.q[0] == pytest.approx(0.6, abs=1e-9)
        assert np.linalg.norm(session.q) == pytest.approx(1.0, abs=1e-9)
        session.q, session.v = was

    def test_parameters(self):
        session = Session(br.gallery.load("slider-crank").system, [0.3, -0.6], [0.0, 0.0], 1.0)
        assert session.parameters() == {"m": 1.0, "l": 1.0, "g": 9.81}
        session.set_parameters({"m": 2.5})
        assert float(session.system.m) == 2.5
        with pytest.raises(br.ModelError, match="no parameter called 'mass'"):
            session.set_parameters({"mass": 1.0})

    def test_gains_of_a_controller_and_of_the_controller_it_wraps(self):
        class Law(eqx.Module):
            kp: float
            kd: float

        class Held(eqx.Module):
            law: Law
            system: br.System
            period: float = 0.1

        law = Held(Law(2.0, 0.5), br.gallery.load("pendulum").system)
        session = Session(law.system, [0.0], [0.0], 1.0, {"controller": law})
        gains = {n: x for n, x in session.parameters().items() if n.startswith("controller")}
        assert gains == {"controller law kp": 2.0, "controller law kd": 0.5, "controller period": 0.1}
        session.set_parameters({"controller law kd": 3.0, "controller period": 0.2})
        changed = session.settings["controller"]
        assert (float(changed.law.kp), float(changed.law.kd), float(changed.period)) == (2.0, 3.0, 0.2)

    def test_masses_of_a_mechanism(self):
        m = br.Mechanism(gravity=(0, 0), planar=True)
        for name, x in (("first", 0.0), ("second", 1.0)):
            m.body(name, br.rod((x, 0.0), (x + 1.0, 0.0), 0.5))
            m.revolute(f"A {name}", m.ground, name, (x, 0.0))
        system = m.system("absolute")
        session = Session(system, system.reference, np.zeros(system.nv), 1.0)
        assert session.parameters() == {"mass first": 0.5, "mass second": 0.5}
        session.set_parameters({"mass second": 2.0})
        np.testing.assert_array_equal(session.system.model.mass, [0.5, 2.0])

    def test_planar_drawings_are_upright(self):
        np.testing.assert_array_equal(upright(np.array([[1.0, 2.0]])), [[1.0, 0.0, 2.0]])


@pytest.fixture(scope="module")
def viewer(session):
    pytest.importorskip("viser", reason="the live viewer needs viser: pip install 'bricard[view]'")
    from bricard.report.viewer import Viewer

    shown = Viewer(session, port=28_080)
    yield shown
    shown.stop()


class TestViewer:
    def test_it_answers_on_loopback(self, viewer):
        with urllib.request.urlopen(viewer.address, timeout=20) as answer:
            assert answer.status == 200
            assert b"<html" in answer.read(4000).lower()

    def test_and_on_no_other_address(self, viewer):
        for other in other_addresses():
            with (
                pytest.raises((ConnectionError, TimeoutError)),
                socket.create_connection((other, viewer.port), timeout=2),
            ):
                pass

    @pytest.mark.parametrize(
        ("host", "origin", "allowed"),
        [
            ("127.0.0.1:{port}", None, True),
            ("localhost:{port}", "http://localhost:{port}", True),
            ("LocalHost:{port}", "http://127.0.0.1:{port}", True),
            ("[::1]:{port}", "http://[::1]:{port}", True),
            ("evil.example:{port}", None, False),
            ("evil.example:{port}", "http://evil.example:{port}", False),  # as after DNS rebinding
            ("127.0.0.1:{port}", "http://evil.example", False),
            ("127.0.0.1:{port}", "https://127.0.0.1:{port}", False),
            ("127.0.0.1:{port}", "http://127.0.0.1:1", False),
            ("127.0.0.1:{port}", "http://127.0.0.1", False),
            ("127.0.0.1:{port}", "null", False),
            ("127.0.0.1", None, False),
            ("127.0.0.1.evil.example:{port}", None, False),
            ("localhost:{port}@evil.example", None, False),
            ("", None, False),
            (None, None, False),
        ],
    )
    def test_only_its_own_pages_are_answered(self, viewer, host, origin, allowed):
        """Requests for the page and for the web socket, as a browser would send them."""
        headers = [(n, x.format(port=viewer.port)) for n, x in (("Host", host), ("Origin", origin)) if x is not None]
        expected = (b"200", b"101") if allowed else (b"403", b"403")
        assert (status(viewer.port, headers), status(viewer.port, headers, socket=True)) == expected

    def test_two_host_headers_are_refused(self, viewer):
        own = ("Host", f"127.0.0.1:{viewer.port}")
        assert status(viewer.port, [own, ("Host", "evil.example")]) != b"200"
        assert status(viewer.port, [("Host", "evil.example"), own], socket=True) != b"101"

    def test_a_server_that_cannot_be_guarded_is_refused(self, session, monkeypatch):
        import contextlib

        from bricard.report import viewer as module

        monkeypatch.setattr(module, "guarded", lambda _: contextlib.nullcontext())
        with pytest.raises(br.ModelError, match="requests from foreign pages cannot be blocked"):
            module.Viewer(session, port=28_180)

    def test_the_animation_plays(self, viewer):
        viewer.playing.value = True
        was = viewer.time.value
        for _ in range(200):
            viewer.stopped.wait(0.05)
            if viewer.time.value != was:
                break
        assert viewer.time.value != was
        viewer.playing.value = False

    def test_buttons(self, viewer):
        viewer.playing.value = False
        viewer.time.value = 0.5
        viewer._run_task(viewer._push)
        assert len(viewer.session.segments) == 2
        viewer.start["x"].value = 0.5
        viewer._run_task(viewer._rerun)
        assert len(viewer.session.segments) == 1
        assert viewer.session.q[0] == pytest.approx(0.5, abs=1e-9)
        assert viewer.status.content.startswith("completed; energy drift")
        assert set(viewer.lines) == {"string", "mass", "ground"}

    @pytest.mark.parametrize("host", ["203.0.113.5", "no such host"])
    def test_an_address_of_another_machine(self, host):
        with pytest.raises(br.ModelError, match=f"view: cannot listen on {host}"):
            check_host(host)

    def test_errors_are_shown_in_the_status_line(self, viewer):
        viewer._run_task(lambda: viewer.session.set_parameters({"weight": 1.0}))
        assert "no parameter called 'weight'" in viewer.status.content


def status(port, headers, socket=False):
    """HTTP status of the answer to a raw request, without a library that would correct the headers."""
    if socket:
        headers = [
            *headers,
            ("Upgrade", "websocket"),
            ("Connection", "Upgrade"),
            ("Sec-WebSocket-Version", "13"),
            ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="),
            ("Sec-WebSocket-Protocol", f"viser-v{version('viser')}"),
        ]
    text = "GET / HTTP/1.1\r\n" + "".join(f"{n}: {x}\r\n" for n, x in headers) + "\r\n"
    with create_connection(("127.0.0.1", port), timeout=20) as connection:
        connection.sendall(text.encode())
        return connection.recv(100).split()[1]


def test_hosts_of_a_viewer_that_is_open_to_other_machines():
    """IP addresses and the name of the machine are accepted; another name may have been rebound to it."""
    name = socket.gethostname()
    for place in ("192.0.2.7:8080", "[2001:db8::1]:8080", f"{name}:8080", "localhost:8080"):
        assert is_allowed([place], [], "0.0.0.0", 8080)
        assert is_allowed([place], [f"http://{place}"], "0.0.0.0", 8080)
    assert not is_allowed(["evil.example:8080"], [], "0.0.0.0", 8080)
    assert not is_allowed(["192.0.2.7:8080"], ["http://evil.example:8080"], "0.0.0.0", 8080)
    assert not is_allowed(["192.0.2.7:8080"], ["http://192.0.2.8:8080"], "0.0.0.0", 8080)
    assert not is_allowed(["192.0.2.7:8080"], [], "127.0.0.1", 8080)
    assert is_allowed(["localhost"], ["http://localhost"], "127.0.0.1", 80)


def other_addresses() -> set[str]:
    """Addresses of this machine besides 127.0.0.1."""
    found = {info[4][0] for info in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)}
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:  # sends nothing
        try:
            probe.connect(("192.0.2.1", 9))
            found.add(probe.getsockname()[0])
        except OSError:
            pass
    if sys.platform == "linux":
        found.add("127.0.0.2")  # all of 127.* is this machine
    return found - {"127.0.0.1"}


def test_gains_of_a_law_with_its_own_constructor_can_be_set():
    example = br.gallery.load("sliding-pendulum-blended")
    session = Session(example.system, example.q, example.v, example.t_end, dict(example.settings))
    session.set_parameters(session.parameters() | {"controller controller kp": 77.0})
    moved, law = session.settings["controller"].controller, example.settings["controller"].controller
    assert float(moved.kp) == 77.0
    assert float(moved.kd) == float(law.kd)
