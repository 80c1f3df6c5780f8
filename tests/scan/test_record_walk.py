"""The walk over logs, sound and damaged: every byte is a record, a BLANK, or part of a named defect."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqtool.findings import Finding
from rmqtool.javacompat import masked_crc32
from rmqtool.scan.classify import is_of_record
from rmqtool.scan.record_walk import BlankRecord, LogEvent, walk
from rmqtool.scan.records import Record
from tests.scan.log_builder import blank, full_file, open_file, record, segment
from tests.strategies import examples

if TYPE_CHECKING:
    from pathlib import Path

    from rmqtool.store.segments import Segment

FILE = 1024
BODIES = [b"a" * 100, b"b" * 100, b"c" * 100]
SIZE = len(record(0, body=BODIES[0]))


def kinds(events: list[LogEvent]) -> list[str]:
    return [
        event.code.code if isinstance(event, Finding) else type(event).__name__.lower() for event in events
    ]


def sound_log(folder: Path) -> list[Segment]:
    return [
        segment(folder, 0, full_file(0, FILE, BODIES)),
        segment(folder, FILE, full_file(FILE, FILE, BODIES)),
        segment(folder, 2 * FILE, open_file(2 * FILE, FILE, BODIES)),
    ]


def damaged(folder: Path, number: int, at: int, data: bytes) -> list[Segment]:
    """Return a log one file of which has other bytes at a position."""
    segments = sound_log(folder)
    raw = bytearray(segments[number].read_at(0, segments[number].size_bytes))
    raw[at : at + len(data)] = data
    segments[number] = segment(folder, number * FILE, bytes(raw))
    return segments


def test_a_sound_log_is_records_blanks_and_a_zero_tail(tmp_path: Path) -> None:
    events = list(walk(sound_log(tmp_path)))
    one = ["record"] * 3 + ["blankrecord"]
    assert kinds(events) == one + one + ["record"] * 3 + ["CL-TAIL-ZERO"]
    records = [event for event in events if isinstance(event, Record)]
    assert [event.physical_offset for event in records] == [event.head.physical_offset for event in records]
    assert [event.body for event in records] == BODIES * 3


@pytest.mark.parametrize(
    ("at", "data", "code", "missing"),
    [
        (SIZE + 4, b"\0\0\0\0", "CL-BAD-MAGIC", 1),
        (SIZE, b"\x7f", "CL-HUGE-SIZE", 1),
        (SIZE, b"\0\0\0\1", "CL-HALF-RECORD", 1),
        (SIZE, bytes(SIZE), "CL-HOLE", 1),
        (SIZE, bytes(SIZE + 10), "CL-HOLE", 2),
        (SIZE - 3, b"\0\0\0", None, 0),
        (SIZE + 95, b"\xff", "CL-CRC", 0),
        (SIZE + 35, b"\x07", "CL-PHY-MISMATCH", 0),
    ],
)
def test_damage_is_named_and_the_rest_is_read(
    tmp_path: Path, at: int, data: bytes, code: str | None, missing: int
) -> None:
    events = list(walk(damaged(tmp_path, 1, at, data)))
    codes = [event.code.code for event in events if isinstance(event, Finding)]
    assert codes == ([code] if code else []) + ["CL-TAIL-ZERO"]
    assert sum(isinstance(event, Record) for event in events) == 9 - missing


def test_stop_ends_at_damage_but_not_at_a_bad_body(tmp_path: Path) -> None:
    stopped = kinds(list(walk(damaged(tmp_path, 1, SIZE, bytes(SIZE)), on_damage="stop")))
    assert stopped == ["record"] * 3 + ["blankrecord", "record", "CL-HOLE"]
    bad_body = kinds(list(walk(damaged(tmp_path, 1, SIZE + 95, b"\xff"), on_damage="stop")))
    assert bad_body.count("record") == 9


def test_a_missing_file_is_a_gap(tmp_path: Path) -> None:
    one, _, three = sound_log(tmp_path)
    events = list(walk([one, three]))
    gaps = [event for event in events if isinstance(event, Finding) and event.code.code == "CL-GAP"]
    assert [(gap.physical_offset, gap.length) for gap in gaps] == [(FILE, FILE)]


def test_files_without_blank_that_others_follow_are_damage(tmp_path: Path) -> None:
    last = segment(tmp_path, 2 * FILE, open_file(2 * FILE, FILE, BODIES))
    zeros = segment(tmp_path, FILE, open_file(FILE, FILE, BODIES))
    assert "CL-TRANSIENT" in kinds(list(walk([zeros, last])))
    exact = segment(tmp_path, FILE, open_file(FILE, 3 * SIZE, BODIES))
    assert kinds(list(walk([exact, last])))[3:5] == ["CL-NO-BLANK", "CL-GAP"]


def test_zero_files_at_the_end_were_allocated_ahead(tmp_path: Path) -> None:
    segments = [*sound_log(tmp_path), segment(tmp_path, 3 * FILE, bytes(FILE))]
    assert kinds(list(walk(segments)))[-2:] == ["CL-TAIL-ZERO", "CL-PREALLOC"]


def test_bytes_behind_a_blank_are_ghosts_and_never_records(tmp_path: Path) -> None:
    """Even a record that says it lies there is not live: the broker jumps to the next file."""
    raw = bytearray(full_file(0, FILE, BODIES))
    at = 3 * SIZE + 50
    raw[at : at + SIZE] = record(at, body=BODIES[0])
    events = list(walk([segment(tmp_path, 0, bytes(raw))]))
    assert kinds(events) == ["record"] * 3 + ["blankrecord", "CL-GHOST"]


def test_a_blank_of_another_length_is_told(tmp_path: Path) -> None:
    data = record(0) + blank(200, total_size=100)
    events = list(walk([segment(tmp_path, 0, data)]))
    assert kinds(events) == ["record", "CL-BLANK-LEN", "blankrecord"]


def test_junk_behind_a_zero_end_is_a_dirty_tail(tmp_path: Path) -> None:
    events = list(walk(damaged(tmp_path, 2, FILE - 100, b"junk")))
    assert kinds(events)[-1] == "CL-TAIL-DIRTY"


def test_stale_records_are_not_taken_for_true_ones(tmp_path: Path) -> None:
    """After damage a record of another place, complete and valid, is skipped."""
    stale = record(5, body=b"stale")
    events = list(walk(damaged(tmp_path, 1, SIZE, b"\xee" * 8 + stale)))
    assert b"stale" not in [event.body for event in events if isinstance(event, Record)]
    assert sum(isinstance(event, Record) for event in events) == 8


def test_record_checksum_property(tmp_path: Path) -> None:
    reserved = b"__CRC32#\x010000000000\x02"
    raw = record(0, properties=b"KEYS\x01k\x02" + reserved)
    digits = f"{masked_crc32(raw[: -len(reserved)]):010d}"[::-1]
    right = raw[:-11] + digits.encode() + b"\x02"
    wrong = record(len(raw), properties=b"KEYS\x01k\x02" + reserved)
    events = list(walk([segment(tmp_path, 0, right + wrong + bytes(64))]))
    assert kinds(events) == ["record", "CL-PROP-CRC", "record", "CL-TAIL-ZERO"]


def test_a_range_begins_at_the_next_record(tmp_path: Path) -> None:
    segments = sound_log(tmp_path)
    inside = list(walk(segments, FILE + 5, FILE + 2 * SIZE))
    assert [event.physical_offset for event in inside] == [FILE + SIZE]
    exact = list(walk(segments, FILE + SIZE, FILE + SIZE + 1))
    assert [event.physical_offset for event in exact] == [FILE + SIZE]


def test_a_range_that_begins_in_damage_tells_it(tmp_path: Path) -> None:
    segments = damaged(tmp_path, 1, SIZE, bytes(SIZE))
    assert kinds(list(walk(segments, FILE + SIZE + 20, 2 * FILE)))[0] == "CL-HOLE"


def test_a_range_in_a_renamed_file_falls_back_to_its_chain(tmp_path: Path) -> None:
    moved = segment(tmp_path, 7 * FILE, full_file(0, FILE, BODIES))
    events = list(walk([moved], 7 * FILE + SIZE + 1))
    assert kinds(events) == ["CL-PHY-MISMATCH", "record", "blankrecord"]


@examples(60)
@given(data=st.data())
def test_every_byte_is_accounted_for(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    """Records, BLANKs, ghosts and defects cover the log without overlap, whatever bytes are changed."""
    folder = tmp_path_factory.mktemp("log")
    raw = bytearray(full_file(0, FILE, BODIES))
    for _ in range(data.draw(st.integers(0, 6))):
        at = data.draw(st.integers(0, FILE - 1))
        patch = data.draw(st.binary(min_size=1, max_size=40) | st.integers(1, 300).map(bytes))
        raw[at : at + len(patch)] = patch[: FILE - at]
    position = 0
    for event in walk([segment(folder, 0, bytes(raw))]):
        if isinstance(event, Finding) and (
            is_of_record(event) or event.code.code in {"CL-BLANK-LEN", "CL-GHOST"}
        ):
            continue
        assert event.physical_offset == position
        if isinstance(event, BlankRecord):
            return
        position += (event.length or 0) if isinstance(event, Finding) else len(event.raw)
    assert position == FILE


@pytest.mark.full
def test_hostile_sizes_and_magics_cost_no_time(tmp_path: Path) -> None:
    """A file full of magics, each claiming the rest of a file, is walked in the time of a plain read."""
    trap = b"".join(record(at, totalSize=2**31 - 1)[:96] for at in range(0, 1 << 20, 96))
    zebra = (b"\0" * 24 + record(0, body=b"")[:40]) * (1 << 13)
    started = time.monotonic()
    assert sum(isinstance(one, Record) for one in walk([segment(tmp_path, 0, trap)])) == 0
    assert sum(isinstance(one, Record) for one in walk([segment(tmp_path, 0, zebra)])) == 0
    assert time.monotonic() - started < 5
