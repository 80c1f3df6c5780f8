"""Pieces of a large log for tasks of their own: ``export``'s files, Spark's partitions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

from rmqtool.columns.encoder import COLUMN_SPLIT_BYTES, ColumnJob
from rmqtool.rows.log_splits import Ranges, before_segment, within
from rmqtool.scan.classify import FoundEdge
from rmqtool.scan.log_pass import Split, SplitTask, read_split

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rmqtool import rows
    from rmqtool.columns.names import ColumnChoice
    from rmqtool.rows.messages import MessageFilter
    from rmqtool.store import Store

TASK_BYTES = 256 << 20
"""Bytes that one task reads; smaller files of the log are combined."""


def log_job(
    store: Store, messages: MessageFilter, begin: int | None, end: int | None, choice: ColumnChoice
) -> ColumnJob:
    """Return the job that reads columns of a store's log between two physical offsets."""
    log = store.commitlog
    edge = FoundEdge.of(store, log)
    return ColumnJob(log, store.settings.delay_levels, messages, choice, begin=begin or 0, end=end, edge=edge)


@dataclass(frozen=True)
class LogPiece:
    """Range of one file of the log, in physical offsets.

    ``number`` counts files from 0; ``first`` is the offset of the first record, None if that is to be found;
    ``range`` is the part of the file that it belongs to; ``lead`` are rows of bytes before the first piece of
    a file.
    """

    number: int
    start: int
    stop: int
    first: int | None
    range: tuple[int, int]
    lead: tuple[rows.Row, ...] = ()


@dataclass
class PieceEnd:
    """Result of a piece; see `rmqtool.rows.log_splits.ReadSplit`."""

    piece: LogPiece
    first_log_offset: int | None
    next_log_offset: int = 0
    closed: bool = True
    ended: bool = False

    @property
    def split_stop(self) -> int:
        """Physical offset after the piece."""
        return self.piece.stop


def trimmed(job: ColumnJob, pieces: Sequence[LogPiece]) -> tuple[ColumnJob, tuple[LogPiece, ...]]:
    """Reduce a job to the files that pieces read or judge gaps by; return it and the renumbered pieces."""
    facts = job.facts
    last = len(facts.segments) - 1
    wanted = {number + by for one in pieces for number in (one.number,) for by in (-1, 0, 1)}
    numbers = sorted({min(max(number, 0), last) for number in wanted | {facts.last}})
    segments = tuple(facts.segments[number] for number in numbers)
    own = {number: place for place, number in enumerate(numbers)}
    log, edge = replace(job.log, segments=segments, strays=()), replace(facts, segments=segments)
    return replace(job, log=log, edge=edge), tuple(replace(one, number=own[one.number]) for one in pieces)


def pieces_of(
    job: ColumnJob, task_bytes: int, ranges: Ranges | None = None
) -> tuple[list[tuple[LogPiece, ...]], list[rows.Row]]:
    """Return the pieces of each task, and rows of files of the log in which nothing is to be read.

    Only a piece that is alone in its task may lack its first record. Files outside of the wanted offsets are
    not read. ``ranges`` are where wanted messages can lie; None is anywhere.
    """
    tasks = _Tasks(task_bytes)
    others: list[rows.Row] = []
    for number, segment in enumerate(job.facts.segments):
        if segment.stop <= job.begin or (job.end is not None and segment.start >= job.end):
            continue
        lead, start = before_segment(job, job.facts, number)
        stop = segment.stop if job.end is None else min(segment.stop, job.end)
        parts = () if start is None else within(ranges, start, max(start, stop))
        if not parts:
            others.extend(lead)
        for part in parts:
            tasks.add(list(_cut(number, part, tuple(lead), task_bytes)))
            lead = []
    return tasks.finished(), others


class _Tasks:
    def __init__(self, task_bytes: int) -> None:
        self._done: list[tuple[LogPiece, ...]] = []
        self._waiting: list[LogPiece] = []
        self._room = self._task_bytes = task_bytes

    def add(self, pieces: list[LogPiece]) -> None:
        """Add the pieces of one range."""
        size = pieces[-1].stop - pieces[0].start
        if self._waiting and (len(pieces) > 1 or size > self._room):
            self.finished()
        if len(pieces) > 1:
            self._done.extend((piece,) for piece in pieces)
        else:
            self._waiting += pieces
            self._room -= size

    def finished(self) -> list[tuple[LogPiece, ...]]:
        """Return all tasks."""
        if self._waiting:
            self._done.append(tuple(self._waiting))
        self._waiting, self._room = [], self._task_bytes
        return self._done


def _cut(
    number: int, part: tuple[int, int], lead: tuple[rows.Row, ...], task_bytes: int
) -> Iterator[LogPiece]:
    """Yield the pieces of a part of one file, the first of which begins with a record."""
    start, stop = part
    yield LogPiece(number, start, min(start + task_bytes, stop), start, part, lead)
    for begin in range(start + task_bytes, stop, task_bytes):
        yield LogPiece(number, begin, min(begin + task_bytes, stop), None, part)


def piece_rows(piece: LogPiece, job: ColumnJob, end: PieceEnd) -> Iterator[rows.Row]:
    """Yield the rows of a piece, split by split, each from the end of the one before; update ``end``."""
    segment = job.facts.segments[piece.number]
    bounds = [*range(piece.start, piece.stop, COLUMN_SPLIT_BYTES), piece.stop]
    due = piece.first
    for start, stop in pairwise(bounds):
        if due is not None and due >= stop:
            continue
        read = read_split(SplitTask(job, Split(segment, start, stop), due))
        if read.first_log_offset is None:
            continue
        if end.first_log_offset is None:
            end.first_log_offset = read.first_log_offset
        yield from read.rows
        due = end.next_log_offset = read.next_log_offset
        end.closed, end.ended = read.closed, read.ended
        if read.ended:
            return
