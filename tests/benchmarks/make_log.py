"""Write a synthetic but valid store of any size, as fast as the disk takes it.

``python -m tests.benchmarks.make_log OUT --gib 1 --body 1024 [--topics 16 --queues 8 --keys 1 --no-tags]
[--segment-kib 1048576]``

The result is the log that a 5.3.3 broker would have written (``MessageExtEncoder``, V1 records, IPv4 hosts,
``DefaultAppendMessageCallback#doAppend`` for the ends of files): default geometry unless files of another
size are asked for, one length for all records of a store, right checksums and offsets. Queues are drawn at
random, as many producers fill them; unique keys count up, as a client's do, and keys look random, as order
numbers do. There are no derived files.
"""

from __future__ import annotations

import argparse
import json
import sys
import zlib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rmqtool.formats import layout, message

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt

    Array = npt.NDArray[Any]

SEGMENT_BYTES = 1 << 30
FIRST_STORE_TIMESTAMP_MS = 1_750_000_000_000

_CHUNK_BYTES = 16 << 20
_MESSAGES_A_MS = 100
_BODIES = 64  # distinct ones: their checksums are computed once
_TAGS = (b"TagA", b"TagB", b"TagC", b"TagD")
_CLIENT_ID = b"C0A80114E24018B4"  # of a unique key: the producer's part, in front of what counts up
_MIX = np.uint64(0x9E3779B97F4A7C15)
_HEX_PAIRS = np.array([f"{byte:02X}" for byte in range(256)], "S2")
_NUMBERS = ("bodyCrc", "queueId", "queueOffset", "physicalOffset", "bornTimestamp", "storeTimestamp")
_PROPERTY = b"%s\x01%s\x02"  # the broker's writer ends the last one like the others


@dataclass(frozen=True)
class LogShape:
    """What the messages of a log are like.

    Attributes:
        body: bytes of every body.
        topics: how many.
        queues: of every topic.
        keys: words in KEYS; 0 leaves the property out.
        tags: whether messages have TAGS.
        in_turn: whether queues take turns, instead of being drawn.
    """

    body: int = 1024
    topics: int = 16
    queues: int = 8
    keys: int = 1
    tags: bool = True
    in_turn: bool = False

    @property
    def topic_names(self) -> list[str]:
        """Names of one length."""
        digits = max(len(str(self.topics - 1)), 3)
        return [f"BenchTopic{number:0{digits}d}" for number in range(self.topics)]

    @property
    def _properties(self) -> bytes:
        """Properties of one message; what differs between messages is filled in later."""
        words = b" ".join([b"k" * 16] * self.keys)
        parts = [(b"UNIQ_KEY", _CLIENT_ID + b"u" * 16), (b"WAIT", b"true")]
        parts += [(b"TAGS", _TAGS[0])] if self.tags else []
        parts += [(b"KEYS", words)] if self.keys else []
        return b"".join(_PROPERTY % part for part in parts)

    @cached_property
    def template(self) -> bytes:
        """A whole record of this shape."""
        fields = {
            "totalSize": 0,
            "magic": message.MAGIC_V1,
            "bodyCrc": 0,
            "queueId": 0,
            "flag": 0,
            "queueOffset": 0,
            "physicalOffset": 0,
            "sysFlag": 0,
            "bornTimestamp": 0,
            "bornHost": {"address": bytes([10, 1, 2, 3]), "port": 12345},
            "storeTimestamp": 0,
            "storeHost": {"address": bytes([10, 9, 8, 7]), "port": 10911},
            "reconsumeTimes": 0,
            "preparedTransactionOffset": 0,
            "body": bytes(self.body),
            "topic": self.topic_names[0].encode(),
            "properties": self._properties,
        }
        size_bytes = len(message.MESSAGE.build(fields))
        built: bytes = message.MESSAGE.build(fields | {"totalSize": size_bytes})
        return built

    @cached_property
    def record(self) -> np.dtype[Any]:
        """The record as a structure: every field that differs between messages, at its place."""
        head = {field.name: field for field in layout(message.HEAD, sysFlag=0)}
        fields: dict[str, tuple[str, int]] = {}
        for name in (
            "bodyCrc",
            "queueId",
            "queueOffset",
            "physicalOffset",
            "bornTimestamp",
            "storeTimestamp",
        ):
            fields[name] = (f">i{head[name].size}", message.HEAD_OFFSETS[0][name])
        topic = message.HEAD_SIZES[0] + self.body + message.TOPIC_LENGTHS[message.MAGIC_V1].size
        fields["body"] = (f"V{self.body}", message.HEAD_SIZES[0])
        fields["topic"] = (f"S{len(self.topic_names[0])}", topic)
        start = topic + len(self.topic_names[0]) + message.PROPERTIES_LENGTH.size
        fields["uniqKey"] = ("(8,)S2", start + self._properties.index(b"u" * 16))
        if self.tags:
            fields["tag"] = (f"S{len(_TAGS[0])}", start + self._properties.index(_TAGS[0]))
        for word in range(self.keys):
            first = start + self._properties.index(b"k" * 16)
            fields[f"key{word}"] = ("(8,)S2", first + word * len(b"k" * 16 + b" "))
        formats, offsets = zip(*fields.values(), strict=True)
        return np.dtype(
            {
                "names": list(fields),
                "formats": list(formats),
                "offsets": list(offsets),
                "itemsize": len(self.template),
            }
        )


class Messages:
    """The messages of a log, chunk by chunk; ``drawn`` of them so far."""

    def __init__(self, shape: LogShape, seed: int = 1) -> None:
        self._shape = shape
        self._random = np.random.default_rng(seed)
        self._bodies = np.frombuffer(self._random.bytes(_BODIES * shape.body), f"V{shape.body}")
        crcs = [zlib.crc32(body.tobytes()) & 0x7FFFFFFF for body in self._bodies]
        self._crcs = np.array(crcs, np.int64)
        self._topics = np.array(shape.topic_names, "S")
        self._next_offsets = np.zeros(shape.topics * shape.queues, np.int64)
        self._chunk = np.zeros(max(_CHUNK_BYTES // len(shape.template), 1), shape.record)
        raw = self._chunk.view(np.uint8).reshape(len(self._chunk), -1)
        raw[:] = np.frombuffer(shape.template, np.uint8)
        self.drawn = 0

    @property
    def record_bytes(self) -> int:
        """Return the length of every record."""
        return self._chunk.itemsize

    def draw(self, count: int, physical_offset: int) -> Array:
        """Return up to ``count`` records that begin at a physical offset; valid until the next call."""
        rows = self._chunk[:count]
        numbers = self.drawn + np.arange(len(rows))
        queues: Array = numbers % len(self._next_offsets)
        if not self._shape.in_turn:
            queues = self._random.integers(0, len(self._next_offsets), len(rows))
        bodies = numbers % _BODIES
        rows["body"], rows["bodyCrc"] = self._bodies[bodies], self._crcs[bodies]
        rows["topic"] = self._topics[queues // self._shape.queues]
        rows["queueId"] = queues % self._shape.queues
        rows["queueOffset"] = self._queue_offsets(queues)
        rows["physicalOffset"] = physical_offset + np.arange(len(rows)) * rows.itemsize
        rows["storeTimestamp"] = FIRST_STORE_TIMESTAMP_MS + numbers // _MESSAGES_A_MS
        rows["bornTimestamp"] = rows["storeTimestamp"] - 3
        self._fill_properties(rows, numbers)
        self.drawn += len(rows)
        return rows

    def _queue_offsets(self, queues: Array) -> Array:
        """Give each message its place in its queue."""
        order = np.argsort(queues, kind="stable")
        counts = np.bincount(queues, minlength=len(self._next_offsets))
        firsts = self._next_offsets - (np.cumsum(counts) - counts)
        offsets = np.empty(len(queues), np.int64)
        offsets[order] = np.arange(len(queues)) + np.repeat(firsts, counts)
        self._next_offsets += counts
        return offsets

    def _fill_properties(self, rows: Array, numbers: Array) -> None:
        rows["uniqKey"] = _hex_digits(numbers)
        if self._shape.tags:
            rows["tag"] = np.array(_TAGS)[numbers % len(_TAGS)]
        for word in range(self._shape.keys):
            rows[f"key{word}"] = _hex_digits((numbers * self._shape.keys + word).astype(np.uint64) * _MIX)


def _hex_digits(numbers: Array) -> Array:
    """Return the 16 hexadecimal digits of numbers, ``(n, 8)`` of pairs."""
    return _HEX_PAIRS[numbers.astype(">u8").view(np.uint8).reshape(-1, 8)]


def write_log(directory: Path, shape: LogShape, log_bytes: int, segment_bytes: int = SEGMENT_BYTES) -> int:
    """Write ``log_bytes`` of records into files of full size; return how many records there are."""
    directory.mkdir(parents=True)
    messages = Messages(shape)
    wanted = log_bytes // len(shape.template)
    start = 0
    while messages.drawn < wanted:
        with (directory / f"{start:020d}").open("wb") as file:
            file.truncate(segment_bytes)
            position = 0
            for rows in _rows_of_file(messages, wanted, start, segment_bytes):
                file.write(rows.data.cast("B"))
                position += rows.nbytes
            if messages.drawn < wanted:
                head = {"totalSize": segment_bytes - position, "magic": message.BLANK_MAGIC}
                file.write(message.END_MARK.build(head))
        start += segment_bytes
    return wanted


def _rows_of_file(messages: Messages, wanted: int, start: int, segment_bytes: int) -> Iterator[Array]:
    """Yield the records of one file: as many as leave room for a BLANK after them."""
    position = 0
    room = segment_bytes - message.END_FILE_MIN_BLANK_LENGTH
    while messages.drawn < wanted:
        rows_in_room = (room - position) // messages.record_bytes
        if not rows_in_room:
            return
        rows = messages.draw(min(rows_in_room, wanted - messages.drawn), start + position)
        position += rows.nbytes
        yield rows


def _topics_json(shape: LogShape) -> dict[str, Any]:
    """Return what ``TopicConfigManager#encode`` writes: a broker's rules depend on its topics."""
    table = {
        name: {
            "attributes": {},
            "order": False,
            "perm": 6,
            "readQueueNums": shape.queues,
            "topicFilterType": "SINGLE_TAG",
            "topicName": name,
            "topicSysFlag": 0,
            "writeQueueNums": shape.queues,
        }
        for name in shape.topic_names
    }
    version = {"counter": shape.topics, "stateVersion": 0, "timestamp": FIRST_STORE_TIMESTAMP_MS}
    return {"dataVersion": version, "topicConfigTable": table}


def write_store(root: Path, shape: LogShape, log_bytes: int, segment_bytes: int = SEGMENT_BYTES) -> int:
    """Write a store that a broker can open; return how many messages it holds.

    Raises:
        FileExistsError: There is a log already.
    """
    count = write_log(root / "commitlog", shape, log_bytes, segment_bytes)
    (root / "config").mkdir()
    (root / "config" / "topics.json").write_text(json.dumps(_topics_json(shape), indent=1))
    (root / "broker.conf").write_text(f"mappedFileSizeCommitLog={segment_bytes}\n")
    return count


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the store that the command line asks for."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.make_log", description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--gib", type=float, default=1.0, help="GiB of records")
    parser.add_argument("--body", type=int, default=1024, help="bytes of a body")
    parser.add_argument("--topics", type=int, default=16)
    parser.add_argument("--queues", type=int, default=8, help="of every topic")
    parser.add_argument("--keys", type=int, default=1, help="words in KEYS of every message")
    parser.add_argument("--tags", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--segment-kib", type=int, default=SEGMENT_BYTES >> 10, help="KiB of every file")
    given = parser.parse_args(arguments)
    shape = LogShape(given.body, given.topics, given.queues, given.keys, given.tags)
    count = write_store(given.out, shape, int(given.gib * (1 << 30)), given.segment_kib << 10)
    sys.stdout.write(f"{given.out}: {count} messages of {len(shape.template)} bytes\n")


if __name__ == "__main__":
    main()
