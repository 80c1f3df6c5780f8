"""Other names of the same shape: same length in bytes, each character another one of its kind.

Each kind of character is a range: digits, small letters, capitals, ideographs; of all others 64 neighbours,
which UTF-8 writes with the same bytes but for the last. The rest stays: signs, blanks, controls. Names of one
pattern are permuted (a Feistel network over the characters' numbers), so two names never become one, and a
name becomes the same wherever it stands.
"""

from __future__ import annotations

import re
from functools import lru_cache
from hashlib import blake2b, shake_128
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING

import numpy as np

from rmqtool.commands.metadump.words import BROKER_WORDS, PROPERTY_NAMES
from rmqtool.topics import (
    DEAD_LETTER_PREFIX,
    LMQ_PREFIX,
    RETRY_PREFIX,
    REVIVE_PREFIX,
    SYSTEM_PREFIX,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from rmqtool.arrays import Int64s, Rows

_PREFIXES = (RETRY_PREFIX, DEAD_LETTER_PREFIX, LMQ_PREFIX, REVIVE_PREFIX, SYSTEM_PREFIX)
_SYSTEM_GROUP = "CID_RMQ_SYS_"
"""``MixAll.CID_RMQ_SYS_PREFIX``: consumer groups of the broker's own, the transaction check among them."""

_MEANINGFUL = BROKER_WORDS | {"d", "ck", "ack", "bAck"} | {name.decode() for name in PROPERTY_NAMES}
"""What no name may become: the broker's words, its tags, its properties."""

_RANGES = (
    (0x30, 10),
    (0x41, 26),
    (0x61, 26),
    (0x4E00, 20992),  # CJK unified ideographs
    (0xAC00, 11172),  # Hangul
)
_HEXADECIMAL = re.compile(r"[0-9A-F]{16,}")
_HEX_LETTERS = 6
"""Capitals of unique keys, which stay such as a client makes."""

_MALFORMED = (
    *((0xDC80, 16), (0xDC90, 16), (0xDCA0, 32), (0xDCC0, 2), (0xDCC2, 30), (0xDCE0, 1), (0xDCE1, 12)),
    *((0xDCED, 1), (0xDCEE, 2), (0xDCF0, 1), (0xDCF1, 3), (0xDCF4, 1), (0xDCF5, 3), (0xDCF8, 8)),
)
"""Bytes of UTF-8, as Python has malformed ones, by what may follow them."""

_BLOCK = 64
_LOST = re.compile("[\udc80-\udcff\ufffd]+")
_CACHED = 1 << 16
_KEY_BYTES = 32
_TURNS = 4


class Disguise:
    """Replaces names and bytes, always in the same way.

    Args:
        key: Secret; whoever has it and a store can tell what became what.
    """

    def __init__(self, key: bytes) -> None:
        self._key = blake2b(key, digest_size=_KEY_BYTES).digest()
        self._names: dict[bytes, bytes] = {}
        self.host = lru_cache(_CACHED)(self._host)

    def name(self, name: bytes) -> bytes:
        """Return the name that takes the place of one; the broker's own and their prefixes stay."""
        return self._names[name] if name in self._names else self.names([name])[name]

    def names(self, names: Iterable[bytes]) -> Mapping[bytes, bytes]:
        """Return what takes the place of some names, by name: all at once takes a fraction of the time."""
        if len(self._names) > _CACHED:
            self._names = {}
        new = [name for name in set(names) if name not in self._names]
        if not new:
            return self._names
        texts = [name.decode("utf-8", "surrogateescape") for name in new]
        prefixes = [_prefix(text) for text in texts]
        rests = [text[len(prefix) :] for text, prefix in zip(texts, prefixes, strict=True)]
        made = self._permuted(rests)
        while again := [at for at, rest in enumerate(made) if rest in _MEANINGFUL and rest != rests[at]]:
            # by chance: once more, so that two names still never become one
            for at, rest in zip(again, self._permuted([made[at] for at in again]), strict=True):
                made[at] = rest
        whole = map(str.__add__, prefixes, made)
        self._names.update(zip(new, (one.encode("utf-8", "surrogateescape") for one in whole), strict=True))
        return self._names

    def text(self, name: str) -> str:
        """Return the same for text."""
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

    def _host(self, address: bytes) -> bytes:
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

    def _permuted(self, texts: Sequence[str]) -> list[str]:
        """Return other texts of the same patterns: a Feistel network over the numbers of their characters."""
        codes = np.frombuffer("".join(texts).encode("utf-32-le", "surrogatepass"), "<u4").astype(np.int64)
        lengths = [len(text) for text in texts]
        bounds = [0, *accumulate(lengths)]
        firsts, sizes, marks = _kinds(codes)
        is_hexadecimal = [_HEXADECIMAL.fullmatch(text) is not None for text in texts]
        sizes[np.repeat(is_hexadecimal, lengths) & (codes >= ord("A"))] = _HEX_LETTERS
        places = np.flatnonzero(sizes)
        starts = np.searchsorted(places, bounds)
        counts = np.diff(starts)
        salts = _salts(texts, marks, bounds)
        for count in np.unique(counts[counts > 0]):
            members = np.flatnonzero(counts == count)
            chosen = places[starts[members][:, None] + np.arange(count)]
            numbers = codes[chosen] - firsts[chosen]
            self._shuffle(numbers, sizes[chosen], [salts[at] for at in members.tolist()])
            codes[chosen] = firsts[chosen] + numbers
        whole = codes.astype("<u4").tobytes().decode("utf-32-le", "surrogatepass")
        made = [whole[start:stop] for start, stop in pairwise(bounds)]
        for at, text in enumerate(texts):
            if not text.isascii():
                made[at] = self._with_lost(text, made[at])
        return made

    def _shuffle(self, numbers: Int64s, sizes: Int64s, salts: list[bytes]) -> None:
        """Add to the numbers of one half what follows from those of the other, by turns.

        Args:
            numbers: of the characters of names that have equally many, ``(n, k)``; changed.
            sizes: how many characters are of the kind of each, ``(n, k)``.
            salts: of each name.
        """
        half = numbers.shape[1] // 2
        for turn in range(_TURNS):
            source, target = (numbers[:, :half], numbers[:, half:])[:: -1 if turn % 2 else 1]
            size, wanted = source.shape[1] * 4, target.shape[1] * 4
            data, key, mark = source.astype("<u4").tobytes(), self._key, b"%d:" % turn
            drawn = [
                blake2b(mark + salt + data[at * size : (at + 1) * size], key=key).digest()
                for at, salt in enumerate(salts)
            ]
            if wanted != len(drawn[0]):
                drawn = [_stream(one, wanted)[:wanted] for one in drawn]
            target += np.frombuffer(b"".join(drawn), ">u4").reshape(target.shape)
            target %= sizes[:, half:] if turn % 2 == 0 else sizes[:, :half]

    def _with_lost(self, old: str, made: str) -> str:
        """Return a text with malformed bytes replaced by others that are malformed in the same way."""
        places = [at for at, char in enumerate(old) if "\udc80" <= char <= "\udcff"]
        chars = list(made)
        seed = self.digest(old.encode("utf-8", "surrogateescape"), _KEY_BYTES)
        for at, drawn in zip(places, _stream(seed, len(places)), strict=False):
            first, count = next(kind for kind in _MALFORMED if kind[0] <= ord(old[at]) < sum(kind))
            chars[at] = chr(first + (ord(old[at]) - first + 1 + drawn % max(count - 1, 1)) % count)
        return "".join(chars)


def _prefix(text: str) -> str:
    """Return what stays of a name from its begin on."""
    if text in BROKER_WORDS or text.startswith(_SYSTEM_GROUP):
        return text
    return next(one for one in _PREFIXES if text.startswith(one)) if text.startswith(_PREFIXES) else ""


def _kinds(codes: Int64s) -> tuple[Int64s, Int64s, Rows]:
    """Return of each character the first code of its kind, how many there are (0: it stays), and its mark.

    A mark is what stands for a character in a pattern, UTF-8; all ``(n,)``.
    """
    present = np.flatnonzero(np.bincount(codes))
    rank = np.cumsum(np.bincount(codes) > 0)[codes] - 1
    kinds = [_kind(chr(code)) for code in present]
    table = np.array([kind or (0, 0) for kind in kinds], np.int64).reshape(-1, 2)
    marks = [_mark(chr(code), kind) for code, kind in zip(present, kinds, strict=True)]
    return table[rank, 0], table[rank, 1], np.array(marks, object)[rank]


def _mark(char: str, kind: tuple[int, int] | None) -> bytes:
    return (f"{kind[0]:x}" if kind else _LOST.sub("\ufffd", char)).encode("utf-8", "surrogatepass")


def _salts(texts: Sequence[str], marks: Rows, bounds: list[int]) -> list[bytes]:
    """Return what texts of one pattern share."""
    found = marks.tolist()
    salts = []
    for text, (start, stop) in zip(texts, pairwise(bounds), strict=True):
        pattern = found[start:stop]
        salts.append(b"\0".join(pattern if text.isascii() else _merged(pattern)) + b":")
    return salts


def _merged(pattern: list[bytes]) -> list[bytes]:
    """Return a pattern with each run of lost characters as one: Java and Python count them differently."""
    lost = "\ufffd".encode()
    return [one for at, one in enumerate(pattern) if one != lost or not at or pattern[at - 1] != lost]


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
