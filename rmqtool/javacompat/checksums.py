"""The two checksums of a message: BODYCRC, and the record CRC of 5.2.0+ in the property ``__CRC32#``."""

from __future__ import annotations

import zlib

from rmqtool.javacompat.integers import wrap_int

_DIGITS = 10
PROP_CRC_NAME = b"__CRC32#\x01"
PROP_CRC_SIZE = len(PROP_CRC_NAME) + _DIGITS + 1
"""``CommitLog#CRC32_RESERVED_LEN`` (5.3.3): name, separator, ten digits, separator."""


def masked_crc32(data: bytes | bytearray | memoryview, value: int = 0) -> int:
    """Return CRC-32 (IEEE) without its sign bit, as ``UtilAll#crc32`` (4.9.8, 5.3.3).

    Args:
        data: Bytes to check.
        value: *Unmasked* CRC-32 of the bytes before these; a masked one has lost a bit.
    """
    return zlib.crc32(data, value) & 0x7FFF_FFFF


def prop_crc_digits(crc: int) -> bytes:
    """Write a record CRC: ten decimal digits, the least significant first, filled up with ``0``.

    Java: ``MessageDecoder#createCrc32`` (5.3.3).
    """
    return str(crc)[::-1].ljust(_DIGITS, "0").encode()


def parse_prop_crc_digits(digits: str | bytes) -> int:
    """Read a record CRC as the broker does, which checks neither length nor that these are digits.

    Java: ``CommitLog#checkMessageAndReturnSize`` (5.3.3). A character counts as its distance from ``0``, and
    the sum wraps; a negative result is treated by the broker as "no CRC in the properties".
    """
    text = digits.decode("latin-1") if isinstance(digits, bytes) else digits
    units = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for position in range(len(units) - 2, -1, -2):
        unit = units[position] << 8 | units[position + 1]
        value = (10 * value + unit - ord("0")) & 0xFFFF_FFFF
    return wrap_int(value)
