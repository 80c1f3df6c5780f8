"""One framing for all readers: the walk of the kernels and that in plain Python say the same of any file."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqtool.findings import codes
from rmqtool.formats import message
from rmqtool.formats.framing import END_MARK_BYTES, PLAIN, FrameHead, Framing
from rmqtool.formats.message import Outcome
from rmqtool.kernels.rows import frame_starts, frame_stops
from rmqtool.releases import LENIENT
from rmqtool.scan.classify import FoundEdge, classified, ghosts, is_of_record, missing_blank
from rmqtool.scan.gap_walk import GapWalk, gap_of
from rmqtool.scan.record_walk import BlankRecord, ChainWalk, find_log_end
from rmqtool.scan.records import Gap, Record, check_record, is_file_end, record_at
from rmqtool.store.segments import FileQueue
from tests.builders import memory_segment
from tests.damage.cases import Case, load_cases
from tests.damage.running import damaged_copy
from tests.scan.framings import LED, entry, framed_log, framed_segment
from tests.scan.log_builder import blank, record
from tests.scan.walks import windows
from tests.store.fixture_stores import STORE_ROOTS
from tests.strategies import examples, patched, patches

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from rmqtool.findings import Finding
    from rmqtool.kernels.rows import MessageBatch
    from tests.builders import MemorySegment

FRAMINGS = [PLAIN, LED]
CASES = [case for case in load_cases() if case.code.startswith("CL-")]


def log_of(root: Path) -> list[MemorySegment]:
    """Return the files of a store's log; those of equal name or of no number are another test's."""
    paths = sorted(path for path in root.glob("commitlog/*") if path.is_file() and path.name.isdigit())
    return [memory_segment(path.read_bytes(), int(path.name)) for path in paths]


def in_framing(log: list[MemorySegment], framing: Framing) -> list[MemorySegment]:
    return log if framing == PLAIN or not log else framed_log(log)


def _named(finding: Finding) -> tuple[Any, ...]:
    return finding.code.code, finding.physical_offset, finding.length, finding.message


def by_python(number: int, edge: FoundEdge) -> list[tuple[Any, ...]]:
    """Return the frames, gaps and end of a file, as the walk in plain Python has them."""
    done: list[tuple[Any, ...]] = []
    for event in ChainWalk(number, edge).run(0, None):
        if isinstance(event, Record):
            done.append(("record", event.frame_start, event.physical_offset, event.frame_stop))
        elif isinstance(event, BlankRecord):
            done.append(("end", event.physical_offset, event.total_size))
        elif not is_of_record(event) and event.code is not codes.CL_NO_CRC:
            done.append(_named(event))
    return done


def by_kernels(number: int, edge: FoundEdge) -> list[tuple[Any, ...]]:
    """Return the frames, gaps and end of a file, as the kernels have them."""
    segment, done = edge.segments[number], list[tuple[Any, ...]]()
    walk = GapWalk(segment, LENIENT, edge.stale_from)
    for part in _apart(walk):
        if not isinstance(part, Gap):
            done.append(("record", *part))
            continue
        done += map(_named, classified(part, segment, number, edge))
        if part.is_end and part.stop == segment.stop:
            done.append(("end", part.start, part.total_size))
    if walk.outcome is Outcome.FILE_END:
        done.append(("end", walk.log_offset, segment.stop - walk.log_offset))
        done += [_named(ghosts(segment, walk.log_offset))] if walk.ghosts() else []
    elif done and done[-1][0] == "record" and done[-1][3] == segment.stop:
        done.append(_named(missing_blank(segment)))
    return done


def _apart(walk: GapWalk) -> Iterator[Gap | tuple[int, int, int]]:
    """Yield gaps, and the three places of each record, in the order of the log."""
    for part in walk.parts(walk.segment.start, walk.segment.stop):
        if isinstance(part, Gap):
            yield part
            continue
        row = 0
        for gap in part.gaps:
            yield from _places(part, row, int(gap["row"]))
            yield gap_of(gap)
            row = int(gap["row"])
        yield from _places(part, row, len(part.rows))


def _places(batch: MessageBatch, first: int, stop: int) -> Iterator[tuple[int, int, int]]:
    rows = batch.rows[first:stop]
    columns = frame_starts(rows), rows["log_offset"], frame_stops(rows)
    return zip(*(column.tolist() for column in columns), strict=True)


def agree(log: Sequence[MemorySegment]) -> list[tuple[Any, ...]]:
    """Hold the two walks over each file of a log against each other, and return what they say of all."""
    edge, done = FoundEdge(log), list[tuple[Any, ...]]()
    for number in range(len(log)):
        events = by_kernels(number, edge)
        assert events == by_python(number, edge), log[number].label
        done += events
    return done


@pytest.mark.parametrize("framing", FRAMINGS, ids=["plain", "lead of 48 bytes"])
def test_both_walks_say_the_same_of_every_fixture(framing: Framing) -> None:
    """And a record is whole in its frame: what the other framing adds is its lead."""
    records = 0
    for root in STORE_ROOTS:
        plain = log_of(root)
        events = agree(in_framing(plain, framing))
        met = [event for event in events if event[0] == "record"]
        assert all(place - start == framing.lead for _, start, place, _ in met)
        assert len(met) == sum(event[0] == "record" for event in agree(plain))
        records += len(met)
    assert records > 1000


@pytest.mark.parametrize("framing", FRAMINGS, ids=["plain", "lead of 48 bytes"])
@pytest.mark.few(1, each="CL-[A-Z-]+")
@pytest.mark.parametrize("case", CASES, ids=[f"{case.code}: {case.name}" for case in CASES])
def test_both_walks_say_the_same_of_damage(case: Case, framing: Framing, tmp_path: Path) -> None:
    log = in_framing(log_of(damaged_copy(case, tmp_path)), framing)
    agree(log)
    with windows(1 << 9, 1 << 12):  # most damage is then at a window's end, and some records longer than one
        agree(log)


@examples(150)
@given(st.data(), st.sampled_from(STORE_ROOTS), st.sampled_from(FRAMINGS))
def test_both_walks_say_the_same_of_any_bytes(data: st.DataObject, root: Path, framing: Framing) -> None:
    """Flipped bytes, zeroed ranges and overwritten numbers near any frame, and a file that ends anywhere."""
    log = in_framing(log_of(root)[-2:], framing)
    if not log:
        return
    number = data.draw(st.integers(0, len(log) - 1))
    frames = [event[1] for event in by_python(number, FoundEdge(log))]
    at = data.draw(st.sampled_from(frames or [log[number].start])) - log[number].start
    near = [(at + place, piece) for place, piece in data.draw(patches(700))]
    segment = replace(log[number], data=patched(log[number].data, near))
    if data.draw(st.booleans()):
        length = min(at + data.draw(st.integers(0, 400)), len(segment.data))
        segment = replace(segment, data=segment.data[:length], size_bytes=length)
    agree([*log[:number], segment, *log[number + 1 :]])


def test_a_frame_with_a_lead() -> None:
    """Records lie 48 bytes after their frames; damage costs its own frame, and the next one is met whole."""
    raws = [record(0, body=bytes([number]) * 40) for number in range(5)]
    data, starts = b"", []
    for number, raw in enumerate(raws):
        starts.append(len(data))
        data += entry(len(data), number, raw)
    end = len(data)
    data += LED.end_mark(100) + bytes(92)
    size = len(raws[0]) + 48
    records = [("record", start, start + 48, start + size) for start in starts]
    assert agree([framed_segment(data)]) == [*records, ("end", end, 100)]
    torn = patched(data, [(starts[2] + 48 + 4, bytes(4))])
    events = agree([framed_segment(torn), framed_segment(b"", len(data))])
    assert [event for event in events if event[0] == "record"] == [*records[:2], *records[3:]]
    assert [event[:3] for event in events if event[0].startswith("CL")] == [("CL-BAD-MAGIC", starts[2], size)]
    segment = framed_segment(data)
    met = record_at(FileQueue((), (segment,)), starts[3] + 48)
    assert met is not None
    assert (met.frame_start, met.frame_stop, met.raw[60:]) == (starts[3], starts[4], raws[3][60:])
    assert find_log_end(FoundEdge([segment])).end == segment.stop


def test_a_mark_of_eight_bytes_where_no_head_of_a_frame_has_room() -> None:
    """The first eight bytes are read before a lead is: a full file may have no more."""
    data = entry(0, 0, record(0)) + LED.end_mark(8)
    assert agree([framed_segment(data)])[-1] == ("end", len(data) - 8, 8)
    short = entry(0, 0, record(0)) + bytes(20)
    assert check_record(framed_segment(short), len(short) - 20, LENIENT).outcome is Outcome.BAD_LENGTH


def test_the_mark_of_another_framing_ends_nothing() -> None:
    plain = record(0) + LED.end_mark(60) + bytes(52)
    led = entry(0, 0, record(0)) + blank(60)
    assert [event[0] for event in agree([memory_segment(plain)])] == ["record", "CL-TAIL-DIRTY"]
    assert [event[0] for event in agree([framed_segment(led)])] == ["record", "CL-TAIL-DIRTY"]


@pytest.mark.parametrize("framing", FRAMINGS, ids=["plain", "lead of 48 bytes"])
def test_marks_and_heads(framing: Framing) -> None:
    mark = framing.end_mark(60)
    assert len(mark) == END_MARK_BYTES
    assert framing.end_size(mark) == 60
    assert framing.end_size(mark[:7]) is framing.end_size(bytes(8)) is None
    assert framing.head(mark) == FrameHead(60, framing.end_magic, 0, True)
    raw = bytes(framing.lead) + record(77)
    assert framing.head(raw) == FrameHead(len(raw) - framing.lead, message.MAGIC_V1, 77, False)
    file = replace(memory_segment(mark.ljust(60, b"\0")), framing=framing)
    assert is_file_end(file, 0)
    assert not is_file_end(replace(file, size_bytes=61), 0)


def test_the_plain_mark_is_the_brokers_blank() -> None:
    assert PLAIN.end_mark(60) == blank(60)[:8]
