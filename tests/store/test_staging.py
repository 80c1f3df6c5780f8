"""The output appears whole or not at all, and never inside the evidence."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import pickle
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from rmqtool.errors import EnvironmentFailureError, RefusedError
from rmqtool.store.results import scratch_area
from rmqtool.store.staging import StagingArea


def _tree(path: Path) -> dict[str, bytes]:
    return {str(one.relative_to(path)): one.read_bytes() for one in path.rglob("*") if one.is_file()}


def _hidden(path: Path) -> list[str]:
    return [one.name for one in path.iterdir() if one.name.startswith(".")]


def test_the_result_appears_by_one_rename(tmp_path: Path) -> None:
    out = tmp_path / "made" / "here" / "out"
    with StagingArea(out) as area:
        with area.create_file("index/20220415132000123", 1000) as file:
            file.write_at(990, b"0123456789")
            file.write_at(0, bytearray(b"ab"))
        with area.handle.create_block("split-0") as block:
            block.write_at(0, b"scratch")
        assert not out.exists()
        area.publish()
    assert _tree(out) == {"index/20220415132000123": b"ab" + bytes(988) + b"0123456789"}
    assert _hidden(out.parent) == []


def test_files_are_sparse_and_readable_by_all(tmp_path: Path) -> None:
    umask = os.umask(0o022)
    try:
        with StagingArea(tmp_path / "out") as area:
            with area.create_file("consumequeue/T/0/" + "0" * 20, 64 << 20) as file:
                file.write_at(0, b"x")
            area.publish()
    finally:
        os.umask(umask)
    status = (tmp_path / "out/consumequeue/T/0" / ("0" * 20)).stat()
    assert (status.st_size, status.st_mode & 0o777) == (64 << 20, 0o644)
    assert status.st_blocks * 512 < 1 << 20


def test_large_files_that_are_mostly_a_hole_are_not_hashed(tmp_path: Path) -> None:
    sizes = {
        "hollow": (2 << 20, 4096),
        "solid": (2 << 20, 1 << 20),
        "small": (4096, 1),
        "empty": (2 << 20, 0),
    }
    with StagingArea(tmp_path / "out") as area:
        for name, (size, written) in sizes.items():
            with area.create_file(f"consumequeue/{name}", size) as file:
                file.write_at(0, b"x" * written)
        files = area.handle.finished("consumequeue")
        digests = area.handle.digests(files, lambda function, items: list(map(function, items)))
        found = {file.path.name: digest for file, digest in digests.items()}
        made = {name: (area.handle.result / "consumequeue" / name).read_bytes() for name in found}
    assert found == {name: hashlib.sha256(data).hexdigest() for name, data in made.items()}
    assert sorted(found) == ["small", "solid"]


def test_an_empty_directory_is_replaced_and_keeps_its_mode(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir(mode=0o750)
    with StagingArea(out) as area:
        with area.create_file("a") as file:
            file.write_at(0, b"1")
        area.publish()
    assert _tree(out) == {"a": b"1"}
    assert out.stat().st_mode & 0o777 == 0o750


def test_a_link_to_an_empty_directory_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "out").symlink_to("real")
    with StagingArea(tmp_path / "out") as area:
        area.create_file("a").finish()
        area.publish()
    assert (tmp_path / "out").is_symlink()
    assert _tree(tmp_path / "real") == {"a": b""}


@pytest.mark.parametrize("failure", [RuntimeError, KeyboardInterrupt])
def test_leaving_without_publishing_leaves_nothing(tmp_path: Path, failure: type[BaseException]) -> None:
    def work() -> None:
        with StagingArea(tmp_path / "new" / "out") as area:
            area.create_file("a").finish()
            raise failure

    with pytest.raises(failure):
        work()
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_failed_is_not_in_the_result(tmp_path: Path) -> None:
    with StagingArea(tmp_path / "out") as area:

        def work() -> None:
            with area.create_file("a"):
                raise RuntimeError

        with pytest.raises(RuntimeError):
            work()
        left_alone = area.create_file("b")
        del left_alone
        assert list(area.handle.blocks.iterdir()) == []
        area.publish()
    assert _tree(tmp_path / "out") == {}


def test_a_task_that_runs_twice_gives_one_file(tmp_path: Path) -> None:
    """A retry after a killed attempt, or two speculative attempts at once: the last to finish counts."""
    with StagingArea(tmp_path / "out") as area:
        handle = pickle.loads(pickle.dumps(area.handle))
        first, second = handle.create_file("a", 4), handle.create_file("a", 4)
        second.write_at(0, b"same")
        first.write_at(0, b"same")
        first.finish()
        second.finish()
        area.publish()
    assert _tree(tmp_path / "out") == {"a": b"same"}


@pytest.mark.parametrize(
    "path", ["../a", "a/../../b", "/etc/passwd", "", "a//b", ".", "a/.", "a\0b", "a/" + "x" * 300]
)
def test_no_path_leads_out_of_the_result(tmp_path: Path, path: str) -> None:
    with StagingArea(tmp_path / "out") as area:
        with pytest.raises(RefusedError, match="output path"):
            area.create_file(path)
        with pytest.raises(RefusedError):
            area.handle.create_block(path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", ["contents", "file", "fifo"])
def test_an_output_with_contents_is_refused(tmp_path: Path, kind: str) -> None:
    out = tmp_path / "out"
    if kind == "contents":
        out.mkdir()
        (out / "precious").write_bytes(b"1")
    elif kind == "file":
        out.write_bytes(b"1")
    else:
        os.mkfifo(out)
    with pytest.raises(RefusedError, match="exists"):
        StagingArea(out)
    assert _hidden(tmp_path) == []


def test_evidence_is_never_written_into_whatever_the_links(tmp_path: Path) -> None:
    evidence = tmp_path / "store"
    (evidence / "index").mkdir(parents=True)
    (tmp_path / "alias").symlink_to("store")
    outs = [
        evidence,
        evidence / "index",
        evidence / "new",
        tmp_path / "alias" / "new" / "deep",
        evidence / ".." / "store",
    ]
    for out in outs:
        for root in (evidence, tmp_path / "alias"):
            with pytest.raises(RefusedError, match="evidence"):
                StagingArea(out, [root])
    with pytest.raises(RefusedError, match="inside of it"):
        StagingArea(tmp_path, [evidence])
    assert sorted(one.name for one in tmp_path.rglob("*")) == ["alias", "index", "store"]
    StagingArea(tmp_path / "store2", [evidence]).discard()


def test_contents_that_came_meanwhile_are_kept(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with StagingArea(out) as area:
        out.mkdir()
        (out / "precious").write_bytes(b"1")
        with pytest.raises(RefusedError, match="got contents while"):
            area.publish()
    assert _tree(tmp_path) == {"out/precious": b"1"}


_KILLED = """
import os, signal, sys
from pathlib import Path
from rmqtool.store.results import scratch_area
from rmqtool.store.staging import StagingArea
area = StagingArea(Path(sys.argv[1]))
with area.create_file("a") as file:
    file.write_at(0, b"half")
if sys.argv[2] == "kill":
    os.kill(os.getpid(), signal.SIGKILL)
print("ready", flush=True)
sys.stdin.read()
"""

_KILLED_SCRATCH = """
import os, signal
from rmqtool.store.results import scratch_area
with scratch_area([]) as area:
    area.create_file("a").finish()
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_killed_run_left_is_replaced_by_the_next(tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = subprocess.run([sys.executable, "-c", _KILLED, str(out), "kill"], check=False)
    assert done.returncode == -signal.SIGKILL
    assert len(_hidden(tmp_path)) == 1
    with StagingArea(out) as area:
        assert _hidden(tmp_path) == [area.handle.path.name]
        area.publish()
    assert [one.name for one in tmp_path.iterdir()] == ["out"]


def test_a_run_at_work_on_the_same_output_is_not_disturbed(tmp_path: Path) -> None:
    out = tmp_path / "out"
    command = [sys.executable, "-c", _KILLED, str(out), "wait"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"ready\n"
        before = _hidden(tmp_path)
        with pytest.raises(RefusedError, match=f"process {other.pid} "):
            StagingArea(out)
        assert _hidden(tmp_path) == before
        StagingArea(tmp_path / "other").discard()
        other.communicate()
    StagingArea(out).discard()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("alive", [True, False])
def test_without_flock_process_and_start_time_decide(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, alive: bool
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("rmqtool.store.lock.fcntl.flock", refuse)
    area = StagingArea(tmp_path / "out")
    if alive:
        with pytest.raises(RefusedError, match="is writing this output"):
            StagingArea(tmp_path / "out")
        area.discard()
        return
    marker = area.handle.path / "marker"
    marker.write_text(marker.read_text().replace('"start": "', '"start": "9'))
    StagingArea(tmp_path / "out").discard()
    assert not area.handle.path.exists()


def test_what_only_looks_like_a_staging_area_is_left_alone(tmp_path: Path) -> None:
    strangers = [tmp_path / f".out.rmqtool-{number}" for number in range(4)]
    for stranger in strangers[:3]:
        stranger.mkdir()
        (stranger / "precious").write_bytes(b"1")
    (strangers[1] / "marker").write_text("[]")
    os.mkfifo(strangers[2] / "marker")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "marker").write_text('{"tool": "rmqtool"}')
    strangers[3].symlink_to("elsewhere")
    StagingArea(tmp_path / "out").discard()
    assert all((stranger / "precious").exists() for stranger in strangers[:3])
    assert (tmp_path / "elsewhere" / "marker").exists()


@pytest.mark.parametrize("call", ["pwrite", "ftruncate", "open"])
def test_a_full_disk_names_the_path_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    real = os.open

    def fail(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def full(path: Path, flags: int = os.O_CREAT, *mode: int, dir_fd: int | None = None) -> int:
        if call == "open" and not flags & os.O_CREAT:
            return real(path, flags, *mode, dir_fd=dir_fd)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def work() -> None:
        with StagingArea(tmp_path / "out") as area:
            monkeypatch.setattr(f"rmqtool.store.staging.os.{call}", full if call == "open" else fail)
            with area.create_file("index/a", 100) as file:
                file.write_at(0, b"x")

    with pytest.raises(EnvironmentFailureError, match="index/a: cannot be written: No space"):
        work()
    monkeypatch.undo()
    assert list(tmp_path.iterdir()) == []


def test_a_failed_flush_publishes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: Path) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr("rmqtool.store.staging.sync_tree", fail)
    with StagingArea(tmp_path / "out") as area, pytest.raises(EnvironmentFailureError, match="Input/output"):
        area.publish()
    assert list(tmp_path.iterdir()) == []


def test_short_writes_are_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.pwrite
    with StagingArea(tmp_path / "out") as area:
        with area.create_file("a") as file:
            monkeypatch.setattr(
                "rmqtool.store.staging.os.pwrite",
                lambda descriptor, data, position: real(descriptor, bytes(data)[:3], position),
            )
            file.write_at(2, memoryview(b"0123456789"))
        monkeypatch.undo()
        area.publish()
    assert _tree(tmp_path / "out") == {"a": b"\0\0" + b"0123456789"}


def test_arrays_of_records_can_be_written(tmp_path: Path) -> None:
    numpy = pytest.importorskip("numpy")
    units = numpy.array([(1, 2, 3)], dtype=[("offset", ">i8"), ("size", ">i4"), ("tags", ">i8")])
    with StagingArea(tmp_path / "out") as area:
        with area.create_file("a") as file:
            file.write_at(0, units)
        area.publish()
    assert (tmp_path / "out" / "a").read_bytes() == units.tobytes()


def test_without_syncfs_every_file_is_flushed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flushed: list[str] = []

    def note(descriptor: int) -> None:
        flushed.append(Path(os.readlink(f"/proc/self/fd/{descriptor}")).name)  # noqa: PTH115 - a kernel link

    monkeypatch.setattr("rmqtool.store.staging.ctypes.CDLL", lambda *_, **__: object())
    monkeypatch.setattr("rmqtool.store.staging.os.fsync", note)
    with StagingArea(tmp_path / "out") as area:
        area.create_file("index/a").finish()
        area.publish()
    assert flushed == ["result", "a", "index", tmp_path.name]


def test_a_finished_file_cannot_be_written(tmp_path: Path) -> None:
    with StagingArea(tmp_path / "out") as area:
        file = area.create_file("a")
        file.truncate(10)
        path = file.finish()
        assert path.stat().st_size == 10
        with pytest.raises(ValueError, match="no longer"):
            file.fileno()


def test_a_parent_that_may_not_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(EnvironmentFailureError, match="cannot be written"):
        StagingArea(tmp_path / "file" / "below" / "out")


class TestScratch:
    """Work whose result nobody wants."""

    @pytest.fixture(autouse=True)
    def place(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        place = tmp_path / "tmp"
        place.mkdir()
        monkeypatch.setattr(tempfile, "tempdir", str(place))
        return place

    def test_it_leaves_nothing(self, place: Path, tmp_path: Path) -> None:
        with scratch_area([tmp_path / "store"]) as area:
            area.create_file("a").finish()
            assert area.handle.path.is_relative_to(place)
        assert list(place.iterdir()) == []

    def test_what_a_killed_run_left_goes_with_the_next(self, place: Path) -> None:
        """What a run at work has, or one on another machine, or nobody of ours, stays."""
        (dead,) = self._left_in(place)
        assert [*dead.rglob("a")], "half a result"
        foreign, nobodys = place / "rmqtool-scratch-foreign", place / "rmqtool-scratch-nobodys"
        for folder in (foreign, nobodys):
            folder.mkdir()
        (foreign / "marker").write_text("another.machine")
        with scratch_area([]) as running, scratch_area([]) as area:
            assert not dead.exists()
            assert running.handle.path.is_dir()
            assert area.handle.path.is_dir()
        assert {*place.iterdir()} == {foreign, nobodys}

    def test_a_folder_without_a_lock_is_nobody_s_to_remove(
        self, place: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """As where the file system has none."""

        def refused(file: int, how: int) -> None:
            raise OSError(errno.ENOLCK, f"{file} {how}")

        with monkeypatch.context() as patch:
            patch.setattr(fcntl, "flock", refused)
            first = scratch_area([])
            first.__enter__()
        with scratch_area([]):
            assert len([*place.iterdir()]) == 2
        first.__exit__(None, None, None)
        assert [*place.iterdir()] == []

    def _left_in(self, place: Path) -> list[Path]:
        command = [sys.executable, "-c", _KILLED_SCRATCH]
        subprocess.run(command, check=False, env={**os.environ, "TMPDIR": str(place)})
        return [*place.iterdir()]

    @pytest.mark.parametrize("root", ["tmp", "."])
    def test_it_is_not_made_in_the_evidence(self, root: str, place: Path, tmp_path: Path) -> None:
        before = place.stat().st_mtime_ns
        with pytest.raises(RefusedError, match="set TMPDIR"), scratch_area([tmp_path / root]):
            pytest.fail("not reached")
        assert place.stat().st_mtime_ns == before


def test_a_circle_of_links_is_no_place_for_an_output(tmp_path: Path) -> None:
    (tmp_path / "circle").symlink_to(tmp_path / "circle")
    for out in (tmp_path / "circle", tmp_path / "circle" / "out"):
        with pytest.raises((EnvironmentFailureError, RefusedError), match="circle"):
            StagingArea(out)
    assert [path.name for path in tmp_path.iterdir()] == ["circle"]
