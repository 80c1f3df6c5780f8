"""The new log as a plan says it: read before anybody has written it, and written."""

from __future__ import annotations

import errno
import hashlib
from bisect import bisect_right
from dataclasses import dataclass, replace
from functools import cached_property
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from rmqtool.engine.threads import Threads, result_of
from rmqtool.errors import EnvironmentFailureError
from rmqtool.formats.message import TRANSACTION_ROLLBACK
from rmqtool.io import DirectoryEntry, FileKind, Location, Status
from rmqtool.salvage import Found, Part, PartKind, SalvagePlan
from rmqtool.salvage.making import encode_record, encode_tombstones
from rmqtool.store.segments import FileQueue, Segment, StoreFile

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from concurrent.futures import Future

    from rmqtool.store.staging import StagingHandle


LOG_DIRECTORY = "commitlog"
_BATCH = 1 << 14  # tombstones encoded at a time
_START = attrgetter("start")


@dataclass(frozen=True, eq=False)
class PlannedLog:
    """A plan's log as a source.

    ``logs`` are those of the copies, by number; ``silent`` tombstones are of a type that no queue takes.
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
        size, form = self.plan.file_size, self.plan.form
        segments = [
            Segment(directory / name, f"{LOG_DIRECTORY}/{name}", size, start, form.framing_at(start))
            for start, name in names
        ]
        return FileQueue((directory,), tuple(segments))

    def status(self, path: str) -> Status | None:
        """Return the status of a file of the log; there is nothing else."""
        segments = [segment for segment in self.files if str(segment.path) == path]
        return Status(FileKind.FILE, self.plan.file_size) if segments else None

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

    def read_into(self, position: int, view: memoryview[Any]) -> int:
        """Fill a view with bytes of one part."""
        if position >= self.size_bytes():
            return 0
        at, parts = self._start + position, self._log.plan.parts
        part = parts[bisect_right(parts, at, key=_START) - 1]
        length = min(len(view), part.stop - at, self.size_bytes() - position)
        if part.kind is PartKind.RECORDS:
            segment = self._log.logs[part.source].segment_at(at)
            if segment is None or segment.read_into(at - segment.start, view[:length]) != length:
                raise OSError(
                    errno.ESTALE, f"the copy has changed: no record at physical offset {at} any more"
                )
            return length
        made = self._made(part, at - part.start, length)
        view[: len(made)] = made
        return len(made)

    def _made(self, part: Part, start: int, length: int) -> bytes:
        """Return bytes of a part outside of records: some of them, or all from ``start`` on."""
        if part.kind is PartKind.TOMBSTONES:
            size = part.length // part.records
            first = start // size
            count = min(_BATCH, -(-(start + length) // size) - first)
            data = self._tombstones(part, size, first, count)
            return data[start - first * size :][:length]
        if part.kind is PartKind.FILLER:
            return self._in_no_queue(part, part.start, part.length)[start : start + length]
        if part.kind is PartKind.FILE_END and not start:
            return self._log.plan.form.framing_at(part.start).end_mark(part.length)[:length]
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
        return b"".join(self._in_no_queue(part, at, size) for at in places)

    def _in_no_queue(self, part: Part, at: int, size: int) -> bytes:
        """Return a record of a type that no queue takes."""
        form, flag = self._log.plan.form, TRANSACTION_ROLLBACK
        return encode_record(form, part, at=at, size=size, queue_offset=0, sys_flag=flag)


_CHUNK_BYTES = 1 << 20  # stays in a core's cache while it is read, hashed and written
_PROBE_BYTES = 64
_WRITE_BACK_CHUNKS = 32
_ZEROS = bytes(_CHUNK_BYTES)
LOST_AND_FOUND = "lost+found"


def copy_file(staging: StagingHandle, file: StoreFile) -> tuple[str, str]:
    """Copy a file into a result under its label; return that and its digest.

    Zeros are left out: holes of a sparse file read as such.
    """
    digest, size = hashlib.sha256(), min(_CHUNK_BYTES, file.size_bytes)
    buffers = [memoryview(bytearray(size)) for _ in range(2)]  # one is hashed while the next is copied
    hashed: Future[None] | None = None
    with staging.create_file(file.label, file.size_bytes) as target, Threads(1) as hasher:
        for number, position in enumerate(range(0, file.size_bytes, _CHUNK_BYTES)):
            chunk = buffers[number % 2][: file.size_bytes - position]
            if file.read_into(position, chunk) != len(chunk):
                raise EnvironmentFailureError(f"{file.path}: changed while it was read; nothing was made")
            if hashed is not None:
                result_of(hashed)
            hashed = hasher.submit(digest.update, chunk)
            if any(chunk[:_PROBE_BYTES]) or chunk.tobytes() != _ZEROS[: len(chunk)]:
                target.write_at(position, chunk)
            if number % _WRITE_BACK_CHUNKS == 0:
                target.write_back(0, position)
    return file.label, digest.hexdigest()


def write_found(
    records: Sequence[Found], logs: Sequence[FileQueue], staging: StagingHandle
) -> Iterator[tuple[str, str]]:
    """Write what is put aside; of bytes that are no record only those up to the last that is not zero.

    Of a file that is a link, only records: it may lead to anything.

    Yields:
        Labels and digests of what was written: nothing is made of zeros alone.
    """
    for record in records:
        segment = logs[record.source].segment_at(record.physical_offset)
        if segment is None or (record.cause == "torn" and is_link(segment)):
            continue
        start = record.physical_offset - segment.start
        stop = min(start + record.length, segment.size_bytes)
        if record.cause == "torn":
            stop = _last_used(segment, start, stop)
        if stop <= start:
            continue
        label, digest = f"{LOST_AND_FOUND}/{record.name}", hashlib.sha256()
        with staging.create_file(label) as aside:
            for position in range(start, stop, _CHUNK_BYTES):
                data = segment.read_at(position, min(_CHUNK_BYTES, stop - position), [])
                digest.update(data)
                aside.write_at(position - start, data)
        yield label, digest.hexdigest()


def is_link(segment: Segment) -> bool:
    """Whether a file of the log is a link, in a directory that may itself be reached by one."""
    return segment.path.real() != segment.path.parent.real() / segment.path.name


def _last_used(file: StoreFile, start: int, stop: int) -> int:
    """Return the position after the last byte of a range that is not zero; holes are not read."""
    last, position = start, max(start, file.next_written(start))
    while position < stop:
        chunk = file.read_at(position, min(_CHUNK_BYTES, stop - position), [])
        if not chunk:
            break
        if chunk != _ZEROS[: len(chunk)]:
            last = position + len(chunk.rstrip(b"\0"))
        position = max(position + len(chunk), file.next_written(position + len(chunk)))
    return last
