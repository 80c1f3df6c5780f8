"""Walk of the log, record by record, with the damage between, and the log's end, found from the back.

The walk follows a chain of records as a broker does. Where the chain breaks, it searches the next intact
record and names the bytes between (``classify``). ``gap_walk`` does so at memory speed. Nothing on disk
states where a log ends, and reading all of it takes minutes: so only its last files are walked.
"""

from __future__ import annotations

from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from rmqtool.findings import Finding, FindingCode, Severity, codes
from rmqtool.formats.framing import END_MARK_BYTES
from rmqtool.formats.message import Outcome
from rmqtool.javacompat import PROP_CRC_NAME, PROP_CRC_SIZE, masked_crc32, parse_prop_crc_digits
from rmqtool.releases import LENIENT
from rmqtool.scan.classify import (
    FoundEdge,
    classified,
    ends_chain,
    ghosts,
    is_of_record,
    last_used_byte,
    missing_blank,
    start_before,
    stop_of,
    unreadable_part,
)
from rmqtool.scan.records import (
    Checked,
    Gap,
    Record,
    check_record,
    find_true,
    is_file_end,
    is_true,
    number_problem,
)
from rmqtool.store.segments import Segment, Window

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rmqtool.scan.gap_walk import HiddenRecords
    from rmqtool.store import Store


LOOK_BACK_BYTES = 8 << 20
"""Distance before a start at which the search begins: two messages of the default maximum."""


class BlankRecord(NamedTuple):
    """The record that closes a full file."""

    physical_offset: int
    total_size: int


LogEvent = Record | BlankRecord | Finding


def walk_log(
    edge: FoundEdge, begin: int = 0, end: int | None = None, on_damage: str = "resync"
) -> Iterator[LogEvent]:
    """Yield records, end marks and defects between two physical offsets, in the order of the log.

    If ``begin`` is inside a record, the next one is the first; records that start at ``end`` or later are
    left out. A record with a wrong checksum, or one that claims another place, comes after its defect.
    ``on_damage`` is ``resync``, or ``stop`` to end with it.
    """
    for number, segment in enumerate(edge.segments):
        if end is not None and segment.start >= end:
            return
        if segment.stop <= begin:
            continue
        missing = edge.missing_before(number) if segment.start > begin else None
        before = () if missing is None else (missing,)
        for event in chain(before, ChainWalk(number, edge).run(begin, end)):
            yield event
            if on_damage == "stop" and isinstance(event, Finding) and ends_chain(event):
                return


def walk(
    segments: Sequence[Segment], begin: int = 0, end: int | None = None, on_damage: str = "resync"
) -> Iterator[LogEvent]:
    """Yield as `walk_log` does, of files of which no more is known than themselves."""
    return walk_log(FoundEdge(segments), begin, end, on_damage)


class ChainWalk:
    """The walk of one file, which has a number in its log, from 0."""

    def __init__(self, number: int, edge: FoundEdge) -> None:
        self._number = number
        self._edge = edge
        self._segment = edge.segments[number]
        self._window = Window(self._segment)

    def run(self, begin: int, end: int | None) -> Iterator[LogEvent]:
        """Yield records and gaps between two physical offsets, as ``walk_log`` does."""
        stop = self._window.size_bytes if end is None else end - self._segment.start
        first = max(0, begin - self._segment.start)
        for event in self._walk(self._safe_start(first), stop):
            yield from self._unreadable()
            if (event.physical_offset or 0) >= begin or _covers(event, begin):
                yield event
        yield from self._unreadable()

    def events(self, log_offset: int, stop: int) -> Iterator[LogEvent]:
        """Yield what lies from physical offset ``log_offset``, where a record is due, to ``stop``."""
        start = self._segment.start
        for event in self._walk(log_offset - start, stop - start):
            yield from self._unreadable()
            yield event
        yield from self._unreadable()

    def _safe_start(self, first: int) -> int:
        """Return a position at or before ``first`` from which the chain of records leads to it."""
        base = self._segment.start
        self._window.focus(first)
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
            hidden = None if checked.record is None else self._hidden_by(checked.record)
            if checked.record is not None and hidden is None and not self._is_stale(checked.record):
                yield from record_defects(checked.record)
                yield checked.record
                position += checked.size
                closed = False
                continue
            if is_file_end(window, position):
                yield BlankRecord(base + position, window.size_bytes - position)
                if window.skip_zeros(position + END_MARK_BYTES) < window.size_bytes:
                    yield ghosts(self._segment, base + position)
                return
            gap = self._gap(position, checked, hidden)
            yield from classified(gap, self._segment, self._number, self._edge)
            position = gap.stop - base
            closed = True
            if gap.is_end and position == window.size_bytes:
                yield BlankRecord(gap.start, gap.total_size)
        if position == window.size_bytes <= stop and not closed:
            yield missing_blank(self._segment)

    def _is_stale(self, record: Record) -> bool:
        """Whether copies of older records begin here, which lie after the log's end."""
        is_copy = record.head.physical_offset != record.physical_offset
        return is_copy and self._edge.stale_from == record.frame_start

    @cached_property
    def _hidden(self) -> HiddenRecords:
        """Load kernels only at a frame of another place: look-ups in sound logs need none."""
        from rmqtool.kernels.rows import rules_of
        from rmqtool.scan.gap_walk import HiddenRecords

        return HiddenRecords(self._segment, rules_of(LENIENT))

    def _hidden_by(self, record: Record) -> int | None:
        """Return where the first intact record begins below one that names another place."""
        start = record.physical_offset
        if record.head.physical_offset == start:
            return None
        body_stop = start + record.body_start + record.body_length
        start, stop = record.frame_start, record.frame_stop
        return self._hidden.below(start, stop, body_stop, lambda: record.body_crc_holds)

    def _gap(self, position: int, checked: Checked, hidden: int | None) -> Gap:
        """Return the bytes from ``position`` to the next intact record or end mark, or to the file's end.

        ``hidden`` is the physical offset of an intact record below it, if any.
        """
        window, base, framing = self._window, self._segment.start, self._segment.framing
        data_at = window.skip_zeros(position)
        first = max(position + 1, data_at - framing.most_zeros)
        following = find_true(window, first, base) if hidden is None else hidden - base
        stop = window.size_bytes if following is None else following
        head = framing.head(window.read_at(position, framing.head_size))
        reason = Outcome.MISMATCH if checked.record is not None else checked.outcome or Outcome.BAD_MAGIC
        reason = reason if hidden is None else Outcome.FOREIGN
        return Gap(
            start=base + position,
            stop=base + stop,
            reason=Outcome.MISMATCH if reason is Outcome.FILE_END else reason,
            total_size=head.total_size,
            magic=head.magic,
            own=head.physical_offset == base + position + framing.lead,
            data_start=base + min(data_at, stop),
            is_end=head.is_end,
        )

    def _unreadable(self) -> Iterator[Finding]:
        for bad in self._window.take_unreadable():
            yield unreadable_part(self._segment, bad)


def _covers(event: LogEvent, begin: int) -> bool:
    """Whether this is damage that starts before ``begin`` and reaches over it."""
    return isinstance(event, Finding) and not is_of_record(event) and stop_of(event) > begin


def record_defects(record: Record) -> Iterator[Finding]:
    """Yield the defects of a well-framed record: of its place, its checksums, its numbers."""
    log_offset, claimed = record.physical_offset, record.head.physical_offset
    if claimed != log_offset:
        yield record_finding(
            codes.CL_PHY_MISMATCH, record, f"the record at {log_offset} names the offset {claimed}"
        )
    if not record.body_crc_holds:
        code = codes.CL_CRC if record.head.body_crc else codes.CL_NO_CRC
        sentence = f"the body of the record at {log_offset} does not match its BODYCRC"
        yield record_finding(code, record, sentence)
    if not _record_crc_holds(record):
        sentence = f"the record at {log_offset} does not match its property __CRC32#"
        yield record_finding(codes.CL_PROP_CRC, record, sentence)
    problem = number_problem(record)
    if problem:
        sentence = f"a broker fails on the record at {log_offset}: {problem}"
        yield record_finding(codes.CL_NUMBER, record, sentence)


def record_finding(
    code: FindingCode, record: Record, message: str, severity: Severity | None = None
) -> Finding:
    """Return a finding about a record, without the file that has it."""
    return Finding(
        code=code,
        physical_offset=record.physical_offset,
        length=len(record.raw),
        message=message,
        severity_override=severity,
    )


def _record_crc_holds(record: Record) -> bool:
    """Whether a record agrees with a property ``__CRC32#`` at its end, where a broker appends one."""
    reserved = record.raw[-PROP_CRC_SIZE:]
    if "__CRC32#" not in record.properties or not reserved.startswith(PROP_CRC_NAME):
        return True
    stated = parse_prop_crc_digits(reserved[len(PROP_CRC_NAME) : -1])
    return reserved.endswith(b"\x02") and stated == masked_crc32(record.raw[:-PROP_CRC_SIZE])


_NORMAL = (codes.CL_TAIL_ZERO, codes.CL_GHOST)


class LogEnd(NamedTuple):
    """The last record of a log.

    Attributes:
        last: The record, None in a log without any.
        end: Physical offset after the last record or end mark; the log's start when there is none.
        tail: Bytes after it in that file, if they are not all zeros.
    """

    last: Record | None
    end: int
    tail: Finding | None

    @property
    def last_ms(self) -> int | None:
        """Store time of the last record."""
        return None if self.last is None else self.last.head.store_timestamp_ms

    @property
    def ends_cleanly(self) -> bool:
        """Whether only zeros follow, nothing, or what is left in a page as ever."""
        return self.tail is None or self.tail.severity is Severity.INFO


class LogExtent(NamedTuple):
    """Extent of a log; a later read compares it to see whether the log has changed.

    Attributes:
        start: Physical offset of its first file.
        end: Physical offset after its last record.
    """

    start: int
    end: int

    @classmethod
    def of(cls, store: Store) -> LogExtent:
        """Find the extent of a store's log; little of it is read."""
        edge = FoundEdge.of(store)
        end = find_log_end(edge).end
        for segment in edge.segments:
            segment.close()
        return cls(edge.segments[0].start if edge.segments else 0, end)


def first_record(segments: Sequence[Segment]) -> Record | None:
    """Return the record that the log begins with; None if its first bytes are none."""
    if not segments:
        return None
    return check_record(Window(segments[0]), 0, LENIENT, base=segments[0].start).record


def find_log_end(edge: FoundEdge) -> LogEnd:
    """Find the last record of the log, and where it ends.

    In the last file that holds a record, true ones are searched backwards from the last byte that is not
    zero, and the chain is followed from there to its end. Damage further to the front is not seen.
    """
    if edge.last >= 0:
        return _end_of_segment(edge)
    segments = edge.segments
    return LogEnd(None, segments[0].start if segments else 0, None)


def _end_of_segment(edge: FoundEdge) -> LogEnd:
    segment = edge.segments[edge.last]
    last, end, tail = None, segment.start, None
    start = segment.start + start_before(segment, last_used_byte(segment))
    for event in ChainWalk(edge.last, edge).run(start, None):
        if isinstance(event, Record):
            last, end, tail = event, event.frame_stop, None
        elif isinstance(event, BlankRecord):
            end = segment.stop
        elif not is_of_record(event) and tail is None and event.code not in _NORMAL:
            tail = event
    return LogEnd(last, end, tail)
