"""What is read by way of queues, index and times is what a walk over the whole log finds."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import pytest

import rmqtool
from rmqtool.columns import pieces
from rmqtool.columns.pieces import CLOCK_SLACK_MS, ReadLimits, ranges_of
from rmqtool.commands.dump import run as dump_run
from rmqtool.commands.export import run as export_plan
from rmqtool.progress import NullProgress
from rmqtool.rows.messages import MessageFilter
from rmqtool.scan.classify import FoundEdge
from rmqtool.scan.record_walk import walk_log
from rmqtool.scan.records import Record
from rmqtool.store import open_store
from tests.builders import LogBuilder
from tests.damage.cases import Case, one_of_each_code
from tests.damage.running import damaged_copy
from tests.extra import library
from tests.store.fixture_stores import STORES, fixture

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from rmqtool.rows.log_splits import Ranges
    from rmqtool.store import Store

pq = library("pyarrow.parquet")

EAGER = ReadLimits(least_bytes=0, join_bytes=0, window_bytes=20_000, least_units=2, most_read=1.0)
STORE_NAMES = sorted(path.name for path in STORES.iterdir() if path.is_dir())
CASES = [one for one in one_of_each_code() if one.code[:3] in {"CL-", "CQ-", "BQ-", "IX-", "LMQ"}]
PLAIN = fixture("plain-5.5.1")


def all_records(store: Store) -> list[Record]:
    return [one for one in walk_log(FoundEdge.of(store)) if isinstance(one, Record)]


def filters_of(records: list[Record]) -> Iterator[MessageFilter]:
    """Yield filters that some records fit: topics, queues, ranges and keys."""
    for topic in sorted({one.topic for one in records})[:5]:
        yield MessageFilter(topic=topic)
    for one in (*records[:1], *records[len(records) // 2 :][:1], *records[-1:]):
        queue_id, number = one.head.queue_id, one.head.queue_offset
        yield MessageFilter(topic=one.topic, queue_id=queue_id, from_queue_offset=number)
        yield MessageFilter(queue_id=queue_id, from_queue_offset=number + 1)
        key = one.properties.get("KEYS", "").split(" ")[0] or one.properties.get("UNIQ_KEY")
        if key:
            yield MessageFilter(topic=one.topic, key=key)
            yield MessageFilter(key=key)


def found_in(store: Store, wanted: MessageFilter, ranges: Ranges) -> list[int]:
    """Return where the messages lie that plain Python meets in ranges."""
    edge, found = FoundEdge.of(store), []
    for start, stop in ranges:
        events = (one for one in walk_log(edge, start, stop) if isinstance(one, Record))
        found += [one.physical_offset for one in events if wanted.admits(one)]
    return found


def assert_nothing_is_missed(store: Store) -> int:
    """Compare both ways for all filters; return how many bytes were not read."""
    records, saved = all_records(store), 0
    for wanted in filters_of(records):
        ranges = ranges_of(store, wanted, None, None, NullProgress(), EAGER)
        if ranges is None:
            continue
        expected = [one.physical_offset for one in records if wanted.admits(one)]
        assert found_in(store, wanted, ranges) == expected, wanted
        saved += store.commitlog.size_bytes - sum(stop - start for start, stop in ranges)
    return saved


@pytest.mark.full
@pytest.mark.parametrize("name", STORE_NAMES)
def test_every_store(name: str) -> None:
    assert_nothing_is_missed(open_store(STORES / name))


@pytest.mark.full
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.code)
def test_every_damage(case: Case, tmp_path: Path) -> None:
    root = damaged_copy(case, tmp_path)
    assert_nothing_is_missed(open_store(root, properties=case.properties or ()))


def test_much_is_not_read() -> None:
    store = open_store(PLAIN)
    total = store.commitlog.size_bytes
    assert assert_nothing_is_missed(store) > total
    wanted = MessageFilter(key=all_records(store)[0].properties["UNIQ_KEY"])
    assert ranges_of(store, wanted, None, None, NullProgress(), EAGER) is None


def test_a_part_of_a_store_is_read_as_a_whole(tmp_path: Path) -> None:
    wanted = MessageFilter(topic=all_records(open_store(PLAIN))[0].topic)
    assert ranges_of(open_store(PLAIN), wanted, None, None, NullProgress(), EAGER)
    for path in ("commitlog", "elsewhere"):
        shutil.copytree(PLAIN / "commitlog", tmp_path / "elsewhere", dirs_exist_ok=True)
        log = tmp_path / path if path == "elsewhere" else PLAIN / path
        assert ranges_of(open_store(log), wanted, None, None, NullProgress(), EAGER) is None
    assert ranges_of(open_store(PLAIN), wanted, None, None, NullProgress()) is None  # as small as it is


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look at queues however small the log is, and cut it into many pieces."""
    monkeypatch.setattr(pieces, "ReadLimits", lambda: EAGER)
    monkeypatch.setattr(dump_run, "LARGE_LOG_BYTES", 0)
    monkeypatch.setattr(pieces, "COLUMN_SPLIT_BYTES", 2000)
    monkeypatch.setattr(export_plan, "TASK_BYTES", 3000)


WAYS: list[dict[str, Any]] = [{"topic": "TopicTest"}, {"topic": "Orders", "queue": 1, "from_queue_offset": 2}]


@pytest.mark.parametrize("asked", WAYS, ids="-".join)
@pytest.mark.usefixtures("eager")
def test_columns_and_files(asked: dict[str, Any], tmp_path: Path) -> None:
    expected = [one.physical_offset for one in rmqtool.open(PLAIN / "commitlog").messages(**asked)]
    found = rmqtool.open(PLAIN).messages(**asked)
    assert found.to_arrow(["physicalOffset"])["physicalOffset"].to_pylist() == expected != []
    report = rmqtool.export(rmqtool.open(PLAIN), tmp_path / "out", columns=["physicalOffset"], **asked)
    table = pq.read_table(tmp_path / "out")
    assert sorted(table["physicalOffset"].to_pylist()) == expected
    assert 0 < report.log_bytes < rmqtool.open(PLAIN).files.commitlog.size_bytes


@pytest.mark.spark
@pytest.mark.parametrize("asked", WAYS, ids="-".join)
@pytest.mark.usefixtures("eager")
def test_partitions_of_spark(asked: dict[str, Any]) -> None:
    from tests.spark.tables import table

    options = {
        name.replace("from_queue_offset", "fromQueueOffset"): str(value) for name, value in asked.items()
    }
    found = table(PLAIN, splitBytes="3000", **options)
    expected = [one.physical_offset for one in rmqtool.open(PLAIN / "commitlog").messages(**asked)]
    assert sorted(one["physicalOffset"] for one in found) == expected


@pytest.fixture
def timed(tmp_path: Path) -> Callable[[list[int]], Store]:
    """Make a store whose files begin at these hours, each with one message."""

    def make(hours: list[int]) -> Store:
        builder = LogBuilder(512)
        for hour in hours:
            builder.add(storeTimestamp=hour * CLOCK_SLACK_MS, body=bytes(300))
        (tmp_path / "consumequeue").mkdir()
        (tmp_path / "commitlog").mkdir()
        for start, data in builder.files().items():
            (tmp_path / "commitlog" / f"{start:020d}").write_bytes(data)
        return open_store(tmp_path)

    return make


@pytest.mark.parametrize(
    ("hours", "begin", "end", "files"),
    [
        ([10, 20, 30, 40], 25, 26, [1]),
        ([10, 20, 30, 40], 21, 26, [0, 1]),  # an hour may be the clock's
        ([10, 20, 30, 40], 30, None, [1, 2, 3]),
        ([10, 20, 30, 40], None, 8, []),
        ([10, 20, 30, 40], 90, None, [3]),
        ([10, 30, 20, 40], 25, 26, None),
    ],
)
def test_times(
    timed: Callable[[list[int]], Store],
    hours: list[int],
    begin: int | None,
    end: int | None,
    files: list[int] | None,
) -> None:
    bounds = [None if one is None else one * CLOCK_SLACK_MS for one in (begin, end)]
    wanted = MessageFilter(begin_ms=bounds[0], end_ms=bounds[1])
    found = ranges_of(timed(hours), wanted, None, None, NullProgress(), EAGER)
    assert found == (None if files is None else tuple((512 * one, 512 * one + 512) for one in files))
