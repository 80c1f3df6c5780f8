"""The log in order, record by record: what is there, and what is wrong between.

A chain of records is followed as a broker does. Where it breaks, the next true record is searched
(``resync``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rmqtool.findings import Severity
from rmqtool.findings.commitlog import (
    CL_BAD_MAGIC,
    CL_BLANK_LEN,
    CL_CRC,
    CL_GAP,
    CL_GHOST,
    CL_HOLE,
    CL_NO_BLANK,
    CL_PHY_MISMATCH,
    CL_PREALLOC,
    CL_PROP_CRC,
    CL_TAIL_DIRTY,
    CL_TAIL_ZERO,
)
from rmqtool.findings.places import IO_UNREADABLE
from rmqtool.findings.records import CL_NUMBER
from rmqtool.formats import message, struct_of
from rmqtool.javacompat import masked_crc32, parse_prop_crc_digits
from rmqtool.releases import LENIENT
from rmqtool.scan.records import Record, check_record, number_problem
from rmqtool.scan.resync import find_true, is_true
from rmqtool.scan.window import Window

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rmqtool.findings import FindingCode
    from rmqtool.store.reading import UnreadableRange
    from rmqtool.store.segments import Segment

LOOK_BACK_BYTES = 8 << 20
"""How far before a start a true record is searched: two messages of the default maximum."""

_CRC32_RESERVED_BYTES = 20  # CommitLog.CRC32_RESERVED_LEN (5.2.0+)
_CRC32_NAME = b"__CRC32#\x01"
_START = struct_of(message.BLANK)


@dataclass(frozen=True, slots=True)
class Blank:
    """The record that closes a full file; TOTALSIZE as it says."""

    physical_offset: int
    total_size: int


@dataclass(frozen=True, slots=True)
class Defect:
    """Something wrong, or worth knowing, at one place of the log.

    Attributes:
        code: The catalogue entry.
        physical_offset: Bytes from the start of the log.
        length: Bytes concerned.
        message: One sentence.
    """

    code: FindingCode
    physical_offset: int
    length: int
    message: str

    @property
    def ends_chain(self) -> bool:
        """Whether a broker cannot go on here."""
        return self.code.severity is Severity.ERROR and not self.of_record

    @property
    def of_record(self) -> bool:
        """Whether it speaks of a record that can be read, and follows."""
        return self.code in _OF_RECORDS


_OF_RECORDS = (CL_CRC, CL_PROP_CRC, CL_PHY_MISMATCH, CL_NUMBER)
LogEvent = Record | Blank | Defect


def walk(
    segments: Sequence[Segment],
    begin: int = 0,
    end: int | None = None,
    on_damage: str = "resync",
) -> Iterator[LogEvent]:
    """Yield what lies in the log from ``begin`` to ``end``, in the order of the log.

    A record with a wrong checksum, or one that claims another place, is yielded after its defect.

    Args:
        segments: The files, by start.
        begin: Physical offset; inside a record the next one is the first.
        end: Physical offset; records that start here or later are not yielded. None: to the end.
        on_damage: ``resync`` goes on behind damage, ``stop`` ends with it.
    """
    for event in _walk_segments(segments, begin, end):
        yield event
        if on_damage == "stop" and isinstance(event, Defect) and event.ends_chain:
            return


def _walk_segments(segments: Sequence[Segment], begin: int, end: int | None) -> Iterator[LogEvent]:
    for number, segment in enumerate(segments):
        if end is not None and segment.start >= end:
            return
        if segment.stop > begin:
            gap = gap_between(segments[number - 1], segment) if number else None
            if gap is not None and segment.start > begin:
                yield gap
            yield from ChainWalk(segment, segments[number + 1 :]).run(begin, end)


def gap_between(one: Segment, two: Segment) -> Defect | None:
    """Return what is missing between two files that follow each other; None if they join."""
    if two.start <= one.stop:
        return None
    sentence = f"between {one.label} and {two.label} {two.start - one.stop} bytes of the log are missing"
    return Defect(CL_GAP, one.stop, two.start - one.stop, sentence)


def missing_blank(segment: Segment) -> Defect:
    """Return what is wrong with a file that is full of records and does not end in a BLANK."""
    return Defect(CL_NO_BLANK, segment.stop, 0, f"{segment.label} ends without BLANK")


def unreadable_part(segment: Segment, bad: UnreadableRange) -> Defect:
    """Return what is wrong with bytes that the disk did not deliver."""
    sentence = f"{bad.length} bytes of {segment.label} cannot be read; taken for zeros"
    return Defect(IO_UNREADABLE, segment.start + bad.position, bad.length, sentence)


class ChainWalk:
    """The walk of one file.

    Args:
        segment: The file.
        later: The files behind it.
    """

    def __init__(self, segment: Segment, later: Sequence[Segment]) -> None:
        self._segment = segment
        self._window = Window(segment)
        self._later = later

    def run(self, begin: int, end: int | None) -> Iterator[LogEvent]:
        """Yield what lies between two physical offsets, as ``walk`` does."""
        stop = self._window.size_bytes if end is None else end - self._segment.start
        first = max(0, begin - self._segment.start)
        for event in self._walk(self._safe_start(first), stop):
            yield from self._unreadable()
            if event.physical_offset >= begin or _covers(event, begin):
                yield event
        yield from self._unreadable()

    def events(self, place: int, stop: int) -> Iterator[LogEvent]:
        """Yield what lies from physical offset ``place``, where a record is due, to ``stop``."""
        start = self._segment.start
        for event in self._walk(place - start, stop - start):
            yield from self._unreadable()
            yield event
        yield from self._unreadable()

    def _safe_start(self, first: int) -> int:
        """Return a position at or before ``first`` from which the chain of records leads to it."""
        base = self._segment.start
        if first == 0 or is_true(self._window, first, base):
            return first
        back = max(0, first - LOOK_BACK_BYTES)
        return (find_true(self._window, back, base, first) if back else 0) or 0

    def _walk(self, position: int, stop: int) -> Iterator[LogEvent]:
        window, base = self._window, self._segment.start
        closed = True
        while position < min(stop, window.size_bytes):
            window.focus(position)
            checked = check_record(window, position, LENIENT, base=base)
            if checked.record is not None:
                yield from record_defects(checked.record)
                yield checked.record
                position += checked.size
                closed = False
                continue
            if checked.success:
                yield from self._blank(position)
                return
            defect = self._damage(position, checked.code or CL_BAD_MAGIC, checked.reason)
            yield defect
            position += defect.length
            closed = True
        if position == window.size_bytes <= stop and not closed and self.goes_on():
            yield missing_blank(self._segment)

    def _blank(self, position: int) -> Iterator[LogEvent]:
        window, base = self._window, self._segment.start
        (total_size, _) = _START.unpack(window.read_at(position, _START.size))
        left = window.size_bytes - position
        if total_size != left:
            sentence = f"BLANK of TOTALSIZE {total_size} where {left} bytes are left in {self._segment.label}"
            yield Defect(CL_BLANK_LEN, base + position, _START.size, sentence)
        yield Blank(base + position, total_size)
        ghost = window.skip_zeros(position + _START.size)
        if ghost < window.size_bytes:
            sentence = f"bytes that are not zero behind the BLANK of {self._segment.label}"
            yield Defect(CL_GHOST, base + ghost, window.size_bytes - ghost, sentence)

    def _damage(self, position: int, code: FindingCode, reason: str) -> Defect:
        """Describe the bytes from ``position`` to the next true record, or to the end of the file."""
        window = self._window
        behind_zeros = window.skip_zeros(position)
        starts_zero = behind_zeros - position >= _START.size
        place = self._segment.start + position
        if behind_zeros == window.size_bytes:
            return self._zero_tail(position)
        found = find_true(window, position + 1, self._segment.start)
        length = (window.size_bytes if found is None else found) - position
        if not starts_zero:
            return Defect(code, place, length, f"no record at {place} for {length} bytes: {reason}")
        if found is None and not self.goes_on():
            sentence = f"behind the end of the log at {place}, zeros and then other bytes, but no record"
            return Defect(CL_TAIL_DIRTY, place, length, sentence)
        return Defect(
            CL_HOLE, place, length, f"{behind_zeros - position} zero bytes at {place}, inside the log"
        )

    def _zero_tail(self, position: int) -> Defect:
        place, length = self._segment.start + position, self._window.size_bytes - position
        label = self._segment.label
        if self.goes_on():
            sentence = f"{label} ends in {length} zero bytes without BLANK, though later files go on"
            return Defect(CL_NO_BLANK, place, length, sentence)
        if position == 0:
            return Defect(CL_PREALLOC, place, length, f"{label} holds only zeros")
        return Defect(CL_TAIL_ZERO, place, length, f"only zeros from {place} to the end of {label}")

    def goes_on(self) -> bool:
        """Tell whether a later file begins with something."""
        return any(any(segment.read_at(0, _START.size)) for segment in self._later)

    def _unreadable(self) -> Iterator[Defect]:
        for bad in self._window.take_unreadable():
            yield unreadable_part(self._segment, bad)


def _covers(event: LogEvent, begin: int) -> bool:
    """Whether this is damage that starts before ``begin`` and reaches over it."""
    if not isinstance(event, Defect) or event.of_record:
        return False
    return event.physical_offset + event.length > begin


def record_defects(record: Record) -> Iterator[Defect]:
    """Yield what is wrong with a well-framed record: its place, its checksums, its numbers."""
    place, size = record.physical_offset, len(record.raw)
    claimed = record.head.physical_offset
    if claimed != place:
        yield Defect(CL_PHY_MISMATCH, place, size, f"the record at {place} says it lies at {claimed}")
    if not record.body_crc_holds:
        yield Defect(CL_CRC, place, size, f"the body of the record at {place} does not match its BODYCRC")
    if not _record_crc_holds(record):
        sentence = f"the record at {place} does not match its property __CRC32#"
        yield Defect(CL_PROP_CRC, place, size, sentence)
    problem = number_problem(record)
    if problem:
        yield Defect(CL_NUMBER, place, size, f"a broker fails on the record at {place}: {problem}")


def _record_crc_holds(record: Record) -> bool:
    """Tell whether a record agrees with a property ``__CRC32#`` at its end, where a broker appends one."""
    reserved = record.raw[-_CRC32_RESERVED_BYTES:]
    if "__CRC32#" not in record.properties or not reserved.startswith(_CRC32_NAME):
        return True
    stated = parse_prop_crc_digits(reserved[len(_CRC32_NAME) : -1])
    return reserved.endswith(b"\x02") and stated == masked_crc32(record.raw[:-_CRC32_RESERVED_BYTES])
