"""Edit a copy of a store's commit log: fields of records, single bytes, whole segments."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from rmqtool.formats import message

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator
    from pathlib import Path


class LogCopy:
    """The log of a store copy, as it is before the first edit.

    Args:
        root: Store root; its log is undamaged and all its segments are equally long.

    Attributes:
        segments: The files by physical offset.
        segment_size: Bytes of each.
    """

    def __init__(self, root: Path) -> None:
        self.segments = {int(path.name): path for path in sorted((root / "commitlog").iterdir())}
        self.segment_size = next(iter(self.segments.values())).stat().st_size
        self._original = {start: path.read_bytes() for start, path in self.segments.items()}

    @cached_property
    def records(self) -> list[list[int]]:
        """Physical offsets of the records of each segment."""
        return [list(self._chain(start)) for start in self.segments]

    @cached_property
    def blanks(self) -> list[int]:
        """Physical offset of the BLANK that ends each segment but the last."""
        return [places[-1] + self.head(places[-1]).total_size for places in self.records[:-1]]

    def head(self, place: int) -> message.MessageHead:
        """Return the fixed part of the record at a place."""
        start = self._start(place)
        head = message.decode_head(self._original[start], place - start)
        assert head is not None
        return head

    def read(self, place: int, length: int) -> bytes:
        """Return original bytes of the log."""
        start = self._start(place)
        return self._original[start][place - start : place - start + length]

    def topic_at(self, place: int) -> int:
        """Return where the topic's bytes begin in the record at a place."""
        head = self.head(place)
        return self.body_at(place) + max(head.body_length, 0) + message.TOPIC_LENGTHS[head.magic].size

    def body_at(self, place: int) -> int:
        """Return where the body begins in the record at a place."""
        return place + message.HEAD_SIZES[message.host_variant(self.head(place).sys_flag)]

    def properties_length_at(self, place: int) -> int:
        """Return where the length of the properties lies in the record at a place."""
        topic = self.topic_at(place)
        width = message.TOPIC_LENGTHS[self.head(place).magic].size
        return topic + int.from_bytes(self.read(topic - width, width), "big")

    def put(self, place: int, field: str, value: int, width: int = 4) -> None:
        """Set an integer field of the head of the record at a place."""
        offsets = message.HEAD_OFFSETS[message.host_variant(self.head(place).sys_flag)]
        self.write(place + offsets[field], value.to_bytes(width, "big", signed=True))

    def put_magic(self, place: int, magic: int) -> None:
        """Set the magic of the record or BLANK at a place."""
        self.write(place + message.HEAD_OFFSETS[0]["magic"], magic.to_bytes(4, "big", signed=True))

    def write(self, place: int, data: bytes) -> None:
        """Overwrite bytes within one segment."""
        start = self._start(place)
        assert place - start + len(data) <= self.segment_size
        with self.segments[start].open("r+b") as file:
            file.seek(place - start)
            file.write(data)

    def flip(self, place: int, bits: int) -> None:
        """Flip bits of one byte."""
        self.write(place, bytes([self.read(place, 1)[0] ^ bits]))

    def remove_segment(self, number: int) -> None:
        """Delete a file of the log."""
        list(self.segments.values())[number].unlink()

    def flip_at_random(self, source: random.Random) -> None:
        """Flip bits of some bytes in records; most hit what a dispatch reads."""
        places = [place for segment in self.records for place in segment]
        for _ in range(source.randint(1, 4)):
            place = source.choice(places)
            start, stop = source.choice(self._parts(place))
            self.flip(source.randrange(start, stop), 1 << source.randrange(8))

    def _parts(self, place: int) -> list[tuple[int, int]]:
        """Return ranges of a record that are worth a hit: lengths, offsets, the head, the body, the rest."""
        offsets = message.HEAD_OFFSETS[message.host_variant(self.head(place).sys_flag)]
        body, topic, properties = self.body_at(place), self.topic_at(place), self.properties_length_at(place)
        stop = place + self.head(place).total_size
        parts = [(place, place + 8), (properties, properties + 2), (topic - 1, topic), (topic, stop)]
        parts += [(place, body), (place + offsets["queueId"], place + offsets["sysFlag"])]
        parts += [(place + offsets["bodyLength"], body), (body, stop)]
        return parts

    def _chain(self, start: int) -> Iterator[int]:
        """Yield the records of an undamaged segment."""
        place = start
        while (head := message.decode_head(self._original[start], place - start)) is not None:
            if head.magic not in (message.MAGIC_V1, message.MAGIC_V2):
                return
            yield place
            place += head.total_size

    def _start(self, place: int) -> int:
        return place - place % self.segment_size
