"""Encoders of columns: from a log by kernels, or from rows in plain Python."""

from __future__ import annotations

import ipaddress
import weakref
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from rmqtool import rows
from rmqtool.formats.message import COMPRESSED_FLAG
from rmqtool.kernels.bytes import put_word
from rmqtool.kernels.columns import (
    ColumnCount,
    ColumnRoom,
    Long,
    Number,
    Stopped,
    Take,
    Text,
    Word,
    encode_columns,
)
from rmqtool.kernels.filters import MAX_PROPERTIES, KernelFilter
from rmqtool.progress import RecordingProgress
from rmqtool.projection import camel_case
from rmqtool.rows.bodies import decompressed
from rmqtool.rows.log_splits import LogJob, kernel_filter
from rmqtool.rows.messages import TRANSACTION_TYPES, host_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from rmqtool.arrays import Buffer, Int32s
    from rmqtool.columns import ColumnChoice
    from rmqtool.kernels.rows import MessageBatch
    from rmqtool.rows import Message
    from rmqtool.store import Segment


_KEPT = 4
"""Number of pieces of memory that are kept for reuse."""

_ALIGNMENT = 64
_waiting: list[Buffer] = []


class _Leased(np.ndarray[Any, Any]):
    """Memory that is reused once no array, of numpy or Arrow, refers to it any more.

    Numpy lets views of views refer to the last array of the same class, which is this one.
    """


class Memory:
    """Arrays in one piece of memory.

    ``shapes`` has the shape and element type of each; ``arrays`` are for kernels and must not be used after
    `lease`.
    """

    def __init__(self, shapes: Sequence[tuple[tuple[int, ...], type[np.generic]]]) -> None:
        self._shapes = shapes
        self._places: list[slice] = []
        end = 0
        for shape, kind in shapes:
            size = int(np.prod(shape)) * np.dtype(kind).itemsize
            self._places.append(slice(end, end + size))
            end += -(-size // _ALIGNMENT) * _ALIGNMENT
        self._bytes = _taken(end)
        self.arrays = self._views(self._bytes)

    def lease(self) -> list[np.ndarray[Any, Any]]:
        """Return the arrays for others: the memory is reused when the last of them is dropped."""
        leased = self._bytes.view(_Leased)
        weakref.finalize(leased, _keep_for_reuse, self._bytes)
        return self._views(leased)

    def release(self) -> None:
        """Let the memory be reused at once; the arrays must not be used after that."""
        _keep_for_reuse(self._bytes)

    def _views(self, memory: Buffer) -> list[np.ndarray[Any, Any]]:
        return [
            memory[place].view(kind).reshape(shape)
            for (shape, kind), place in zip(self._shapes, self._places, strict=True)
        ]


def _taken(size: int) -> Buffer:
    """Return memory of that size; waiting memory of other sizes, as of finished jobs, is dropped."""
    while _waiting:
        try:
            memory = _waiting.pop()
        except IndexError:  # another thread took it
            break
        if len(memory) == size:
            return memory
    return np.empty(size, np.uint8)


def _keep_for_reuse(memory: Buffer) -> None:
    if len(_waiting) < _KEPT:
        _waiting.append(memory)


BATCH_ROWS = 1 << 16
BATCH_BYTES = 20 << 20
"""Room for texts of one kind; more than a split holds, and only the used part takes memory."""

_FEW_ROWS, _FEW_BYTES = BATCH_ROWS >> 1, BATCH_BYTES >> 2
"""Up to this number of messages and bytes of text, a batch is copied out of its memory."""

_SLOTS = 1 << 15
_WORD_BYTES = 1 << 20
_FEWER = (
    8  # as many times less room for words in a small batch, which the system then gives by its small pages
)
_PIECES = 16  # keys or properties of a message, beside the room for the longest
_LONGEST_PROPERTIES = 1 << 15
_PORT_BYTES = 4
_TRANSACTION_SHIFT = 2

LONGS = {
    Long.POSITION: "position",
    Long.PHYSICAL_OFFSET: "physical_offset",
    Long.QUEUE_OFFSET: "queue_offset",
    Long.BORN_TIMESTAMP: "born_timestamp_ms",
    Long.STORE_TIMESTAMP: "store_timestamp_ms",
    Long.PREPARED_OFFSET: "prepared_transaction_offset",
    Long.TAGS_CODE: "tags_code",
}
NUMBERS = {number: number.name.lower() for number in Number if number < Number.MAGIC}
LONGS_BY_NAME = {camel_case(name): column for column, name in LONGS.items()}
NUMBERS_BY_NAME = {camel_case(name): column for column, name in NUMBERS.items()}
TEXTS_BY_NAME = {"body": Text.BODY, "tags": Text.TAGS, "uniqKey": Text.UNIQ_KEY, "msgId": Text.MSG_ID}
WORDS_BY_NAME = {"topic": Word.TOPIC, "bornHost": Word.BORN_HOST, "storeHost": Word.STORE_HOST}
FIXED_WORDS = {"magic": ("V1", "V2"), "transactionType": tuple(TRANSACTION_TYPES.values())}


def word_numbers(columns: rows.Columns, name: str) -> Int32s:
    """Return the numbers of the words of a column; those of a fixed one are places in ``FIXED_WORDS``."""
    if name in WORDS_BY_NAME:
        return columns.numbers[Number.TOPIC + WORDS_BY_NAME[name], : columns.count]
    if name == "magic":
        return columns.numbers[Number.MAGIC, : columns.count]
    return columns.numbers[Number.SYS_FLAG, : columns.count] >> _TRANSACTION_SHIFT & 3


def text_of_word(name: str, word: bytes) -> str:
    """Return the text of a word as it is stored."""
    return host_text(word) if name.endswith("Host") else word.decode()


class ColumnBuffers:
    """Columns of messages of one file."""

    def __init__(self, file: str, choice: ColumnChoice, room: int, room_bytes: int) -> None:
        self.file = file
        self.takes = np.array([camel_case(take.name.lower()) in choice.names for take in Take], np.int64)
        pieces, fewer = _PIECES * room + _LONGEST_PROPERTIES, _FEWER if room < BATCH_ROWS else 1
        slots, word_bytes = _SLOTS // fewer, _WORD_BYTES // fewer
        self.counts = np.zeros(ColumnCount.WORDS + len(Word), np.int64)
        self._memory = Memory(
            (
                ((len(Long), room), np.int64),
                ((len(Number), room), np.int32),
                ((len(Text), room_bytes), np.uint8),
                ((len(Text), pieces + 1), np.int32),
                ((2, room + 1), np.int32),
                ((len(Word), slots), np.int32),
                ((len(Word), slots // 2), np.int32),
                ((len(Word), word_bytes), np.uint8),
            )
        )
        self.longs, self.numbers, self.texts, self.stops, self.list_stops, *words = self._memory.arrays
        self.slots, self.word_stops, self.words = words
        self.slots.fill(-1)
        self.used = np.zeros(len(Text), np.int64)
        for stops in (self.stops, self.list_stops, self.word_stops):
            stops[:, 0] = 0
        self.room = ColumnRoom(
            takes=self.takes,
            parts=np.empty((MAX_PROPERTIES, 4), np.int64),
            counts=self.counts,
            longs=self.longs,
            numbers=self.numbers,
            texts=self.texts,
            stops=self.stops,
            used=self.used,
            list_stops=self.list_stops,
            slots=self.slots,
            word_stops=self.word_stops,
            words=self.words,
        )
        self._damage: dict[int, list[str]] = {}

    def __len__(self) -> int:
        return int(self.counts[ColumnCount.ROWS])

    def add(self, message: Message) -> bool:
        """Add a message; return False if there is no room for it."""
        n, keys, properties = (
            int(self.counts[count]) for count in (ColumnCount.ROWS, ColumnCount.KEYS, ColumnCount.PROPERTIES)
        )
        texts = self._texts_of(message)
        if n == self.longs.shape[1] or not self._fit(texts, len(message.keys), len(message.properties)):
            return False
        words = self._words_of(message)
        if words is None:
            return False
        for column, name in LONGS.items():
            self.longs[column, n] = getattr(message, name)
        for number, name in NUMBERS.items():
            self.numbers[number, n] = getattr(message, name)
        self.numbers[Number.MAGIC, n] = message.magic == "V2"
        self.numbers[Number.TOPIC :, n] = words
        first = {Text.KEY: keys, Text.NAME: properties, Text.VALUE: properties}
        for text, pieces in texts.items():
            self._put(text, first.get(text, n), pieces)
        self.counts[ColumnCount.ROWS] = n + 1
        self.counts[ColumnCount.KEYS] = self.list_stops[0, n + 1] = keys + len(texts[Text.KEY])
        self.counts[ColumnCount.PROPERTIES] = self.list_stops[1, n + 1] = properties + len(texts[Text.NAME])
        if message.damage:
            self._damage[n] = message.damage
        return True

    def release(self) -> None:
        """Let other columns have the memory at once, also that of columns that do not last."""
        self._memory.release()

    def columns(self, remarks: tuple[str, ...] = (), *, lasting: bool = True) -> rows.Columns:
        """Return the columns; nothing may be added after that.

        With ``lasting`` False, they share their memory with these, until `release`.
        """
        words = tuple(
            tuple(
                self.words[word, self.word_stops[word, i] : self.word_stops[word, i + 1]].tobytes()
                for i in range(self.counts[ColumnCount.WORDS + word])
            )
            for word in Word
        )
        longs, numbers, texts, stops, list_stops = self._arrays(lasting=lasting)
        return rows.Columns(
            self.file,
            len(self),
            longs=longs,
            numbers=numbers,
            texts=texts,
            stops=stops,
            list_stops=list_stops,
            words=words,
            damage=self._damage,
            remarks=remarks,
        )

    def _arrays(self, *, lasting: bool) -> Sequence[Any]:
        """Return numbers, texts and their ends; of small batches a copy, so that they take no more memory."""
        if not lasting:
            return self._memory.arrays[:5]
        count, used = len(self), int(self.used.max())
        if count > _FEW_ROWS or used > _FEW_BYTES:
            return self._memory.lease()[:5]
        pieces = 1 + max(count, int(self.counts[ColumnCount.KEYS]), int(self.counts[ColumnCount.PROPERTIES]))
        texts = [text[:length].copy() for text, length in zip(self.texts, self.used, strict=True)]
        numbers = self.longs[:, :count].copy(), self.numbers[:, :count].copy()
        stops = self.stops[:, :pieces].copy(), self.list_stops[:, : count + 1].copy()
        self.release()
        return [*numbers, texts, *stops]

    def _texts_of(self, message: Message) -> dict[Text, list[bytes]]:
        texts = (
            (Text.BODY, Take.BODY, (message.body,)),
            (Text.TAGS, Take.TAGS, (message.tags or "",)),
            (Text.UNIQ_KEY, Take.UNIQ_KEY, (message.uniq_key or "",)),
            (Text.MSG_ID, Take.MSG_ID, (message.msg_id,)),
            (Text.KEY, Take.KEYS, message.keys),
            (Text.NAME, Take.PROPERTIES, message.properties),
            (Text.VALUE, Take.PROPERTIES, message.properties.values()),
        )
        return {
            text: [
                piece if isinstance(piece, bytes) else piece.encode() for piece in pieces if self.takes[take]
            ]
            for text, take, pieces in texts
        }

    def _fit(self, texts: dict[Text, list[bytes]], keys: int, properties: int) -> bool:
        pieces = self.stops.shape[1] - 1
        counts = self.counts[ColumnCount.KEYS] + keys, self.counts[ColumnCount.PROPERTIES] + properties
        return max(counts) <= pieces and all(
            self.used[text] + sum(map(len, found)) <= self.texts.shape[1] for text, found in texts.items()
        )

    def _words_of(self, message: Message) -> list[int] | None:
        wanted = (message.topic.encode(), raw_host(message.born_host), raw_host(message.store_host))
        numbers = []
        for word, raw in zip(Word, wanted, strict=True):
            count = int(self.counts[ColumnCount.WORDS + word])
            text = np.frombuffer(raw, np.uint8)
            place = (self.slots[word], self.word_stops[word], self.words[word])
            number = put_word(text, 0, len(text), *place, count) if self.takes[word] else 0
            if number < 0:
                return None
            self.counts[ColumnCount.WORDS + word] += number == count and self.takes[word]
            numbers.append(number)
        return numbers

    def _put(self, text: Text, first: int, pieces: list[bytes]) -> None:
        for number, piece in enumerate(pieces, start=first + 1):
            start = int(self.used[text])
            stop = start + len(piece)
            self.texts[text, start:stop] = np.frombuffer(piece, np.uint8)
            self.used[text] = self.stops[text, number] = stop


@lru_cache(maxsize=1024)
def raw_host(text: str) -> bytes:
    """Return a host as it is stored: the reverse of ``rmqtool.rows.messages.host_text``."""
    address, _, port = text.rpartition(":")
    packed = ipaddress.ip_address(address.strip("[]")).packed
    return packed + int(port).to_bytes(_PORT_BYTES, "big", signed=True)


COLUMN_SPLIT_BYTES = 16 << 20


@dataclass(frozen=True)
class ColumnJob(LogJob):
    """Job that reads a log as columns; damage comes as rows."""

    choice: ColumnChoice

    def encoder(self, segment: Segment) -> ColumnEncoder:
        """Return a new encoder for a split of a file."""
        wanted = None
        if self.messages.is_for_kernels:
            is_unpacked = self.choice.decompress and "body" in self.choice.names
            wanted = kernel_filter(self.messages, COMPRESSED_FLAG if is_unpacked else 0)
        return ColumnEncoder(Filling(self.choice), segment, wanted)


class ColumnEncoder:
    """Encoder of one split; ``wanted`` is None if kernels cannot filter."""

    def __init__(self, filling: Filling, segment: Segment, wanted: KernelFilter | None) -> None:
        self._segment = segment
        self._wanted = wanted
        self._rows: list[rows.Row] = []
        self._filling = filling

    def encode(self, batch: MessageBatch, first: int, stop: int) -> int:
        """Fill columns; see `Encoder.encode`."""
        while first < stop and self._wanted is not None:
            stopped, first = self._fill(self._wanted, batch, first, stop)
            if stopped == Stopped.FULL:
                self._rows.extend(self._filling.flushed())
            if stopped == Stopped.ODD:
                break
        return first

    def add(self, row: rows.Row) -> None:
        """Add a row: messages go into the columns, damage beside them."""
        if isinstance(row, rows.Message):
            self._rows.extend(self._filling.add(row))
        else:
            self._rows.append(row)

    def finish(self) -> list[rows.Row]:
        """Return columns and rows."""
        return [*self._rows, *self._filling.finished()]

    def _fill(self, wanted: KernelFilter, batch: MessageBatch, first: int, stop: int) -> tuple[int, int]:
        room, start = self._filling.room(self._segment.label).room, self._segment.start
        return encode_columns(batch.only(slice(stop)), first, start, wanted, room)


class Filling:
    """Columns being filled, batch after batch, of so many messages and bytes."""

    def __init__(self, choice: ColumnChoice, room: int | None = None, room_bytes: int | None = None) -> None:
        self._choice = choice
        self._buffers: ColumnBuffers | None = None
        self._room, self._room_bytes = room or BATCH_ROWS, room_bytes or BATCH_BYTES
        self._remarks = RecordingProgress(None)

    def room(self, file: str) -> ColumnBuffers:
        """Return the buffers for messages of a file."""
        if self._buffers is None:
            self._buffers = ColumnBuffers(file, self._choice, self._room, self._room_bytes)
        return self._buffers

    def add(self, message: rows.Message) -> Iterator[rows.Row]:
        """Add a message; yield the batches that were full before."""
        if self._buffers is not None and self._buffers.file != message.file:
            yield from self.finished()
        if self._choice.decompress and "body" in self._choice.names:
            (unpacked,) = decompressed([message], self._remarks)
            message = unpacked if isinstance(unpacked, rows.Message) else message
        while not self.room(message.file).add(message):
            yield from self.flushed()

    def flushed(self) -> Iterator[rows.Row]:
        """Yield the full batch; enlarge the room if not even one message fits."""
        if self._buffers is not None and not len(self._buffers):
            self._room_bytes *= 2
            self._buffers = None
        yield from self.finished()

    def finished(self) -> Iterator[rows.Row]:
        """Yield the current batch, if it has messages."""
        buffers, self._buffers = self._buffers, None
        if buffers is not None and len(buffers):
            remarks, self._remarks = tuple(self._remarks.warnings), RecordingProgress(None)
            yield buffers.columns(remarks)


def filled(every: Iterable[rows.Row], choice: ColumnChoice) -> Iterator[rows.Row]:
    """Yield columns instead of messages; other rows, and existing columns, as they come."""
    filling = Filling(choice)
    for row in every:
        if isinstance(row, rows.Message):
            yield from filling.add(row)
        else:
            if isinstance(row, rows.Columns):
                yield from filling.finished()
            yield row
    yield from filling.finished()
