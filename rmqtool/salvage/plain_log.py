"""Files of DLedger's entries as files of a plain log: the same files, whose records have moved together.

A record of entry i moves from ``pos + 48`` to ``pos - 48 * (i - f)``, where f is the first entry of its file.
So a file needs nothing of the others, an address is mapped by the header of the entry that it leads to, and
one below the log stays below it. What the headers took is room before the mark that ends the file.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from rmqtool.engine.threads import Threads, result_of
from rmqtool.errors import EnvironmentFailureError
from rmqtool.formats.checkpoint import TIMER_UNIT, TIMER_UNIT_COLUMNS, TIMER_UNIT_MAGICS
from rmqtool.formats.entry import ENTRIES
from rmqtool.formats.framing import PLAIN
from rmqtool.formats.message import PROPERTIES_LENGTH, Outcome
from rmqtool.javacompat import PROP_CRC_NAME, PROP_CRC_SIZE
from rmqtool.kernels.bytes import join_spans
from rmqtool.kernels.properties import pack_names, values_named
from rmqtool.kernels.rows import (
    PHYSICAL_OFFSET_AT,
    PREPARED_OFFSET_AT,
    VARIANT_SHIFT,
    frame_stops,
    rules_of,
)
from rmqtool.releases import LENIENT
from rmqtool.salvage.making import record_crc
from rmqtool.salvage.writing import LOG_DIRECTORY, copy_file
from rmqtool.scan.entries import entry_headers, first_entry, fits_frame
from rmqtool.scan.records import record_at
from rmqtool.scan.walk import SegmentWalk, first_nonzero
from rmqtool.store.segments import FileQueue, Segment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from concurrent.futures import Future

    from rmqtool.arrays import Buffer, Int64s, Rows
    from rmqtool.engine import Engine
    from rmqtool.kernels.rows import MessageBatch
    from rmqtool.store.segments import StoreFile
    from rmqtool.store.staging import StagedFile, StagingHandle


PREPARED, MESSAGE_IDS, HALF_OFFSETS, TIMER_UNITS, UNKNOWN = (
    *("preparedTransactionOffset", "messageIds", "halfMessageOffsets", "timerUnits"),
    "unknown",
)
"""Kinds of addresses that are mapped, and those that lead to no entry, such as an expired one: they stay."""
_CHUNK_BYTES = 1 << 20
_ID_DIGITS = 16  # of an offset in a message id, after the digits of the store host
_NAMED = {
    "ORIGIN_MESSAGE_ID": MESSAGE_IDS,
    "DLQ_ORIGIN_MESSAGE_ID": MESSAGE_IDS,
    "TRANS_OFFSET": HALF_OFFSETS,
}
"""Properties with the id of an earlier message (``AbstractSendMessageProcessor#consumerSendMsgBack``), or the
half message of an op message in RocksDB (5.4.0+)."""
_NAMES = pack_names([*_NAMED])
_FIRST_OF_CRC = PROP_CRC_NAME[0]
_TIMER_BYTES = TIMER_UNIT.size * 20_000
_TIMER_UNITS = np.dtype(
    {
        "names": [*TIMER_UNIT_COLUMNS],
        "formats": [kind for kind, _ in TIMER_UNIT_COLUMNS.values()],
        "offsets": [at for _, at in TIMER_UNIT_COLUMNS.values()],
        "itemsize": TIMER_UNIT.size,
    }
)


@dataclass(frozen=True)
class Addresses:
    """Addresses in a log, and where they are in the plain one.

    Attributes:
        log: the log, of plain files and files of entries.
        first_entries: index of the first entry of each file, by the file's start.
        places: of a log whose entries have no indexes, physical offsets of each file's records, ``(n,)``.
    """

    log: FileQueue
    first_entries: Mapping[int, int]
    places: Mapping[int, Int64s] = field(default_factory=dict)

    @classmethod
    def of(cls, log: FileQueue) -> Addresses:
        """Return the addresses in a log."""
        firsts = {one.start: first_entry(one) for one in log if one.framing != PLAIN}
        return cls(log, {start: first.index for start, first in firsts.items() if first is not None})

    def moved(self, address: int) -> int | None:
        """Return where the record at a physical offset is in the plain log; None if none is there."""
        segment = self.log.segment_at(address)
        if segment is None or segment.framing == PLAIN:
            return None if segment is None else address
        places = self.places.get(segment.start)
        if places is not None:
            before = int(np.searchsorted(places, address))
            is_there = before < len(places) and places[before] == address
            return address - segment.framing.lead * (before + 1) if is_there else None
        position = segment.frame_position(address)
        if position < 0 or segment.start not in self.first_entries:
            return None
        data = segment.read_at(position, segment.framing.head_size, [])
        entry, pos = ENTRIES.padded(data), segment.start + position
        if (entry.pos, segment.framing.head(data).physical_offset) != (pos, address):
            return None
        return pos - segment.framing.lead * (entry.index - self.first_entries[segment.start])

    def placed(self, address: int, kind: str, counts: Counter[str], times: int = 1) -> int:
        """Return an address as it is in the plain log; one that is unknown, and 0, stays."""
        place = self.moved(address) if address > 0 else address
        counts[UNKNOWN if place is None else kind] += times * (address > 0)
        return address if place is None else place

    def map(self, addresses: Int64s, kind: str, counts: Counter[str]) -> Int64s:
        """Return addresses as they are in the plain log, ``(n,)``; each is looked up once."""
        several, number, times = np.unique(addresses, return_inverse=True, return_counts=True)
        pairs = zip(several.tolist(), times.tolist(), strict=True)
        places = [self.placed(address, kind, counts, count) for address, count in pairs]
        return np.array(places, np.int64)[number]


class Committed(NamedTuple):
    """Entries that are committed: a broker dispatches no others, and its checkpoint lags.

    Attributes:
        entry: index of the last one by the checkpoint; None where that does not say.
        dispatched: greatest physical offset of an entry that a queue or the index knows; -1 without any.
        beyond: greatest one that they know and that is after all entries; -1 without any.
    """

    entry: int | None
    dispatched: int
    beyond: int

    def taken(self, headers: Rows, rows: Rows) -> int:
        """Return how many entries of a batch are."""
        committed = rows["log_offset"] <= self.dispatched
        return int((committed if self.entry is None else committed | (headers["index"] <= self.entry)).sum())


class FileTask(NamedTuple):
    """One file of entries to convert; without ``committed``, all are taken."""

    staging: StagingHandle
    segment: Segment
    addresses: Addresses
    committed: Committed | None


@dataclass
class ConvertedFile:
    """Outcome of one file of entries.

    Attributes:
        file: its name.
        first_entry: index of its first entry; None if it has none.
        entries: how many went into the plain log.
        uncommitted: how many did not.
        end: physical offset after the last record in the plain log.
        read_to: where the last entry ended in the log of entries.
        is_full: whether an end mark follows there.
        is_followed: whether anything else but zeros does.
        last_record: physical offset of the last record in the plain log.
        last_ms: its store time.
        last_term: term of the last entry.
        addresses: how many were mapped, by kind.
    """

    file: str
    first_entry: int | None
    entries: int
    uncommitted: int
    end: int
    read_to: int
    is_full: bool
    is_followed: bool
    last_record: int
    last_ms: int
    last_term: int
    addresses: Counter[str]

    @property
    def seen(self) -> int:
        """Return how many entries there were, in order."""
        return self.entries + self.uncommitted

    @property
    def next_entry(self) -> int:
        """Return the index after the last of them."""
        return (self.first_entry or 0) + self.seen


class WrittenFile(ExitStack):
    """A file that is made when its first bytes come, and written while the next ones are prepared."""

    def __init__(self, create: Callable[[], StagedFile]) -> None:
        super().__init__()
        self._create = create
        self._file: StagedFile | None = None
        self._writer = Threads(1)
        self._written: Future[None] | None = None

    def write_at(self, position: int, data: memoryview[Any] | bytes) -> None:
        """Write bytes, which must stay as they are, after those before, whose failure is raised here."""
        if self._file is None:
            self._file = self.enter_context(self._create())
            self.enter_context(self._writer)  # which ends before the file does
            self.callback(self._settle)
        self._settle()
        self._written = self._writer.submit(_write, self._file, position, data)

    def _settle(self) -> None:
        if self._written is not None:
            result_of(self._written)


def _write(file: StagedFile, position: int, data: memoryview[Any] | bytes) -> None:
    file.write_at(position, data)
    file.write_back(position, len(data))


def convert_file(task: FileTask) -> ConvertedFile:
    """Write one file of the plain log; none if no entry of it is taken.

    Without indexes, its entries are what a salvage has planned, and all are taken.
    """
    segment, first = task.segment, first_entry(task.segment)
    made = ConvertedFile(
        *(segment.path.name, None if first is None else first.index, 0, 0, segment.start, segment.start),
        *(False, False, segment.start, 0, 0, Counter()),
    )
    walk = SegmentWalk(segment, rules_of(LENIENT), stops_at_mismatch=True)
    label = f"{LOG_DIRECTORY}/{segment.path.name}"
    indexed = segment.start not in task.addresses.places
    with WrittenFile(partial(task.staging.create_file, label, segment.size_bytes)) as file:
        for batch in walk.batches(segment.start, segment.stop):
            headers = entry_headers(batch)
            sound = _leading(headers, batch, made) if indexed else len(batch.rows)
            wanted = sound if task.committed is None else task.committed.taken(headers, batch.rows)
            taken = 0 if made.uncommitted else min(sound, wanted)
            if taken:
                for at, data in _moved(batch.only(slice(taken)), segment, made, task.addresses):
                    file.write_at(at, data)
            if sound:
                made.last_term = int(headers["term"][sound - 1])
                made.read_to = int(frame_stops(batch.rows)[sound - 1])
            made.uncommitted += sound - taken
            if sound < len(headers):
                break
        is_end = walk.outcome == Outcome.FILE_END and walk.log_offset == made.read_to
        made.is_full = is_end and walk.blank_length == segment.stop - made.read_to
        made.is_followed = (
            not made.is_full and first_nonzero(segment, made.read_to, segment.stop) < segment.stop
        )
        if (made.entries or not indexed) and made.is_full and not made.uncommitted:
            at = made.end - segment.start
            file.write_at(at, PLAIN.end_mark(segment.size_bytes - at))
    return made


def _leading(headers: Rows, batch: MessageBatch, made: ConvertedFile) -> int:
    """Return how many entries at the start of a batch are in order: DLedger cuts its log at another."""
    numbers = made.next_entry + np.arange(len(headers))
    terms = np.concatenate([[made.last_term], headers["term"]])
    sound = fits_frame(headers, batch) & (headers["index"] == numbers) & (terms[1:] >= terms[:-1])
    sound &= batch.rows["physical_offset"] == batch.rows["log_offset"]
    return len(sound) if sound.all() else int(np.argmin(sound))


def _moved(
    batch: MessageBatch, segment: Segment, made: ConvertedFile, addresses: Addresses
) -> Iterator[tuple[int, memoryview[Any] | bytes]]:
    """Yield positions in the plain file, and what goes there: records, moved together after those before."""
    rows, buffer = batch.rows, batch.buffer
    starts = rows["log_offset"] - batch.base
    stops = rows["topic_stop"] + PROPERTIES_LENGTH.size + rows["properties_length"]
    sums = _sound_sums(batch, starts, stops)
    offset_of_first = made.end - int(rows["log_offset"][0])
    places = rows["log_offset"] + offset_of_first - rows["lead"] * np.arange(len(rows))
    _put(buffer, starts + PHYSICAL_OFFSET_AT, places)
    prepared_at = starts + PREPARED_OFFSET_AT[(rows["sys_flag"] >> VARIANT_SHIFT) & 3]
    prepared = _numbers(buffer, prepared_at)
    if prepared.any():
        _put(buffer, prepared_at, addresses.map(prepared, PREPARED, made.addresses))
    _map_properties(batch, addresses, made.addresses)
    for number in sums:
        start, stop = int(starts[number]), int(stops[number])
        summed = buffer[start : stop - PROP_CRC_SIZE].tobytes()
        buffer[stop - PROP_CRC_SIZE : stop] = np.frombuffer(record_crc(summed), np.uint8)
    at, view = made.end - segment.start, buffer.data
    if batch.cut:  # the body is not in the window
        body = int(rows[0]["body_start"])
        head, tail = view[int(starts[0]) : body], view[body : int(stops[0])]
        for piece in chain([head], _pieces(segment, batch.base + body, batch.cut), [tail]):
            yield at, bytes(piece)  # of a buffer that the walk fills again
            at += len(piece)
    else:
        joined = np.empty(int((stops - starts).sum()), np.uint8)
        join_spans(buffer, starts, stops, joined)
        yield at, joined.data
    made.entries += len(rows)
    made.last_record, made.last_ms = int(places[-1]), int(rows["store_timestamp_ms"][-1])
    made.end = made.last_record + int(rows["read_length"][-1])


def _pieces(segment: Segment, start: int, length: int) -> Iterator[bytes]:
    """Yield bytes of a file from a physical offset on."""
    position = start - segment.start
    for at in range(position, position + length, _CHUNK_BYTES):
        size = min(_CHUNK_BYTES, position + length - at)
        piece = segment.read_at(at, size)
        if len(piece) < size:
            raise EnvironmentFailureError(f"{segment.path}: changed while it was read; nothing was made")
        yield piece


def _numbers(buffer: Buffer, at: Int64s) -> Int64s:
    numbers: Int64s = buffer[at[:, None] + np.arange(8)].view(">i8")[:, 0].astype(np.int64)
    return numbers


def _put(buffer: Buffer, at: Int64s, numbers: Int64s) -> None:
    buffer[at[:, None] + np.arange(8)] = numbers.astype(">i8").view(np.uint8).reshape(-1, 8)


def _sound_sums(batch: MessageBatch, starts: Int64s, stops: Int64s) -> list[int]:
    """Return the numbers of the records whose property ``__CRC32#`` holds: it sums up the addresses, too."""
    if batch.cut:
        return []
    perhaps = np.flatnonzero(batch.buffer[stops - PROP_CRC_SIZE] == _FIRST_OF_CRC).tolist()
    return [number for number in perhaps if _holds(batch.buffer, int(starts[number]), int(stops[number]))]


def _holds(buffer: Buffer, start: int, stop: int) -> bool:
    record = buffer[start:stop].tobytes()
    return record[-PROP_CRC_SIZE:] == record_crc(record[:-PROP_CRC_SIZE])


def _map_properties(batch: MessageBatch, addresses: Addresses, counts: Counter[str]) -> None:
    """Map the addresses that properties name, each in its own digits."""
    values = np.empty((len(batch.rows), len(_NAMED), 2), np.int64)
    values_named(batch.buffer, batch.rows, *_NAMES, values)
    for number, kind in enumerate(_NAMED.values()):
        for start, stop in values[values[:, number, 0] >= 0, number].tolist():
            mapped = _mapped(batch.buffer[start:stop].tobytes(), addresses, kind, counts)
            batch.buffer[start:stop] = np.frombuffer(mapped, np.uint8)


def _mapped(value: bytes, addresses: Addresses, kind: str, counts: Counter[str]) -> bytes:
    """Return the value of a property with the address of today; as it is if it has none."""
    try:
        place = int(value[-_ID_DIGITS:], 16) if kind is MESSAGE_IDS else int(value)
        host = bytes.fromhex(value[:-_ID_DIGITS].decode()) if kind is MESSAGE_IDS else b""
    except ValueError:
        return value
    if kind is MESSAGE_IDS:
        record = record_at(addresses.log, place)
        if record is None or record.head.store_host != host:
            return value  # a unique id, which names no address, has as many digits
    moved = addresses.placed(place, kind, counts)  # a number of any length
    return value[:-_ID_DIGITS] + b"%016X" % moved if kind is MESSAGE_IDS else b"%0*d" % (len(value), moved)


class PlainLog(NamedTuple):
    """Written plain log: what each file of entries became, how addresses are mapped, and how many were."""

    files: list[ConvertedFile]
    addresses: Addresses
    counts: Counter[str]

    @property
    def end(self) -> tuple[int, int] | None:
        """Physical offsets after the last record, and of it; None if no entry is left."""
        return next(((file.end, file.last_record) for file in self.files[::-1] if file.entries), None)


def file_queue(staging: StagingHandle) -> FileQueue:
    """Return the finished files of the plain log."""
    files = [
        Segment(file.path, file.label, file.size_bytes, int(file.path.name))
        for file in staging.finished(LOG_DIRECTORY)
    ]
    return FileQueue((staging.results / LOG_DIRECTORY,), tuple(files))


def write_planned(log: FileQueue, staging: StagingHandle, engine: Engine) -> PlainLog:
    """Write the plain log of a planned one, whose entries have no indexes; older files as they are."""
    entries = [segment for segment in log if segment.framing != PLAIN]
    engine.map(partial(copy_file, staging), [segment for segment in log if segment.framing == PLAIN])
    places = engine.map(_places, entries)
    addresses = Addresses(log, {}, dict(zip((file.start for file in entries), places, strict=True)))
    files = engine.map(convert_file, [FileTask(staging, segment, addresses, None) for segment in entries])
    return PlainLog(files, addresses, sum((file.addresses for file in files), Counter()))


def _places(segment: Segment) -> Int64s:
    batches = SegmentWalk(segment, rules_of(LENIENT), stops_at_mismatch=True).batches(
        segment.start, segment.stop
    )
    return np.concatenate([np.zeros(0, np.int64), *(batch.rows["log_offset"] for batch in batches)])


def copy_timer_log(
    staging: StagingHandle, file: StoreFile, addresses: Addresses, counts: Counter[str]
) -> tuple[str, str]:
    """Copy a file of the timer log, whose units lead to messages; return its label and digest."""
    digest = hashlib.sha256()
    with staging.create_file(file.label, file.size_bytes) as target:
        for position in range(0, file.size_bytes, _TIMER_BYTES):
            data = np.frombuffer(bytearray(file.read_at(position, _TIMER_BYTES)), np.uint8)
            units = data[: len(data) // TIMER_UNIT.size * TIMER_UNIT.size].view(_TIMER_UNITS)
            is_unit = (units["size"] == TIMER_UNIT.size) & (units["magic"] & ~TIMER_UNIT_MAGICS == 0)
            used = units[: len(units) if is_unit.all() else int(np.argmin(is_unit))]
            used["physicalOffset"] = addresses.map(
                used["physicalOffset"].astype(np.int64), TIMER_UNITS, counts
            )
            digest.update(data.data)
            if data.any():
                target.write_at(position, data.data)
    return file.label, digest.hexdigest()
