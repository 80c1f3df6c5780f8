"""Write the new log as the plan says, byte for byte, and what was put aside."""

from __future__ import annotations

import hashlib
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rmqtool.engine import Engine, beside
from rmqtool.errors import EnvironmentFailureError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from rmqtool.salvage.model import Found
    from rmqtool.salvage.planned import PlannedLog
    from rmqtool.store.segments import FileQueue, StoreFile
    from rmqtool.store.staging import StagingHandle

_CHUNK_BYTES = 1 << 20  # stays in a core's cache while it is read, hashed and written
_PROBE_BYTES = 64
_WRITE_BACK_CHUNKS = 32
_ZEROS = bytes(_CHUNK_BYTES)
LOST_AND_FOUND = "lost+found"


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A file of the result.

    Attributes:
        label: path in the result.
        sha256: its digest.
        size_bytes: its size.
    """

    label: str
    sha256: str
    size_bytes: int


@dataclass(frozen=True)
class FileCopier:
    """Writes files into a result, with their digests; picklable.

    Attributes:
        staging: where.
    """

    staging: StagingHandle

    def __call__(self, file: StoreFile) -> WrittenFile:
        """Copy a file under its label; zeros are left out: holes of a sparse file read as such.

        Raises:
            EnvironmentFailureError: it cannot be read, or the disk is full.
        """
        digest, size = hashlib.sha256(), min(_CHUNK_BYTES, file.size_bytes)
        buffers = [memoryview(bytearray(size)) for _ in range(2)]  # one is hashed while the next is copied
        hashed: Future[None] | None = None
        with self.staging.create_file(file.label, file.size_bytes) as target, ThreadPoolExecutor(1) as hasher:
            for number, position in enumerate(range(0, file.size_bytes, _CHUNK_BYTES)):
                chunk = buffers[number % 2][: file.size_bytes - position]
                if file.read_into(position, chunk) != len(chunk):
                    raise EnvironmentFailureError(f"{file.path}: changed while it was read; nothing was made")
                if hashed is not None:
                    hashed.result()
                hashed = hasher.submit(digest.update, chunk)
                if any(chunk[:_PROBE_BYTES]) or chunk.tobytes() != _ZEROS[: len(chunk)]:
                    target.write_at(position, chunk)
                if number % _WRITE_BACK_CHUNKS == 0:
                    target.write_back(0, position)
        return WrittenFile(file.label, digest.hexdigest(), file.size_bytes)


def writing_log(
    log: PlannedLog, staging: StagingHandle, engine: Engine
) -> AbstractContextManager[Callable[[], list[WrittenFile]]]:
    """Write all files of the new log, beside what is done meanwhile.

    Raises:
        EnvironmentFailureError: when the files are asked for: a copy cannot be read, or has changed; or the
            disk is full.
    """
    return beside(engine, FileCopier(staging), list(log.files))


def write_found(
    found: Sequence[Found], logs: Sequence[FileQueue], staging: StagingHandle
) -> Iterator[tuple[Found, WrittenFile]]:
    """Write what is put aside; of bytes that are no record only those up to the last that is not zero.

    Yields:
        What was written: nothing is made of zeros alone.
    """
    for one in found:
        segment = logs[one.source].segment_at(one.physical_offset)
        if segment is None:
            continue
        stop = min(one.physical_offset + one.length, segment.stop)
        if one.cause == "torn":
            stop = (
                _last_used(segment, one.physical_offset - segment.start, stop - segment.start) + segment.start
            )
        if stop <= one.physical_offset:
            continue
        yield (
            one,
            _write_aside(one, segment, one.physical_offset - segment.start, stop - segment.start, staging),
        )


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


def _write_aside(one: Found, file: StoreFile, start: int, stop: int, staging: StagingHandle) -> WrittenFile:
    label, digest = f"{LOST_AND_FOUND}/{one.name}", hashlib.sha256()
    with staging.create_file(label) as aside:
        for position in range(start, stop, _CHUNK_BYTES):
            data = file.read_at(position, min(_CHUNK_BYTES, stop - position), [])
            digest.update(data)
            aside.write_at(position - start, data)
    return WrittenFile(label, digest.hexdigest(), stop - start)
