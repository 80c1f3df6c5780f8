"""Names of gaps in the log: one judgement for every command.

A gap alone does not show whether it is damage: zeros after the last record are the log's end, the same zeros
before a later file's records are lost messages. So it matters whether a later file of the log holds a record
(``LogEdge``).

A log that is written by whole pages (``writeWithoutMmap``, 5.5.0+) has stale bytes after its end. Such a
broker makes a message up at the front of one of its buffers, which are never cleared, and writes on from the
message's end to the file's next page (``DefaultMappedFile#appendMessagesInner``, 5.5.0, 5.5.1; the machine's
page, 4096 bytes nearly everywhere). So what follows is what longer messages left in the buffer: the end of
one as a rule. If that one was a batch, and the message is as long as its first records, it is whole records:
copies of some further to the front, which the next start accepts.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

from rmqtool.findings import Finding, FindingCode, Severity, Structure, codes, counted
from rmqtool.formats.framing import END_MARK_BYTES, FrameHead
from rmqtool.formats.message import RECORD_MAGICS, Outcome
from rmqtool.releases import LENIENT
from rmqtool.scan.records import Gap, Record, check_record, find_true, holds_record
from rmqtool.store.broker_conf import Origin
from rmqtool.store.segments import WINDOW_BYTES, Segment, Window, finding_at

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rmqtool.io.location import UnreadableRange
    from rmqtool.store import FileQueue, Store
    from rmqtool.store.settings import Settings


PAGE_BYTES = 4096
_LOOK_BACK_BYTES = (1 << 16, 1 << 20, 1 << 23)
_ZEROS = bytes(WINDOW_BYTES)
_HOW = "writes whole pages, with what its buffer held before"


def page_writer(settings: Settings) -> str:
    """Return why bytes after the log's end are no damage within a page; empty where nothing leaves such."""
    if not settings.release.writes_whole_pages:
        return ""
    setting = settings["writeWithoutMmap"]
    if setting.origin is not Origin.GIVEN:
        return f"no damage if writeWithoutMmap is set, which is not known: it {_HOW}"
    return f"no damage, as writeWithoutMmap {_HOW}" if setting.value else ""


def ends_in_page(segment: Segment, log_offset: int) -> bool:
    """Whether all bytes of a file are zero from the next page on; at a page's start, from there on."""
    stop = -(-(log_offset - segment.start) // PAGE_BYTES) * PAGE_BYTES
    return stop >= segment.size_bytes or Window(segment).skip_zeros(stop) >= segment.size_bytes


def first_stale_record(segments: Sequence[Segment], last: int) -> int | None:
    """Return where copies of older records begin after the log's end; None if none do.

    They begin where the next record would, in the last page in use, each is a record of the log's older part
    byte by byte, as far as that is still there, and no intact record follows.
    """
    segment = segments[last]
    used = last_used_byte(segment)
    page = max(used - 1, 0) // PAGE_BYTES * PAGE_BYTES
    window, position = Window(segment), start_before(segment, used)
    while position < used:
        window.focus(position)
        record = check_record(window, position, LENIENT, base=segment.start).record
        if record is None:
            return None
        if position > page and _is_copy(record, segments):
            true = find_true(window, position + 1, segment.start, used)
            return segment.start + position if true is None else None
        position = record.frame_stop - segment.start
    return None


def copied_records(segment: Segment, log_offset: int) -> frozenset[int]:
    """Return the physical offsets that copies of older records claim, from the first copy on."""
    window, position, offsets = Window(segment), log_offset - segment.start, set()
    while position < segment.size_bytes:
        window.focus(position)
        record = check_record(window, position, LENIENT, base=segment.start).record
        if record is None:
            break
        offsets.add(record.head.physical_offset)
        position = record.frame_stop - segment.start
    return frozenset(offsets)


def _is_copy(record: Record, segments: Sequence[Segment]) -> bool:
    """Whether a record claims an older place, and equals the record there."""
    claimed = record.head.physical_offset
    if claimed >= record.physical_offset or claimed < 0:
        return False
    if claimed < segments[0].start:
        return True  # expired
    origin = next((segment for segment in segments if segment.start <= claimed < segment.stop), None)
    return origin is not None and record.raw == origin.read_at(claimed - origin.start, len(record.raw), [])


def last_used_byte(segment: Segment) -> int:
    """Return the position after the last byte that is not zero, reading backwards; holes are not read."""
    stop = segment.size_bytes
    while stop > 0:
        start = max(0, stop - WINDOW_BYTES)
        if segment.next_written(start) >= stop:
            stop = start
            continue
        data = segment.read_at(start, stop - start, [])
        if data != _ZEROS[: len(data)]:  # a comparison is far faster than the strip, and zeros are the rule
            return start + len(data.rstrip(b"\0"))
        stop = start
    return 0


def start_before(segment: Segment, data_end: int) -> int:
    """Return the position of an intact record shortly before ``data_end``, or the start of the file."""
    window = Window(segment)
    for back in _LOOK_BACK_BYTES:
        if back >= data_end:
            break
        place = find_true(window, data_end - back, segment.start, data_end)
        if place is not None:
            return place
    return 0


TORN = "the log's last record is torn, as expected after a kill or a power cut (abort is there)"
TORN_REMEDY = (
    "None needed: the next start cuts it off. If its sender got an acknowledgement, as with asynchronous "
    "flush, fetch the message from a replica, or have it sent again."
)
"""Of the last record of a store that was not stopped cleanly."""

HIDDEN_REMEDY = (
    "Take them out: rmqtool salvage STORE --out DIR. A rebuild reads as a broker, and leaves them out."
)
"""Of whole records below a frame of another place."""

_LARGEST_TEAR_BYTES = 64 << 20
_OF_RECORDS = (codes.CL_CRC, codes.CL_PROP_CRC, codes.CL_PHY_MISMATCH, codes.CL_NUMBER, codes.CL_PROPERTIES)
_REASONS = {
    Outcome.BAD_MAGIC: "0x{magic:08X} is not the magic of a record",
    Outcome.BAD_LENGTH: "TOTALSIZE {total_size}: a part runs past the end of the file or of the record",
    Outcome.MISMATCH: "the lengths do not add up to TOTALSIZE {total_size}",
    Outcome.BAD_NUMBER: "a property that must be a number is not one",
    Outcome.STOP: "the file has become shorter",
}


def ends_chain(finding: Finding) -> bool:
    """Whether a broker cannot go on at a place of the log."""
    return finding.severity is Severity.ERROR and not is_of_record(finding)


def is_of_record(finding: Finding) -> bool:
    """Whether a finding is about a record that can be read, and follows."""
    return finding.code in _OF_RECORDS and finding.remedy_override is not HIDDEN_REMEDY


def stop_of(finding: Finding) -> int:
    """Return the physical offset after the bytes that a finding is about."""
    return (finding.physical_offset or 0) + (finding.length or 0)


def classify(gap: Gap, segment: Segment, number: int, edge: LogEdge) -> Finding:
    """Return the name of a gap in file ``number`` of the log, from 0.

    The gap ends at an intact record or BLANK, or with the file.
    """
    if gap.stop < segment.stop or number < edge.last:
        return _inside(gap, segment)
    if number == edge.last:
        return _tail(gap, segment, edge)
    if gap.zero:
        return _found(codes.CL_PREALLOC, gap, segment, "only zeros in this file")
    if edge.unclean and number == edge.last + 1 and gap.start == segment.start:
        return _tail(gap, segment, edge)
    return _inside(gap, segment)


def classified(gap: Gap, segment: Segment, number: int, edge: LogEdge) -> Iterator[Finding]:
    """Yield the name of a gap, and that its file lost the BLANK with it."""
    yield classify(gap, segment, number, edge)
    torn = gap.stop == segment.stop and not gap.zero and not gap.is_end
    if torn and number < edge.last:
        yield missing_blank(segment)


def missing_blank(segment: Segment) -> Finding:
    """Return the finding about a file that ends without a BLANK."""
    return finding_at(segment, codes.CL_NO_BLANK, segment.stop, f"{segment.label} ends without BLANK")


def ghosts(segment: Segment, blank: int) -> Finding:
    """Return the finding about bytes that are not zero after the BLANK at a physical offset."""
    return finding_at(segment, codes.CL_GHOST, blank, length=segment.stop - blank)


def gap_between(segment: Segment, two: Segment, file_size: int | None = None) -> Finding | None:
    """Return the finding of a gap between two files that follow each other; None if they join.

    A file that is shorter than ``file_size`` is a stray, and no gap.
    """
    stop = segment.start + (file_size or segment.size_bytes)
    if two.start <= stop:
        return None
    sentence = f"between {segment.label} and {two.label} {two.start - stop} bytes of the log are missing"
    return finding_at(two, codes.CL_GAP, stop, sentence, length=two.start - stop)


def unreadable_part(segment: Segment, bad: UnreadableRange) -> Finding:
    """Return the finding about bytes that the disk did not deliver."""
    sentence = f"{bad.length} bytes of {segment.label} cannot be read; taken for zeros"
    return finding_at(
        segment,
        codes.IO_UNREADABLE,
        segment.start + bad.position,
        sentence,
        length=bad.length,
        structure_override=Structure.COMMITLOG,
    )


def _inside(gap: Gap, segment: Segment) -> Finding:
    """Name damage that records follow, in this file or a later one."""
    if gap.reason is Outcome.FOREIGN:
        return _hiding(gap, segment)
    to_end = gap.stop == segment.stop
    length = counted(gap.length, "byte")
    if gap.is_end and not to_end:
        message = f"BLANK of TOTALSIZE {gap.total_size}, but records continue after {length}"
        return _found(codes.CL_BLANK_LEN, gap, segment, message, Severity.ERROR)
    if gap.is_end:
        return _blank_length(gap, segment)
    if gap.zero and to_end and gap.start > segment.start:
        message = f"zeros up to the end of the file ({length}), though the log continues after it"
        return _found(codes.CL_TRANSIENT, gap, segment, message, Severity.ERROR)
    if gap.begins_with_zeros:
        return _found(codes.CL_HOLE, gap, segment, f"zeros where a record should begin: {length} lost")
    return _found(_code(gap, segment), gap, segment, f"{_reason(gap)}: {length} lost")


def _hiding(gap: Gap, segment: Segment) -> Finding:
    from rmqtool.scan.gap_walk import (
        count_hidden,  # loads kernels, for logs that need it
    )

    below = counted(count_hidden(segment, gap), "whole record", spec=",")
    message = (
        f"a frame of {gap.total_size} bytes that names another offset, over {below} from {gap.stop} on: a "
        "broker skips them"
    )
    return _found(codes.CL_PHY_MISMATCH, gap, segment, message, None, HIDDEN_REMEDY)


def _tail(gap: Gap, segment: Segment, edge: LogEdge) -> Finding:
    """Name the bytes after the last record of the log."""
    if gap.zero:
        return _found(codes.CL_TAIL_ZERO, gap, segment, "")
    if gap.is_end:
        return _blank_length(gap, segment)
    if edge.page_writer and not gap.own and ends_in_page(segment, gap.start):
        return _page_tail(gap, segment, edge)
    if gap.begins_with_zeros or not (gap.own or _is_short(gap)):
        message = f"bytes that are no record after the log's end: {_reason(gap)}"
        return _found(codes.CL_TAIL_DIRTY, gap, segment, message)
    code = _code(gap, segment)
    if edge.unclean:
        message = f"{TORN}: {_reason(gap)}"
        return _found(code, gap, segment, message, Severity.WARNING, TORN_REMEDY)
    message = f"the log's last record is damaged, and no crash explains it: {_reason(gap)}"
    return _found(code, gap, segment, message, Severity.ERROR)


def _page_tail(gap: Gap, segment: Segment, edge: LogEdge) -> Finding:
    """Name the bytes that a broker writes after the last record, up to the next page."""
    message = (
        f"stale bytes after the log's end, none after the next multiple of {PAGE_BYTES} in the file:"
        f" {edge.page_writer}"
    )
    if gap.start == edge.stale_from:
        message += "; they begin with a copy of an older record, which the next start puts at the log's end"
    return _found(codes.CL_TAIL_DIRTY, gap, segment, message, Severity.INFO)


def _is_short(gap: Gap) -> bool:
    return gap.length < END_MARK_BYTES


def _blank_length(gap: Gap, segment: Segment) -> Finding:
    left = segment.stop - gap.start
    rest = counted(left, "byte is", "bytes are")
    message = f"BLANK of TOTALSIZE {gap.total_size} where {rest} left in the file"
    return finding_at(
        segment, codes.CL_BLANK_LEN, gap.start, message, length=left, expected=left, observed=gap.total_size
    )


def failure_code(outcome: Outcome | None, start: FrameHead | Gap, left: int) -> FindingCode:
    """Return the code of what a broker fails on, whatever lies around it.

    ``outcome`` is None where only the body's checksum is wrong; ``left`` is the bytes up to the end of the
    file.
    """
    if outcome is None:
        return codes.CL_CRC
    if outcome is Outcome.BAD_NUMBER:
        return codes.CL_NUMBER
    if outcome not in {Outcome.BAD_LENGTH, Outcome.MISMATCH, Outcome.STOP}:
        return codes.CL_BAD_MAGIC
    if left < END_MARK_BYTES:
        return codes.CL_NO_BLANK
    if _is_foreign(outcome, start):
        return codes.CL_BAD_MAGIC
    torn = outcome is Outcome.STOP or 0 < start.total_size <= left + _LARGEST_TEAR_BYTES
    return codes.CL_HALF_RECORD if torn else codes.CL_HUGE_SIZE  # the largest file is below 2 GiB


def _code(gap: Gap, segment: Segment) -> FindingCode:
    return failure_code(gap.reason, gap, segment.stop - gap.start)


def _is_foreign(outcome: Outcome, start: FrameHead | Gap) -> bool:
    """Whether it has no record's magic: 5.3.2+ checks TOTALSIZE before it."""
    return outcome is Outcome.BAD_LENGTH and not start.is_end and start.magic not in RECORD_MAGICS


def _reason(gap: Gap) -> str:
    foreign = _is_foreign(gap.reason, gap) and not _is_short(gap)
    reason = Outcome.BAD_MAGIC if foreign else gap.reason
    return _REASONS[reason].format(magic=gap.magic & 0xFFFFFFFF, total_size=gap.total_size)


def _found(
    code: FindingCode,
    gap: Gap,
    segment: Segment,
    message: str,
    severity: Severity | None = None,
    remedy: str | None = None,
) -> Finding:
    return finding_at(
        segment,
        code,
        gap.start,
        message,
        length=gap.length or None,
        severity_override=severity,
        remedy_override=remedy,
    )


class LogEdge(Protocol):
    """Questions of the judge about a log as a whole."""

    @property
    def last(self) -> int:
        """Return the number of the last file that holds a record, -1 if none does."""

    @property
    def unclean(self) -> bool:
        """Whether ``abort`` is there: a torn record at the end is what the next start expects."""

    @property
    def page_writer(self) -> str:
        """Return what to say of a log written by whole pages ; empty if none writes so."""

    @property
    def stale_from(self) -> int | None:
        """Return where copies of older records begin after the log's end; None if none do."""


@dataclass(frozen=True)
class FoundEdge:
    """The edge of a log that is read from the front: looked for after the reader, when it is needed.

    Attributes:
        segments: The log's files, by start.
        unclean: See ``LogEdge``.
        file_size: ``mappedFileSizeCommitLog``; None: every file is as long as it should be.
        page_writer: See ``LogEdge``.
    """

    segments: Sequence[Segment]
    unclean: bool = False
    file_size: int | None = None
    page_writer: str = ""

    @classmethod
    def of(cls, store: Store, log: FileQueue | None = None) -> FoundEdge:
        """Return the edge of a store's log, or of what is taken for that log."""
        size = store.settings.commitlog_file_size
        segments = (store.own_log if log is None else log).segments
        known = any(segment.size_bytes == size for segment in segments)
        writer = page_writer(store.settings)
        return cls(segments, store.is_end_torn_by_kill, size if known else None, writer)

    def missing_before(self, number: int) -> Finding | None:
        """Return the finding of a gap before a file; None if it joins the one before it, or is the first."""
        if number == 0:
            return None
        return gap_between(self.segments[number - 1], self.segments[number], self.file_size)

    @cached_property
    def last(self) -> int:
        """Return the number of the last file that holds a record, -1 if none does."""
        for number in reversed(range(len(self.segments))):
            if holds_record(self.segments[number]):
                return number
        return -1

    @cached_property
    def stale_from(self) -> int | None:
        """Return where copies of older records begin after the log's end; None if none do."""
        if not self.page_writer or self.last < 0:
            return None
        return first_stale_record(self.segments, self.last)
