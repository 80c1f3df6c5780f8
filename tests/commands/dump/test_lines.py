"""The dump by kernels is, byte for byte, the dump by rows."""

from __future__ import annotations

import shutil
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqtool import rows
from rmqtool.columns import lines
from rmqtool.columns.lines import LineJob
from rmqtool.javacompat import read_delay_levels
from rmqtool.projection import BodyMode
from rmqtool.report.output import row_object, to_json
from rmqtool.rows.log_splits import log_pieces
from rmqtool.rows.messages import MessageFilter, MessageRows
from rmqtool.scan.record_walk import walk
from rmqtool.scan.records import Record
from rmqtool.store import open_store
from tests.scan.log_builder import record
from tests.store.fixture_stores import STORES
from tests.strategies import examples, message_properties

if TYPE_CHECKING:
    from pathlib import Path

    from rmqtool.store import FileQueue

LEVELS = read_delay_levels("1s 5s")
STORE_NAMES = sorted(path.name for path in STORES.iterdir() if path.is_dir())
EVERYTHING = MessageFilter()
FORMS = tuple(BodyMode)
_GROUPS = st.sampled_from([b"\0\0", b"\0\1", b"\xff\xff", b"\x20\x01", b"\0\xab", b"\x0f\0"])
addresses = st.tuples(*2 * (st.lists(_GROUPS, min_size=8, max_size=8).map(b"".join),))


def by_kernels(job: LineJob) -> str:
    mode = job.body
    return "".join(
        one.text if isinstance(one, rows.Lines) else to_json(row_object(one, mode)) + "\n"
        for one in log_pieces(job)
    )


def by_rows(job: LineJob) -> str:
    make, mode = MessageRows(job.log, job.delay_levels), job.body
    return "".join(
        to_json(row_object(row, mode)) + "\n"
        for event in walk(job.log.segments, job.begin, job.end)
        for row in make.selected(event, job.messages)
    )


def log_of(path: Path) -> FileQueue:
    return open_store(path).commitlog


@pytest.mark.few(8)
@pytest.mark.parametrize("name", STORE_NAMES)
@pytest.mark.parametrize("body", FORMS)
def test_every_fixture(name: str, body: BodyMode) -> None:
    job = LineJob(log_of(STORES / name), LEVELS, EVERYTHING, body, split_bytes=3000)
    assert by_kernels(job) == by_rows(job)


@pytest.mark.few(13)
@pytest.mark.parametrize(
    "wanted",
    [
        MessageFilter(topic="TopicTest"),
        MessageFilter(topic="Orders", queue_id=7),
        MessageFilter(tag="TagB"),
        MessageFilter(from_queue_offset=5),
        MessageFilter(topic="none"),
        MessageFilter(topic="*T??t"),
        MessageFilter(key="order-3"),
        MessageFilter(contains="message"),
        MessageFilter(contains="e"),
        MessageFilter(topic="Orders", dead_letters=True),
        MessageFilter(unread={"Orders": {1: 2, 7: 9}, "%RETRY%billing": {}}, topic=("Orders", "%RETRY%*")),
        MessageFilter(places=frozenset({849, 35456})),
    ],
)
@pytest.mark.parametrize(("begin", "end"), [(0, None), (300, 12_345), (8192, 16_384), (9000, 9001)])
def test_filters_and_ranges(wanted: MessageFilter, begin: int, end: int | None) -> None:
    log = log_of(STORES / "plain-4.9.8")
    job = LineJob(log, LEVELS, wanted, BodyMode.TEXT, begin=begin, end=end, split_bytes=1000)
    assert by_kernels(job) == by_rows(job)
    assert by_kernels(replace(job, as_rows=True)) == by_rows(job)


def test_times() -> None:
    log = log_of(STORES / "plain-5.3.3")
    times = [event.head.store_timestamp_ms for event in walk(log.segments) if isinstance(event, Record)]
    wanted = MessageFilter(begin_ms=times[10], end_ms=times[20])
    job = LineJob(log, LEVELS, wanted, BodyMode.NONE)
    assert by_kernels(job) == by_rows(job)
    assert by_kernels(job).count('"message"') >= 11


@pytest.mark.full
@examples(60)
@given(
    st.lists(st.tuples(st.integers(0, 30_000), st.binary(min_size=0, max_size=300)), max_size=4),
    st.sampled_from([700, 5000, 1 << 20]),
)
def test_damage_anywhere(
    tmp_path_factory: pytest.TempPathFactory, edits: list[tuple[int, bytes]], split_bytes: int
) -> None:
    """Damage is told in the same words, at the same place, wherever the log is cut."""
    folder = tmp_path_factory.mktemp("log") / "commitlog"
    shutil.copytree(STORES / "plain-4.9.8" / "commitlog", folder)
    files = sorted(folder.iterdir())
    for place, data in edits:
        path = files[place // 8192 % len(files)]
        content = bytearray(path.read_bytes())
        content[place % 8192 : place % 8192 + len(data)] = data
        path.write_bytes(content[:8192])
    job = LineJob(log_of(folder), LEVELS, EVERYTHING, BodyMode.NONE, split_bytes=split_bytes)
    assert by_kernels(job) == by_rows(job)


@examples(60)
@given(
    st.lists(
        st.tuples(
            st.binary(max_size=40) | st.text(max_size=20).map(lambda text: text.encode("utf-8", "replace")),
            message_properties(hostile=True) | st.binary(max_size=60),
            st.sampled_from([b"TopicTest", b'a"b\\c', b"x\x7f", "订单".encode(), b"\xff", b"", b"%RETRY%g"]),
            st.sampled_from([0, 0x10, 0x20, 0x30, 0x8, 0xC0]),
            addresses,
        ),
        max_size=8,
    ),
    st.sampled_from(FORMS),
)
def test_hostile_messages(
    tmp_path_factory: pytest.TempPathFactory, messages: list[Any], form: BodyMode
) -> None:
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
    job = LineJob(log_of(folder), LEVELS, EVERYTHING, form, split_bytes=500)
    assert by_kernels(job) == by_rows(job)


def test_lines_that_do_not_fit_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "OUT_BYTES", 100)
    job = LineJob(log_of(STORES / "plain-4.9.8"), LEVELS, EVERYTHING, BodyMode.HEX)
    assert by_kernels(job) == by_rows(job)


@pytest.mark.parametrize("name", ["ipv6-5.3.3", "propcrc-5.3.3", "batchcq-5.3.3"])
def test_what_kernels_write_themselves(name: str) -> None:
    """IPv6 hosts, checksums of records and inner batches are nothing odd."""
    found = list(log_pieces(LineJob(log_of(STORES / name), LEVELS, EVERYTHING, BodyMode.NONE)))
    assert [one for one in found if isinstance(one, rows.Lines)]
    assert not [one for one in found if isinstance(one, rows.Message)]


def test_text_that_kernels_write_themselves() -> None:
    """Only what is no UTF-8, or would be escaped, is left to rows."""
    found = list(log_pieces(LineJob(log_of(STORES / "unicode-5.3.3"), LEVELS, EVERYTHING, BodyMode.NONE)))
    assert not "".join(one.text for one in found if isinstance(one, rows.Lines)).isascii()
    texts = [repr((one.topic, one.properties)) for one in found if isinstance(one, rows.Message)]
    assert texts
    assert not [text for text in texts if "\ufffd" not in text and "\\" not in text]


def test_messages_that_are_wanted_as_rows() -> None:
    job = LineJob(log_of(STORES / "batchcq-5.3.3"), LEVELS, EVERYTHING, BodyMode.NONE, odd_flags=0x80)
    found = [one for one in log_pieces(job) if isinstance(one, rows.Message)]
    assert found
    assert all(one.sys_flag & 0x80 for one in found)
    assert by_kernels(job) == by_rows(job)


def test_holes_inside_and_at_the_end(tmp_path: Path) -> None:
    """What was never written is told as if it had been read."""
    (tmp_path / "commitlog").mkdir()
    with (tmp_path / "commitlog" / f"{0:020d}").open("wb") as file:
        file.write(record(0))
        file.seek(1 << 19)
        file.write(record(1 << 19))
        file.truncate(1 << 20)
    job = LineJob(log_of(tmp_path / "commitlog"), LEVELS, EVERYTHING, BodyMode.NONE, split_bytes=1 << 14)
    told = by_kernels(job)
    assert told == by_rows(job)
    assert "CL-HOLE" in told
    assert told.count('"message", "file"') == 2


def test_a_placeholder_keeps_its_meaning(tmp_path: Path) -> None:
    (tmp_path / "commitlog").mkdir()
    data = record(0, properties=b"RMQTOOL_LOST\x011\x02")
    (tmp_path / "commitlog" / f"{0:020d}").write_bytes(data + record(len(data)))
    job = LineJob(log_of(tmp_path / "commitlog"), LEVELS, EVERYTHING, BodyMode.NONE)
    assert by_kernels(job) == by_rows(job)
    assert by_kernels(job).count('"kind": "placeholder"') == 1
