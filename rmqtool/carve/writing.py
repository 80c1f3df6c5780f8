"""Writers of a carved log and of loose records, which are in no log; every record is checked as it is copied.

Loose records are one file of bytes, with a line of ndjson for each.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from rmqtool.carve.proving import LooseCause
from rmqtool.errors import EnvironmentFailureError
from rmqtool.formats import message
from rmqtool.formats.framing import PLAIN
from rmqtool.kernels.loose import first_changed
from rmqtool.kernels.rows import frame_stops
from rmqtool.projection import json_object
from rmqtool.rows.messages import host_text
from rmqtool.store.ledger import CARVED_MEMBER, DATA

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rmqtool.arrays import Buffer, Rows
    from rmqtool.carve.images import Image, ImageReader
    from rmqtool.carve.layout import Layout
    from rmqtool.store.staging import StagedFile, StagingHandle


LOG_DIRECTORY = "commitlog"
ENTRIES_DIRECTORY = f"{CARVED_MEMBER}/{DATA}"
CHUNK_BYTES = 4 << 20
_ZEROS = bytes(1 << 20)


class FileTask(NamedTuple):
    """One file of a log; ``rows``, ``(n,)`` of ``FOUND_ROW`` by offset, are its records."""

    staging: StagingHandle
    label: str
    start: int
    size_bytes: int
    rows: Rows
    images: tuple[Image, ...]


class HashedFile:
    """A file that is written and hashed from its start to its end, with holes between."""

    def __init__(self, file: StagedFile, label: str) -> None:
        self._file, self._label = file, label
        self._digest = hashlib.sha256()
        self.position = 0

    def put(self, data: memoryview[Any] | bytes, position: int | None = None) -> None:
        """Write bytes at a position, not before the end of those written so far, which is the default."""
        if position is not None:
            self._skip(position)
        self._file.write_at(self.position, data)
        self._digest.update(data)
        self.position += len(data)

    def finish(self, size_bytes: int | None = None) -> tuple[str, str]:
        """Return label and SHA-256 of the file, holes as zeros, after zeros up to a size."""
        if size_bytes is not None:
            self._skip(size_bytes)
        return self._label, self._digest.hexdigest()

    def _skip(self, position: int) -> None:
        if position < self.position:
            raise ValueError(f"{self._label}: bytes at {position} come after those at {self.position}")
        while self.position < position:
            length = min(len(_ZEROS), position - self.position)
            self._digest.update(memoryview(_ZEROS)[:length])
            self.position += length


def write_log_file(task: FileTask) -> tuple[str, str]:
    """Write one file of a log: its records at their places, end marks that were found, holes elsewhere."""
    readers = [image.reader() for image in task.images]
    buffer = np.empty(CHUNK_BYTES, np.uint8)
    with task.staging.create_file(task.label, task.size_bytes) as file:
        hashed = HashedFile(file, task.label)
        for rows in chunks(task.rows, CHUNK_BYTES):
            image = task.images[int(rows["image"][0])]
            reader, at = readers[image.number], int(rows["log_offset"][0]) - task.start
            length = int(rows["total_size"].sum())
            if length > CHUNK_BYTES:
                _copy_long(reader, image, rows, hashed, at)
            else:
                _read(reader, image, rows, buffer[:length])
                hashed.put(buffer[:length].data, at)
            row = rows[-1]
            if int(row["blank"]) == task.size_bytes - hashed.position:
                hashed.put(PLAIN.end_mark(int(row["blank"])))
        return hashed.finish(task.size_bytes)


def chunks(rows: Rows, most_bytes: int) -> Iterator[Rows]:
    """Yield records side by side in image and log, up to ``most_bytes`` together, or a longer one."""
    if not len(rows):
        return
    stops = frame_stops(rows, "position")
    apart = (stops[:-1] != rows["position"][1:]) | (rows["image"][:-1] != rows["image"][1:])
    apart |= frame_stops(rows)[:-1] != rows["log_offset"][1:]
    bounds = np.concatenate([[0], np.flatnonzero(apart) + 1, [len(rows)]])
    for first, last in itertools.pairwise(bounds):
        at = int(first)
        while at < last:
            stop = np.searchsorted(stops[at:last], rows["position"][at] + most_bytes, "right")
            yield rows[at : at + max(int(stop), 1)]
            at += max(int(stop), 1)


def _read(reader: ImageReader, image: Image, rows: Rows, buffer: Buffer) -> None:
    start = int(rows["position"][0])
    reader.read_into(start, buffer.data)
    changed = first_changed(buffer, start, rows)
    if changed >= 0:
        raise _changed(image, int(rows["position"][changed]))


def _copy_long(reader: ImageReader, image: Image, rows: Rows, hashed: HashedFile, at: int) -> None:
    crc, position = 0, int(rows["position"][0])
    for piece in pieces_of(reader, position, int(rows["total_size"][0])):
        crc = zlib.crc32(piece, crc)
        hashed.put(piece, at)
        at += len(piece)
    if crc != int(rows["crc"][0]):
        raise _changed(image, position)


def pieces_of(reader: ImageReader, position: int, length: int) -> Iterator[memoryview[Any]]:
    """Yield bytes of an image in pieces; each is valid until the next one comes."""
    buffer = memoryview(bytearray(min(CHUNK_BYTES, max(length, 0))))
    while length > 0:
        count = reader.read_into(position, buffer[:length])
        if not count:
            return
        yield buffer[:count]
        position, length = position + count, length - count


def _changed(image: Image, position: int) -> EnvironmentFailureError:
    return EnvironmentFailureError(
        f"{image.location}: the record at position {position} has changed since it was found: the image"
        " changes while it is read, or its disk fails; make a copy of it, and carve the copy"
    )


LOST_AND_FOUND = "lost+found"
RECORDS, LINES = f"{LOST_AND_FOUND}/records.bin", f"{LOST_AND_FOUND}/records.ndjson"
_LARGEST_TOPIC = 0x7FFF
_OF_HEAD = ("total_size", "physical_offset", "queue_id", "queue_offset", "store_timestamp_ms")


@dataclass(frozen=True, slots=True)
class LooseRecord:
    """A record, or a part of one, that is in no log.

    Attributes:
        cause: why not.
        image: path of the image where it was found.
        position: bytes from the image's start.
        kept_at: its place in records.bin; None where its bytes are in the record around it.
        kept_bytes: how much of it is kept.
        total_size: its TOTALSIZE field.
        physical_offset: its PHYSICALOFFSET field.
        queue_id: its QUEUEID field.
        queue_offset: its QUEUEOFFSET field.
        store_timestamp_ms: its STORETIMESTAMP field.
        store_host: its STOREHOST field.
        topic: its topic; None where that cannot be read.
    """

    type: ClassVar = "loose"
    cause: LooseCause
    image: str
    position: int
    kept_at: int | None
    kept_bytes: int
    total_size: int
    physical_offset: int
    queue_id: int
    queue_offset: int
    store_timestamp_ms: int
    store_host: str
    topic: str | None


def write_loose(staging: StagingHandle, layout: Layout, images: Sequence[Image]) -> list[tuple[str, str]]:
    """Write the records that are in no log; nothing if there are none."""
    if not len(layout.loose):
        return []
    readers = [image.reader() for image in images]
    with staging.create_file(RECORDS) as kept, staging.create_file(LINES) as lines:
        data, listing = HashedFile(kept, RECORDS), HashedFile(lines, LINES)
        for row, cause in zip(layout.loose, layout.causes, strict=True):
            number, position, length = int(row["image"]), int(row["position"]), int(row["total_size"])
            at = data.position if length else None
            for piece in pieces_of(readers[number], position, length):
                data.put(piece)
            record = _described(readers[number], images[number], cause, position, at, length)
            listing.put(json.dumps(json_object(record), ensure_ascii=False).encode() + b"\n")
        return [data.finish(), listing.finish()]


def _described(
    reader: ImageReader, image: Image, cause: LooseCause, position: int, at: int | None, length: int
) -> LooseRecord:
    head = head_at(reader, position)
    return LooseRecord(
        cause=cause,
        image=str(image.location),
        position=position,
        kept_at=at,
        kept_bytes=length,
        **{name: getattr(head, name) for name in _OF_HEAD},
        store_host=host_text(head.store_host),
        topic=None if cause is LooseCause.FRAME else _topic(reader, position, head),
    )


def head_at(reader: ImageReader, position: int) -> message.MessageHead:
    """Return the head of a record that was found."""
    head = message.decode_head(_bytes(reader, position, max(message.HEAD_SIZES)))
    if head is None:
        raise ValueError(f"no head at {position}, where one was found")
    return head


def _topic(reader: ImageReader, position: int, head: message.MessageHead) -> str | None:
    size = message.HEAD_SIZES[message.host_variant(head.sys_flag)]
    width = message.TOPIC_LENGTHS[head.magic]
    after = _bytes(reader, position + size + max(head.body_length, 0), width.size + _LARGEST_TOPIC)
    length = width.unpack_from(after)[0]
    try:
        return after[width.size : width.size + length].decode()
    except UnicodeDecodeError:
        return None


def _bytes(reader: ImageReader, position: int, length: int) -> bytes:
    return b"".join(bytes(piece) for piece in pieces_of(reader, position, length))


def names_of_hosts(rows: Rows, images: Sequence[Image]) -> Iterator[str]:
    """Yield the store hosts of records, each once, in the order of its first record."""
    readers = [image.reader() for image in images]
    seen: set[int] = set()
    hosts = rows["host"]
    changes = [0, *(int(place) + 1 for place in (hosts[1:] != hosts[:-1]).nonzero()[0])] if len(rows) else []
    for place in changes:
        if int(hosts[place]) not in seen:
            seen.add(int(hosts[place]))
            row = rows[place]
            yield host_text(head_at(readers[int(row["image"])], int(row["position"])).store_host)
