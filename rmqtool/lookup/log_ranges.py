"""Parts of a log that can hold the messages of a filter; the rest need not be read.

Nothing is left out on the word of one structure alone. Files are left out by the store times that they begin
with, if these ascend over the whole log. Parts of files are left out where the units of all queues lie end to
end over them, record by record, and none of those records is of a wanted queue: what no unit accounts for is
read. To read the log itself, name its directory, not the store.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING

from rmqtool.scan.log_end import first_record
from rmqtool.store import PathKind

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rmqtool.progress import Progress
    from rmqtool.rows.log_splits import Ranges
    from rmqtool.rows.messages import MessageFilter
    from rmqtool.store import Segment, Store

CLOCK_SLACK_MS = 3_600_000
"""So much a broker's clock may have been set back without a message being left out."""


@dataclass(frozen=True)
class ReadLimits:
    """When it pays to look at queues before the log.

    Attributes:
        least_bytes: A smaller log is read as a whole.
        join_bytes: What lies between two ranges is read with them if it is no more than this.
        window_bytes: So much log is looked at together, unless a file is larger.
        least_units: So many units must lie end to end before they account for what they cover.
        most_read: Where ranges are a larger part of the log than this, all of it is read.
    """

    least_bytes: int = 64 << 20
    join_bytes: int = 1 << 20
    window_bytes: int = 4 << 30
    least_units: int = 8
    most_read: float = 0.5


def ranges_of(
    store: Store,
    wanted: MessageFilter,
    begin: int | None,
    end: int | None,
    progress: Progress,
    limits: ReadLimits | None = None,
) -> Ranges | None:
    """Return where wanted messages can lie; None: anywhere.

    Args:
        store: The store; of a part of one, the log is read as a whole.
        wanted: What messages must be like.
        begin: Physical offset before which nothing is wanted; None: none.
        end: Physical offset from which on nothing is wanted; None: none.
        progress: Told how much need not be read.
        limits: When to look; None: as it pays.

    Returns:
        Physical offsets ``(start, stop)``, ascending, each within a file; they begin where a record does.
    """
    limits = limits or ReadLimits()
    log = store.commitlog
    segments = list(log.between(begin or 0, log.stop if end is None else end))
    total = sum(one.size_bytes for one in segments)
    if PathKind.CONSUMEQUEUE not in store.roots or total < limits.least_bytes or _overlap(segments):
        return None
    timely = _in_time(log.segments, segments, wanted)
    if not _asks_queues(wanted):
        found: Ranges = tuple((one.start, one.stop) for one in timely)
    else:
        from rmqtool.lookup.queue_account import QueueAccount

        account = QueueAccount(store, wanted, limits)
        windows = _windows(timely, limits.window_bytes)
        found = tuple(one for window in windows for one in account.ranges(window))
    read = sum(stop - start for start, stop in found)
    if read == total:
        return None
    progress.note(f"{read:,} of {total:,} bytes of log can hold what is wanted; the rest is not read")
    return found


def _asks_queues(wanted: MessageFilter) -> bool:
    bounds = (wanted.topic, wanted.queue_id, wanted.from_queue_offset, wanted.key)
    return any(one is not None for one in bounds) and not wanted.inside_batches


def _overlap(segments: Sequence[Segment]) -> bool:
    return any(one.stop > two.start for one, two in pairwise(segments))


def _in_time(log: Sequence[Segment], segments: list[Segment], wanted: MessageFilter) -> list[Segment]:
    """Return those files that can hold messages of wanted times; all if the times do not ascend."""
    if wanted.begin_ms is None and wanted.end_ms is None:
        return segments
    times = [_first_time(one) for one in log]
    known = [time_ms for time_ms in times if time_ms is not None]
    if any(two < one for one, two in pairwise(known)):
        return segments
    following = [*accumulate(reversed(times), _nearest)][::-1]
    spans = zip(accumulate(times, _nearest), [*following[1:], None], strict=True)
    timely = {one.start for one, span in zip(log, spans, strict=True) if _may_hold(wanted, *span)}
    return [one for one in segments if one.start in timely]


def _nearest(other: int | None, own: int | None) -> int | None:
    return other if own is None else own


def _may_hold(wanted: MessageFilter, first_ms: int | None, after_ms: int | None) -> bool:
    """Whether a file can hold what is wanted that begins at one time, and the next at another."""
    if wanted.end_ms is not None and first_ms is not None and first_ms - CLOCK_SLACK_MS > wanted.end_ms:
        return False
    return wanted.begin_ms is None or after_ms is None or after_ms + CLOCK_SLACK_MS >= wanted.begin_ms


def _first_time(segment: Segment) -> int | None:
    record = first_record([segment])
    segment.close()
    return None if record is None else record.head.store_timestamp_ms


def _windows(segments: list[Segment], window_bytes: int) -> Iterator[list[Segment]]:
    """Yield files in groups, each of which is looked at together."""
    window: list[Segment] = []
    for segment in segments:
        if window and segment.stop - window[0].start > window_bytes:
            yield window
            window = []
        window.append(segment)
    if window:
        yield window
