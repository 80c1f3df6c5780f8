"""Other names of the same shape: same length in bytes, each character another one of its kind.

Each kind of character is a range: digits, small letters, capitals, ideographs; of all others 64 neighbours,
which UTF-8 writes with the same bytes but for the last. The rest stays: signs, blanks, controls. Names of one
pattern are permuted (a Feistel network over the characters' numbers), so two names never become one, and a
name becomes the same wherever it stands.
"""

from __future__ import annotations

import re
from array import array
from functools import lru_cache
from hashlib import blake2b, shake_128
from struct import unpack_from

import numpy as np

from rmqtool.commands.metadump.words import BROKER_WORDS
from rmqtool.topics import (
    DEAD_LETTER_PREFIX,
    LMQ_PREFIX,
    RETRY_PREFIX,
    REVIVE_PREFIX,
    SYSTEM_PREFIX,
)

_PREFIXES = (RETRY_PREFIX, DEAD_LETTER_PREFIX, LMQ_PREFIX, REVIVE_PREFIX)
_SYSTEM_GROUP = "CID_RMQ_SYS_"
"""``MixAll.CID_RMQ_SYS_PREFIX``: consumer groups of the broker's own, the transaction check among them."""

_MEANINGFUL = BROKER_WORDS | {"d", "ck", "ack", "bAck"}
"""What no name may become; the last are the broker's tags."""

_RANGES = (
    (0x30, 10),
    (0x41, 26),
    (0x61, 26),
    (0x4E00, 20992),  # CJK unified ideographs
    (0xAC00, 11172),  # Hangul
)
_HEXADECIMAL = re.compile(r"[0-9A-F]{16,}")
_HEX_LETTERS = (0x41, 6)
"""Of unique keys, which stay such as a client makes."""

_MALFORMED = (
    *((0xDC80, 16), (0xDC90, 16), (0xDCA0, 32), (0xDCC0, 2), (0xDCC2, 30), (0xDCE0, 1), (0xDCE1, 12)),
    *((0xDCED, 1), (0xDCEE, 2), (0xDCF0, 1), (0xDCF1, 3), (0xDCF4, 1), (0xDCF5, 3), (0xDCF8, 8)),
)
"""Bytes of UTF-8, as Python has malformed ones, by what may follow them."""

_BLOCK = 64
_LOST = re.compile("[\udc80-\udcff\ufffd]+")
_CACHED = 1 << 16
_KEY_BYTES = 32


class Disguise:
    """Replaces names and bytes, always in the same way.

    Args:
        key: Secret; whoever has it and a store can tell what became what.
    """

    def __init__(self, key: bytes) -> None:
        self._key = blake2b(key, digest_size=_KEY_BYTES).digest()
        self.name = lru_cache(_CACHED)(self._name)

    def text(self, name: str) -> str:
        """Return the name that takes the place of one; the broker's own and their prefixes stay."""
        return self.name(name.encode("utf-8", "surrogatepass")).decode("utf-8", "surrogatepass")

    def text_of_file(self, name: str) -> str:
        """Return the same for the name of a file, which may hold any bytes."""
        return self.name(name.encode("utf-8", "surrogateescape")).decode("utf-8", "surrogateescape")

    def digest(self, data: bytes, size: int) -> bytes:
        """Return up to 64 bytes that follow from some others."""
        return blake2b(data, digest_size=size, key=self._key).digest()

    def number(self, what: bytes, value: int, bits: int) -> int:
        """Return a number of so many bits that follows from another; not 0."""
        drawn = int.from_bytes(self.digest(what + value.to_bytes(16, "big", signed=True), 8), "big")
        return drawn % ((1 << bits) - 1) + 1

    def host(self, address: bytes) -> bytes:
        """Return the address that takes the place of one: of 10.0.0.0/8, or fd00::/8; all zeros stay."""
        if not any(address):
            return address
        first = b"\x0a" if len(address) == 4 else b"\xfd"
        return first + self.digest(b"host" + address, len(address) - 1)

    def noise(self, data: bytes, place: str, position: int) -> bytes:
        """Return other bytes for some that are not understood: zeros stay, all else becomes no zero.

        ASCII letters and digits stay of their kind.
        """
        if not any(data):
            return data
        seed = blake2b(f"{place}:{position}".encode("utf-8", "surrogateescape"), key=self._key).digest()
        stream = np.frombuffer(_stream(seed, len(data)), np.uint8)[: len(data)]
        old = np.frombuffer(data, np.uint8)
        drawn = _FIRSTS[old] + stream % (_SIZES[old] - 1)
        drawn += drawn >= old
        return bytes(np.where(old, drawn, 0).astype(np.uint8))

    def _name(self, name: bytes) -> bytes:
        text = name.decode("utf-8", "surrogateescape")
        if text in BROKER_WORDS or text.startswith(_SYSTEM_GROUP):
            return name
        prefix = next((one for one in (*_PREFIXES, SYSTEM_PREFIX) if text.startswith(one)), "")
        rest = self._permuted(text[len(prefix) :])
        while rest in _MEANINGFUL:  # by chance: once more, so that two names still never become one
            rest = self._permuted(rest)
        return (prefix + rest).encode("utf-8", "surrogateescape")

    def _permuted(self, text: str) -> str:
        is_hexadecimal = _HEXADECIMAL.fullmatch(text) is not None
        kinds = [_HEX_LETTERS if is_hexadecimal and char >= "A" else _kind(char) for char in text]
        places = [at for at, kind in enumerate(kinds) if kind is not None]
        if not places and not _LOST.search(text):
            return text
        chosen = [kinds[at] for at in places]
        pattern = [f"{kind[0]:x}" if kind else char for char, kind in zip(text, kinds, strict=True)]
        shape = _LOST.sub("\ufffd", "\x00".join(_merged(pattern)))
        numbers = [ord(text[at]) - kind[0] for at, kind in zip(places, chosen, strict=True) if kind]
        sizes = [kind[1] for kind in chosen if kind]
        half = len(numbers) // 2
        sides = (slice(0, half), slice(half, len(numbers)))
        salt = shape.encode("utf-8", "surrogatepass")
        for turn in range(4):
            source, target = sides[turn % 2], sides[1 - turn % 2]
            self._shift(numbers, sizes, source, target, b"%d:%b:" % (turn, salt))
        found = list(text)
        self._put_lost(found)
        for at, kind, number in zip(places, chosen, numbers, strict=True):
            found[at] = chr((kind[0] if kind else 0) + number)
        return "".join(found)

    def _put_lost(self, chars: list[str]) -> None:
        """Replace malformed bytes by others that are malformed in the same way."""
        places = [at for at, char in enumerate(chars) if "\udc80" <= char <= "\udcff"]
        if places:
            seed = self.digest("".join(chars).encode("utf-8", "surrogateescape"), _KEY_BYTES)
            for at, drawn in zip(places, _stream(seed, len(places)), strict=False):
                first, count = next(kind for kind in _MALFORMED if kind[0] <= ord(chars[at]) < sum(kind))
                chars[at] = chr(first + (ord(chars[at]) - first + 1 + drawn % max(count - 1, 1)) % count)

    def _shift(self, numbers: list[int], sizes: list[int], source: slice, target: slice, salt: bytes) -> None:
        """Add to the numbers of one side what follows from those of the other."""
        seed = salt + array("I", numbers[source]).tobytes()
        first, count = target.start, target.stop - target.start
        drawn = _stream(blake2b(seed, key=self._key).digest(), count * 4)
        for at, number in enumerate(unpack_from(f">{count}I", drawn), first):
            numbers[at] = (numbers[at] + number) % sizes[at]


def _merged(pattern: list[str]) -> list[str]:
    """Return a pattern with each run of lost characters as one: Java and Python count them differently."""
    return [one for at, one in enumerate(pattern) if not (_is_lost(one) and at and _is_lost(pattern[at - 1]))]


def _is_lost(char: str) -> bool:
    return _LOST.fullmatch(char) is not None


def _stream(seed: bytes, size: int) -> bytes:
    """Return as many bytes as are wanted that follow from a seed, or more."""
    return seed if size <= len(seed) else shake_128(seed).digest(size)


@lru_cache(_CACHED)
def _kind(char: str) -> tuple[int, int] | None:
    """Return the first code of a character's kind and how many there are; None for one that stays."""
    code = ord(char)
    for first, count in _RANGES:
        if first <= code < first + count:
            return first, count
    if code < 0xA0 or char.isspace() or char == "\ufffd" or 0xD800 <= code < 0xE000:
        return None
    first = code - code % _BLOCK
    members = [one for one in range(first, first + _BLOCK) if not chr(one).isspace()]
    return (first, _BLOCK) if len(members) == _BLOCK and not first <= 0xFFFD < first + _BLOCK else None


def _byte_kind(byte: int) -> tuple[int, int]:
    for first, count in _RANGES[:3]:
        if first <= byte < first + count:
            return first, count
    return (
        (0x80, 0x80)
        if byte >= 0x80
        else (0x01, 0x2F)
        if byte < 0x30
        else (0x3A, 7)
        if byte < 0x41
        else ((0x5B, 6) if byte < 0x61 else (0x7B, 5))
    )


_FIRSTS, _SIZES = np.array([_byte_kind(byte) for byte in range(256)], np.uint8).T
