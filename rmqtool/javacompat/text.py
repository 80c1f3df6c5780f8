"""Java strings: UTF-8 as the JDK decodes it, and the hash codes that stand in queues and index files."""

from __future__ import annotations

import re
import struct

from rmqtool.javacompat.integers import wrap_int

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

    Args:
        text: Characters; those beyond U+FFFF count as two units.
        seed: Hash of the text before: ``string_hash(b, string_hash(a)) == string_hash(a + b)``.
    """
    encoded = text.encode("utf-16-be", "surrogatepass")
    code = seed
    for unit in struct.unpack(f">{len(encoded) // 2}H", encoded):
        code = (31 * code + unit) & 0xFFFF_FFFF
    return wrap_int(code)


def abs_int(value: int) -> int:
    """Return ``Math#abs`` of a hash code, and 0 for Integer.MIN_VALUE, whose absolute value is no ``int``.

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
