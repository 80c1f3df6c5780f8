"""Tasks that travel: the files they read are proven, whatever the machine they come to sees."""

from __future__ import annotations

import os
import pickle
import shutil
import socket
from typing import TYPE_CHECKING, Any

import pytest

import rmqtool
from rmqtool.engine import EngineOptions
from rmqtool.engine.spark_plan import FIRST_PAGE, PlannedFiles, PlannedTask, TaskPacker, proof_of, run_planned
from rmqtool.errors import (
    DeniedError,
    EnvironmentFailureError,
    ExecutorCannotReachError,
    ExitStatus,
    FileNotSharedError,
    SourceFailureError,
    SourceUnreachableError,
)
from rmqtool.io import LocalFiles, location_of, object_store
from rmqtool.io.object_store import ObjectStore, Version
from rmqtool.io.objects import ObjectFiles
from rmqtool.io.source import split_url
from rmqtool.store.staging import StagingHandle
from tests.builders import InlineEngine, read_result
from tests.store.fixture_stores import fixture

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from rmqtool.io import Location

    View = Callable[[], Callable[[], object]]


class AwayEngine(InlineEngine):
    """Runs tasks here as another machine would get them.

    Args:
        view: is called where the other machine's view begins, and returns what ends it.
        scratch: that both machines see.
    """

    name = "spark"

    def __init__(self, view: View | None = None, scratch: Path | None = None) -> None:
        self.options = EngineOptions("spark", master="spark://elsewhere:7077", scratch=scratch)
        self._view = view

    def map(
        self,
        function: Callable[[Any], Any],
        items: Sequence[Any],
        progress: Callable[[int], None] | None = None,
    ) -> list[Any]:
        planner = TaskPacker()
        tasks: list[PlannedTask] = pickle.loads(pickle.dumps(planner.tasks(items)))
        end = None if self._view is None else self._view()
        try:
            done = [run_planned(function, task) for task in tasks]
        finally:
            if end is not None:
                end()
        if progress is not None:
            progress(len(items))
        return planner.values(pickle.loads(pickle.dumps(done)))


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return shutil.copytree(fixture("plain-5.5.1"), tmp_path / "store")


def without(place: Path) -> View:
    """Return a view in which a path is not there."""

    def view() -> Callable[[], object]:
        away = place.rename(place.with_name("away"))
        return lambda: away.rename(place)

    return view


def in_place_of(place: Path, copy: Path) -> View:
    """Return a view in which a path is another."""

    def view() -> Callable[[], object]:
        away = place.rename(place.with_name("away"))
        copy.rename(place)

        def end() -> None:
            place.rename(copy)
            away.rename(place)

        return end

    return view


def read_one(file: Location) -> bytes:
    with file.reader() as reader:
        return reader.read_at(0, 1 << 20)


@pytest.mark.few(1)
@pytest.mark.parametrize("name", ["plain-5.5.1", "batchcq-5.5.1", "ext-5.3.3"])
def test_commands_open_nothing_that_is_not_proven(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And list nothing: what a task reads stands in the task."""
    store = shutil.copytree(fixture(name), tmp_path / "store")
    met: list[str] = []
    for question in ("open", "status", "entries", "lock_holder"):
        plain = getattr(PlannedFiles, question)

        def ask(files: PlannedFiles, path: str, plain: Callable[..., Any] = plain) -> object:
            met.append(path)
            assert path in files.proofs
            return plain(files, path)

        monkeypatch.setattr(PlannedFiles, question, ask)
    opened = rmqtool.open(store)
    (tmp_path / "scratch").mkdir()
    away = opened.verify(level=3, engine=AwayEngine(scratch=tmp_path / "scratch"))
    here = opened.verify(level=3)
    assert [*map(str, away.findings)] == [*map(str, here.findings)]
    opened.rebuild(tmp_path / "away", engine=AwayEngine())
    opened.rebuild(tmp_path / "here")
    assert read_result(tmp_path / "away") == read_result(tmp_path / "here") != {}
    assert len(met) > 10


@pytest.mark.parametrize("hidden", ["commitlog", "consumequeue", "index"])
def test_what_a_machine_does_not_see_is_no_finding(store: Path, tmp_path: Path, hidden: str) -> None:
    away = AwayEngine(without(store / hidden), tmp_path)
    told = rf"^executor \S+ does not see {store}/{hidden}/\S+ \(.*\): every"
    with pytest.raises(FileNotSharedError, match=told):
        rmqtool.open(store).verify(level=3, engine=away)
    assert not [*tmp_path.glob("rmqtool-*")]


def test_a_rebuild_by_the_blind_leaves_nothing(store: Path, tmp_path: Path) -> None:
    out = tmp_path / "below" / "out"
    with pytest.raises(FileNotSharedError, match="does not see") as caught:
        rmqtool.open(store).rebuild(out, engine=AwayEngine(without(store / "commitlog")))
    assert caught.value.status is ExitStatus.FAILED
    assert not out.parent.exists()


def test_a_staging_area_that_is_not_seen_is_named(tmp_path: Path) -> None:
    (task,) = TaskPacker().tasks([StagingHandle(tmp_path / "gone")])
    with pytest.raises(FileNotSharedError, match=f"does not see {tmp_path}/gone/blocks"):
        run_planned(str, task)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda data: data + b"x", "it has 8193 bytes there, not 8192"),
        (lambda data: b"x" + data[1:], "it begins with other bytes"),
        (lambda data: data[:FIRST_PAGE] + b"x" + data[FIRST_PAGE + 1 :], ""),
    ],
)
def test_another_copy_on_another_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: Callable[[bytes], bytes], reason: str
) -> None:
    """Behind the first page nothing is proven of a copy that keeps its time, as a mirror does."""
    file, copy = tmp_path / "file", tmp_path / "copy"
    file.write_bytes(bytes(8192))
    copy.write_bytes(change(bytes(8192)))
    assert outcome(file, copy, monkeypatch) == reason


def test_another_time_is_another_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, copy = tmp_path / "file", tmp_path / "copy"
    for one in (file, copy):
        one.write_bytes(b"same")
    assert outcome(file, copy, monkeypatch, later_us=0) == ""
    assert outcome(file, copy, monkeypatch, later_us=1) == "it was changed at another time"


def outcome(file: Path, copy: Path, monkeypatch: pytest.MonkeyPatch, later_us: int = 0) -> str:
    """Return why a machine with another kernel does not take a copy for the file."""
    changed_ns = 1_700_000_000_000_001_000
    os.utime(file, ns=(changed_ns, changed_ns))
    os.utime(copy, ns=(changed_ns + 7, changed_ns + 1000 * later_us + 7))
    (task,) = TaskPacker().tasks([location_of(file)])
    end = in_place_of(file, copy)()
    with monkeypatch.context() as patch:
        patch.setattr("rmqtool.engine.spark_plan._kernel", lambda: "another")
        told = failure_of(task)
    end()
    assert not told or f"sees another {file} than this command does (" in told
    return told.partition("(")[2].partition(")")[0]


def failure_of(task: PlannedTask) -> str:
    try:
        run_planned(read_one, task)
    except FileNotSharedError as failure:
        return str(failure)
    return ""


def test_one_kernel_knows_its_files_by_inode(tmp_path: Path) -> None:
    """Also where everything else that can be asked of a copy is the same."""
    file, copy = tmp_path / "file", tmp_path / "copy"
    file.write_bytes(b"same")
    shutil.copy2(file, copy)
    (task,) = TaskPacker().tasks([location_of(file)])
    assert run_planned(read_one, task).value == b"same"
    file.write_bytes(b"it grows while it is read")
    assert run_planned(read_one, task).value == b"it grows while it is read"
    end = in_place_of(file, copy)()
    with pytest.raises(FileNotSharedError, match=r"\(it is another file\)"):
        run_planned(read_one, task)
    end()


def test_a_file_that_changes_here_is_planned_anew(tmp_path: Path) -> None:
    """A broker writes it, or deletes it: then it is no executor's fault."""
    file, gone = tmp_path / "file", tmp_path / "gone"
    for one in (file, gone):
        one.write_bytes(b"one")
    planner = TaskPacker()
    planner.tasks([location_of(file), location_of(gone)])
    assert not planner.is_outdated(str(file))
    file.write_bytes(b"three")
    gone.unlink()
    assert planner.is_outdated(str(file))
    assert planner.is_outdated(str(gone))
    assert not planner.is_outdated(str(file))
    again = planner.tasks([location_of(file), location_of(gone)])
    proof = again[0].proofs[str(file)]
    assert (proof.size_bytes, proof.modified_us) == (None, None)
    assert again[1].proofs == {}
    with pytest.raises(EnvironmentFailureError, match=r"^executor \S+: .*gone: cannot be opened"):
        run_planned(read_one, again[1])


def test_what_comes_home_is_named_in_this_machine_s_files(tmp_path: Path) -> None:
    place = location_of(tmp_path / "file")
    (task,) = TaskPacker().tasks([place])
    found = pickle.loads(pickle.dumps(task.unpacked()))
    assert found == place
    assert type(found.source) is LocalFiles


def test_what_cannot_be_opened_here_has_no_proof(tmp_path: Path) -> None:
    assert proof_of(str(tmp_path)) is None
    assert proof_of(str(tmp_path / "nothing")) is None


@pytest.mark.parametrize(
    ("url", "variable"),
    [
        ("s3://bucket/store", "AWS_ENDPOINT_URL"),
        ("gs://bucket/store", "GOOGLE_APPLICATION_CREDENTIALS"),
        ("abfss://box@account.dfs.core.windows.net/store", "AZURE_CLIENT_ID"),
        ("hdfs://name:8020/store", "CLASSPATH"),
    ],
)
def test_an_executor_that_cannot_reach_an_object_store_is_named(
    url: str, variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(top: str) -> None:
        raise ConnectionRefusedError(f"{top} refuses")

    monkeypatch.setattr(object_store, "connect", refused)
    monkeypatch.setattr(object_store, "PAUSE_S", 0)
    (task,) = TaskPacker().tasks([url])
    service = url.removesuffix("/store")
    why = f"{url} cannot be examined, tried 4 times: {service} refuses"
    with pytest.raises(ExecutorCannotReachError) as caught:
        run_planned(status_there, task)
    assert str(caught.value) == (
        f"executor {socket.gethostname()} cannot reach {service} ({why}): it needs a route to it, and "
        "endpoint and credentials from the environment of executors, as by --spark-conf "
        f"spark.executorEnv.{variable}=…: rmqtool help objects"
    )
    again = pickle.loads(pickle.dumps(caught.value))
    assert (str(again), again.service) == (str(caught.value), service)
    with pytest.raises(SourceUnreachableError, match=f"^{url}: cannot be examined") as own:
        run_planned(status_there, task, elsewhere=False)
    assert str(pickle.loads(pickle.dumps(own.value))) == str(own.value)


def test_an_executor_without_credentials_has_no_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of an object that the command itself has opened."""

    def denied(top: str) -> None:
        raise OSError(f"{top}: ACCESS_DENIED")

    monkeypatch.setattr(object_store, "connect", denied)
    one, other = "s3://bucket/store/a", "s3://bucket/store/b"
    files = ObjectFiles("s3://bucket", {one: Version(1, ())})
    with pytest.raises(SourceUnreachableError, match="ACCESS_DENIED; give credentials"):
        files.open(one)
    with pytest.raises(DeniedError):
        files.open(other)


def test_what_has_answered_once_is_within_reach(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever it does later, no environment is to blame."""
    monkeypatch.setattr(object_store, "PAUSE_S", 0)
    store = ObjectStore("s3://bucket")
    assert store.read("s3://bucket/a", lambda: b"bytes") == b"bytes"

    def broken() -> bytes:
        raise OSError("reset")

    with pytest.raises(SourceFailureError, match="tried 4 times: reset; no verdict") as caught:
        store.read("s3://bucket/a", broken)
    assert not isinstance(caught.value, SourceUnreachableError)


def status_there(url: str) -> object:
    return ObjectStore(split_url(url)[0]).status(url)
