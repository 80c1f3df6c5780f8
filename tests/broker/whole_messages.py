"""Whole messages of a log, found byte by byte: no chain is followed, so no damage leads astray."""

from __future__ import annotations

import re
import zlib
from typing import TYPE_CHECKING, NamedTuple

from rmqtool.formats import message
from rmqtool.topics import LMQ_PREFIX

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_MAGICS = re.compile(
    b"|".join(re.escape(magic.to_bytes(4, "big", signed=True)) for magic in sorted(message.RECORD_MAGICS))
)
_MAGIC_AT = 4
_INNER_BATCH = 1 << 7

Numbered = tuple[str, int, int]
"""Topic, queue id, queue offset."""
Identity = tuple[str, int, int, int]
"""These, and the checksum of the body."""


class WholeMessage(NamedTuple):
    """A message of which all that a broker checks is right; a BODYCRC of 0 is, and that of no body.

    Attributes:
        place: Physical offset.
        topic: As stored.
        queue_id: As stored.
        queue_offset: Its own, of an inner batch that of the first message.
        messages: Messages in it.
        body: Checksum of its body.
        properties: By name.
        is_dispatched: Whether it gets a unit: no half message and no rollback.
        is_indexed: Whether it gets index items: no rollback.
    """

    place: int
    topic: str
    queue_id: int
    queue_offset: int
    messages: int
    body: int
    properties: dict[str, str]
    is_dispatched: bool
    is_indexed: bool

    @property
    def numbered(self) -> Numbered:
        """Its place in its queue."""
        return self.topic, self.queue_id, self.queue_offset

    @property
    def identity(self) -> Identity:
        """What makes two records copies of one message."""
        return self.topic, self.queue_id, self.queue_offset, self.body

    @property
    def queues(self) -> list[tuple[str, int]]:
        """Its own queue, and those that it names beside it, but for light ones."""
        names = self.properties.get("INNER_MULTI_DISPATCH", "").split(",")
        return [
            (self.topic, self.queue_id),
            *((name, self.queue_id) for name in names if name and not name.startswith(LMQ_PREFIX)),
        ]

    @property
    def keys(self) -> list[str]:
        """The keys that a query can name."""
        words = self.properties.get("KEYS", "").split(" ")
        return [key for key in (self.properties.get("UNIQ_KEY", ""), *words) if key]


def whole_messages(root: Path) -> list[WholeMessage]:
    """Return those of a store's log in its order.

    A record that names another place than its own counts where it follows on one that counts, and is no copy
    of a message before it.
    """
    files = (path for path in (root / "commitlog").glob("*") if path.is_file() and path.name.isdigit())
    known: set[Identity] = set()
    messages = []
    for path in sorted(files):
        for whole, names_place in _of_file(int(path.name), path.read_bytes()):
            if names_place or whole.identity not in known:
                messages.append(whole)
            known.add(whole.identity)
    return messages


def _of_file(start: int, data: bytes) -> Iterator[tuple[WholeMessage, bool]]:
    """Yield messages, and whether each names its own place."""
    end = 0
    for magic in _MAGICS.finditer(data):
        at = magic.start() - _MAGIC_AT
        if at < end or (head := _head(data, at)) is None:
            continue
        whole = _whole(data, at, head, start + at)
        names_place = head.physical_offset == start + at
        if whole is not None and (names_place or at == end):
            yield whole, names_place
            end = at + head.total_size


def _head(data: bytes, at: int) -> message.MessageHead | None:
    try:
        return message.decode_head(data, at)
    except (ValueError, IndexError):
        return None


def _whole(data: bytes, at: int, head: message.MessageHead, place: int) -> WholeMessage | None:
    body_at = at + message.HEAD_SIZES[message.host_variant(head.sys_flag)]
    body = data[body_at : body_at + max(head.body_length, 0)]
    width = message.TOPIC_LENGTHS[head.magic].size
    topic_at = body_at + len(body) + width
    topic_length = int.from_bytes(data[topic_at - width : topic_at], "big", signed=True)
    length_at = topic_at + topic_length
    properties_at = length_at + message.PROPERTIES_LENGTH.size
    properties_length = int.from_bytes(data[length_at:properties_at], "big", signed=True)
    stop = properties_at + max(properties_length, 0)
    if topic_length <= 0 or stop != at + head.total_size or stop > len(data):
        return None
    checksum = zlib.crc32(body)
    if body and head.body_crc not in {0, checksum & 0x7FFFFFFF}:
        return None
    properties = _properties(data[properties_at:stop].decode("utf-8", "replace"))
    kind = head.sys_flag & message.TRANSACTION_MASK
    is_batch = bool(head.sys_flag & _INNER_BATCH)
    return WholeMessage(
        place,
        data[topic_at:length_at].decode("utf-8", "replace"),
        head.queue_id,
        head.queue_offset,
        int(properties.get("INNER_NUM", "1")) if is_batch else 1,
        checksum,
        properties,
        kind not in {message.TRANSACTION_PREPARED, message.TRANSACTION_ROLLBACK},
        kind != message.TRANSACTION_ROLLBACK,
    )


def _properties(text: str) -> dict[str, str]:
    return dict(piece.split("\x01", 1) for piece in text.split("\x02") if "\x01" in piece)
