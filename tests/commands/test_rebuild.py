"""The rebuild of real brokers' stores, on every engine, and what it never does to anybody's files."""

from __future__ import annotations

import errno
import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rmqtool.dispatch.index_keys import TagItems
from rmqtool.engine import EngineOptions
from rmqtool.engine.choice import open_engine
from rmqtool.errors import ExitStatus, RefusedError, UsageError
from rmqtool.projection import json_object
from rmqtool.releases import RELEASES
from tests.broker.compare import compare_derived
from tests.broker.log_damage import LogCopy
from tests.broker.stores import DERIVED, FixtureStore, fixture_store, fixture_stores
from tests.commands.rebuilding import Listener, contents, fingerprint, rebuild_store

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.engine import Engine

EVERY = pytest.mark.parametrize("store", fixture_stores(), ids=lambda store: store.name)
SPARK = EngineOptions("spark", jobs=2)


@pytest.fixture
def plain() -> FixtureStore:
    return fixture_store("plain-5.3.3")


@pytest.fixture(scope="class")
def spark() -> Iterator[Engine]:
    """Open one session for a class: it takes seconds to start."""
    with open_engine(SPARK) as engine:
        yield engine


@pytest.mark.every_store
@pytest.mark.few(10)
@EVERY
def test_every_byte_is_the_brokers(store: FixtureStore, tmp_path: Path) -> None:
    """From the log and the broker's settings comes what that broker builds from the log alone."""
    before = fingerprint(store.root)
    report = rebuild_store(store.root, store.conf, tmp_path / "out", tag_items=_of_one_broker(store))
    assert compare_derived(store.expected, tmp_path / "out") == []
    assert report.exit_status() == ExitStatus.CLEAN
    copies = 2 if store.name.startswith("pagecopies") else 0  # read as a start reads them, and put nowhere
    assert report.records == store.recipe["records"] - _records_before_the_log(store) + copies
    assert fingerprint(store.root) == before


@pytest.mark.parametrize("version", ["5.3.3", "5.4.0", "5.5.1"])
def test_records_prove_batch_queues(version: str, tmp_path: Path) -> None:
    """Without the batch queues and topics.json, inner batches tell the topic's queue type; and it is said."""
    store, listener, root = fixture_store(f"batchcq-{version}"), Listener(), tmp_path / "store"
    shutil.copytree(store.root, root)
    shutil.rmtree(root / "batchconsumequeue")
    (root / "config" / "topics.json").unlink()
    out = tmp_path / "out"
    rebuild_store(root, store.conf, out, tag_items=_of_one_broker(store), listener=listener)
    assert compare_derived(store.expected, out) == []
    assert any("queue.type=BatchCQ" in warning for warning in listener.warnings)


def _of_one_broker(store: FixtureStore) -> TagItems:
    """Return the tag items that the store's last broker makes from the log alone, whoever wrote it before."""
    return TagItems.of(RELEASES[store.version])


@pytest.mark.parametrize(
    "name", ["upgrade498-5.5.1", "upgrade533-5.5.1", "downgrade-5.3.3", "handovers-5.5.1", "plain-5.3.3"]
)
def test_an_index_of_several_brokers_comes_out_as_it_is(name: str) -> None:
    """Its own turns are followed, and told with their reason."""
    store, listener = fixture_store(name), Listener()
    report = rebuild_store(
        store.root, store.conf, None, compare=True, parts=frozenset({"index"}), listener=listener
    )
    assert report.differences == ()
    told = json_object(report)["tagItems"]
    assert told["origin"] == "inferred"
    none, some = "no tag index entries", f"tag index entries for {told['value']}"
    assert f"{none if told['value'] == 'none' else some}: {told['reason']}" in listener.notes


def test_tag_items_are_as_asked_for(plain: FixtureStore, tmp_path: Path) -> None:
    """Whatever the store shows; without an index nothing is said of them."""
    asked = TagItems.parse("from:20000")
    report = rebuild_store(plain.root, plain.conf, tmp_path / "out", tag_items=asked)
    assert json_object(report)["tagItems"] == {
        "value": "from:20000",
        "origin": "given",
        "reason": "as requested",
    }
    none = rebuild_store(plain.root, plain.conf, None, dry_run=True, tag_items=TagItems.parse("none"))
    every = rebuild_store(plain.root, plain.conf, None, dry_run=True, tag_items=TagItems.parse("all"))
    assert none.index_entries < report.index_entries < every.index_entries
    queues = rebuild_store(plain.root, plain.conf, None, dry_run=True, parts=frozenset({"consumequeue"}))
    assert json_object(queues)["tagItems"] is None


def _records_before_the_log(store: FixtureStore) -> int:
    """Return how many of a recipe's records lay in segments that the broker has deleted since."""
    if "expiredhead" not in store.name:
        return 0
    return int(store.recipe["records"]) - sum(map(len, LogCopy(store.root).records))


@pytest.mark.spark
class TestOnSpark:
    """With one session for all stores."""

    @pytest.mark.matrix
    @EVERY
    def test_every_byte_is_the_brokers(self, store: FixtureStore, spark: Engine, tmp_path: Path) -> None:
        """Another engine, the same bytes."""
        out, tag_items = tmp_path / "out", _of_one_broker(store)
        report = rebuild_store(store.root, store.conf, out, engine=spark, tag_items=tag_items)
        assert compare_derived(store.expected, tmp_path / "out") == []
        assert json_object(report)["engine"] == "spark"

    def test_it_compares_without_a_trace(
        self, plain: FixtureStore, spark: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
        report = rebuild_store(plain.root, plain.conf, None, engine=spark, compare=True)
        assert (report.compared, report.differences) == (True, ())
        assert list(tmp_path.iterdir()) == []


def test_settings_are_inferred_where_no_broker_conf_is_given(plain: FixtureStore, tmp_path: Path) -> None:
    """Sizes of segments and queue files show; those of the index come from its present files."""
    rebuild_store(plain.root, None, tmp_path / "out")
    assert compare_derived(plain.expected, tmp_path / "out") == []


def test_the_output_holds_nothing_else(plain: FixtureStore, tmp_path: Path) -> None:
    rebuild_store(plain.root, plain.conf, tmp_path / "out")
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"consumequeue", "index", "rebuild.json"}
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_only_the_parts_asked_for(plain: FixtureStore, tmp_path: Path) -> None:
    for part in ("consumequeue", "index"):
        rebuild_store(plain.root, plain.conf, tmp_path / part, parts=frozenset({part}))
        assert {path.name for path in (tmp_path / part).iterdir()} == {part, "rebuild.json"}
        expected = contents(plain.root / part)
        found = contents(tmp_path / part / part)
        assert [expected[name] for name in sorted(expected)] == [found[name] for name in sorted(found)]


def test_run_twice_gives_the_same_bytes_and_names(plain: FixtureStore, tmp_path: Path) -> None:
    for name in ("one", "two"):
        rebuild_store(plain.root, plain.conf, tmp_path / name)
        (tmp_path / name / "rebuild.json").unlink()
    assert contents(tmp_path / "one") == contents(tmp_path / "two")


class TestReport:
    """What is said of a rebuild, in the result and to the caller."""

    def test_the_json_beside_the_result_is_the_callers(self, plain: FixtureStore, tmp_path: Path) -> None:
        report = rebuild_store(plain.root, plain.conf, tmp_path / "out")
        written = json.loads((tmp_path / "out" / "rebuild.json").read_bytes())
        assert written == json.loads(json.dumps(json_object(report)))

    def test_it_counts_what_is_there(self, plain: FixtureStore, tmp_path: Path) -> None:
        out = tmp_path / "out"
        said = json_object(rebuild_store(plain.root, plain.conf, out))
        expected = {"store": str(plain.root), "out": str(out), "mode": "broker", "engine": "local"}
        assert expected.items() <= said.items()
        assert said["schema"] == "rmqtool.rebuild/2"
        assert (said["partial"], said["skipped"], said["exitStatus"]) == (False, [], 0)
        assert said["records"] == plain.recipe["records"]
        assert said["units"] == plain.recipe["records"]
        assert said["bytes"] == max(
            place + LogCopy(plain.root).head(place).total_size for place in LogCopy(plain.root).records[-1]
        )
        files = {name: len(contents(out / name)) for name in ("consumequeue", "index")}
        assert {name: said["files"].get(name, 0) for name in files} == files
        assert said["queues"] == len({path.parent for path in (out / "consumequeue").glob("*/*/*")})
        assert {"scan", "place", "emit", "survey", "total"} <= said["seconds"].keys()

    def test_settings_carry_their_origin(self, plain: FixtureStore, tmp_path: Path) -> None:
        settings = json_object(rebuild_store(plain.root, plain.conf, tmp_path / "out"))["settings"]
        assert settings["maxHashSlotNum"] == {"value": 25, "origin": "given"}
        assert {"value", "origin"} <= settings["messageDelayLevel"].keys()

    def test_a_size_nobody_knows_is_warned_about(self, plain: FixtureStore, tmp_path: Path) -> None:
        listener = Listener()
        root = plain.copy_log_to(tmp_path / "store")
        rebuild_store(root, None, None, dry_run=True, listener=listener)
        assert [warning.split()[0] for warning in listener.warnings] == [
            "mappedFileSizeConsumeQueue",
            "maxHashSlotNum",
            "maxIndexNum",
        ]

    def test_it_says_how_to_install_a_whole_result(self, plain: FixtureStore, tmp_path: Path) -> None:
        report = rebuild_store(plain.root, plain.conf, tmp_path / "out")
        for word in ("consumequeue/ and index/", str(tmp_path / "out"), "stop the broker", "abort"):
            assert word in report.install_hint


class TestDryRun:
    """It counts, and leaves nothing."""

    def test_it_counts_like_the_real_run(self, plain: FixtureStore, tmp_path: Path) -> None:
        dry = json_object(rebuild_store(plain.root, plain.conf, tmp_path / "out", dry_run=True))
        assert list(tmp_path.iterdir()) == []
        real = json_object(rebuild_store(plain.root, plain.conf, tmp_path / "out"))
        for name in ("records", "bytes", "units", "indexEntries", "queues", "skipped", "exitStatus"):
            assert dry[name] == real[name]
        assert dry["out"] is None

    def test_it_needs_no_output(
        self, plain: FixtureStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
        report = rebuild_store(plain.root, plain.conf, None, dry_run=True)
        assert report.install_hint == ""
        assert list(tmp_path.iterdir()) == []


class TestCompare:
    """Bytes against the store's present files."""

    @pytest.fixture
    def root(self, plain: FixtureStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        (tmp_path / "scratch").mkdir()
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "scratch"))
        return plain.copy_to(tmp_path / "store")

    def test_equal_files_and_no_trace(self, plain: FixtureStore, root: Path, tmp_path: Path) -> None:
        before = fingerprint(tmp_path)
        report = rebuild_store(root, plain.conf, None, compare=True)
        assert (report.compared, report.differences) == (True, ())
        assert report.exit_status() == ExitStatus.CLEAN
        after = fingerprint(tmp_path)
        for name in (".", "scratch"):  # used in between
            del before[name], after[name]
        assert after == before

    def test_first_difference_of_each_file(self, plain: FixtureStore, root: Path) -> None:
        first, second, *_ = sorted(path for path in (root / "consumequeue").rglob("*") if path.is_file())
        index = sorted((root / "index").iterdir())[0]
        for path, position in ((first, 33), (index, 45)):
            data = bytearray(path.read_bytes())
            data[position] ^= 0xFF
            path.write_bytes(data)
        second.unlink()
        (second.parent / f"{10**9:020d}").write_bytes(b"\0" * 200)
        report = rebuild_store(root, plain.conf, None, compare=True)
        found = {difference.file: difference.position for difference in report.differences}
        assert found == {
            str(first.relative_to(root)): 33,
            str(index.relative_to(root)): 45,
            str(second.relative_to(root)): None,
            str((second.parent / f"{10**9:020d}").relative_to(root)): None,
        }
        assert report.exit_status() == ExitStatus.NEGATIVE
        assert report.exit_status("never") == ExitStatus.CLEAN

    def test_what_is_not_there_as_a_file_is_a_difference(
        self, plain: FixtureStore, root: Path, tmp_path: Path
    ) -> None:
        """A FIFO in place of a file, a backup copy: each is named, and no file is held against it."""
        queue = root / "consumequeue" / "Orders" / "0"
        first = min(queue.iterdir())
        first.unlink()
        os.mkfifo(first)
        (root / "index" / "0.bak").touch()
        found = rebuild_store(root, plain.conf, tmp_path / "out", compare=True).differences
        assert [(one.file, one.message.partition(";")[0]) for one in found] == [
            (str(first.relative_to(root)), "the store has no such file"),
            (str(first.relative_to(root)), "is a FIFO"),
            ("index/0.bak", "is not named by 17 digits"),
        ]
        assert compare_derived(plain.expected, tmp_path / "out") == []

    def test_links_are_followed_as_a_broker_does(
        self, plain: FixtureStore, root: Path, tmp_path: Path
    ) -> None:
        (root / "consumequeue" / "Orders").rename(tmp_path / "moved")
        (root / "consumequeue" / "Orders").symlink_to(tmp_path / "moved")
        assert rebuild_store(root, plain.conf, None, compare=True).differences == ()

    def test_what_cannot_be_read_is_a_difference_and_the_result_is_there(
        self, plain: FixtureStore, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A rebuild is for stores whose derived files are lost, to a bad disk perhaps."""
        first = min(path for path in (root / "consumequeue").rglob("*") if path.is_file())
        topic = root / "consumequeue" / "TopicTest"

        def preadv(descriptor: int, buffers: list[memoryview], position: int) -> int:
            if Path(f"/proc/self/fd/{descriptor}").samefile(first):
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            return real_preadv(descriptor, buffers, position)

        def scandir(place: str) -> object:
            if str(place) == str(topic):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(place))
            return real_scandir(place)

        real_preadv, real_scandir = os.preadv, os.scandir
        monkeypatch.setattr("rmqtool.io.local.os.preadv", preadv)
        found = rebuild_store(root, plain.conf, tmp_path / "one", compare=True)
        assert [(one.file, one.position, one.message) for one in found.differences] == [
            (str(first.relative_to(root)), 0, f"{first.stat().st_size} bytes at position 0 cannot be read")
        ]
        assert found.exit_status() == ExitStatus.NEGATIVE
        monkeypatch.setattr("rmqtool.io.local.os.scandir", scandir)
        found = rebuild_store(root, plain.conf, tmp_path / "two", compare=True)
        assert [one.file for one in found.differences] == ["consumequeue"]
        assert "TopicTest: cannot be listed" in found.differences[0].message
        for name in ("one", "two"):
            assert compare_derived(plain.expected, tmp_path / name) == []

    def test_a_rocksdb_queue_is_named(self, plain: FixtureStore, root: Path) -> None:
        """Not: all files are missing."""
        shutil.rmtree(root / "consumequeue")
        (root / "consumequeue").mkdir()
        for name in ("CURRENT", "MANIFEST-000001", "000004.sst"):
            (root / "consumequeue" / name).touch()
        (found,) = rebuild_store(root, plain.conf, None, compare=True).differences
        assert (found.file, found.message.split(",")[0]) == ("consumequeue", "is a RocksDB database")

    def test_the_present_files_are_read_without_a_trace(self, plain: FixtureStore, root: Path) -> None:
        """Not even the time of the last access."""
        files = [path for path in root.rglob("*") if path.is_file()]
        for path in files:
            os.utime(path, ns=(1, path.stat().st_mtime_ns))
        assert rebuild_store(root, plain.conf, None, compare=True).differences == ()
        assert {path.stat().st_atime_ns for path in files} == {1}

    def test_it_writes_and_then_compares(self, plain: FixtureStore, root: Path, tmp_path: Path) -> None:
        report = rebuild_store(root, plain.conf, tmp_path / "out", compare=True)
        assert (report.compared, report.differences) == (True, ())
        assert compare_derived(root, tmp_path / "out") == []


class TestPartial:
    """What the user leaves out is left out, and said."""

    @pytest.fixture
    def log(self, plain: FixtureStore) -> LogCopy:
        return LogCopy(plain.root)

    @pytest.mark.parametrize("glob", ["TopicA", "Topic*"])
    def test_topics_and_their_complement(self, glob: str, tmp_path: Path) -> None:
        store = fixture_store("delay-5.3.3")
        whole = json_object(rebuild_store(store.root, store.conf, tmp_path / "whole"))
        topics = [path.name for path in (store.root / "consumequeue").iterdir()]
        glob = topics[0] if glob == "TopicA" else glob
        kept = json_object(rebuild_store(store.root, store.conf, tmp_path / "kept", topics=(glob,)))
        left = json_object(rebuild_store(store.root, store.conf, tmp_path / "left", exclude_topics=(glob,)))
        assert kept["partial"]
        assert left["partial"]
        for name in ("units", "indexEntries", "queues", "records"):
            assert kept[name] + left[name] == whole[name], name
        both = [contents(tmp_path / name / "consumequeue") for name in ("kept", "left")]
        assert not both[0].keys() & both[1].keys()
        assert both[0] | both[1] == contents(store.root / "consumequeue")

    def test_until_an_offset(self, plain: FixtureStore, log: LogCopy, tmp_path: Path) -> None:
        """As if the log had ended there; nothing after counts as skipped."""
        stop = log.records[2][5]
        report = rebuild_store(plain.root, plain.conf, tmp_path / "out", until_offset=stop)
        assert compare_derived(_rebuilt_up_to(stop, plain, tmp_path), tmp_path / "out") == []
        assert json_object(report)["skipped"] == []
        assert report.exit_status() == ExitStatus.CLEAN
        assert (report.partial, report.install_hint) == (
            True,
            "This result is partial: a broker must not start on it.",
        )

    def test_until_a_time(self, plain: FixtureStore, log: LogCopy, tmp_path: Path) -> None:
        """What was stored in the millisecond given is still in."""
        places = [place for segment in log.records for place in segment]
        times = [log.head(place).store_timestamp_ms for place in places]
        last = times[len(times) // 2]
        stop = next(place for place, time in zip(places, times, strict=True) if time > last)
        report = rebuild_store(plain.root, plain.conf, tmp_path / "out", until_timestamp_ms=last)
        assert compare_derived(_rebuilt_up_to(stop, plain, tmp_path), tmp_path / "out") == []
        assert report.partial
        assert report.exit_status() == ExitStatus.CLEAN


def _rebuilt_up_to(stop: int, store: FixtureStore, folder: Path) -> Path:
    """Rebuild a copy of the store whose log is all zeros from an offset on."""
    root = store.copy_log_to(folder / "cut")
    log = LogCopy(root)
    for start, path in log.segments.items():
        kept = path.read_bytes()[: max(stop - start, 0)]
        path.write_bytes(kept.ljust(log.segment_size, b"\0"))
    rebuild_store(root, store.conf, folder / "cut-out")
    return folder / "cut-out"


class TestRefusals:
    """Nothing of anybody's is overwritten, and nothing is written into evidence."""

    def test_nothing_to_do(self, plain: FixtureStore) -> None:
        with pytest.raises(UsageError, match="nothing to do"):
            rebuild_store(plain.root, plain.conf, None)

    @pytest.mark.parametrize(
        ("properties", "says"),
        [
            (("maxIndexNum=1",), "maxIndexNum=1: must be at least 2"),
            (("maxHashSlotNum=500000000", "maxIndexNum=20000000"), "2400000040 bytes"),
        ],
    )
    def test_an_index_that_no_broker_can_have(
        self, properties: tuple[str, ...], says: str, plain: FixtureStore, tmp_path: Path
    ) -> None:
        """Said before the log is read; an index that is not made may have any size."""
        listener = Listener()
        out = tmp_path / "out"
        with pytest.raises(UsageError, match=says):
            rebuild_store(plain.root, plain.conf, out, properties=properties, listener=listener)
        assert listener.stages == []
        assert list(tmp_path.iterdir()) == []
        queues = frozenset({"consumequeue"})
        rebuild_store(plain.root, plain.conf, out, properties=properties, parts=queues)

    def test_an_occupied_output(self, plain: FixtureStore, tmp_path: Path) -> None:
        (tmp_path / "out").mkdir()
        (tmp_path / "out" / "mine").touch()
        before = fingerprint(tmp_path)
        with pytest.raises(RefusedError, match="choose another output"):
            rebuild_store(plain.root, plain.conf, tmp_path / "out")
        assert fingerprint(tmp_path) == before

    def test_an_empty_output_is_used(self, plain: FixtureStore, tmp_path: Path) -> None:
        (tmp_path / "out").mkdir()
        rebuild_store(plain.root, plain.conf, tmp_path / "out")
        assert compare_derived(plain.expected, tmp_path / "out") == []

    @pytest.mark.parametrize("where", ["store/out", "store/commitlog/out", "store", ".", "link/out"])
    @pytest.mark.parametrize("dry_run", [False, True])
    def test_inside_the_evidence_or_around_it(
        self, where: str, dry_run: bool, plain: FixtureStore, tmp_path: Path
    ) -> None:
        root = plain.copy_to(tmp_path / "store")
        (tmp_path / "link").symlink_to(root)
        before = fingerprint(tmp_path)
        with pytest.raises(RefusedError, match="evidence"):
            rebuild_store(root, plain.conf, tmp_path / where, dry_run=dry_run)
        assert fingerprint(tmp_path) == before

    def test_a_log_elsewhere_is_evidence_too(self, plain: FixtureStore, tmp_path: Path) -> None:
        root = plain.copy_to(tmp_path / "store")
        (root / "commitlog").rename(tmp_path / "elsewhere")
        given = (f"storePathCommitLog={tmp_path / 'elsewhere'}",)
        with pytest.raises(RefusedError, match="evidence"):
            rebuild_store(root, plain.conf, tmp_path / "elsewhere" / "out", properties=given)
        rebuild_store(root, plain.conf, tmp_path / "out", properties=given)
        assert compare_derived(plain.expected, tmp_path / "out") == []


def test_read_only_evidence_is_enough(plain: FixtureStore, tmp_path: Path) -> None:
    """Directories and files without any write permission, read by whoever runs this."""
    root = plain.copy_to(tmp_path / "store")
    for path in (root, *root.rglob("*")):
        path.chmod(0o555 if path.is_dir() else 0o444)
    before = fingerprint(root)
    rebuild_store(root, plain.conf, tmp_path / "out", compare=True)
    assert fingerprint(root) == before
    for path in (root, *root.rglob("*")):
        if path.is_dir():
            path.chmod(0o755)


def test_the_references_are_what_is_compared() -> None:
    """Every fixture has derived files to compare with, or a reason to have none."""
    empty = [
        store.name
        for store in fixture_stores()
        if not any((store.expected / name).is_dir() for name in DERIVED)
    ]
    assert empty == []
