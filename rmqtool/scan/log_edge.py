"""Edge of a log: the facts about the log around a gap, by which the gap is judged."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

from rmqtool.scan.classify import gap_between
from rmqtool.scan.page_tail import first_stale_record, page_writer
from rmqtool.scan.resync import holds_record

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rmqtool.scan.classify import Defect
    from rmqtool.store import FileQueue, Store
    from rmqtool.store.segments import Segment


class LogEdge(Protocol):
    """What the judge asks of a log as a whole."""

    @property
    def last(self) -> int:
        """Return the number of the last file that holds a record, -1 if none does."""
        ...

    @property
    def unclean(self) -> bool:
        """Whether ``abort`` is there: a torn record at the end is what the next start expects."""
        ...

    @property
    def page_writer(self) -> str:
        """Return what to say of a log written by whole pages (``page_tail``); empty if none writes so."""
        ...

    @property
    def stale_from(self) -> int | None:
        """Return where copies of older records begin after the log's end; None if none do."""
        ...


@dataclass(frozen=True)
class FoundEdge:
    """The edge of a log that is read from the front: looked for after the reader, when it is asked for.

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
        segments = (store.commitlog if log is None else log).segments
        size = store.settings.commitlog_file_size
        known = any(segment.size_bytes == size for segment in segments)
        writer = page_writer(store.settings)
        return cls(segments, store.is_end_torn_by_kill, size if known else None, writer)

    def missing_before(self, number: int) -> Defect | None:
        """Return what is missing in front of a file; None if it joins the one before it, or is the first."""
        if number == 0:
            return None
        return gap_between(self.segments[number - 1], self.segments[number], self.file_size)

    @cached_property
    def last(self) -> int:
        """Return the number of the last file that holds a record, -1 if none does."""
        numbers = reversed(range(len(self.segments)))
        return next((number for number in numbers if holds_record(self.segments[number])), -1)

    @cached_property
    def stale_from(self) -> int | None:
        """Return where copies of older records begin after the log's end; None if none do."""
        if not self.page_writer or self.last < 0:
            return None
        return first_stale_record(self.segments, self.last)
