"""Stale bytes after the end of a log that is written by whole pages: ``writeWithoutMmap``, 5.5.0+.

Such a broker makes a message up at the front of one of its buffers, which are never cleared, and writes on
from the message's end to the file's next page (``DefaultMappedFile#appendMessagesInner``, 5.5.0, 5.5.1; the
machine's page, 4096 bytes nearly everywhere). So what follows is what longer messages left in the buffer: the
end of one as a rule. If that one was a batch, and the message is as long as its first records, it is whole
records: copies of some further to the front, which the next start accepts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqtool.releases import LENIENT
from rmqtool.scan.records import Record, check_record, find_true
from rmqtool.scan.window import WINDOW_BYTES, Window
from rmqtool.store.setting import Origin

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rmqtool.store.segments import Segment
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
    byte by byte, as far as that is still there, and no true record follows.

    Args:
        segments: of the log, by start.
        last: number of the last one that holds a record.
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
        position += len(record.raw)
    return None


def copied_records(segment: Segment, log_offset: int) -> frozenset[int]:
    """Return the physical offsets that copies of older records claim, from the first copy on."""
    window, position, found = Window(segment), log_offset - segment.start, set()
    while position < segment.size_bytes:
        window.focus(position)
        record = check_record(window, position, LENIENT, base=segment.start).record
        if record is None:
            break
        found.add(record.head.physical_offset)
        position += len(record.raw)
    return frozenset(found)


def _is_copy(record: Record, segments: Sequence[Segment]) -> bool:
    """Whether a record claims an older place, and is what lies there."""
    claimed = record.head.physical_offset
    if claimed >= record.physical_offset or claimed < 0:
        return False
    if claimed < segments[0].start:
        return True  # expired
    origin = next((one for one in segments if one.start <= claimed < one.stop), None)
    return origin is not None and record.raw == origin.read_at(claimed - origin.start, len(record.raw), [])


def last_used_byte(segment: Segment) -> int:
    """Return the position after the last byte that is not zero, reading backwards; holes are not read."""
    stop = min(segment.end_of_data(), segment.size_bytes)
    while stop > 0:
        start = max(0, stop - WINDOW_BYTES)
        if segment.next_data(start) >= stop:
            stop = start
            continue
        data = segment.read_at(start, stop - start, [])
        if data != _ZEROS[: len(data)]:  # a comparison is far faster than the strip, and zeros are the rule
            return start + len(data.rstrip(b"\0"))
        stop = start
    return 0


def start_before(segment: Segment, data_end: int) -> int:
    """Return the position of a true record shortly before ``data_end``, or the start of the file."""
    window = Window(segment)
    for back in _LOOK_BACK_BYTES:
        if back >= data_end:
            break
        found = find_true(window, data_end - back, segment.start, data_end)
        if found is not None:
            return found
    return 0
