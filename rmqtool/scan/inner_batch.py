"""The messages in the body of an inner batch, as a client takes them apart; in plain Python.

Source: ``MessageDecoder#decodeMessages`` (5.3.3).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rmqtool.formats.message import INNER_HEAD_SIZE, INNER_HEAD_STRUCT, INNER_PROPERTIES_LENGTH
from rmqtool.javacompat import parse_properties

if TYPE_CHECKING:
    from collections.abc import Iterator


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
    """A batch ends in something that is no message; the message says what."""

    def __init__(self, position: int, reason: str) -> None:
        super().__init__(f"no message at byte {position} of the batch: {reason}")


def inner_messages(batch: bytes) -> Iterator[BatchedMessage]:
    """Yield the messages of a batch in order.

    Raises:
        BatchError: A part runs past the end, or the parts are not what TOTALSIZE says: then brokers and
            clients take the batch apart differently.
    """
    position = 0
    while position < len(batch):
        found = _message_at(batch, position)
        yield found
        position += found.total_size


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
