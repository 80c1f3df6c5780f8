"""What is new in growing logs comes once, in batches of any size, whatever is asked again."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import pytest

from rmqtool.errors import EnvironmentFailureError, UsageError
from tests.extra import library
from tests.scan.log_builder import open_file, record
from tests.spark.tables import batches, sent, source, struct_of
from tests.spark.test_tables import PLAIN, expected

if TYPE_CHECKING:
    from pathlib import Path

    from rmqtool.spark.admission import AdmittingStreamReader
    from rmqtool.spark.stream import StoreStreamReader

stream_module = library("rmqtool.spark.stream")
limits = library("pyspark.sql.streaming.datasource")

pytestmark = pytest.mark.spark

FILES = sorted((PLAIN / "commitlog").iterdir())
EVERYTHING = limits.ReadAllAvailable()


def stream(path: Path, **options: str) -> AdmittingStreamReader:
    made = source(path, **options)
    reader: AdmittingStreamReader = made.streamReader(struct_of(made.schema()))
    return reader


def unbounded(path: Path, **options: str) -> StoreStreamReader:
    """Return what Spark 4.0 and 4.1 are given."""
    made = source(path, **options)
    reader: StoreStreamReader = stream_module.StoreStreamReader(made.read_options, struct_of(made.schema()))
    return reader


def rows_between(reader: StoreStreamReader, start: dict[str, int], end: dict[str, int]) -> list[Any]:
    """Return what a batch holds; offsets travel as JSON."""
    start, end = json.loads(json.dumps([start, end]))
    found = batches(reader, reader.partitions(start, end))
    return [row for batch in found for row in batch.to_pylist(maps_as_pydicts="strict")]


def store_of(folder: Path, files: list[Path]) -> Path:
    log = folder / "store" / "commitlog"
    log.mkdir(parents=True, exist_ok=True)
    for path in files:
        shutil.copyfile(path, log / path.name)
    return log.parent


@pytest.mark.few(1)
@pytest.mark.parametrize("most", [pytest.param(1, marks=pytest.mark.full), 3000, 100_000])
def test_every_message_comes_once(most: int, tmp_path: Path) -> None:
    limit, found, ends = limits.ReadMaxBytes(most), [], []
    store = store_of(tmp_path, FILES[:1])
    offsets = stream(store).initialOffset()
    for some in (FILES[:2], FILES[2:3]):
        store_of(tmp_path, some)
        while (end := stream(store).latestOffset(offsets, limit)) != offsets:
            assert sum(end.values()) - sum(offsets.values()) <= most + 3000
            found += rows_between(stream(store, splitBytes="2000"), offsets, end)
            offsets = end
            ends.append(end)
    wanted = expected(store)
    assert found == wanted
    assert len(ends) >= min(len(wanted), 20_000 // most)
    assert rows_between(stream(store), ends[0], ends[-1]) == found[len(rows_before(store, ends[0])) :]


def rows_before(store: Path, end: dict[str, int]) -> list[Any]:
    return rows_between(stream(store), stream(store).initialOffset(), end)


def test_without_bounds_a_batch_is_all_there_is(tmp_path: Path) -> None:
    """Spark asks for the end alone; when it starts again, first for the partitions of no batch."""
    store, found = store_of(tmp_path, FILES[:1]), []
    reader = unbounded(store)
    end = reader.latestOffset()
    offsets = reader.initialOffset()
    for some in (FILES[1:2], FILES[2:3]):
        found += rows_between(reader, offsets, end)
        store_of(tmp_path, some)
        reader = unbounded(store)
        assert rows_between(reader, end, end) == []
        offsets, end = end, reader.latestOffset()
    assert found + rows_between(reader, offsets, end) == expected(store)
    assert reader.latestOffset() == end
    (store / "commitlog" / FILES[2].name).unlink()
    with pytest.raises(EnvironmentFailureError, match=r"its log ends at 16384, and was read up to"):
        reader.latestOffset()
    tolerant = unbounded(store, failOnDataLoss="false")
    assert rows_between(tolerant, end, end) == []
    assert tolerant.latestOffset() == end


def test_available_now_is_what_is_there(tmp_path: Path) -> None:
    reader = stream(store_of(tmp_path, FILES[:2]), maxBytesPerTrigger="3000")
    reader.prepareForTriggerAvailableNow()
    wanted = expected(tmp_path / "store")
    store_of(tmp_path, FILES[2:])
    assert reader.getDefaultReadLimit() == limits.ReadMaxBytes(3000)
    offsets, found = reader.initialOffset(), []
    while (end := reader.latestOffset(offsets, reader.getDefaultReadLimit())) != offsets:
        found += rows_between(sent(reader), offsets, end)
        offsets = end
    assert found == wanted


def test_what_is_there_already_can_be_left_out(tmp_path: Path) -> None:
    store = store_of(tmp_path, FILES[:2])
    start = stream(store, startingOffsets="latest").initialOffset()
    count = len(expected(store))
    store_of(tmp_path, FILES[2:])
    reader = stream(store)
    assert rows_between(reader, start, reader.latestOffset(start, EVERYTHING)) == expected(store)[count:]


def test_a_record_that_is_half_written_waits(tmp_path: Path) -> None:
    log = tmp_path / "commitlog"
    log.mkdir()
    whole = open_file(0, 4000, [b"one", b"two"])
    first = len(record(0, body=b"one"))
    half = bytearray(whole)
    half[half.index(b"two")] ^= 1
    (log / f"{0:020}").write_bytes(half)
    reader = stream(log)
    start = reader.initialOffset()
    end = reader.latestOffset(start, EVERYTHING)
    assert list(end.values()) == [first]
    (log / f"{0:020}").write_bytes(whole)
    assert [one["body"] for one in rows_between(reader, start, end)] == [b"one"]
    last = reader.latestOffset(end, EVERYTHING)
    assert [one["body"] for one in rows_between(reader, end, last)] == [b"two"]
    assert reader.latestOffset(last, EVERYTHING) == last


def test_what_is_lost_is_said(tmp_path: Path) -> None:
    store = store_of(tmp_path, FILES[:3])
    reader, tolerant = stream(store), stream(store, failOnDataLoss="false")
    start = reader.initialOffset()
    end = reader.latestOffset(start, EVERYTHING)
    (store / "commitlog" / FILES[0].name).unlink()
    with pytest.raises(
        EnvironmentFailureError, match="its log begins at 8192, and was read up to 0; set failOn"
    ):
        reader.partitions(start, end)
    assert rows_between(tolerant, start, end) == expected(store)
    (store / "commitlog" / FILES[2].name).unlink()
    with pytest.raises(EnvironmentFailureError, match=r"its log ends at 16384, and was read up to"):
        reader.latestOffset(end, EVERYTHING)
    assert tolerant.latestOffset(end, EVERYTHING) == end


def test_what_is_lost_is_said_of_what_is_there_now_too(tmp_path: Path) -> None:
    store = store_of(tmp_path, FILES[:3])
    end = stream(store).latestOffset(stream(store).initialOffset(), EVERYTHING)
    (store / "commitlog" / FILES[2].name).unlink()
    reader = stream(store)
    reader.prepareForTriggerAvailableNow()
    with pytest.raises(EnvironmentFailureError, match=r"its log ends at 16384, and was read up to"):
        reader.latestOffset(end, EVERYTHING)


@pytest.mark.parametrize("stop", [20_000, 19_973])
def test_a_stream_may_end_amid_a_record(stop: int) -> None:
    """It begins before the end, so it belongs to it, as in batches; the other is a record's first byte."""
    reader = stream(PLAIN, toOffset=str(stop), maxBytesPerTrigger="3000")
    offsets, found = reader.initialOffset(), []
    while (end := reader.latestOffset(offsets, reader.getDefaultReadLimit())) != offsets:
        found += rows_between(reader, offsets, end)
        offsets = end
    assert found == [row for row in expected(PLAIN) if row["physicalOffset"] < stop]


def test_only_messages_are_a_stream_and_all_of_them() -> None:
    with pytest.raises(UsageError, match="a stream has messages, not the table index"):
        stream(PLAIN, table="index")
    with pytest.raises(UsageError, match="Spark hands a stream no filters"):
        stream(PLAIN, pushFilters="true")
