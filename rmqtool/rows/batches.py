"""Messages of an inner batch: what a producer put into the body of one record.

``PullAPIWrapper#processPullResult`` and ``MessageDecoder#decodeMessage`` (5.3.3) give every message of it the
fields of the record around it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rmqtool import rows
from rmqtool.findings import Structure, codes
from rmqtool.formats.message import (
    INNER_BATCH_FLAG,
    INNER_HEAD_SIZE,
    INNER_HEAD_STRUCT,
    INNER_PROPERTIES_LENGTH,
)
from rmqtool.javacompat import parse_int, parse_properties, split_keys, tags_hash, wrap_long
from rmqtool.projection import shared_fields
from rmqtool.rows.bodies import BodyError, decompress

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rmqtool.rows.messages import MessageFilter


class BatchedMessage(NamedTuple):
    """One message of a batch.

    Attributes:
        position: Bytes from the start of the batch.
        total_size: TOTALSIZE, which is what its parts make.
        flag: FLAG.
        body: As the application sent it.
        properties: Decoded, the last of equal names.
    """

    position: int
    total_size: int
    flag: int
    body: bytes
    properties: dict[str, str]


class BatchError(ValueError):
    """A batch ends in bytes that are not a message; the text names them."""

    def __init__(self, position: int, reason: str) -> None:
        super().__init__(f"no message at byte {position} of the batch: {reason}")


def inner_messages(batch: bytes) -> Iterator[BatchedMessage]:
    """Yield the messages of a batch in order."""
    position = 0
    while position < len(batch):
        message = _message_at(batch, position)
        yield message
        position += message.total_size


def _message_at(batch: bytes, position: int) -> BatchedMessage:
    left = len(batch) - position
    if left < INNER_HEAD_SIZE:
        raise BatchError(position, f"only {left} bytes are left")
    total_size, _, _, flag, body_length = INNER_HEAD_STRUCT.unpack_from(batch, position)
    body, at = _part(batch, position, position + INNER_HEAD_SIZE, body_length, "body")
    if len(batch) - at < INNER_PROPERTIES_LENGTH.size:
        raise BatchError(position, "it ends before the properties")
    (length,) = INNER_PROPERTIES_LENGTH.unpack_from(batch, at)
    properties, stop = _part(batch, position, at + INNER_PROPERTIES_LENGTH.size, length, "properties")
    if stop - position != total_size:
        raise BatchError(position, f"TOTALSIZE {total_size}, but the parts make {stop - position} bytes")
    return BatchedMessage(position, total_size, flag, body, parse_properties(properties))


def _part(batch: bytes, position: int, start: int, length: int, name: str) -> tuple[bytes, int]:
    """Return a part and where it ends."""
    if not 0 <= length <= len(batch) - start:
        raise BatchError(position, f"{name} of {length} bytes, {len(batch) - start} are left")
    return batch[start : start + length], start + length


def with_inner_messages(every: Iterable[rows.Row], wanted: MessageFilter) -> Iterator[rows.Row]:
    """Yield rows, after every batch those of its messages that are wanted; bodies must be as stored.

    A batch is left out if neither it nor one of its messages has the wanted tag and key. A missing library
    for decompression raises UsageError.
    """
    for row in every:
        if not isinstance(row, rows.Message) or not row.sys_flag & INNER_BATCH_FLAG:
            yield row
            continue
        inner = [inner_row for inner_row in inner_rows(row) if _is_shown(inner_row, wanted)]
        if inner or (wanted.contains is None and wanted.admits_names(row.properties)):
            yield row
            yield from inner


def _is_shown(row: rows.InnerMessage | rows.Damage, wanted: MessageFilter) -> bool:
    if isinstance(row, rows.Damage):
        return True
    return wanted.admits_names(row.properties) and wanted.text in row.body


def inner_rows(batch: rows.Message) -> Iterator[rows.InnerMessage | rows.Damage]:
    """Yield the messages of a batch, decompressed if SYSFLAG says so, and its damage.

    A missing library for decompression raises UsageError.
    """
    count = 0
    try:
        for message in inner_messages(decompress(batch.body, batch.sys_flag)):
            yield _inner_row(batch, message, count)
            count += 1
    except (BatchError, BodyError) as failure:
        yield _damage(batch, str(failure))
        return
    promised = parse_int(batch.properties.get("INNER_NUM", ""))
    if promised is not None and promised != count:
        yield _damage(batch, f"INNER_NUM is {promised}, the batch holds {count} messages")


def _damage(batch: rows.Message, reason: str) -> rows.Damage:
    sentence = f"the inner batch at {batch.physical_offset}: {reason}"
    place = (batch.file, batch.position, batch.physical_offset, batch.total_size)
    return rows.Damage(*place, codes.CL_INNER_BATCH, sentence, Structure.COMMITLOG)


def _inner_row(batch: rows.Message, message: BatchedMessage, index: int) -> rows.InnerMessage:
    properties = message.properties
    own = {
        "index": index,
        "batch_position": message.position,
        "total_size": message.total_size,
        "flag": message.flag,
        "queue_offset": wrap_long(batch.queue_offset + index),
        "body_length": len(message.body),
        "body": message.body,
        "properties": properties,
        "tags": properties.get("TAGS"),
        "keys": split_keys(properties.get("KEYS", "")),
        "uniq_key": properties.get("UNIQ_KEY"),
        "tags_code": tags_hash(properties.get("TAGS", "")),
    }
    return rows.InnerMessage(**shared_fields(batch, rows.InnerMessage) | own)
