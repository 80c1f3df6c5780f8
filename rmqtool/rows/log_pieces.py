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
from rmqtool.rows.log_splits import LogSplit, read_split
from rmqtool.rows.messages import MessageRows
from rmqtool.scan.classify import missing_blank
from rmqtool.scan.log_edge import FoundEdge
from rmqtool.scan.record_walk import ChainWalk
from rmqtool.scan.records import Record
from rmqtool.scan.splits import stitch

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from rmqtool import rows
    from rmqtool.rows.log_splits import LogJob, ReadSplit


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
        self._segment = segment = edge.segments[number]
        self._make = MessageRows(job.log, job.delay_levels)
        self._log_offset: int | None = segment.start
        self._closed = True

    def pieces(self, pool: ThreadPoolExecutor, ahead: int) -> Iterator[rows.Row]:
        """Yield pieces of the file, at most ``ahead`` splits being done before they are wanted."""
        yield from self._before_first_split()
        if self._log_offset is None:
            return
        results = self._results(self._splits(self._log_offset), pool, ahead)
        with closing(results):
            for read in stitch(results, self._log_offset, _read_again):
                self._log_offset = None if read.ended else read.next_log_offset
                self._closed = read.closed
                yield from read.rows
        yield from self._without_blank()

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
                self._job.tell(read.split.stop)
        finally:
            for future in waiting:
                future.cancel()

    def _before_first_split(self) -> Iterator[rows.Row]:
        """Yield what is missing before the file; begin at the first message after the job's beginning."""
        begin, segment = self._job.begin, self._segment
        gap = self._edge.missing_before(self._number)
        if segment.start >= begin:
            if gap is not None and segment.start > begin:
                yield self._make.row(gap)
            return
        self._log_offset = None
        for event in ChainWalk(self._number, self._edge).run(begin, self._job.end):
            if not isinstance(event, Record) or self._job.messages.admits(event):
                yield self._make.row(event)
            if isinstance(event, Record):
                self._log_offset, self._closed = event.physical_offset + len(event.raw), False
                return

    def _splits(self, start: int) -> list[LogSplit]:
        stop = self._segment.stop if self._job.end is None else min(self._segment.stop, self._job.end)
        bounds = [*range(start, stop, self._job.split_bytes), max(stop, start)]
        return [
            LogSplit(self._job, self._edge, self._number, one, two, first=start if one == start else None)
            for one, two in pairwise(bounds)
        ]

    def _without_blank(self) -> Iterator[rows.Row]:
        stop = self._segment.stop
        wanted = self._job.end is None or stop <= self._job.end
        if self._log_offset == stop and wanted and not self._closed:
            yield self._make.row(missing_blank(self._segment))


def _read_again(read: ReadSplit, first: int) -> ReadSplit:
    """Read a split whose first record is not the one that was guessed."""
    return read_split(replace(read.split, first=first))
