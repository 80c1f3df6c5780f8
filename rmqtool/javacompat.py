"""Java's rules in plain Python: strings, numbers, checksums, dates, delay levels and message ids."""

from __future__ import annotations

import ipaddress
import re
import struct
import zlib
from datetime import UTC, datetime, timedelta, tzinfo
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_LONGEST_LONG = 19  # digits of Long.MAX_VALUE


def wrap_int(value: int) -> int:
    """Reduce a number to the signed 32 bits that a Java ``int`` keeps."""
    return ((value + 0x8000_0000) & 0xFFFF_FFFF) - 0x8000_0000


def wrap_long(value: int) -> int:
    """Reduce a number to the signed 64 bits that a Java ``long`` keeps."""
    return ((value + (1 << 63)) & ((1 << 64) - 1)) - (1 << 63)


def parse_short(text: str) -> int | None:
    """Parse as ``Short#parseShort``; None where Java throws NumberFormatException."""
    return _parse(text, 15)


def parse_int(text: str) -> int | None:
    """Parse as ``Integer#parseInt``; None where Java throws NumberFormatException."""
    return _parse(text, 31)


def parse_long(text: str) -> int | None:
    """Parse as ``Long#parseLong``; None where Java throws NumberFormatException."""
    return _parse(text, 63)


def _parse(text: str, bits: int) -> int | None:
    magnitude = _parse_digits(text[1:] if text[:1] in {"+", "-"} else text)
    if magnitude is None:
        return None
    value = -magnitude if text[0] == "-" else magnitude
    return value if -(1 << bits) <= value < 1 << bits else None


def _parse_digits(digits: str) -> int | None:
    """Read decimal digits of any script, which ``Character#digit`` of JDK 17 takes too.

    Java reads UTF-16 units, so digits beyond U+FFFF (two units, neither a digit) are refused. Python's
    ``int`` alone would also take spaces and underscores, and refuses thousands of leading zeros, which Java
    accepts.
    """
    if not digits.isdecimal() or max(digits) > "\uffff":
        return None
    if not digits.isascii():
        digits = "".join(str(int(digit)) for digit in digits)
    digits = digits.lstrip("0") or "0"
    return int(digits) if len(digits) <= _LONGEST_LONG else None


_DIGITS = 10
PROP_CRC_NAME = b"__CRC32#\x01"
PROP_CRC_SIZE = len(PROP_CRC_NAME) + _DIGITS + 1
"""``CommitLog#CRC32_RESERVED_LEN`` (5.3.3): name, separator, ten digits, separator."""


def masked_crc32(data: bytes | bytearray | memoryview, value: int = 0) -> int:
    """Return CRC-32 (IEEE) without its sign bit, as ``UtilAll#crc32`` (4.9.8, 5.3.3).

    ``value`` is the *unmasked* CRC-32 of the bytes before these; a masked one has lost a bit.
    """
    return zlib.crc32(data, value) & 0x7FFF_FFFF


def parse_prop_crc_digits(digits: str | bytes) -> int:
    """Read a record CRC as the broker does, which checks neither length nor that these are digits.

    Java: ``CommitLog#checkMessageAndReturnSize`` (5.3.3). A character counts as its distance from ``0``, and
    the sum wraps; to the broker a negative result is "no CRC in the properties".
    """
    text = digits.decode("latin-1") if isinstance(digits, bytes) else digits
    units = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for position in range(len(units) - 2, -1, -2):
        unit = units[position] << 8 | units[position + 1]
        value = (10 * value + unit - ord("0")) & 0xFFFF_FFFF
    return wrap_int(value)


_REPLACEMENT = "\ufffd".encode()
_ENCODED_SURROGATE = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")


def decode_utf8(data: bytes) -> str:
    """Decode as ``new String(bytes, UTF_8)`` of JDK 17 does; malformed input becomes U+FFFD.

    Java and Python replace the same pieces, with one exception: a surrogate in UTF-8 (``ED A0..BF 80..BF``),
    whole or cut before its last byte, is one U+FFFD in Java and one for each byte in Python. As ``ED`` is
    never the second byte of a sequence, these pieces can be exchanged before Python decodes.
    """
    try:
        return data.decode()
    except UnicodeDecodeError:
        return _ENCODED_SURROGATE.sub(_REPLACEMENT, data).decode(errors="replace")


def string_hash(text: str, seed: int = 0) -> int:
    """Return ``String#hashCode``, a signed 32-bit number, over UTF-16 code units.

    The seed is the hash of the text before: ``string_hash(b, string_hash(a)) == string_hash(a + b)``.
    """
    encoded = text.encode("utf-16-be", "surrogatepass")
    code = seed
    for unit in struct.unpack(f">{len(encoded) // 2}H", encoded):
        code = (31 * code + unit) & 0xFFFF_FFFF
    return wrap_int(code)


def abs_int(value: int) -> int:
    """Return ``Math#abs`` of a hash code, 0 for Integer.MIN_VALUE, whose absolute value is not an ``int``.

    Java: ``IndexFile#indexKeyHashMethod`` (4.9.8, 5.3.3).
    """
    return 0 if value == -0x8000_0000 else abs(value)


def index_key_hash(topic: str, key: str) -> int:
    """Return the key hash of an index item, 0..2^31-1.

    Java: ``IndexService#buildKey``, ``IndexFile#indexKeyHashMethod`` (4.9.8, 5.3.3).
    """
    return abs_int(string_hash(f"{topic}#{key}"))


def tags_hash(tags: str) -> int:
    """Return the tags code of a consume queue unit: the plain hash code, 0 without tags.

    Java: ``MessageExtBrokerInner#tagsString2tagsCode`` (4.9.8, 5.3.3).
    """
    return string_hash(tags)


def split_keys(keys: str) -> list[str]:
    """Cut the property KEYS into the keys that are indexed, in order, repeated ones kept.

    Only U+0020 separates; empty pieces are skipped. Java: ``IndexService#buildIndex`` (4.9.8, 5.3.3).
    """
    return [key for key in keys.split(" ") if key]


INDEX_TYPE_TAG = "T"
"""``MessageConst#INDEX_TAG_TYPE`` (5.4.0): separates topic and tags in the key of a tag item."""


def index_keys(properties: Mapping[str, str]) -> list[str]:
    """Return the unique key and the keys, in the order in which they are put."""
    unique = properties.get("UNIQ_KEY")
    keys = split_keys(properties.get("KEYS", ""))
    return keys if unique is None else [unique, *keys]


def item_keys(properties: Mapping[str, str]) -> list[str]:
    """Return the text hashed for every item that a message can have, the tag's last."""
    tags = properties.get("TAGS", "")
    return [*index_keys(properties), *([tag_key(tags)] if tags else [])]


def item_hashes(topic: str, properties: Mapping[str, str]) -> list[int]:
    """Return the key hash of every item that a message can have, the tag's last."""
    return [index_key_hash(topic, key) for key in item_keys(properties)]


def tag_key(tags: str) -> str:
    """Return the text hashed for the tag item (5.4.0+); all of TAGS is one tag."""
    return f"{INDEX_TYPE_TAG}#{tags}"


def has_tag_item(
    properties: Mapping[str, str], demanded: Sequence[int], hashes: Sequence[int]
) -> bool | None:
    """Return whether the hashes of a message's items, in their order, end with its tag's.

    None where it has no tags, or these are not the hashes that its record demands (`item_hashes`).
    """
    if not properties.get("TAGS"):
        return None
    if hashes == demanded:
        return True
    return False if hashes == demanded[:-1] else None


def parse_properties(data: bytes) -> dict[str, str]:
    """Read properties as brokers of 4.9.1-4.9.8 and 5.x do.

    Java: ``MessageDecoder#string2messageProperties`` (read in 4.9.8, 5.3.3). A piece up to ``02`` or the end
    counts if its first ``01`` has something on both sides; values may contain further ``01``. The last of
    equal names wins. The last ``02`` may be missing. Java cuts the decoded string, so two names that differ
    in malformed bytes only are one name.
    """
    properties = {}
    for piece in decode_utf8(data).split("\x02"):
        # Java's "pieces shorter than 3 chars are ignored" follows from the two parts not being empty.
        name, _, value = piece.partition("\x01")
        if name and value:
            properties[name] = value
    return properties


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_CYCLE_YEARS = 400
_CYCLE_MS = 146_097 * 86_400_000  # the Gregorian calendar repeats after this


def index_file_name(timestamp_ms: int, zone: tzinfo) -> str:
    """Return ``yyyyMMddHHmmssSSS`` of a moment in a zone.

    Java: ``UtilAll#timeMillisToHumanString`` (4.9.8, 5.3.3). As in Java, any 64-bit number gives a name of
    digits: the year takes more than four digits after 9999 (such a name no longer sorts by time). Before 1582
    Java counts in the Julian calendar, which is not followed.
    """
    cycles = timestamp_ms // _CYCLE_MS
    moment = (_EPOCH + timedelta(milliseconds=timestamp_ms - cycles * _CYCLE_MS)).astimezone(zone)
    year = moment.year + cycles * _CYCLE_YEARS
    if year < 1:
        year = 1 - year  # Calendar.YEAR counts within its era; there is no year 0
    return f"{year:04d}{moment:%m%d%H%M%S}{moment.microsecond // 1000:03d}"


_UNIT_MS = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


class DelayLevels(NamedTuple):
    """The delay table after a broker has read the setting."""

    delay_ms: dict[int, int]
    """Delay of every level that was read, level 1 first."""

    max_level: int
    """Level to which higher ones are cut. One more than the table's last if the next piece was malformed."""

    valid: bool
    """Whether the whole setting was read. A broker does not load otherwise."""


def read_delay_levels(text: str) -> DelayLevels:
    """Read ``messageDelayLevel``, for example ``1s 5s 1m 2h``.

    Java: ``ScheduleMessageService#parseDelayLevel`` (4.9.8, 5.3.3), and the same again in
    ``DefaultMessageStore#parseDelayLevel`` (5.3.3). The text is cut at single spaces; an empty piece, an
    unknown unit or a malformed number ends the reading. Then the levels before it stay, and the malformed
    level still raises the maximum unless it was empty.
    """
    delay_ms: dict[int, int] = {}
    for level, piece in enumerate(_split_java(text), start=1):
        if not piece:
            return DelayLevels(delay_ms, level - 1, valid=False)
        unit = _UNIT_MS.get(piece[-1])
        number = parse_long(piece[:-1])
        if unit is None or number is None:
            return DelayLevels(delay_ms, level, valid=False)
        delay_ms[level] = wrap_long(unit * number)
    return DelayLevels(delay_ms, len(delay_ms), valid=True)


def _split_java(text: str) -> list[str]:
    """Split as ``String#split``: empty pieces at the end are dropped, but an empty text is one piece."""
    stripped = text.rstrip(" ")
    return stripped.split(" ") if stripped or not text else []


_ID_LENGTHS = (32, 56)  # characters, with an IPv4 and with an IPv6 address
_OFFSET_ID_TAIL = struct.Struct(">iq")
_UNIQUE_ID_TAIL = struct.Struct(">HIIH")
_CLIENT_ID_LENGTH = 34
_CLIENT_ID = struct.Struct(">B6sHII")
_CLIENT_ID_VERSION = 1
_CLIENT_ID_EPOCH_YEAR = 2021
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


def id_spellings(text: str) -> list[str]:
    """Return an id, and its upper-case form if it is in lower case.

    Java: ``MessageClientIDSetter#createUniqID`` (4.9.8, 5.3.3) and ``MessageIdCodec#nextMessageId`` of the
    gRPC client write upper case.
    """
    is_id = decode_offset_id(text) is not None or decode_client_id(text) is not None
    return [text, text.upper()] if is_id and text != text.upper() else [text]


def unique_id_times(delta_ms: int, latest_ms: int, zone: tzinfo, months: int) -> list[int]:
    """Return the moments before ``latest_ms`` that the delta of a unique id can mean, newest first.

    ``months`` are tried in the client's zone, back from that of ``latest_ms``; those that are too short have
    none.
    """
    latest = (_EPOCH + timedelta(milliseconds=latest_ms)).astimezone(zone)
    newest = latest.year * 12 + latest.month - 1
    times = []
    for month in range(newest, newest - months, -1):
        start, end = (_start_of_month(number, zone) for number in (month, month + 1))
        if start + delta_ms < min(end, latest_ms):
            times.append(start + delta_ms)
    return times


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
