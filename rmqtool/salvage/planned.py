"""The new log as a plan says it, byte for byte, read without anybody having written it.

A source of its own (``rmqtool.io.source``): what reads a store reads this, and writing is copying it.
"""

from __future__ import annotations

import errno
from bisect import bisect_right
from dataclasses import dataclass, replace
from functools import cached_property
from operator import attrgetter
from typing import Any

from rmqtool.formats.message import TRANSACTION_ROLLBACK
from rmqtool.io import DirectoryEntry, FileKind, Location, Status
from rmqtool.salvage.making import encode_blank, encode_filler, encode_record, encode_tombstones
from rmqtool.salvage.model import Part, PartKind, SalvagePlan
from rmqtool.store.segments import FileQueue, Segment

LOG_DIRECTORY = "commitlog"
_BATCH = 1 << 14  # tombstones encoded at a time
_START = attrgetter("start")


@dataclass(frozen=True, eq=False)
class PlannedLog:
    """A plan's log as a source.

    Attributes:
        plan: what it consists of.
        logs: of the copies, by number.
        silent: tombstones are of a type that no queue takes.
    """

    plan: SalvagePlan
    logs: tuple[FileQueue, ...]
    silent: bool = False

    @cached_property
    def files(self) -> FileQueue:
        """The files of the log."""
        directory = Location(self, f"/{LOG_DIRECTORY}")
        starts = range(self.plan.start, self.plan.stop, self.plan.file_size)
        names = [(start, f"{start:020d}") for start in starts]
        size = self.plan.file_size
        segments = [
            Segment(directory / name, f"{LOG_DIRECTORY}/{name}", size, start) for start, name in names
        ]
        return FileQueue((directory,), tuple(segments))

    def status(self, path: str) -> Status | None:
        """Tell of the files of the log; there is nothing else."""
        found = [segment for segment in self.files if str(segment.path) == path]
        return Status(FileKind.FILE, self.plan.file_size) if found else None

    def entries(self, path: str) -> list[DirectoryEntry]:
        """Return nothing: who reads knows the files."""
        return []

    def open(self, path: str) -> PlannedFile:
        """Return a file of the log."""
        return PlannedFile(self, int(path.rpartition("/")[2]))

    def absolute(self, text: str) -> str:
        """Return a name as it is."""
        return text

    def real(self, path: str) -> str:
        """Return a name as it is: there are no links."""
        return path

    def local_path(self, path: str) -> None:
        """Return nothing: it lies nowhere."""

    def tails(self) -> tuple[()]:
        """Return nothing: all is known."""
        return ()

    def fetch_tails(self) -> None:
        """Do nothing, as for `tails`."""

    def lock_holder(self, path: str) -> None:
        """Return nothing: nobody holds it."""


class PlannedFile:
    """One file of a planned log, open for reading."""

    def __init__(self, log: PlannedLog, start: int) -> None:
        self._log = log
        self._start = start

    def size_bytes(self) -> int:
        """Return the size of every file."""
        return self._log.plan.file_size

    def next_written(self, position: int) -> int:
        """Return where a part begins that is not zeros."""
        at, parts = self._start + position, self._log.plan.parts
        part = parts[bisect_right(parts, at, key=_START) - 1]
        return min(part.stop - self._start, self.size_bytes()) if part.kind is PartKind.ZEROS else position

    next_data = next_written

    def end_of_data(self) -> int:
        """Return the size."""
        return self.size_bytes()

    def read_into(self, position: int, view: memoryview[Any]) -> int:
        """Fill a view with bytes of one part.

        Raises:
            OSError: a copy no longer has the bytes that it had.
        """
        if position >= self.size_bytes():
            return 0
        at, parts = self._start + position, self._log.plan.parts
        part = parts[bisect_right(parts, at, key=_START) - 1]
        length = min(len(view), part.stop - at, self.size_bytes() - position)
        if part.kind is PartKind.RECORDS:
            self._copy(part, at, view[:length])
            return length
        made = self._made(part, at - part.start, length)
        view[: len(made)] = made
        return len(made)

    def _copy(self, part: Part, at: int, view: memoryview[Any]) -> None:
        segment = self._log.logs[part.source].segment_at(at)
        if segment is None or segment.read_into(at - segment.start, view) != len(view):
            raise OSError(errno.ESTALE, f"the copy has changed: no record at physical offset {at} any more")

    def _made(self, part: Part, start: int, length: int) -> bytes:
        """Return bytes of a part that is no record's: some of them, or all from ``start`` on."""
        if part.kind is PartKind.TOMBSTONES:
            size = part.length // part.records
            first = start // size
            count = min(_BATCH, -(-(start + length) // size) - first)
            data = self._tombstones(part, size, first, count)
            return data[start - first * size :][:length]
        if part.kind is PartKind.FILLER:
            return encode_filler(self._log.plan.form, part)[start : start + length]
        if part.kind is PartKind.BLANK and not start:
            return encode_blank(part.length)[:length]
        return bytes(length)

    def _tombstones(self, part: Part, size: int, first: int, count: int) -> bytes:
        form = self._log.plan.form
        some = replace(
            part,
            start=part.start + first * size,
            length=count * size,
            records=count,
            queue_offset=(part.queue_offset or 0) + first,
        )
        if not self._log.silent:
            return encode_tombstones(form, some)
        places = range(some.start, some.stop, size)
        flag = TRANSACTION_ROLLBACK
        return b"".join(
            encode_record(form, part, at=at, size=size, queue_offset=0, sys_flag=flag) for at in places
        )
