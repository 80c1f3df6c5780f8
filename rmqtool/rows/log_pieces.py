"""A large part of the log: kernels encode the plain messages, on all cores, rows are the rest.

The log is cut into splits. Each but the first of a file begins at the first true record it finds; where the
split before did not end there, it is done again from that end, so the result is that of one walk.
"""

from __future__ import annotations

from collections import deque
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

from rmqtool.engine.local import usable_cpus
from rmqtool.rows.log_splits import LogSplit, ReadSplit, read_split, within
from rmqtool.rows.messages import MessageRows
from rmqtool.scan.classify import missing_blank
from rmqtool.scan.log_edge import FoundEdge
from rmqtool.scan.record_walk import ChainWalk
from rmqtool.scan.records import Record
from rmqtool.scan.splits import stitch

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from rmqtool import rows
    from rmqtool.rows.log_splits import EndOfSplit, LogJob
    from rmqtool.store import Segment


def log_pieces(job: LogJob) -> Iterator[rows.Row]:
    """Yield what a job makes of a log, in its order.

    Raises:
        EnvironmentFailureError: A file cannot be opened or read.
    """
    threads = usable_cpus()
    pool = ThreadPoolExecutor(threads, thread_name_prefix="rmqtool")
    try:
        edge = job.edge or FoundEdge(job.log.segments)
        for number, segment in enumerate(edge.segments):
            if job.end is not None and segment.start >= job.end:
                return
            if segment.stop > job.begin:
                yield from _Segment(job, number, edge).pieces(pool, 2 * threads)
    finally:
        pool.shutdown(cancel_futures=True)


class _Segment:
    """One file of the log."""

    def __init__(self, job: LogJob, number: int, edge: FoundEdge) -> None:
        self._job = job
        self._number = number
        self._edge = edge
        self._segment = edge.segments[number]

    def pieces(self, pool: ThreadPoolExecutor, ahead: int) -> Iterator[rows.Row]:
        """Yield pieces of the file, at most ``ahead`` splits being done before they are wanted."""
        lead, log_offset = before_segment(self._job, self._edge, self._number)
        yield from lead
        if log_offset is None:
            return
        end = self._segment.stop if self._job.end is None else min(self._segment.stop, self._job.end)
        for start, stop in within(self._job.ranges, log_offset, max(log_offset, end)):
            none = LogSplit(self._job, self._edge, self._number, start, start)
            last = ReadSplit(none, start, start, closed=start == self._segment.start)
            results = self._results(self._splits(start, stop), pool, ahead)
            with closing(results):
                for last in stitch(results, start, _read_again):
                    yield from last.rows
            yield from after_segment(self._job, self._segment, last)

    def _results(
        self, splits: list[LogSplit], pool: ThreadPoolExecutor, ahead: int
    ) -> Generator[ReadSplit, None, None]:
        """Yield what becomes of each split, at most ``ahead`` being under way."""
        waiting = deque(pool.submit(read_split, split) for split in splits[:ahead])
        following = iter(splits[ahead:])
        try:
            while waiting:
                read = waiting.popleft().result()
                later = next(following, None)
                if later is not None:
                    waiting.append(pool.submit(read_split, later))
                yield read
                self._job.advance(read.split.stop)
        finally:
            for future in waiting:
                future.cancel()

    def _splits(self, start: int, stop: int) -> list[LogSplit]:
        bounds = [*range(start, stop, self._job.split_bytes), stop]
        return [
            LogSplit(self._job, self._edge, self._number, one, two, first=start if one == start else None)
            for one, two in pairwise(bounds)
        ]


def before_segment(job: LogJob, edge: FoundEdge, number: int) -> tuple[list[rows.Row], int | None]:
    """Return what lies before the first split of a file.

    That is what is missing in front of it or, where the job begins inside of it, all up to the first message.

    Returns:
        Rows, and the physical offset at which the first split begins; None if there is none.
    """
    segment, make = edge.segments[number], MessageRows(job.log, job.delay_levels)
    if segment.start >= job.begin:
        gap = edge.missing_before(number)
        is_told = gap is not None and segment.start > job.begin
        return [make.row(gap)] if gap is not None and is_told else [], segment.start
    found: list[rows.Row] = []
    for event in ChainWalk(number, edge).run(job.begin, job.end):
        if not isinstance(event, Record) or job.messages.admits(event):
            found.append(make.row(event))
        if isinstance(event, Record):
            return found, event.physical_offset + len(event.raw)
    return found, None


def after_segment(job: LogJob, segment: Segment, last: EndOfSplit) -> list[rows.Row]:
    """Return what is missing at the end of a file, by what became of the last split that counts."""
    is_wanted = job.end is None or segment.stop <= job.end
    if last.ended or last.closed or last.next_log_offset != segment.stop or not is_wanted:
        return []
    return [MessageRows(job.log, job.delay_levels).row(missing_blank(segment))]


def _read_again(read: ReadSplit, first: int) -> ReadSplit:
    """Read a split whose first record is not the one that was guessed."""
    return read_split(replace(read.split, first=first))
