"""Search for records in raw bytes in plain Python: what the kernels of ``rmqtool.scan.loose`` must find."""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING, Any, NamedTuple

from rmqtool.formats import message
from rmqtool.javacompat import PROP_CRC_NAME, PROP_CRC_SIZE, masked_crc32
from rmqtool.kernels.checks import EARLIEST_MS, LATEST_MS
from rmqtool.kernels.loose import DLEDGER_BYTES, LOOK_BYTES, SECTOR_BYTES, FoundMark
from rmqtool.scan.records import occurrences

if TYPE_CHECKING:
    from rmqtool.scan.loose import RawBytes

_PIECE_BYTES = 1 << 20
_MAGICS = tuple(magic.to_bytes(4, "big", signed=True) for magic in (message.MAGIC_V1, message.MAGIC_V2))
_MAGIC_AT = message.HEAD_OFFSETS[0]["magic"]
_DEFINED_BITS, _LAST_PORT = 0x7FF, 0xFFFF
_PORT = struct.Struct(">i")
_IPV4_BYTES = 8
_TEXT_BYTES = frozenset(b"\t\n\r")
_SEPARATORS = frozenset(b"\1\2")


class FoundRecord(NamedTuple):
    """One ``FOUND_ROW`` of the plain form."""

    position: int
    log_offset: int
    store_timestamp_ms: int
    host: int
    total_size: int
    blank: int
    crc: int
    marks: int
    image: int = 0


def find_plainly(data: bytes) -> list[FoundRecord]:
    """Find all records of bytes at hand, in plain Python."""
    image = _Bytes(data)
    places = sorted(at - _MAGIC_AT for magic in _MAGICS for at in occurrences(data, magic))
    return [row for place in places if place >= 0 and (row := examine(image, place)) is not None]


def examine(image: RawBytes, position: int) -> FoundRecord | None:
    """Return the record at a position that has a magic, as the kernel does; None if it cannot be one."""
    if position + message.SMALLEST_RECORD > image.size_bytes:
        return None
    head = message.decode_head(_read(image, position, max(message.HEAD_SIZES)))
    if head is None or not _is_head(head):
        return None
    row = FoundRecord(
        position=position,
        log_offset=head.physical_offset,
        store_timestamp_ms=head.store_timestamp_ms,
        host=host_key(head.store_host),
        total_size=head.total_size,
        blank=0,
        crc=0,
        marks=int(FoundMark.FRAME),
    )
    if position + head.total_size > image.size_bytes:
        return row
    size = message.HEAD_SIZES[message.host_variant(head.sys_flag)]
    body_stop = position + size + max(head.body_length, 0)
    tail = _read(image, body_stop, position + head.total_size - body_stop)
    parts = _parts(tail, head.magic)
    if parts is None:
        return row
    marks, crc = _checked(image, row, head, tail, parts)
    if body_stop // SECTOR_BYTES != (position + head.total_size - 1) // SECTOR_BYTES:
        marks |= FoundMark.CROSSES
    follows, blank = _what_follows(image, row)
    return row._replace(crc=crc, marks=int(marks | follows), blank=blank)


def _is_head(head: message.MessageHead) -> bool:
    size = message.HEAD_SIZES[message.host_variant(head.sys_flag)]
    tail = head.total_size - size - max(head.body_length, 0)
    ports = (_PORT.unpack(host[-4:])[0] for host in (head.born_host, head.store_host))
    return (
        head.magic in message.TOPIC_LENGTHS
        and head.total_size >= message.SMALLEST_RECORD
        and head.physical_offset >= 0
        and not head.sys_flag & ~_DEFINED_BITS
        and EARLIEST_MS <= head.store_timestamp_ms <= LATEST_MS
        and all(0 <= port <= _LAST_PORT for port in ports)
        and 3 <= tail <= 2 + 0x7FFF + 2 + 0x7FFF
    )


def host_key(host: bytes) -> int:
    """Return the number of a host as rows have it: address and port of IPv4, for IPv6 a hash (FNV-1a)."""
    if len(host) == _IPV4_BYTES:
        return int.from_bytes(host[:4]) << 16 | int.from_bytes(host[4:]) & 0xFFFF
    key = 0xCBF29CE484222325
    for byte in host:
        key = (key ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return key >> 2 | 1 << 62


def _parts(tail: bytes, magic: int) -> tuple[bytes, bytes] | None:
    length = message.TOPIC_LENGTHS[magic]
    topic_length = length.unpack_from(tail)[0]
    properties_at = length.size + topic_length
    if topic_length < 0 or len(tail) < properties_at + 2:
        return None
    properties_length = max(message.PROPERTIES_LENGTH.unpack_from(tail, properties_at)[0], 0)
    if properties_at + 2 + properties_length != len(tail):
        return None
    return tail[length.size : properties_at], tail[properties_at + 2 :]


def _checked(
    image: RawBytes, row: FoundRecord, head: message.MessageHead, tail: bytes, parts: tuple[bytes, bytes]
) -> tuple[int, int]:
    """Return marks for what checksums and text show, and the CRC-32 of the whole record."""
    topic, properties = parts
    marks = 0
    size = message.HEAD_SIZES[message.host_variant(head.sys_flag)]
    body_crc, crc = 0, zlib.crc32(_read(image, row.position, size))
    body_stop = row.position + row.total_size - len(tail)
    for at in range(row.position + size, body_stop, _PIECE_BYTES):
        piece = _read(image, at, min(_PIECE_BYTES, body_stop - at))
        body_crc, crc = zlib.crc32(piece, body_crc), zlib.crc32(piece, crc)
    if body_crc & 0x7FFFFFFF != head.body_crc:
        marks |= FoundMark.BODY
    stated = properties[-PROP_CRC_SIZE:]
    if stated.startswith(PROP_CRC_NAME) and len(stated) == PROP_CRC_SIZE:
        digits = stated[len(PROP_CRC_NAME) : -1]
        sound = digits.isdigit() and stated.endswith(b"\2")
        signed = masked_crc32(tail[:-PROP_CRC_SIZE], crc)
        marks |= FoundMark.SIGNED if sound and int(digits[::-1]) == signed else FoundMark.SIGNATURE
    if not topic or not _is_text(topic, frozenset()):
        marks |= FoundMark.TEXT
    if not _is_list(properties) or not _is_text(properties, _SEPARATORS | _TEXT_BYTES):
        marks |= FoundMark.TEXT
    return marks, zlib.crc32(tail, crc)


def _is_list(properties: bytes) -> bool:
    """Whether each piece of a list of properties is one; see ``scan_properties``."""
    pieces = [piece.partition(b"\1") for piece in properties.split(b"\2") if piece]
    return all(name and separator for name, separator, _ in pieces)


def _is_text(data: bytes, allowed: frozenset[int]) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return all(byte >= ord(" ") or byte in allowed for byte in data)


def _what_follows(image: RawBytes, row: FoundRecord) -> tuple[int, int]:
    """Return a mark for what stands after a record, and TOTALSIZE if that is a BLANK."""
    after = _read(image, row.position + row.total_size, LOOK_BYTES)
    start = message.RECORD_STARTS.decode(after)
    if start is None:
        return FoundMark.ENDS, 0
    for ahead in (0, DLEDGER_BYTES):
        if _begins(after[ahead:], row.log_offset + row.total_size + ahead):
            return FoundMark.CHAINED, 0
    if start.magic == message.BLANK_MAGIC and start.total_size >= _MAGIC_AT + 4:
        return FoundMark.CHAINED, start.total_size
    return (0 if any(after[: LOOK_BYTES - DLEDGER_BYTES]) else FoundMark.ENDS), 0


def _begins(data: bytes, log_offset: int) -> bool:
    if data[_MAGIC_AT : _MAGIC_AT + 4] not in _MAGICS:
        return False
    placed = message.PLACED_STARTS.decode(data)
    return placed is None or placed.physical_offset == log_offset


def _read(image: RawBytes, position: int, length: int) -> bytes:
    buffer = bytearray(max(min(length, image.size_bytes - position), 0))
    return bytes(memoryview(buffer)[: image.read_into(position, memoryview(buffer))])


class _Bytes:
    def __init__(self, data: bytes) -> None:
        self._data = data

    @property
    def size_bytes(self) -> int:
        return len(self._data)

    def read_into(self, position: int, view: memoryview[Any]) -> int:
        piece = self._data[position : position + len(view)]
        view[: len(piece)] = piece
        return len(piece)

    def next_written(self, position: int) -> int:
        return position
