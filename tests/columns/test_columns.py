"""Columns that kernels fill are, value by value, the rows of plain Python."""

from __future__ import annotations

import shutil
import zlib
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rmqtool import rows
from rmqtool.columns import COLUMNS, EARLIEST_MS, LATEST_MS, ColumnChoice, column_names, encoder
from rmqtool.columns.arrow import Batches, schema_of
from rmqtool.columns.encoder import ColumnJob, filled
from rmqtool.errors import UsageError
from rmqtool.javacompat import read_delay_levels
from rmqtool.progress import RecordingProgress
from rmqtool.projection import columns_of, json_object
from rmqtool.rows.bodies import decompressed
from rmqtool.rows.log_splits import log_pieces
from rmqtool.rows.messages import MessageFilter, MessageRows
from rmqtool.scan.record_walk import walk
from rmqtool.scan.records import Record
from rmqtool.store import open_store
from tests.extra import library
from tests.scan.log_builder import open_file, record
from tests.store.fixture_stores import STORES
from tests.strategies import examples, message_properties

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from rmqtool.store import FileQueue

pa = library("pyarrow")

pytestmark = pytest.mark.full

LEVELS = read_delay_levels("1s 5s")
_GROUPS = st.sampled_from([b"\0\0", b"\0\1", b"\xff\xff", b"\x20\x01", b"\0\xab", b"\x0f\0"])
addresses = st.tuples(*2 * (st.lists(_GROUPS, min_size=8, max_size=8).map(b"".join),))
STORE_NAMES = sorted(path.name for path in STORES.iterdir() if path.is_dir())
_NO_COLUMNS = {"type", "bodyEncoding", "explanation"}
EVERYTHING = MessageFilter()
ALL = ColumnChoice()


def log_of(path: Path) -> FileQueue:
    return open_store(path).commitlog


def table_of(found: Iterable[rows.Row], choice: ColumnChoice = ALL) -> list[dict[str, Any]]:
    """Return the messages among what was found, timestamps as numbers."""
    batches = Batches(choice)
    table = pa.Table.from_batches(
        (batches.batch(one) for one in found if isinstance(one, rows.Columns)), schema=schema_of(choice)
    )
    table.validate(full=True)
    for number, field in enumerate(table.schema):
        if pa.types.is_timestamp(field.type):
            table = table.set_column(number, field.name, table[field.name].cast(pa.int64()))
    return [{**one, "properties": dict(one.get("properties", ()))} for one in table.to_pylist()]


def damage_of(found: Iterable[rows.Row]) -> list[rows.Row]:
    return [one for one in found if not isinstance(one, rows.Columns | rows.Message)]


def by_rows(job: ColumnJob) -> list[rows.Row]:
    make = MessageRows(job.log, job.delay_levels)
    events = walk(job.log.segments, job.begin, job.end)
    return [make.row(one) for one in events if not isinstance(one, Record) or job.messages.admits(one)]


def objects_of(found: Iterable[rows.Row]) -> list[dict[str, Any]]:
    """Return messages as they are in ndjson, but for the body; a time of no calendar is null in a table."""
    messages = (one for one in found if isinstance(one, rows.Message))
    wanted = (json_object(one) | {"body": one.body} for one in messages)
    return [{name: _in_table(name, one[name]) for name in COLUMNS} for one in wanted]


def _in_table(name: str, value: Any) -> Any:  # noqa: ANN401 - any value of a message
    is_null = name.endswith("Timestamp") and value is not None and not EARLIEST_MS <= value <= LATEST_MS
    return None if is_null else value


def assert_equal(job: ColumnJob) -> None:
    by_kernels, expected = list(filled(log_pieces(job), job.choice)), by_rows(job)
    assert table_of(by_kernels) == objects_of(expected)
    assert damage_of(by_kernels) == damage_of(expected)


def test_columns_are_those_of_messages() -> None:
    assert list(COLUMNS) == [name for name in columns_of(rows.Message) if name not in _NO_COLUMNS]


@pytest.mark.few(6)
@pytest.mark.parametrize("name", STORE_NAMES)
def test_every_store(name: str) -> None:
    assert_equal(ColumnJob(log_of(STORES / name), LEVELS, EVERYTHING, ALL, split_bytes=3000))


@pytest.mark.few(6)
@pytest.mark.parametrize("name", STORE_NAMES)
def test_rows_of_every_store_as_columns(name: str) -> None:
    job = ColumnJob(log_of(STORES / name), LEVELS, EVERYTHING, ALL)
    found = by_rows(job)
    assert table_of(filled(found, ALL)) == objects_of(found)


@pytest.mark.parametrize("column", COLUMNS)
def test_one_column_alone(column: str) -> None:
    job = ColumnJob(log_of(STORES / "plain-5.3.3"), LEVELS, EVERYTHING, ColumnChoice((column,)))
    found = table_of(log_pieces(job), job.choice)
    assert [one[column] for one in found] == [one[column] for one in objects_of(by_rows(job))]


@pytest.mark.parametrize(
    "wanted",
    [
        MessageFilter(topic="TopicTest"),
        MessageFilter(topic="Orders", queue_id=7),
        MessageFilter(tag="TagB"),
        MessageFilter(from_queue_offset=5),
        MessageFilter(topic="*T??t"),
        MessageFilter(key="order-3"),
    ],
)
@pytest.mark.parametrize(("begin", "end"), [(0, None), (300, 12_345), (8192, 16_384)])
def test_filters_and_ranges(wanted: MessageFilter, begin: int, end: int | None) -> None:
    log = log_of(STORES / "plain-4.9.8")
    assert_equal(ColumnJob(log, LEVELS, wanted, ALL, begin=begin, end=end, split_bytes=1000))


@examples(30)
@given(
    st.lists(st.tuples(st.integers(0, 30_000), st.binary(min_size=0, max_size=300)), max_size=4),
    st.sampled_from([700, 5000, 1 << 20]),
)
@example([(2047, b"\x00\x01")], 700)  # a store time of no calendar
def test_damage_anywhere(
    tmp_path_factory: pytest.TempPathFactory, edits: list[tuple[int, bytes]], split_bytes: int
) -> None:
    folder = tmp_path_factory.mktemp("log") / "commitlog"
    shutil.copytree(STORES / "plain-4.9.8" / "commitlog", folder)
    files = sorted(folder.iterdir())
    for place, data in edits:
        path = files[place // 8192 % len(files)]
        content = bytearray(path.read_bytes())
        content[place % 8192 : place % 8192 + len(data)] = data
        path.write_bytes(content[:8192])
    assert_equal(ColumnJob(log_of(folder), LEVELS, EVERYTHING, ALL, split_bytes=split_bytes))


@examples(50)
@given(
    st.lists(
        st.tuples(
            st.binary(max_size=40) | st.text(max_size=20).map(lambda text: text.encode("utf-8", "replace")),
            message_properties(hostile=True) | st.binary(max_size=60),
            st.sampled_from([b"TopicTest", b'a"b', b"x\x7f", "订单".encode(), b"\xff", b"", b"%RETRY%g"]),
            st.sampled_from([0, 0x10, 0x20, 0x30, 0x8, 0xC0]),
            addresses,
        ),
        max_size=8,
    )
)
def test_hostile_messages(tmp_path_factory: pytest.TempPathFactory, messages: list[Any]) -> None:
    folder = tmp_path_factory.mktemp("log") / "commitlog"
    folder.mkdir()
    data = b""
    for body, properties, topic, sys_flag, (born, stored) in messages:
        hosts = {
            "bornHost": {"address": born if sys_flag & 0x10 else born[:4], "port": -1},
            "storeHost": {"address": stored if sys_flag & 0x20 else stored[:4], "port": 10911},
        }
        data += record(len(data), body=body, properties=properties, topic=topic, sysFlag=sys_flag, **hosts)
    (folder / f"{0:020d}").write_bytes(data + bytes(64))
    assert_equal(ColumnJob(log_of(folder), LEVELS, EVERYTHING, ALL, split_bytes=500))


def test_little_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches of few messages, and texts that need more room than there is."""
    monkeypatch.setattr(encoder, "BATCH_ROWS", 3)
    monkeypatch.setattr(encoder, "BATCH_BYTES", 64)
    job = ColumnJob(log_of(STORES / "plain-5.3.3"), LEVELS, EVERYTHING, ALL)
    assert_equal(job)
    assert max(one.count for one in log_pieces(job) if isinstance(one, rows.Columns)) == 3


@pytest.mark.parametrize("name", ["body", "bodyLength"])
def test_bodies_unpacked(tmp_path: Path, name: str) -> None:
    """What is compressed is unpacked; what cannot be is left, and that is said."""
    log = b""
    for body in (zlib.compress(b"ab" * 50), b"no zlib", zlib.compress(b"c")):
        log += record(len(log), body=body, sysFlag=1)
    log += record(len(log), body=b"plain")
    (tmp_path / f"{0:020}").write_bytes(log)
    choice = ColumnChoice((name, "topic"), decompress=True)
    job = ColumnJob(log_of(tmp_path), LEVELS, EVERYTHING, choice)
    remarks = RecordingProgress()
    expected = objects_of(decompressed(by_rows(job), remarks))
    found = list(log_pieces(job))
    assert [one[name] for one in table_of(found, choice)] == [one[name] for one in expected]
    told = [remark for one in found if isinstance(one, rows.Columns) for remark in one.remarks]
    assert told == (remarks.warnings if name == "body" else [])


def test_names_are_checked() -> None:
    assert column_names(None) == tuple(COLUMNS)
    assert column_names(["topic", "body"]) == ("topic", "body")
    for wrong, words in ((["topik"], "did you mean topic"), (["body"] * 2, "twice"), ([], "no column")):
        with pytest.raises(UsageError, match=words):
            column_names(wrong)


def test_batches_of_small_files_hold_no_more_than_their_bytes(tmp_path: Path) -> None:
    """A task keeps them until it has a row group, and each could hold the memory of a large one."""
    (log := tmp_path / "commitlog").mkdir()
    for start in range(0, 20 * 4096, 4096):
        (log / f"{start:020d}").write_bytes(open_file(start, 4096, [b"body"] * 5))
    job = ColumnJob(log_of(tmp_path), LEVELS, EVERYTHING, ALL)
    found = [one for one in log_pieces(job) if isinstance(one, rows.Columns)]
    assert [one.count for one in found] == [5] * 20
    arrays: list[Any] = [one.longs for one in found]
    for one in found:
        arrays += [one.numbers, one.stops, one.list_stops, *one.texts]
    assert {each.base is None for each in arrays} == {True}  # of its own, and no part of a larger one
    assert sum(each.nbytes for each in arrays) < 20 * 4096
