"""A large part of the log as ndjson: kernels write the plain messages, on all cores, rows are the rest.

The log is cut into splits. Each but the first of a file begins at the first true record it finds; where the
split before did not end there, it is done again from that end, so the result is that of one walk.
"""

from __future__ import annotations

from collections import deque
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

from rmqtool.commands.dump.line_splits import Split, write_split
from rmqtool.engine.local import usable_cpus
from rmqtool.rows.messages import MessageRows
from rmqtool.scan.record_walk import ChainWalk, gap_between, missing_blank
from rmqtool.scan.records import Record

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rmqtool import rows
    from rmqtool.commands.dump.line_splits import LineJob, Written
    from rmqtool.store import Segment


def log_lines(job: LineJob) -> Iterator[rows.Row]:
    """Yield lines and rows of a log, in its order.

    Raises:
        EnvironmentFailureError: A file cannot be opened or read.
    """
    threads = usable_cpus()
    pool = ThreadPoolExecutor(threads, thread_name_prefix="rmqtool")
    try:
        segments = job.log.segments
        for number, segment in enumerate(segments):
            if job.end is not None and segment.start >= job.end:
                return
            if segment.stop > job.begin:
                before = segments[number - 1] if number else None
                yield from _Segment(job, segment, before, segments[number + 1 :]).written(pool, 2 * threads)
    finally:
        pool.shutdown(cancel_futures=True)


class _Segment:
    """One file of the log."""

    def __init__(
        self, job: LineJob, segment: Segment, before: Segment | None, later: tuple[Segment, ...]
    ) -> None:
        self._job = job
        self._segment = segment
        self._before = before
        self._later = later
        self._make = MessageRows(job.log, job.delay_levels)
        self._place: int | None = segment.start
        self._closed = True

    def written(self, pool: ThreadPoolExecutor, ahead: int) -> Iterator[rows.Row]:
        """Yield lines and rows of the file, at most ``ahead`` splits being done before they are wanted."""
        yield from self._before_first_split()
        if self._place is None:
            return
        splits = self._splits(self._place)
        waiting = deque((split, pool.submit(write_split, split)) for split in splits[:ahead])
        following = iter(splits[ahead:])
        try:
            while waiting and self._place is not None:
                split, future = waiting.popleft()
                written = future.result()
                later = next(following, None)
                if later is not None:
                    waiting.append((later, pool.submit(write_split, later)))
                yield from self._joined(split, written)
                self._job.tell(split.stop)
        finally:
            for _, future in waiting:
                future.cancel()
        yield from self._without_blank()

    def _before_first_split(self) -> Iterator[rows.Row]:
        """Yield what is missing before the file; begin at the first message behind the job's beginning."""
        begin, segment = self._job.begin, self._segment
        gap = None if self._before is None else gap_between(self._before, segment)
        if segment.start >= begin:
            if gap is not None and segment.start > begin:
                yield self._make.row(gap)
            return
        self._place = None
        for event in ChainWalk(segment, self._later).run(begin, self._job.end):
            if not isinstance(event, Record) or self._job.messages.admits(event):
                yield self._make.row(event)
            if isinstance(event, Record):
                self._place, self._closed = event.physical_offset + len(event.raw), False
                return

    def _splits(self, start: int) -> list[Split]:
        stop = self._segment.stop if self._job.end is None else min(self._segment.stop, self._job.end)
        bounds = [*range(start, stop, self._job.split_bytes), max(stop, start)]
        return [
            Split(self._job, self._segment, self._later, one, two, first=start if one == start else None)
            for one, two in pairwise(bounds)
        ]

    def _joined(self, split: Split, written: Written) -> Iterable[rows.Row]:
        """Return the rows of a split, which must begin where the one before it ended."""
        place = self._place
        if place is None or place >= split.stop:
            return ()
        if written.first != place:
            written = write_split(replace(split, first=place))
        self._place = None if written.ended else written.end
        self._closed = written.closed
        return written.rows

    def _without_blank(self) -> Iterator[rows.Row]:
        stop = self._segment.stop
        wanted = self._job.end is None or stop <= self._job.end
        if self._place == stop and wanted and not self._closed:
            chain = ChainWalk(self._segment, self._later)
            if chain.goes_on():
                yield self._make.row(missing_blank(self._segment))
