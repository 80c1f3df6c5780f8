"""What the data source hands over is what the library reads, however logs are cut and filtered."""

from __future__ import annotations

import base64
import shutil
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

import rmqtool
from rmqtool.columns import COLUMNS
from rmqtool.errors import (
    EnvironmentFailureError,
    ExecutorCannotReachError,
    FileNotSharedError,
    SourceUnreachableError,
    UsageError,
)
from rmqtool.projection import json_object
from rmqtool.rows import Damage, Item, Unit
from rmqtool.spark import register
from rmqtool.spark.reading import LogTask, Part
from tests.extra import library
from tests.scan.log_builder import open_file, record
from tests.spark.tables import batches, source, struct_of, table
from tests.store.fixture_stores import STORES, fixture

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

ds = library("pyspark.sql.datasource")

pytestmark = pytest.mark.spark

PLAIN = fixture("plain-5.5.1")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NAMES = sorted(path.name for path in STORES.iterdir() if path.is_dir())
_TIMES = {"bornTimestamp", "storeTimestamp"}


def moment(ms: int) -> datetime:
    return _EPOCH + timedelta(milliseconds=ms)


def expected(path: Path) -> list[dict[str, Any]]:
    """Return the messages of a store as the library has them."""
    found = []
    for one in rmqtool.open(path).messages():
        told = {**json_object(one), "body": one.body, "store": str(path)}
        found.append(
            {name: moment(told[name]) if name in _TIMES else told[name] for name in (*COLUMNS, "store")}
        )
    return found


@pytest.mark.few(1)
@pytest.mark.parametrize("name", _NAMES)
def test_messages_of_every_store(name: str) -> None:
    assert table(STORES / name) == expected(STORES / name)


@pytest.mark.parametrize("split_bytes", [pytest.param("900", marks=pytest.mark.full), "5000"])
@pytest.mark.parametrize("name", ["plain-5.5.1", "crash-5.5.1"])
def test_any_cut_gives_the_same(name: str, split_bytes: str) -> None:
    assert table(fixture(name), splitBytes=split_bytes) == expected(fixture(name))
    damage = table(fixture(name), table="damage")
    assert table(fixture(name), table="damage", splitBytes=split_bytes) == damage


def test_several_stores_and_globs() -> None:
    other = fixture("unicode-5.5.1")
    wanted = expected(PLAIN) + expected(other)
    assert table(PLAIN, other) == wanted
    found = table(STORES / "[pu]*[ie]*-5.5.1", filters=[ds.In(("store",), (str(PLAIN), str(other)))])
    assert found == wanted
    with pytest.raises(EnvironmentFailureError, match="no match"):
        table(STORES / "none*")


def test_bodies_as_text() -> None:
    found = table(fixture("unicode-5.5.1"), body="text", columns="body,bodyEncoding")
    wanted = expected(fixture("unicode-5.5.1"))
    made: dict[str, Callable[[str], bytes]] = {"utf-8": str.encode, "base64": base64.b64decode}
    assert [made[one["bodyEncoding"]](one["body"]) for one in found] == [one["body"] for one in wanted]


def test_columns_are_pruned() -> None:
    wanted = [{"tags": one["tags"], "queueId": one["queueId"]} for one in expected(PLAIN)]
    assert table(PLAIN, columns="tags, queueid") == wanted
    assert table(PLAIN, ddl="`tags` string, `queueId` int") == wanted
    with pytest.raises(UsageError, match=r"no column 'tag' here; did you mean tags\?"):
        table(PLAIN, columns="tag")
    with pytest.raises(UsageError, match="the column queueId is int, not bigint; cast it after reading"):
        table(PLAIN, ddl="`queueId` bigint")


def test_consume_queues() -> None:
    units = (one for one in rmqtool.open(PLAIN).dump() if isinstance(one, Unit))
    wanted = [{**json_object(one), "store": str(PLAIN)} for one in units]
    assert table(PLAIN, table="consumequeue", splitBytes="2000") == wanted
    found = table(PLAIN, table="consumequeue", topic="TopicTest", queue="1", fromQueueOffset="3")
    assert found == [
        one
        for one in wanted
        if (one["topic"], one["queueId"]) == ("TopicTest", 1) and one["queueOffset"] >= 3
    ]
    with pytest.raises(UsageError, match="the option key does not apply to the table consumequeue"):
        table(PLAIN, table="consumequeue", key="x")


def test_index() -> None:
    items = (one for one in rmqtool.open(PLAIN).dump() if isinstance(one, Item))
    wanted = [json_object(one) | {"store": str(PLAIN)} for one in items]
    assert table(PLAIN, table="index") == [
        {name: text for name, text in one.items() if name != "type"} for one in wanted
    ]


def test_segments() -> None:
    first, *_ = found = table(PLAIN, table="segments")
    assert [one["physicalOffset"] for one in found] == [8192 * number for number in range(len(found))]
    assert first["firstStoreTimestamp"] == expected(PLAIN)[0]["storeTimestamp"]
    assert {one["sizeBytes"] for one in found} == {8192}


def damaged(folder: Path) -> Path:
    """Return a log whose first body has a wrong checksum, and with a stretch of zeros."""
    log = folder / "store" / "commitlog"
    log.mkdir(parents=True)
    data = bytearray((PLAIN / "commitlog" / f"{0:020}").read_bytes())
    data[150] ^= 1
    data[4000:4400] = bytes(400)
    (log / f"{0:020}").write_bytes(data)
    return log


def test_modes(tmp_path: Path) -> None:
    log = damaged(tmp_path)
    found = table(log)
    assert found == expected(log)
    assert found[0]["damage"] == ["CL-CRC"]
    assert table(log, mode="DROPMALFORMED") == found[1:]
    assert table(log, mode="dropMalformed", columns="tags") == [{"tags": one["tags"]} for one in found[1:]]
    with pytest.raises(
        EnvironmentFailureError, match=r"0{20} at 0 \(physical offset 0\): CL-CRC: .*PERMISSIVE"
    ):
        table(log, mode="FAILFAST")
    assert table(PLAIN, mode="FAILFAST") == expected(PLAIN)


@pytest.mark.parametrize("split_bytes", ["4100", "1000"])
def test_damage_is_told_once(split_bytes: str, tmp_path: Path) -> None:
    log = damaged(tmp_path)
    wanted = [one.finding() for one in rmqtool.open(log).dump() if isinstance(one, Damage)]
    found = table(log, table="damage", splitBytes=split_bytes)
    assert [(one["code"], one["physicalOffset"], one["length"], one["message"]) for one in found] == [
        (one.code.code, one.physical_offset, one.length, one.sentence) for one in wanted
    ]


_TIME = moment(1_795_279_096_850)
_FILTERS: dict[str, tuple[Any, Callable[[dict[str, Any]], bool]]] = {
    "topic": (ds.EqualTo(("topic",), "TopicTest"), lambda row: row["topic"] == "TopicTest"),
    "topics": (
        ds.In(("topic",), ("TopicTest", "%DLQ%billing", "none")),
        lambda row: row["topic"] in {"TopicTest", "%DLQ%billing"},
    ),
    "topic or null": (ds.In(("topic",), ("TopicTest", None)), lambda row: row["topic"] == "TopicTest"),
    "glob": (ds.EqualTo(("topic",), "Topic*"), lambda row: row["topic"] == "Topic*"),
    "queue": (ds.EqualTo(("queueId",), 1), lambda row: row["queueId"] == 1),
    "after": (ds.GreaterThan(("storeTimestamp",), _TIME), lambda row: row["storeTimestamp"] > _TIME),
    "from": (ds.GreaterThanOrEqual(("storeTimestamp",), _TIME), lambda row: row["storeTimestamp"] >= _TIME),
    "before": (ds.LessThan(("storeTimestamp",), _TIME), lambda row: row["storeTimestamp"] < _TIME),
    "until": (ds.LessThanOrEqual(("storeTimestamp",), _TIME), lambda row: row["storeTimestamp"] <= _TIME),
    "at": (ds.EqualTo(("storeTimestamp",), _TIME), lambda row: row["storeTimestamp"] == _TIME),
    "inside a millisecond": (
        ds.GreaterThan(("storeTimestamp",), _TIME - timedelta(microseconds=1)),
        lambda row: row["storeTimestamp"] >= _TIME,
    ),
    "queue offset": (ds.GreaterThan(("queueOffset",), 3), lambda row: row["queueOffset"] > 3),
    "stated": (ds.IsNotNull(("topic",)), lambda _: True),
    "elsewhere": (ds.EqualTo(("store",), "x"), lambda _: False),
}


@pytest.mark.few(4)
@pytest.mark.parametrize("case", _FILTERS)
def test_filters_that_are_taken_are_applied(case: str) -> None:
    one, fits = _FILTERS[case]
    made = source(PLAIN, pushFilters="true")
    reader = made.reader(struct_of(made.schema()))
    assert list(reader.pushFilters([one])) == []
    assert table(PLAIN, filters=[one]) == [row for row in expected(PLAIN) if fits(row)]


@pytest.mark.parametrize(
    ("one", "least"),
    [
        (ds.GreaterThanOrEqual(("physicalOffset",), 9000), 9000),
        (ds.EqualTo(("queueOffset",), 3), 0),
        (ds.StringStartsWith(("topic",), "Topic"), 0),
        (ds.Not(ds.EqualTo(("topic",), "TopicTest")), 0),
    ],
    ids=["place", "one queue offset", "start", "not"],
)
def test_filters_that_spark_applies_too_only_narrow(one: Any, least: int) -> None:  # noqa: ANN401
    made = source(PLAIN, pushFilters="true")
    reader = made.reader(struct_of(made.schema()))
    assert list(reader.pushFilters([one])) == [one]
    found = batches(reader, reader.partitions())
    offsets = [row["physicalOffset"] for batch in found for row in batch.to_pylist()]
    assert min(offsets) >= least
    assert len(offsets) <= len(expected(PLAIN))


@pytest.mark.full
def test_filters_and_options_hold_together() -> None:
    both = [ds.EqualTo(("topic",), "TopicTest"), ds.EqualTo(("queueId",), 1)]
    wanted = [one for one in expected(PLAIN) if (one["topic"], one["queueId"]) == ("TopicTest", 1)]
    assert table(PLAIN, filters=both) == wanted != []
    assert table(PLAIN, filters=both[1:], topic="Topic*") == wanted
    assert table(PLAIN, filters=[both[0], ds.EqualTo(("topic",), "x")]) == []


def test_an_impossible_time_is_null(tmp_path: Path) -> None:
    log = tmp_path / "commitlog"
    log.mkdir()
    (log / f"{0:020}").write_bytes(record(0, storeTimestamp=1 << 61).ljust(1000, b"\0"))
    assert [one["storeTimestamp"] for one in table(log)] == [None]
    assert table(log, filters=[ds.GreaterThan(("storeTimestamp",), _TIME)]) == []


def test_what_only_looks_like_a_record_is_no_boundary(tmp_path: Path) -> None:
    """A body holds a record that states its own place, where a task begins."""
    log = tmp_path / "commitlog"
    log.mkdir()
    head = len(record(0, body=b""))
    inner = record(1000, body=b"inner")
    body = bytes(1000 - head + len(b"TopicTest")) + bytes(200)
    for shift in range(200):
        trial = body[:shift] + bytes(len(body) - shift)
        start = record(0, body=trial + inner + bytes(100)).index(inner)
        if start == 1000:
            break
        body = body[:-1]
    data = open_file(0, 4000, [body + inner + bytes(100), b"next"])
    assert data.index(inner) == 1000
    (log / f"{0:020}").write_bytes(data)
    assert len(table(log)) == 2
    with pytest.raises(EnvironmentFailureError, match=r"looks like a record.*splitBytes.* to 4000"):
        table(log, splitBytes="1000")


@pytest.mark.full
def test_a_record_that_says_it_lies_elsewhere_is_read_once(tmp_path: Path) -> None:
    """Wherever tasks are cut: it follows the record before it, and is nobody's first."""
    log = tmp_path / "commitlog"
    log.mkdir()
    size = len(record(0))
    places = [0, size, 7 * size, 9 * size, 4 * size, 5 * size]
    (log / f"{0:020}").write_bytes(b"".join(map(record, places)).ljust(1000 + 6 * size, b"\0"))
    wanted = expected(log)
    assert [one["physicalOffset"] for one in wanted] == places
    for split_bytes in (size, 2 * size, 3 * size, size + 1, 2 * size + 20):
        assert table(log, splitBytes=str(split_bytes)) == wanted


def test_another_copy_is_refused(tmp_path: Path) -> None:
    """What the proofs of the engine tell apart, as where the executor is another machine."""
    log = damaged(tmp_path)
    made = source(log)
    reader = made.reader(struct_of(made.schema()))
    (partition,) = reader.partitions()
    task = partition.value.task
    proofs = {name: proof._replace(kernel="") for name, proof in task.proofs.items()}
    partition.value = Part(partition.value.store, task._replace(proofs=proofs))
    assert len(batches(reader, [partition])) > 0
    shutil.copyfile(PLAIN / "commitlog" / f"{8192:020}", log / f"{0:020}")
    with pytest.raises(FileNotSharedError, match="sees another"):
        batches(reader, [partition])


def test_an_executor_that_reaches_no_object_store_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def rows(_task: LogTask) -> None:
        raise SourceUnreachableError("s3://bucket/store/commitlog", "no answer; see the manual", "no answer")

    monkeypatch.setattr(LogTask, "__call__", rows)
    made = source(PLAIN)
    reader = made.reader(struct_of(made.schema()))
    with pytest.raises(
        ExecutorCannotReachError, match=r"executor \S+ cannot reach s3://bucket \(no answer\): it needs"
    ):
        batches(reader, reader.partitions())


def test_without_pyarrow_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rmqtool.columns.find_spec", lambda _: None)
    with pytest.raises(
        EnvironmentFailureError, match=r"pyarrow is not installed: pip install 'rmqtool\[arrow\]'"
    ):
        source(PLAIN)
    with pytest.raises(EnvironmentFailureError, match="pyarrow is not installed"):
        register(object())
