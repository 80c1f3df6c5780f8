"""Loose records, which are in no log: one file of bytes, and a line of ndjson for each."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from rmqtool.carve.proving import Cause
from rmqtool.carve.writing import HashedFile, Written, pieces_of
from rmqtool.formats import message
from rmqtool.projection import json_object
from rmqtool.rows.messages import host_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt

    from rmqtool.carve.images import Image, ImageReader
    from rmqtool.carve.layout import Layout
    from rmqtool.store.staging import StagingHandle

    Rows = npt.NDArray[Any]

LOST_AND_FOUND = "lost+found"
RECORDS, LINES = f"{LOST_AND_FOUND}/records.bin", f"{LOST_AND_FOUND}/records.ndjson"
_LARGEST_TOPIC = 0x7FFF


@dataclass(frozen=True, slots=True)
class LooseRecord:
    """A record, or a part of one, that is in no log.

    Attributes:
        cause: why not.
        image: path of the image where it was found.
        position: bytes from the image's start.
        kept_at: where in records.bin it is kept; None where its bytes are in the record around it.
        kept_bytes: how much of it is kept.
        total_size: how long it says to be.
        physical_offset: where in its log it says to lie.
        queue_id: as it says.
        queue_offset: as it says.
        store_timestamp_ms: as it says.
        store_host: as it says.
        topic: as it says; None where that cannot be read.
    """

    type: ClassVar = "loose"
    cause: Cause
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


def write_loose(staging: StagingHandle, layout: Layout, images: Sequence[Image]) -> list[Written]:
    """Write everything that is in no log; nothing where there is nothing.

    Raises:
        EnvironmentFailureError: an image cannot be read any more, or the disk is full.
    """
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
    reader: ImageReader, image: Image, cause: Cause, position: int, at: int | None, length: int
) -> LooseRecord:
    head = head_at(reader, position)
    return LooseRecord(
        cause=cause,
        image=str(image.location),
        position=position,
        kept_at=at,
        kept_bytes=length,
        total_size=head.total_size,
        physical_offset=head.physical_offset,
        queue_id=head.queue_id,
        queue_offset=head.queue_offset,
        store_timestamp_ms=head.store_timestamp_ms,
        store_host=host_text(head.store_host),
        topic=None if cause is Cause.FRAME else _topic(reader, position, head),
    )


def head_at(reader: ImageReader, position: int) -> message.MessageHead:
    """Return the head of a record that was found.

    Raises:
        EnvironmentFailureError: the image cannot be read any more.
    """
    head = message.decode_head(_bytes(reader, position, max(message.HEAD_SIZES)))
    if head is None:
        raise ValueError(f"no head at {position}, where one was found")
    return head


def _topic(reader: ImageReader, position: int, head: message.MessageHead) -> str | None:
    """Return the topic, where the bytes are text."""
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
