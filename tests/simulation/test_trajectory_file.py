"""Saved runs: written whole, read back the same, and believed only if they can be what `save` wrote."""

import contextlib
import os
import zipfile

import jax.numpy as jnp
import numpy as np
import pytest

import bricard as br
from bricard.simulation import memory


class Swing(br.System):
    """A pendulum in closed form is not needed here: any states do."""

    coordinates = ("angle",)

    def kinetic_energy(self, q, v, t):
        return 0.5 * v @ v

    def potential_energy(self, q, t):
        return -9.81 * jnp.cos(q[0])


@pytest.fixture(scope="module")
def run():
    return br.simulate(Swing(), [0.3], [0.0], 0.1, save=4)


@pytest.fixture
def arrays(run, tmp_path):
    run.save(tmp_path / "good.npz")
    with np.load(tmp_path / "good.npz") as data:
        return dict(data)


@pytest.mark.parametrize("name", ["x", "x.npz", "x.NPZ"])
def test_there_and_back(run, tmp_path, name):
    run.save(tmp_path / name)
    assert [p.lower() for p in os.listdir(tmp_path)] == ["x.npz"]
    back = br.Trajectory.load(tmp_path / name, Swing())
    for part in ("t", "q", "v", "work", "u", "acceleration"):
        np.testing.assert_array_equal(getattr(back, part), getattr(run, part))


@pytest.mark.parametrize("name", ["x.csv", "x.nc", "x.v2", "x.html"])
def test_other_extensions_are_refused(run, tmp_path, name):
    for work in (run.save, lambda p: br.Trajectory.load(p, Swing())):
        with pytest.raises(br.ModelError, match=r"has to end in \.npz"):
            work(tmp_path / name)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("name", ["x.pdf", "x.npz", "x.page"])
def test_a_report_is_a_page(run, tmp_path, name):
    with pytest.raises(br.ModelError, match=r"has to end in \.html"):
        run.report(tmp_path / name)
    assert os.listdir(tmp_path) == []


def test_interrupted_it_leaves_the_old_file(run, tmp_path, monkeypatch):
    path = tmp_path / "x.npz"
    run.save(path)
    before = path.read_bytes()

    def interrupt(file, **_):
        file.write(b"half")
        raise KeyboardInterrupt

    monkeypatch.setattr(np, "savez_compressed", interrupt)
    with pytest.raises(KeyboardInterrupt):
        run.save(path)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["x.npz"]


def refusal(path):
    with pytest.raises(br.ModelError) as error:
        br.Trajectory.load(path, Swing())
    return str(error.value)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("t", np.zeros((4, 1)), "must be numbers of shape"),
        ("t", np.array(1.0), "must be numbers of shape"),
        ("q", np.zeros((4, 2)), "q must be numbers of shape (4, 1)"),
        ("v", np.zeros((3, 1)), "v must be numbers of shape (4, 1)"),
        ("work", np.array(["a", "b"]), "work must be numbers"),
        ("u", np.zeros((4, 1)), "u must be numbers of shape (4, 0)"),
        ("coordinates", np.array(["x"]), "belongs to coordinates x"),
        ("coordinates", np.array(7), "belongs to coordinates 7"),
        ("contacts", np.array(["floor"]), "made with contacts floor"),
        ("failure", np.array(3), "failure must be a text"),
        ("q", np.array([None] * 4), "not a saved trajectory"),  # a pickle is not opened
    ],
)
def test_other_content(arrays, tmp_path, name, value, message):
    np.savez(tmp_path / "bad.npz", **(arrays | {name: value}))
    assert message in refusal(tmp_path / "bad.npz")


def test_files_that_are_no_runs(arrays, tmp_path):
    path = tmp_path / "bad.npz"
    assert "no such file" in refusal(path)
    for content in (b"", b"text", b"PK\3\4", (tmp_path / "good.npz").read_bytes()[:-40]):
        path.write_bytes(content)
        assert "not a saved trajectory" in refusal(path)
    np.savez(path, t=np.zeros(3))
    assert "missing" in refusal(path)
    rng = np.random.default_rng(3)
    good = (tmp_path / "good.npz").read_bytes()
    for _ in range(60):
        damaged = bytearray(good)
        for i in rng.integers(len(good), size=8):
            damaged[i] = rng.integers(256)
        path.write_bytes(bytes(damaged))
        with contextlib.suppress(br.ModelError):  # and nothing else
            br.Trajectory.load(path, Swing())


def test_an_archive_larger_than_memory(tmp_path, monkeypatch):
    with zipfile.ZipFile(tmp_path / "bomb.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("t.npy", b"\0" * 200_000_000)
    monkeypatch.setattr(memory, "free_memory", lambda: 2e8)
    assert "would take 200 MB of memory, of which 200 MB are free" in refusal(tmp_path / "bomb.npz")


class TestMemory:
    @pytest.mark.parametrize("save", [2_000_000_000, 10**15, 10**400], ids=["2e9", "1e15", "1e400"])
    def test_more_states_than_can_be_kept(self, save):
        with pytest.raises(br.ModelError, match=r"save: .* states would take .*B of memory, .* free: save fewer"):
            br.simulate(Swing(), [0.3], [0.0], 0.1, save=save)

    def test_the_bound_is_what_is_free(self, monkeypatch):
        monkeypatch.setattr(memory, "free_memory", lambda: 1e9)
        # 6 numbers of 8 bytes (t, q, v, work), 4 times: 192 bytes a state
        with pytest.raises(br.ModelError, match="save: 5000000 states would take 960 MB of memory, of which 1 GB"):
            br.simulate(Swing(), [0.3], [0.0], 0.1, save=5_000_000)

    def test_more_samples_than_can_be_kept(self):
        law = br.control.Sampled(lambda t, q, v: jnp.zeros(0), 1e-13)
        with pytest.raises(br.ModelError, match=r"1e\+12 samples would take"):
            br.simulate(Swing(), [0.3], [0.0], 0.1, controller=law)

    def test_what_is_free_is_known(self):
        assert 1e6 < memory.free_memory() < 1e14
        assert [memory.in_bytes(x) for x in (5.0, 2500.0, 3e9, 9e15)] == ["5 bytes", "2.5 kB", "3 GB", "9e+03 TB"]
