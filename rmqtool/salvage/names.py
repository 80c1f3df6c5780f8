"""Files of a log under names that are not their own: the places that their records name are right."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from rmqtool.releases import LENIENT
from rmqtool.scan.gap_walk import GapWalk
from rmqtool.scan.gaps import Gap
from rmqtool.scan.record_at import record_at

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.store.segments import FileQueue, Segment

_TRIED = 64  # records of a file, until one is sound
_READ_SO = (
    "{label}: its records name the file that begins at {start}, and none lies where its own name says: read"
    " as that file"
)


def under_own_names(log: FileQueue, file_size: int) -> FileQueue:
    """Return a log whose files lie where their records say, if none of these is where its name says.

    A file stays where it is if another has the place that it claims, or claims it, too.

    Args:
        log: its files.
        file_size: ``mappedFileSizeCommitLog``.

    Raises:
        EnvironmentFailureError: a file cannot be opened or read.
    """
    moves = {
        one.start: own
        for one in log
        if (own := _claimed(log, one, file_size)) is not None and not _has_own(one)
    }
    starts, refused = {one.start for one in log}, {-1}
    while refused:
        claims = Counter(moves.values())
        refused = {at for at, own in moves.items() if claims[own] > 1 or own in starts - moves.keys()}
        moves = {at: own for at, own in moves.items() if at not in refused}
    segments = [replace(one, start=moves.get(one.start, one.start)) for one in log]
    return replace(log, segments=tuple(sorted(segments, key=lambda one: one.start))) if moves else log


def misnamed(log: FileQueue, read: FileQueue) -> Iterator[str]:
    """Yield a sentence about each file of a log that is read as another."""
    starts = {segment.label: segment.start for segment in read}
    for segment in log:
        if starts[segment.label] != segment.start:
            yield _READ_SO.format(label=segment.label, start=starts[segment.label])


def _claimed(log: FileQueue, segment: Segment, file_size: int) -> int | None:
    """Return where a file begins by its first sound record, if that is the place of another file."""
    alone, at = replace(log, segments=(segment,)), segment.start
    for _ in range(_TRIED):
        record = record_at(alone, at)
        if record is None:
            return None
        own = record.head.physical_offset - (at - segment.start)
        if record.body_crc_holds:
            is_place = own >= 0 and own != segment.start and (own - segment.start) % file_size == 0
            return own if is_place else None
        at += len(record.raw)
    return None


def _has_own(segment: Segment) -> bool:
    """Whether any record of a file lies where it says."""
    for part in GapWalk(segment, LENIENT).parts(segment.start, segment.stop):
        if not isinstance(part, Gap) and (part.rows["physical_offset"] == part.rows["log_offset"]).any():
            return True
    return False
