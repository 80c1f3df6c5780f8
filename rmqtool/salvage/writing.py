"""Write the new log as the plan says, byte for byte, and what was put aside."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING

from rmqtool.errors import EnvironmentFailureError
from rmqtool.formats.message import TRANSACTION_ROLLBACK
from rmqtool.salvage.making import encode_blank, encode_filler, encode_record, encode_tombstones
from rmqtool.salvage.model import AccountError, Part, PartKind

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rmqtool.engine import Engine
    from rmqtool.salvage.model import Found, RecordForm, SalvagePlan
    from rmqtool.store.segments import FileQueue, StoreFile
    from rmqtool.store.staging import StagingHandle

_CHUNK_BYTES = 4 << 20
_BATCH = 1 << 14  # tombstones encoded at a time
_ZEROS = bytes(_CHUNK_BYTES)
LOG_DIRECTORY = "commitlog"
LOST_AND_FOUND = "lost+found"


@dataclass(frozen=True)
class FileTask:
    """One file of the new log; picklable.

    Attributes:
        name: of the file.
        start: physical offset of its first byte.
        size_bytes: of the file.
        parts: what it consists of.
        form: how records are made.
        logs: of the copies.
        staging: where it is written.
        silent: tombstones are of a type that no queue takes.
    """

    name: str
    start: int
    size_bytes: int
    parts: tuple[Part, ...]
    form: RecordForm
    logs: tuple[FileQueue, ...]
    staging: StagingHandle
    silent: bool = False


@dataclass(frozen=True, slots=True)
class Written:
    """A file of the result.

    Attributes:
        label: path in the result.
        sha256: its digest.
        size_bytes: its size.
    """

    label: str
    sha256: str
    size_bytes: int


def write_log(
    plan: SalvagePlan,
    logs: Sequence[FileQueue],
    staging: StagingHandle,
    engine: Engine,
    *,
    silent: bool = False,
) -> list[Written]:
    """Write all files of the new log.

    Args:
        plan: what they consist of.
        logs: of the copies, by number.
        staging: where to write.
        engine: runs the tasks.
        silent: make tombstones that no queue takes.
    """
    tasks = [
        FileTask(
            f"{LOG_DIRECTORY}/{start:020d}", start, plan.file_size, tuple(parts), plan.form, tuple(logs),
            staging, silent,
        )
        for start, parts in _by_file(plan)
    ]  # fmt: skip
    return engine.map(write_file, tasks)


def _by_file(plan: SalvagePlan) -> Iterator[tuple[int, list[Part]]]:
    """Yield the parts of each file; records that go on into the next are cut there."""
    cut = (piece for part in plan.parts for piece in _cut(part, plan))
    for start, parts in groupby(
        cut, key=lambda part: part.start - (part.start - plan.start) % plan.file_size
    ):
        yield start, list(parts)


def _cut(part: Part, plan: SalvagePlan) -> Iterator[Part]:
    """Cut a run of records, or zeros, at the ends of files; whole records end there, too."""
    while True:
        stop = part.start + plan.file_size - (part.start - plan.start) % plan.file_size
        if part.stop <= stop:
            yield part
            return
        if part.kind not in {PartKind.RECORDS, PartKind.ZEROS}:
            raise AccountError(f"a part crosses the end of a file: {part}")
        yield replace(part, length=stop - part.start)
        part = replace(part, start=stop, length=part.stop - stop)


def write_file(task: FileTask) -> Written:
    """Write one file of the new log.

    Raises:
        EnvironmentFailureError: a copy cannot be read, or has changed; or the disk is full.
        AccountError: what was written is not what was planned.
    """
    digest, position = hashlib.sha256(), 0
    with task.staging.create_file(task.name, task.size_bytes) as file:
        for part in task.parts:
            if part.start != task.start + position:
                raise AccountError(f"{task.name}: {part} is due at {task.start + position}")
            for chunk, is_hole in _bytes_of(part, task):
                digest.update(chunk)
                if not is_hole:
                    file.write_at(position, chunk)
                position += len(chunk)
    if position != task.size_bytes:
        raise AccountError(f"{task.name}: {position} bytes planned for a file of {task.size_bytes}")
    return Written(task.name, digest.hexdigest(), task.size_bytes)


def _bytes_of(part: Part, task: FileTask) -> Iterator[tuple[bytes | memoryview, bool]]:
    """Yield the bytes of a part; true with zeros that the file has already."""
    if part.kind is PartKind.RECORDS:
        for chunk in _copied(task.logs[part.source], part.start, part.length):
            yield chunk, False
    elif part.kind is PartKind.TOMBSTONES:
        for chunk in _tombstones(part, task):
            yield chunk, False
    elif part.kind is PartKind.FILLER:
        yield encode_filler(task.form, part), False
    else:
        length = part.length
        if part.kind is PartKind.BLANK:
            blank = encode_blank(length)
            yield blank, False
            length -= len(blank)
        for zeros in _zeros(length):
            yield zeros, True


def _tombstones(part: Part, task: FileTask) -> Iterator[bytes]:
    if task.silent:
        size = part.length // part.records
        for number in range(part.records):
            yield encode_record(
                task.form, part, at=part.start + number * size, size=size, queue_offset=0,
                sys_flag=TRANSACTION_ROLLBACK,
            )  # fmt: skip
        return
    size = part.length // part.records
    for first in range(0, part.records, _BATCH):
        count = min(_BATCH, part.records - first)
        offset = (part.queue_offset or 0) + first
        yield encode_tombstones(
            task.form,
            replace(
                part, start=part.start + first * size, length=count * size, records=count, queue_offset=offset
            ),
        )


def _zeros(length: int) -> Iterator[memoryview]:
    for done in range(0, length, _CHUNK_BYTES):
        yield memoryview(_ZEROS)[: min(_CHUNK_BYTES, length - done)]


def _copied(log: FileQueue, start: int, length: int) -> Iterator[bytes]:
    """Yield bytes of a copy.

    Raises:
        EnvironmentFailureError: they cannot be read, or are no longer there.
    """
    segment = log.segment_at(start)
    for done in range(0, length, _CHUNK_BYTES):
        size = min(_CHUNK_BYTES, length - done)
        data = b"" if segment is None else segment.read_at(start + done - segment.start, size)
        if len(data) != size:
            raise EnvironmentFailureError(
                f"{log.directories[0]}: changed while it was read; nothing was made"
            )
        yield data


def write_found(
    found: Sequence[Found], logs: Sequence[FileQueue], staging: StagingHandle
) -> Iterator[tuple[Found, Written]]:
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
    last, position = start, max(start, file.next_data(start))
    while position < stop:
        chunk = file.read_at(position, min(_CHUNK_BYTES, stop - position), [])
        if not chunk:
            break
        if chunk != _ZEROS[: len(chunk)]:
            last = position + len(chunk.rstrip(b"\0"))
        position = max(position + len(chunk), file.next_data(position + len(chunk)))
    return last


def _write_aside(one: Found, file: StoreFile, start: int, stop: int, staging: StagingHandle) -> Written:
    label, digest = f"{LOST_AND_FOUND}/{one.name}", hashlib.sha256()
    with staging.create_file(label) as aside:
        for position in range(start, stop, _CHUNK_BYTES):
            data = file.read_at(position, min(_CHUNK_BYTES, stop - position), [])
            digest.update(data)
            aside.write_at(position - start, data)
    return Written(label, digest.hexdigest(), stop - start)
