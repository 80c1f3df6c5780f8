"""The census and the picture of a log against a recount in plain Python, however the log is cut."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

from rmqtool.check import census as census_module
from rmqtool.check import picture as picture_module
from rmqtool.check.census import SERIES
from rmqtool.check.log import LogCheck, check_log
from rmqtool.check.picture import Content
from rmqtool.progress import NullProgress
from rmqtool.scan.log_pass import SPLIT_BYTES
from tests.builders import POLICY_5, InlineEngine, staging
from tests.check.log_store import FILE_SIZE, Log
from tests.scan.log_builder import STORE_TIMESTAMP_MS

if TYPE_CHECKING:
    from pathlib import Path

    from rmqtool.check.picture import LogPicture
    from rmqtool.store.segments import FileQueue

MINUTE_MS = 60_000


def picture(log: FileQueue, split_bytes: int = SPLIT_BYTES) -> LogPicture:
    """Return the picture of a log."""
    with staging() as handle:
        asked = LogCheck(log, POLICY_5, handle, split_bytes=split_bytes, pictured=True)
        found = check_log(asked, InlineEngine(), NullProgress()).picture
    assert found is not None
    return found


def picture_at_any_split(log: FileQueue) -> LogPicture:
    """Return the picture of a log read in one piece, and see that no cut shows in it."""
    whole = picture(log)
    for split_bytes in (2048, 700, 97):
        assert picture(log, split_bytes) == whole, f"cut into {split_bytes}"
    return whole


def test_without_being_asked_nothing_is_counted(tmp_path: Path) -> None:
    with staging() as handle:
        log = Log().fill(3).write(tmp_path)
        assert check_log(LogCheck(log, POLICY_5, handle), InlineEngine(), NullProgress()).picture is None


def test_messages_by_topic_and_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Times go up and down, more topics than are drawn, names that are no UTF-8."""
    monkeypatch.setattr(census_module, "_FIRST_CELLS", 4)
    log = Log()
    counted: dict[str, list[tuple[int, int, int]]] = {}
    names = [f"T{number}".encode() for number in range(12)] + [b"\xff\xfe", b"\xff\xfd"]
    for number in range(160):
        raw = names[(number * number) % len(names)]
        stored = STORE_TIMESTAMP_MS + number * 37_000 - (number % 7) * 150_000
        at = log.add(
            topic=raw,
            queueId=number % 3,
            body=bytes(number % 50),
            storeTimestamp=stored,
        )
        size = int.from_bytes(log.data[at : at + 4], "big")
        counted.setdefault(raw.decode(errors="replace"), []).append((stored, at, size))
    census = picture_at_any_split(log.write(tmp_path)).census
    assert sum(one.messages for one in census.topics) == 160
    assert {one.topic for one in census.topics} == set(counted)
    for one in census.topics:
        mine = counted[one.topic]
        assert (one.messages, one.bytes) == (len(mine), sum(size for _, _, size in mine))
        assert one.oldest_ms == min(mine)[0]
        assert (one.oldest_ms, one.oldest_offset) in {(stored, at) for stored, at, _ in mine}
        assert (one.newest_ms, one.newest_offset) in {(stored, at) for stored, at, _ in mine}
        assert one.newest_ms == max(mine)[0]
        assert (one.largest, one.largest_offset) in {(size, at) for _, at, size in mine}
    assert [one.bytes for one in census.topics] == sorted((one.bytes for one in census.topics), reverse=True)
    drawn = [one.topic for one in census.series]
    assert drawn == [*(one.topic for one in census.topics[:SERIES]), None]
    period = census.period
    for line in census.series:
        mine = [one for name, rows in counted.items() for one in rows if name == line.topic]
        if line.topic is None:
            mine = [one for name, rows in counted.items() for one in rows if name not in drawn]
        buckets = Counter((stored - period.start_ms) // period.width_ms for stored, _, _ in mine)
        assert line.messages == tuple(buckets[at] for at in range(period.buckets))
    drawn_messages = sum(sum(one.messages) for one in census.series)
    assert drawn_messages + census.outside == 160


def test_a_clock_that_is_set_back(tmp_path: Path) -> None:
    log = Log(stored_ms=STORE_TIMESTAMP_MS // MINUTE_MS * MINUTE_MS)
    start = log.stored_ms
    log.fill(5)
    log.stored_ms = start + 30 * MINUTE_MS
    log.fill(5)
    late = log.stored_ms - 1
    log.stored_ms = start + 10 * MINUTE_MS
    back = log.add()
    log.stored_ms = start + 31 * MINUTE_MS
    log.add()
    found = picture_at_any_split(log.write(tmp_path))
    assert [(one.physical_offset, one.before_ms, one.after_ms) for one in found.clock_steps] == [
        (back, late, start + 10 * MINUTE_MS)
    ]


def test_a_wild_time_does_not_stretch_the_period(tmp_path: Path) -> None:
    log = Log().fill(6)
    log.add(storeTimestamp=1 << 60)
    log.add(storeTimestamp=-1)
    log.fill(6)
    census = picture_at_any_split(log.write(tmp_path)).census
    assert census.outside == 2
    assert census.period.start_ms <= STORE_TIMESTAMP_MS
    assert census.period.width_ms * census.period.buckets < MINUTE_MS


@pytest.mark.parametrize("records", [0, 1])
def test_hardly_a_log(tmp_path: Path, records: int) -> None:
    found = picture_at_any_split(Log().fill(records).write(tmp_path, tail=bytes(FILE_SIZE // 2)))
    assert sum(one.messages for one in found.census.topics) == records
    assert len(found.census.topics) == records
    assert [one.what for one in found.files[0].stretches] == [Content.RECORDS, Content.ZEROS][1 - records :]


def test_the_files_are_filled_from_end_to_end(tmp_path: Path) -> None:
    """Records, BLANK, damage and zeros lie where they were put, and leave no byte out."""
    log = Log().fill(60)
    hurt = log.places[10]
    log.number(hurt, "magic", 1)
    found = picture_at_any_split(log.write(tmp_path))
    for file in found.files:
        assert file.stretches[0].start == file.start
        assert file.stretches[-1].stop == file.stop
        for one, two in zip(file.stretches, file.stretches[1:], strict=False):
            assert one.stop == two.start
    kinds = [(one.what, one.start, one.stop) for file in found.files for one in file.stretches]
    assert (Content.DAMAGED, hurt, log.places[11]) in kinds
    assert [what for what, _, _ in kinds].count(Content.FILE_END) == len(found.files) - 1
    assert kinds[-1] == (Content.ZEROS, found.end, found.files[-1].stop)
    assert sum(one.records for file in found.files for one in file.stretches) == 59


def test_zeros_amid_the_log_are_a_hole_and_as_wide_as_it_is(tmp_path: Path) -> None:
    log = Log().fill(12)
    start, stop = log.places[3], log.places[7]
    queue = log.write(tmp_path)
    path = next(one for one in sorted(tmp_path.rglob("0000*")) if one.is_file())
    with path.open("r+b") as file:
        file.seek(start)
        file.write(bytes(stop - start - 44))  # the end of the last record is left
    kinds = [(one.what, one.start, one.stop) for one in picture_at_any_split(queue).files[0].stretches]
    assert (Content.DAMAGED, start, stop) in kinds


def test_gaps_of_queue_offsets_are_added_up_without_single_wild_ones(tmp_path: Path) -> None:
    log = Log()
    for offset in (0, 1, 5, 6, 1_000_000, 7, 8):
        log.add(queueOffset=offset)
    found = picture_at_any_split(log.write(tmp_path))
    assert [(one.topic, one.queue_id, one.first, one.missing) for one in found.offset_gaps] == [
        ("TopicTest", 0, 2, 3)
    ]
    assert found.offset_gaps[0].physical_offset == log.places[2]


def test_a_torn_file_is_shown_in_equal_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Damage stays seen: a piece is as grave as the gravest in it."""
    log = Log().fill(24)
    for place in log.places[1:8:2]:
        log.number(place, "magic", 1)
    queue = log.write(tmp_path)
    fine = picture(queue).files[0].stretches
    monkeypatch.setattr(picture_module, "MAX_STRETCHES", 6)
    coarse = picture_at_any_split(queue).files[0].stretches
    assert len(fine) > 6
    assert len(coarse) == 6
    assert [one.start for one in coarse[1:]] == [one.stop for one in coarse[:-1]]
    damaged = [one.start for one in fine if one.what is Content.DAMAGED]
    assert all(
        any(one.what is Content.DAMAGED and one.start <= at < one.stop for one in coarse) for at in damaged
    )
    assert sum(one.records for one in coarse) == sum(one.records for one in fine)
