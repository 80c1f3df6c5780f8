"""Bodies as the application sent them: decompressed within bounds, inner batches cut into messages.

Compression is as in ``MessageSysFlag``, ``CompressionType#findByValue`` and the three compressors (5.3.3);
4.9.8 knows zlib only. A body is hostile: a few bytes may unpack to terabytes, and any may be uncompressed
data. An inner batch is what a producer put into one record: ``PullAPIWrapper#processPullResult`` and
``MessageDecoder#decodeMessage`` (5.3.3) give every message of it the fields of the record around it.
"""

from __future__ import annotations

import base64
import sys
import zlib
from contextlib import suppress
from dataclasses import replace
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from rmqtool import rows
from rmqtool.findings import Structure, codes
from rmqtool.formats.message import (
    COMPRESSED_FLAG,
    INNER_BATCH_FLAG,
    INNER_HEAD_SIZE,
    INNER_HEAD_STRUCT,
    INNER_PROPERTIES_LENGTH,
)
from rmqtool.javacompat import parse_int, parse_properties, split_keys, tags_hash, wrap_long
from rmqtool.projection import shared_fields

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from rmqtool.progress import Progress
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


class BodyMode(StrEnum):
    """Values of ``--body``."""

    NONE = "none"
    TEXT = "text"  # base64 where a body cannot be
    HEX = "hex"
    BASE64 = "base64"


TEXT_BODIES = (BodyMode.TEXT, BodyMode.HEX, BodyMode.BASE64)
"""Forms of bodies in a column of text."""

Encoded = tuple[str | None, str | None]
"""A body as a string, and its encoding: ``utf-8``, ``hex`` or ``base64``; None twice for no body."""


def encoded_body(body: bytes, mode: str, fits: Callable[[str], bool] | None = None) -> Encoded:
    """Return a body for programs by a `BodyMode`; base64 where it is no text, or one that does not fit."""
    if mode == BodyMode.NONE:
        return None, None
    if mode == BodyMode.HEX:
        return body.hex(), "hex"
    if mode == BodyMode.TEXT:
        with suppress(UnicodeDecodeError):
            text = body.decode()
            if fits is None or fits(text):
                return text, "utf-8"
    return base64.b64encode(body).decode(), "base64"


MAX_BODY_BYTES = 64 << 20
"""Larger bodies stay compressed; a broker takes messages of 4 MiB, unless configured otherwise."""

_TYPE_MASK = 0x7 << 8
_LZ4, _ZSTD, _ZLIB, _OLD_ZLIB = 0x1 << 8, 0x2 << 8, 0x3 << 8, 0


class BodyError(ValueError):
    """A body that cannot be unpacked; the message says why."""


def decompressed(every: Iterable[rows.Row], progress: Progress) -> Iterator[rows.Row]:
    """Yield rows, bodies of messages unpacked; ``body_length`` stays that of the log.

    A body that cannot be unpacked stays as it is, with a warning.
    """
    for row in every:
        if not isinstance(row, rows.Message):
            yield row
            continue
        try:
            yield replace(row, body=decompress(row.body, row.sys_flag))
        except BodyError as failure:
            progress.warn(f"the body of the message at {row.physical_offset} stays compressed: {failure}")
            yield row


def decompress(body: bytes, sys_flag: int, max_bytes: int = MAX_BODY_BYTES) -> bytes:
    """Return a body unpacked, or as it is if SYSFLAG does not mark it as compressed.

    BodyError if it is not such data, is cut short, or unpacks to more than ``max_bytes``.
    """
    if not sys_flag & COMPRESSED_FLAG or not body:
        return body
    unpack = _UNPACKERS.get(sys_flag & _TYPE_MASK)
    if unpack is None:
        raise BodyError(f"SYSFLAG {sys_flag} names no compression that a broker knows")
    data = unpack(body, max_bytes)
    if len(data) > max_bytes:
        raise BodyError(f"it unpacks to more than {max_bytes} bytes")
    return data


def _unpack_zlib(body: bytes, max_bytes: int) -> bytes:
    unpacker = zlib.decompressobj()
    try:
        data = unpacker.decompress(body, max_bytes + 1)
    except zlib.error as failure:
        raise BodyError(f"it is no zlib data: {failure}") from failure
    return _whole(data, unpacker.eof, max_bytes)


def _unpack_lz4(body: bytes, max_bytes: int) -> bytes:
    from lz4.frame import LZ4FrameDecompressor

    unpacker = LZ4FrameDecompressor()
    try:
        data: bytes = unpacker.decompress(body, max_length=max_bytes + 1)
    except RuntimeError as failure:
        raise BodyError(f"it is no lz4 frame: {failure}") from failure
    return _whole(data, unpacker.eof, max_bytes)


def _unpack_zstd(body: bytes, max_bytes: int) -> bytes:
    """Unpack one frame: the size that it claims does not count, and its window has a bound."""
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd
    limit = zstd.DecompressionParameter.window_log_max
    lowest, highest = limit.bounds()
    unpacker = zstd.ZstdDecompressor(options={limit: min(max(max_bytes.bit_length(), lowest), highest)})
    try:
        data = unpacker.decompress(body, max_bytes + 1)
    except zstd.ZstdError as failure:
        raise BodyError(f"it is no zstd data: {failure}") from failure
    return _whole(data, unpacker.eof, max_bytes)


def _whole(data: bytes, is_at_end: bool, max_bytes: int) -> bytes:
    if not is_at_end and len(data) <= max_bytes:
        raise BodyError("it ends too early")
    return data


_UNPACKERS: dict[int, Callable[[bytes, int], bytes]] = {
    _OLD_ZLIB: _unpack_zlib,
    _ZLIB: _unpack_zlib,
    _LZ4: _unpack_lz4,
    _ZSTD: _unpack_zstd,
}


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
