"""Object stores and HDFS without a server: URLs, listings, ranges, and proofs of what is read."""

from __future__ import annotations

import os
import pickle
import random
import shutil
import sys
from typing import TYPE_CHECKING, Any, NoReturn

import pyarrow.fs
import pytest
from pyarrow.fs import FileInfo, FileSelector, FileType

import rmqtool
from rmqtool.cli import main
from rmqtool.engine.spark_plan import TaskPacker, run_planned
from rmqtool.errors import DeniedError, EnvironmentFailureError, SourceFailureError, UsageError
from rmqtool.io import FileKind, location_of, object_store
from rmqtool.io.object_pieces import AHEAD, GROWTH, LARGEST_BYTES, SMALLEST_BYTES, ObjectPieces, PieceCache
from rmqtool.io.object_store import _AZURE_CONNECTION, ATTEMPTS, ObjectStore, OpenObject, Version, connect
from rmqtool.io.objects import ObjectTree
from rmqtool.io.source import Status, split_url
from tests.engine.test_spark_plan import AwayEngine
from tests.io.directory import URL, as_objects
from tests.store.fixture_stores import fixture

if TYPE_CHECKING:
    from pathlib import Path

    from rmqtool.engine.spark_plan import PlannedTask
    from rmqtool.io import Location, ReadOnlyFile


@pytest.mark.parametrize(
    ("text", "top", "path"),
    [
        ("s3://bucket", "s3://bucket", "s3://bucket"),
        ("s3a://bucket//a/../b/./c/", "s3://bucket", "s3://bucket/b/c"),
        ("s3://bucket/consumequeue/%RETRY%a", "s3://bucket", "s3://bucket/consumequeue/%RETRY%a"),
        ("gs://bucket/store", "gs://bucket", "gs://bucket/store"),
        ("hdfs://namenode:8020/a/b", "hdfs://namenode:8020", "hdfs://namenode:8020/a/b"),
        ("abfss://c@one.dfs.core.windows.net/s", *2 * ("abfss://c@one.dfs.core.windows.net",)),
    ],
)
def test_urls(text: str, top: str, path: str) -> None:
    path = f"{top}/s" if path == top and text != top else path
    assert split_url(text) == (top, path)
    place = location_of(text)
    assert (str(place), str(place.real()), place.local_path()) == (path, path, None)
    assert place.elsewhere(text) == place
    assert str(place.elsewhere("/home/store")) == f"{top}/home/store"
    assert (place / "a" / "b").relative_to(place) == "a/b"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("s3://", "give a bucket"),
        ("s3:///store", "give a bucket"),
        ("s3://bucket/\udcff", "give a bucket"),
        ("s3://bucket/store?region=x", "ends with its path"),
        ("s3://key:secret@bucket/store", r"s3://…@bucket/store: a URL goes into reports"),
        ("abfss://two.dfs.core.windows.net/store", "give a container and its account"),
        ("hdfs://user:word@namenode/store", "credentials"),
        ("http://bucket/store", "s3://, s3a://, gs://, abfss://, hdfs://"),
    ],
)
def test_urls_that_are_refused(text: str, told: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UsageError, match=told) as caught:
        location_of(text)
    assert "secret" not in str(caught.value)
    assert main(["info", text]) == 2
    assert "Traceback" not in capsys.readouterr().err


_KEYED = "DefaultEndpointsProtocol=http;AccountName=one;AccountKey=a2V5==;"


@pytest.mark.parametrize(
    ("host", "environment", "services", "secrets"),
    [
        (
            "core.windows.net",
            {},
            [("https", ".blob.core.windows.net"), ("https", ".dfs.core.windows.net")],
            {},
        ),
        (
            "core.chinacloudapi.cn",
            {"AZURE_STORAGE_KEY": "k", "AZURE_STORAGE_SAS_TOKEN": "t"},
            [("https", ".blob.core.chinacloudapi.cn"), ("https", ".dfs.core.chinacloudapi.cn")],
            {"account_key": "k"},
        ),
        (
            "core.windows.net",
            {_AZURE_CONNECTION: _KEYED + "BlobEndpoint=http://127.0.0.1:10000/one;"},
            [("http", "127.0.0.1:10000"), ("http", "127.0.0.1:10000")],
            {"account_key": "a2V5=="},
        ),
        (
            "core.windows.net",
            {
                _AZURE_CONNECTION: "BlobEndpoint=https://one.blob.core.windows.net/;"
                "SharedAccessSignature=sv=2025&sig=a%3D"
            },
            [("https", "one.blob.core.windows.net"), ("https", "one.dfs.core.windows.net")],
            {"sas_token": "sv=2025&sig=a%3D"},
        ),
    ],
)
def test_azure_is_asked_as_the_environment_tells(
    host: str,
    environment: dict[str, str],
    services: list[tuple[str, str]],
    secrets: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: dict[str, Any] = {}
    monkeypatch.setattr(pyarrow.fs, "AzureFileSystem", lambda _, **given: asked.update(given))
    for name in ("AZURE_STORAGE_KEY", "AZURE_STORAGE_SAS_TOKEN", _AZURE_CONNECTION):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert connect(f"abfss://box@one.dfs.{host}")[1] == "box"
    found = [
        (asked.pop(f"{kind}_storage_scheme"), asked.pop(f"{kind}_storage_authority"))
        for kind in ("blob", "dfs")
    ]
    assert found == services
    assert {name: value for name, value in asked.items() if value} == secrets


def test_an_account_that_is_not_meant_gets_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(_AZURE_CONNECTION, _KEYED)
    with pytest.raises(EnvironmentFailureError, match="of the account one, not of two"):
        connect("abfss://box@two.dfs.core.windows.net")


class _DeadHdfs:
    """HDFS of pyarrow's when nobody answers: it does not exist, unless a listing is insisted on."""

    type_name = "hdfs"

    def get_file_info(self, asked: str | FileSelector) -> FileInfo | list[FileInfo]:
        if isinstance(asked, str):
            return FileInfo(asked, type=FileType.NotFound)
        if asked.allow_not_found:
            return []
        raise OSError(255, "HDFS list directory failed")


def test_of_hdfs_that_does_not_answer_nothing_is_said_to_be_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rmqtool.io.object_store.connect", lambda top: (_DeadHdfs(), ""))
    monkeypatch.setattr("rmqtool.io.object_store.PAUSE_S", 0.0)
    store = ObjectStore("hdfs://namenode")
    with pytest.raises(SourceFailureError, match="cannot be examined, tried 4 times"):
        store.status("hdfs://namenode/store")
    for recursive in (False, True):
        with pytest.raises(SourceFailureError, match="cannot be listed, tried 4 times"):
            store.listed("hdfs://namenode/store", recursive=recursive)


def test_what_pyarrow_has_no_name_for_is_an_error_of_the_store_s(monkeypatch: pytest.MonkeyPatch) -> None:
    """As when no identity of Azure's is to be had."""
    failure = pyarrow.ArrowException("Failed: AuthenticationException")

    def fail(_: str) -> NoReturn:
        raise failure

    monkeypatch.setattr(object_store, "connect", fail)
    with pytest.raises(DeniedError, match="give credentials"):
        ObjectStore("s3://bucket").open("s3://bucket/store")


def test_a_part_in_another_bucket_is_refused() -> None:
    with pytest.raises(UsageError, match=r"s3://b/x: is not in s3://a"):
        location_of("s3://a/store").elsewhere("s3://b/x")


@pytest.mark.parametrize(
    "words",
    [
        ("salvage", "STORE", "--plan", "s3://bucket/plan.json"),
        ("repair", "s3://bucket/store"),
        ("info", "STORE", "-o", "s3://bucket/out"),
        ("info", "STORE", "-c", "s3://bucket/broker.conf"),
    ],
    ids=" ".join,
)
def test_what_is_not_written_to_a_url(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(fixture("plain-5.5.1")) if word == "STORE" else word for word in words]) == 2
    assert "is a URL, but a path of this machine is needed here" in capsys.readouterr().err


def test_without_pyarrow_one_sentence_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.setitem(sys.modules, "pyarrow", None)  # as importing it would fail
    with pytest.raises(EnvironmentFailureError, match=r"pip install 'rmqtool\[arrow\]' adds it$"):
        location_of("s3://bucket/store").status()


def test_endpoint_and_region_are_those_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_REGION", "eu-central-1")
    files, root = connect("s3://bucket")
    assert (files.region, root) == ("eu-central-1", "bucket")


# Names


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Location:
    shutil.copytree(fixture("plain-5.5.1"), tmp_path / "store")
    return as_objects(tmp_path, monkeypatch) / "store"


class _Listed:
    """A store of names, as one whose directories nothing but names tell of; it counts what it is asked."""

    def __init__(self, *names: str) -> None:
        self.names = names
        self.asked: list[str] = []

    def status(self, path: str) -> Status | None:
        self.asked.append(path)
        return Status(FileKind.DIRECTORY) if any(name.startswith(f"{path}/") for name in self.names) else None

    def listed(self, path: str, *, recursive: bool) -> dict[str, Status]:
        self.asked.append(f"{path}/{'**' if recursive else '*'}")
        below = [name.removeprefix(f"{path}/") for name in self.names if name.startswith(f"{path}/")]
        if recursive:
            return {name: Status(FileKind.FILE, 7) for name in below}
        return {
            name.partition("/")[0]: Status(FileKind.DIRECTORY if "/" in name else FileKind.FILE, 7)
            for name in below
        }


def test_a_store_is_listed_in_few_requests() -> None:
    names = [f"b/store/consumequeue/t{topic}/{queue}/0" for topic in range(9) for queue in range(9)]
    asked = _Listed(*names, "b/store/commitlog/0", "b/store/lock", "b/other")
    tree = ObjectTree(asked)  # type: ignore[arg-type]
    assert sorted(tree.entries("b/store")) == ["commitlog", "consumequeue", "lock"]
    assert len(tree.entries("b/store/consumequeue")) == 9
    for topic in range(9):
        for queue in range(9):
            directory = f"b/store/consumequeue/t{topic}/{queue}"
            assert tree.entries(directory) == {"0": Status(FileKind.FILE, 7)}
            assert tree.status(directory) == Status(FileKind.DIRECTORY)
            assert tree.status(f"{directory}/1") is None
    assert tree.status("b/store/absent") is None
    assert tree.entries("b/store/lock") == {}
    assert asked.asked == ["b/store", "b/store/*", "b/store/consumequeue/**"]


class _Gcs:
    """A file system of pyarrow's that tells of no directories, as that of Google's storage."""

    type_name = "gcs"

    def get_file_info(self, selector: FileSelector) -> list[FileInfo]:
        names = ("lock", "commitlog/0", "consumequeue/t/0/0")
        wanted = (name for name in names if selector.recursive or "/" not in name)
        return [FileInfo(f"b/store/{name}", type=FileType.File, size=7) for name in wanted]


def test_directories_of_google_s_storage_are_those_that_names_tell_of(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("rmqtool.io.object_store.connect", lambda top: (_Gcs(), "b"))
    store = ObjectStore("gs://b")
    found = {name: status.kind for name, status in store.listed("gs://b/store", recursive=False).items()}
    assert found == {
        "lock": FileKind.FILE,
        "commitlog": FileKind.DIRECTORY,
        "consumequeue": FileKind.DIRECTORY,
    }
    assert len(store.listed("gs://b/store", recursive=True)) == 3


def test_files_are_in_the_order_in_which_they_are_read() -> None:
    names = [f"b/store/consumequeue/t/{queue}/{number:020}" for queue in (0, 1, 2, 10) for number in (0, 600)]
    tree = ObjectTree(_Listed(*reversed(names)))  # type: ignore[arg-type]
    tree.entries("b/store")
    tree.entries("b/store/consumequeue")
    assert tree.neighbours(names[0], 3) == (None, names[1:4])
    assert tree.neighbours(names[5], 3) == (names[4], names[6:])
    assert tree.neighbours("b/store/absent", 3) == (None, [])


def test_who_opens_one_file_after_the_other_has_the_next_ones_opened(
    place: Location, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []
    real = ObjectStore.open

    def note(self: ObjectStore, path: str) -> OpenObject:
        asked.append(path.rpartition("/")[2])
        return real(self, path)

    monkeypatch.setattr(ObjectStore, "open", note)
    segments = [place / "commitlog" / entry.name for entry in (place / "commitlog").entries()]
    segments[2].read_head(1)
    assert set(asked) == {segments[2].name}
    segments[3].read_head(1)
    assert [one.read_head(1) for one in segments[4:]]
    assert {asked.count(one.name) for one in segments[3:]} == {2}  # once to open it, and once to prove it


# Ranges


def _pieces(data: bytes) -> tuple[ObjectPieces, list[tuple[int, int]]]:
    fetched: list[tuple[int, int]] = []

    def fetch(start: int, stop: int) -> bytearray:
        fetched.append((start, stop - start))
        return bytearray(data[start:stop])

    return ObjectPieces(len(data), fetch, PieceCache()), fetched


def _read(pieces: ObjectPieces, position: int, length: int) -> bytes:
    found = b""
    while len(found) < length:
        found += pieces.bytes_from(position + len(found), length - len(found))
    return found


def test_who_goes_on_reading_gets_longer_pieces_and_ahead() -> None:
    pieces, fetched = _pieces(bytes(64 << 20))
    pieces.bytes_from(0, 4096)
    assert fetched == [(0, SMALLEST_BYTES)]
    for position in range(0, 4 << 20, 4096):
        pieces.bytes_from(position, 4096)
    pieces.bytes_from(32 << 20, 4096)
    assert sorted(fetched)[:3] == [
        (0, SMALLEST_BYTES),
        (SMALLEST_BYTES, GROWTH * SMALLEST_BYTES),
        (5 * SMALLEST_BYTES, 16 * SMALLEST_BYTES),
    ]
    assert max(length for _, length in fetched) == LARGEST_BYTES
    assert len(fetched) == 4 + AHEAD + 1


def test_any_way_of_reading_gives_the_bytes_and_fetches_none_twice() -> None:
    data = random.Random(1).randbytes(3 << 20)
    for seed in range(20):
        chance = random.Random(seed)
        pieces, fetched = _pieces(data)
        for _ in range(30):
            position = chance.randrange(len(data))
            length = min(chance.choice([1, 20, 4096, 1 << 18]), len(data) - position)
            assert _read(pieces, position, length) == data[position : position + length]
        assert sum(length for _, length in fetched) <= len(data)


def test_what_nobody_has_read_for_longest_is_let_go_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rmqtool.io.object_pieces.KEPT_BYTES", 3 * SMALLEST_BYTES)
    pieces, fetched = _pieces(bytes(64 * SMALLEST_BYTES))
    for number in (0, 10, 20, 0, 30, 0, 10):
        pieces.bytes_from(number * SMALLEST_BYTES, 1)
    assert [start // SMALLEST_BYTES for start, _ in fetched] == [0, 10, 20, 30, 10]


def test_what_failed_is_fetched_anew() -> None:
    failures = [OSError("once")]

    def fetch(start: int, stop: int) -> bytearray:
        if failures:
            raise failures.pop()
        return bytearray(b"abc"[start:stop])

    pieces = ObjectPieces(3, fetch, PieceCache())
    with pytest.raises(OSError, match="once"):
        pieces.bytes_from(0, 3)
    assert bytes(pieces.bytes_from(1, 9)) == b"bc"


class _Short:
    """A file of pyarrow's whose server sends too little, and that counts what it asked for."""

    def __init__(self, data: bytes, sent: int) -> None:
        self._data, self._sent, self._position = data, sent, 0

    def close(self) -> None:
        """Let go of nothing."""

    def seek(self, position: int) -> None:
        self._position = position

    def readinto(self, view: bytearray) -> int:
        sent = self._data[self._position : self._position + len(view)][: self._sent]
        view[: len(sent)] = sent
        return len(view)


@pytest.mark.parametrize("sent", [0, 1, 9])
def test_a_body_that_is_too_short_is_noticed(sent: int) -> None:
    version = Version(10, ())
    for data in (bytes(10), b"\xa5" * 10, b"\x5a" * 10):
        if sent:  # one byte that ends as the buffer began is read once more, and is there
            assert OpenObject(_Short(data, 10), version).read(0, 10) == data
        with pytest.raises(OSError, match="fewer bytes came than the 10 from position 0 on"):
            OpenObject(_Short(data if data[-1] != 0xA5 else bytes(10), sent), version).read(0, 10)


# Proofs


def test_a_library_reads_a_url(place: Location) -> None:
    with rmqtool.open(str(place)) as store, rmqtool.open(fixture("plain-5.5.1")) as local:
        assert store.location == f"{URL}/store"
        assert list(store) == list(local)
        with pytest.raises(UsageError, match=r"use Store\.location"):
            _ = store.path


def _rewrite(path: Path) -> None:
    os.utime(path, ns=(1, path.stat().st_mtime_ns + 2_000_000_000))


@pytest.mark.parametrize("change", ["written", "longer", "gone"])
@pytest.mark.parametrize("when", ["listed", "opened"])
def test_what_changes_under_our_hands_is_an_error(
    change: str, when: str, place: Location, tmp_path: Path
) -> None:
    segment, path = (
        place / "commitlog/00000000000000000000",
        tmp_path / "store/commitlog/00000000000000000000",
    )
    assert segment.status() is not None
    file = segment.reader()
    if when == "opened":
        assert file.current_size() == path.stat().st_size
    if change == "gone":
        path.unlink()
    elif change == "longer":
        path.write_bytes(path.read_bytes() + b"x")
    else:
        _rewrite(path)
    with pytest.raises(SourceFailureError, match=f"^{segment}: was changed while it was read") as caught:
        file.read_at(0, 10, [])
    assert caught.value.status == 3
    assert str(caught.value).endswith("or make a copy, and run this again")


def test_a_denied_object_is_a_finding_as_a_denied_file_is(
    place: Location, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("rmqtool.io.object_store.ObjectStore.open", _denied)
    with pytest.raises(DeniedError, match="no entry"):
        (place / "commitlog/00000000000000000000").read_head(1)
    assert main(["info", str(place)]) == 3
    out, err = capsys.readouterr()
    assert "sudo" not in out + err
    assert "no entry" in out + err


def _denied(self: object, path: str) -> OpenObject:
    raise DeniedError(path, "no entry")


def test_a_silent_service_is_asked_again_and_then_is_an_error(
    place: Location, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = []

    def read(self: OpenObject, start: int, stop: int) -> bytearray:
        asked.append(start)
        raise OSError("no\nanswer")

    monkeypatch.setattr("rmqtool.io.object_store.OpenObject.read", read)
    assert main(["verify", str(place), "--engine", "local"]) == 3
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert f"cannot be read, tried {ATTEMPTS} times: no answer; no verdict on the store" in err
    assert len(asked) % ATTEMPTS == 0


# Tasks of Spark


def test_tasks_are_told_the_versions_that_were_planned(place: Location, tmp_path: Path) -> None:
    segment = place / "commitlog/00000000000000000000"
    task: PlannedTask = pickle.loads(pickle.dumps(TaskPacker().tasks([(segment, segment.reader())])))[0]
    assert list(task.versions) == [str(segment)]
    assert run_planned(_first_byte, task).value == segment.read_head(1)
    _rewrite(tmp_path / "store/commitlog" / segment.name)
    with pytest.raises(SourceFailureError, match="was changed while it was read"):
        run_planned(_first_byte, task)


def test_an_object_that_is_gone_where_a_task_runs_is_no_finding(place: Location, tmp_path: Path) -> None:
    segment, planner = place / "commitlog/00000000000000000000", TaskPacker()
    (task,) = planner.tasks([(segment, segment.reader())])
    task = pickle.loads(pickle.dumps(task))
    (tmp_path / "store/commitlog" / segment.name).unlink()
    with pytest.raises(SourceFailureError, match="it was deleted"):
        run_planned(_first_byte, task)
    assert not planner.is_outdated(str(segment))


def _first_byte(files: tuple[Location, ReadOnlyFile]) -> bytes:
    place, file = files
    assert file.path.source is place.source
    return file.read_at(0, 1)


def test_a_store_is_verified_by_tasks_of_other_machines(
    place: Location, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with rmqtool.open(str(place)) as store:
        report = store.verify(engine=AwayEngine(scratch=tmp_path_factory.mktemp("scratch")))
    assert report.examined.records == 163
