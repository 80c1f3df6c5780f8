"""Message ids: an offset id names a place in a log, clients make the others.

Offset ids and unique ids are upper-case hexadecimal of the same two lengths, so the length does not
distinguish them. The ids of the gRPC clients have a length of their own.
"""

from __future__ import annotations

import ipaddress
import struct
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from datetime import tzinfo

_ID_LENGTHS = (32, 56)  # characters, with an IPv4 and with an IPv6 address
_OFFSET_ID_TAIL = struct.Struct(">iq")
_UNIQUE_ID_TAIL = struct.Struct(">HIIH")
_CLIENT_ID_LENGTH = 34
_CLIENT_ID = struct.Struct(">B6sHII")
_CLIENT_ID_VERSION = 1
_CLIENT_ID_EPOCH_YEAR = 2021
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_LARGEST_PORT = 0xFFFF
_LARGEST_OFFSET = 1 << 53
"""Eight PiB of log: an offset beyond it is part of a unique id."""


class OffsetId(NamedTuple):
    """Id made by a broker: the address of its store and the message's place in the log."""

    address: bytes
    """4 or 16 bytes."""
    port: int
    physical_offset: int

    @property
    def host(self) -> str:
        """The address as text, without the port."""
        return str(ipaddress.ip_address(self.address))

    @property
    def doubt(self) -> str | None:
        """Reason why no broker can have made such an id, as any unique id can be read as one; else None."""
        if not 0 < self.port <= _LARGEST_PORT:
            return "no port has that number"
        if not 0 <= self.physical_offset < _LARGEST_OFFSET:
            return "no log is that long"
        return None


class UniqueId(NamedTuple):
    """Id made by a Java client (property ``UNIQ_KEY``); other clients put other things there."""

    address: bytes
    """4 or 16 bytes."""
    process_id: int
    """Low 16 bits."""
    loader_hash: int
    """Hash code of the class loader, read as unsigned."""
    delta_ms: int
    """Since the start of the month in the client's zone."""
    counter: int
    """Low 16 bits; wraps."""
    timestamp_ms: int | None
    """Creation of the id, if the month is known."""

    @property
    def host(self) -> str:
        """The address as text."""
        return str(ipaddress.ip_address(self.address))


class ClientId(NamedTuple):
    """Id made by a gRPC client (``rmq-client`` 5.0.0+, version 1), also as property ``UNIQ_KEY``."""

    mac: bytes
    """6 bytes."""
    process_id: int
    """Low 16 bits."""
    seconds: int
    """Since the start of 2021, low 32 bits."""
    sequence: int
    """Low 32 bits."""

    def timestamp_ms(self, zone: tzinfo) -> int:
        """Return when the id was made, if its client counted from the start of 2021 in this zone.

        Java clients count from that in their own zone (``MessageIdCodec#customEpochMillis``), though the
        documented layout says UTC.
        """
        start = datetime(_CLIENT_ID_EPOCH_YEAR, 1, 1, tzinfo=zone)
        return (start - _EPOCH) // _MILLISECOND + self.seconds * 1000


def encode_offset_id(host_bytes: bytes, port: int, physical_offset: int) -> str:
    """Return the offset id of a message, as ``MessageDecoder#createMessageId`` (4.9.8, 5.3.3).

    ``host_bytes`` are 4 or 16 bytes, ``port`` is a signed 32-bit number.
    """
    return (host_bytes + _OFFSET_ID_TAIL.pack(port, physical_offset)).hex().upper()


def decode_offset_id(text: str) -> OffsetId | None:
    """Read an offset id, in either case, as ``MessageDecoder#decodeMessageId`` (4.9.8, 5.3.3).

    None if the text is not 32 or 56 hexadecimal digits (Java reads other digits as 0xFF).
    """
    data = _parse_hex(text)
    if data is None:
        return None
    tail = len(data) - _OFFSET_ID_TAIL.size
    port, physical_offset = _OFFSET_ID_TAIL.unpack_from(data, tail)
    return OffsetId(data[:tail], port, physical_offset)


def decode_unique_id(text: str, born_ms: int | None = None, zone: tzinfo = UTC) -> UniqueId | None:
    """Read a unique id, in either case, as ``MessageClientIDSetter`` writes it (4.9.8, 5.3.3).

    The id does not hold the month: ``born_ms``, the message's BORNTIMESTAMP, gives it, in the client's
    ``zone``. None if the text is not 32 or 56 hexadecimal digits.
    """
    data = _parse_hex(text)
    if data is None:
        return None
    tail = len(data) - _UNIQUE_ID_TAIL.size
    process_id, loader_hash, delta_ms, counter = _UNIQUE_ID_TAIL.unpack_from(data, tail)
    timestamp_ms = None if born_ms is None else _unique_id_time(delta_ms, born_ms, zone)
    return UniqueId(data[:tail], process_id, loader_hash, delta_ms, counter, timestamp_ms)


def decode_client_id(text: str) -> ClientId | None:
    """Read an id of version 1, in either case, as ``MessageIdCodec#nextMessageId`` writes it.

    None if the text is not 34 hexadecimal digits that begin with 01.
    """
    data = _parse_hex(text, (_CLIENT_ID_LENGTH,))
    if data is None or data[0] != _CLIENT_ID_VERSION:
        return None
    return ClientId._make(_CLIENT_ID.unpack(data)[1:])


def unique_id_times(delta_ms: int, latest_ms: int, zone: tzinfo, months: int) -> list[int]:
    """Return the moments before ``latest_ms`` that the delta of a unique id can mean, newest first.

    ``months`` are tried in the client's zone, back from that of ``latest_ms``; those that are too short have
    none.
    """
    latest = (_EPOCH + timedelta(milliseconds=latest_ms)).astimezone(zone)
    newest = latest.year * 12 + latest.month - 1
    found = []
    for month in range(newest, newest - months, -1):
        start, end = (_start_of_month(number, zone) for number in (month, month + 1))
        if start + delta_ms < min(end, latest_ms):
            found.append(start + delta_ms)
    return found


def _start_of_month(number: int, zone: tzinfo) -> int:
    start = datetime(number // 12, number % 12 + 1, 1, tzinfo=zone)
    return (start - _EPOCH) // _MILLISECOND


def _parse_hex(text: str, lengths: tuple[int, ...] = _ID_LENGTHS) -> bytes | None:
    if len(text) not in lengths or not text.isalnum():  # bytes.fromhex would skip spaces
        return None
    try:
        return bytes.fromhex(text)
    except ValueError:
        return None


def _unique_id_time(delta_ms: int, born_ms: int, zone: tzinfo) -> int | None:
    """Return the moment nearest to the birth of the message that the delta can mean.

    An id made in the last moments of a month may travel in a message born in the next, so both neighbours of
    the birth's month are tried. None if the birth is not a valid date here.
    """
    try:
        born = (_EPOCH + timedelta(milliseconds=born_ms)).astimezone(zone)
        month = born.year * 12 + born.month - 1
        starts = [_start_of_month(number, zone) for number in range(month - 1, month + 2)]
    except (OverflowError, ValueError):
        return None
    moments = [start + delta_ms for start in starts]
    return min(moments, key=lambda moment: abs(moment - born_ms))
