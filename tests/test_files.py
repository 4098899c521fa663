"""Atomic writing of files, and checks of their names."""

import os
import stat

import pytest

import bricard as br
from bricard.files import check_writable, named_as, replacing, save_figure, write_text


def test_the_file_is_replaced_at_the_end(tmp_path):
    path = tmp_path / "x.txt"
    path.write_text("old")
    with replacing(path) as draft:
        assert draft.parent == tmp_path
        assert draft.suffix == ".txt"
        draft.write_text("new")
        assert path.read_text() == "old"
    assert path.read_text() == "new"
    assert os.listdir(tmp_path) == ["x.txt"]


@pytest.mark.parametrize("failure", [ValueError, KeyboardInterrupt, SystemExit, MemoryError])
def test_a_failure_keeps_the_old_file(tmp_path, failure):
    path = tmp_path / "x.txt"
    path.write_text("old")

    def fail():
        with replacing(path) as draft:
            draft.write_text("half")
            raise failure

    with pytest.raises(failure):
        fail()
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["x.txt"]


def test_a_full_disk_is_reported(tmp_path):
    def fill():
        with replacing(tmp_path / "x.txt") as draft:
            draft.write_text("half")
            raise OSError(28, "No space left on device")

    with pytest.raises(br.ModelError, match="cannot be written: No space left on device"):
        fill()
    assert os.listdir(tmp_path) == []


@pytest.mark.skipif(os.name != "posix", reason="needs POSIX modes and links")
def test_mode_and_link_are_kept(tmp_path):
    (tmp_path / "real.txt").write_text("old")
    (tmp_path / "real.txt").chmod(0o640)
    (tmp_path / "link.txt").symlink_to("real.txt")
    write_text(tmp_path / "link.txt", "näher")
    assert (tmp_path / "link.txt").is_symlink()
    assert (tmp_path / "real.txt").read_bytes() == "näher".encode()
    assert stat.S_IMODE((tmp_path / "real.txt").stat().st_mode) == 0o640
    old = os.umask(0o027)
    try:
        write_text(tmp_path / "new.txt", "x")
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "new.txt").stat().st_mode) == 0o640


@pytest.mark.parametrize("name", ["", ".", "no/x.txt", "x\0.txt", "x" * 300 + ".txt"])
def test_invalid_paths(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(br.ModelError, match="cannot be written"):
        write_text(name, "text")
    assert os.listdir(tmp_path) == []


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs a named pipe")
def test_a_pipe_is_not_replaced(tmp_path):
    os.mkfifo(tmp_path / "pipe.txt")
    with pytest.raises(br.ModelError, match="it is not a file"):
        check_writable(tmp_path / "pipe.txt")


def test_extensions():
    assert named_as("run", (".npz",)).name == "run.npz"
    assert named_as("run.NPZ", (".npz",)).name == "run.NPZ"
    for wrong in ("run.csv", "run.v2", "run.npz.gz"):
        with pytest.raises(br.ModelError, match=r"has to end in \.npz"):
            named_as(wrong, (".npz",))


def test_a_figure_that_cannot_be_drawn_leaves_no_file(tmp_path):
    class Broken:
        def savefig(self, path, dpi):
            path.write_text("half")
            raise RuntimeError("no fonts")

    with pytest.raises(RuntimeError):
        save_figure(Broken(), tmp_path / "x.png")
    with pytest.raises(br.ModelError, match=r"\.png or \.svg or \.pdf"):
        save_figure(Broken(), tmp_path / "x.jpeg")
    assert os.listdir(tmp_path) == []
