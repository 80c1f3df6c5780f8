"""Files of entries as files of a plain log: the same files, whose records have moved together.

A record of entry i moves from ``pos + 48`` to ``pos - 48 * (i - f)``, where f is the first entry of its file.
So a file needs nothing of the others, an address is mapped by the header of the entry that it leads to, and
one below the log stays below it. What the headers took is room before the mark that ends the file.
"""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from rmqtool.formats.checkpoint import TIMER_UNIT, TIMER_UNIT_COLUMNS, TIMER_UNIT_MAGICS
from rmqtool.formats.entry import ENTRIES
from rmqtool.formats.framing import PLAIN
from rmqtool.formats.message import PROPERTIES_LENGTH, Outcome
from rmqtool.javacompat import PROP_CRC_NAME, PROP_CRC_SIZE
from rmqtool.kernels.rows import (
    PHYSICAL_OFFSET_AT,
    PREPARED_OFFSET_AT,
    VARIANT_SHIFT,
    rules_of,
)
from rmqtool.releases import LENIENT
from rmqtool.salvage.making import record_crc
from rmqtool.salvage.writing import LOG_DIRECTORY
from rmqtool.scan.entries import entry_headers, first_entry, fits_frame
from rmqtool.scan.records import record_at
from rmqtool.scan.walk import SegmentWalk, first_nonzero

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rmqtool.arrays import Buffer, Int64s, Rows
    from rmqtool.kernels.rows import MessageBatch
    from rmqtool.store.segments import FileQueue, Segment, StoreFile
    from rmqtool.store.staging import StagedFile, StagingHandle


PREPARED, MESSAGE_IDS, HALF_OFFSETS, TIMER_UNITS, UNKNOWN = (
    *("preparedTransactionOffset", "messageIds", "halfMessageOffsets", "timerUnits"),
    "unknown",
)
"""Kinds of addresses that are mapped, and those that lead to no entry, such as an expired one: they stay."""
_CHUNK_BYTES = 1 << 20
_ID_DIGITS = 16  # of an offset in a message id, after the digits of the store host
_NAMED = {
    b"ORIGIN_MESSAGE_ID": MESSAGE_IDS,
    b"DLQ_ORIGIN_MESSAGE_ID": MESSAGE_IDS,
    b"TRANS_OFFSET": HALF_OFFSETS,
}
"""Properties with the id of an earlier message (``AbstractSendMessageProcessor#consumerSendMsgBack``), or the
half message of an op message in RocksDB (5.4.0+)."""
_NEEDLES = (b"ORIGIN_MESSAGE_ID\x01", b"TRANS_OFFSET\x01")
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
    """

    log: FileQueue
    first_entries: Mapping[int, int]

    @classmethod
    def of(cls, log: FileQueue) -> Addresses:
        """Return the addresses in a log."""
        firsts = {one.start: first_entry(one) for one in log if one.framing is not PLAIN}
        return cls(log, {start: first.index for start, first in firsts.items() if first is not None})

    def moved(self, address: int) -> int | None:
        """Return where the record at a physical offset is in the plain log; None if none is there."""
        segment = self.log.segment_at(address)
        if segment is None or segment.framing is PLAIN:
            return None if segment is None else address
        position = segment.frame_position(address)
        if position < 0 or segment.start not in self.first_entries:
            return None
        data = segment.read_at(position, segment.framing.head_size, [])
        entry, pos = ENTRIES.padded(data), segment.start + position
        if (entry.pos, segment.framing.head(data).physical_offset) != (pos, address):
            return None
        return pos - segment.framing.lead * (entry.index - self.first_entries[segment.start])

    def map(self, addresses: Int64s, kind: str, counts: Counter[str]) -> Int64s:
        """Return addresses as they are in the plain log, ``(n,)``; those that are unknown, and 0, stay."""
        several, number = np.unique(addresses, return_inverse=True)
        moved = [self.moved(address) if address > 0 else address for address in several.tolist()]
        is_known = np.array([place is not None for place in moved], bool)[number]
        counts[kind] += int((is_known & (addresses > 0)).sum())
        counts[UNKNOWN] += int((~is_known).sum())
        places = [at if place is None else place for at, place in zip(several.tolist(), moved, strict=True)]
        return np.array(places, np.int64)[number]


class Committed(NamedTuple):
    """Entries that are committed: a broker dispatches no others, and its checkpoint lags.

    Attributes:
        entry: index of the last one by the checkpoint; None where that does not say.
        dispatched: greatest physical offset in a queue; -1 without any.
    """

    entry: int | None
    dispatched: int

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


def convert_file(task: FileTask) -> ConvertedFile:
    """Write one file of the plain log; none if no entry of it is taken."""
    segment, first = task.segment, first_entry(task.segment)
    made = ConvertedFile(
        *(segment.path.name, None if first is None else first.index, 0, 0, segment.start, segment.start),
        *(False, False, segment.start, 0, 0, Counter()),
    )
    walk = SegmentWalk(segment, rules_of(LENIENT), stops_at_mismatch=True)
    with ExitStack() as open_files:
        file: StagedFile | None = None
        for batch in walk.batches(segment.start, segment.stop):
            headers = entry_headers(batch)
            sound = _leading(headers, batch, made)
            wanted = sound if task.committed is None else task.committed.taken(headers, batch.rows)
            taken = 0 if made.uncommitted else min(sound, wanted)
            if taken:
                if file is None:
                    label = f"{LOG_DIRECTORY}/{segment.path.name}"
                    file = open_files.enter_context(task.staging.create_file(label, segment.size_bytes))
                _write(batch.only(slice(taken)), segment, file, made, task.addresses)
            if sound:
                last = headers[sound - 1]
                made.last_term = int(last["term"])
                made.read_to = int(last["pos"] + last["size"])
            made.uncommitted += sound - taken
            if sound < len(headers):
                break
        is_end = walk.outcome == Outcome.FILE_END and walk.log_offset == made.read_to
        made.is_full = is_end and walk.blank_length == segment.stop - made.read_to
        made.is_followed = (
            not made.is_full and first_nonzero(segment, made.read_to, segment.stop) < segment.stop
        )
        if file is not None and made.is_full and not made.uncommitted:
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


def _write(
    batch: MessageBatch, segment: Segment, file: StagedFile, made: ConvertedFile, addresses: Addresses
) -> None:
    """Move records together, and write them after those before."""
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
    _map_properties(batch, stops, addresses, made.addresses)
    for number in sums:
        start, stop = int(starts[number]), int(stops[number])
        summed = buffer[start : stop - PROP_CRC_SIZE].tobytes()
        buffer[stop - PROP_CRC_SIZE : stop] = np.frombuffer(record_crc(summed), np.uint8)
    view = buffer.data
    if batch.cut:
        _write_long(batch, segment, file, made.end - segment.start)
    else:
        spans = zip(starts.tolist(), stops.tolist(), strict=True)
        file.write_at(made.end - segment.start, b"".join([view[start:stop] for start, stop in spans]))
    made.entries += len(rows)
    made.last_record, made.last_ms = int(places[-1]), int(rows["store_timestamp_ms"][-1])
    made.end = made.last_record + int(rows["read_length"][-1])


def _write_long(batch: MessageBatch, segment: Segment, file: StagedFile, position: int) -> None:
    """Write a record that is longer than a window: its body comes from the file."""
    row, view = batch.rows[0], batch.buffer.data
    start, body = int(row["log_offset"]) - batch.base, int(row["body_start"])
    stop = int(row["topic_stop"]) + PROPERTIES_LENGTH.size + int(row["properties_length"])
    file.write_at(position, view[start:body])
    position += body - start
    source, left = batch.base + body - segment.start, batch.cut
    while left:
        data = segment.read_at(source, min(left, _CHUNK_BYTES))
        file.write_at(position, data)
        source, position, left = source + len(data), position + len(data), left - len(data)
    file.write_at(position, view[body:stop])


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


def _map_properties(batch: MessageBatch, stops: Int64s, addresses: Addresses, counts: Counter[str]) -> None:
    """Map the addresses that properties name, each in its own digits."""
    firsts = stops - batch.rows["properties_length"]
    data = batch.buffer[: int(stops[-1])].tobytes()
    for needle in _NEEDLES:
        at = data.find(needle)
        while at >= 0:
            number = int(np.searchsorted(stops, at, "right"))
            first = int(firsts[number])
            start = max(data.rfind(b"\x02", first, at) + 1, first)
            name, value_at = data[start : at + len(needle) - 1], at + len(needle)
            if name in _NAMED:
                stop = data.find(b"\x02", value_at, int(stops[number]))
                value = data[value_at : int(stops[number]) if stop < 0 else stop]
                mapped = _mapped(value, addresses, _NAMED[name], counts)
                batch.buffer[value_at : value_at + len(value)] = np.frombuffer(mapped, np.uint8)
            at = data.find(needle, value_at)


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
    moved = int(addresses.map(np.array([place], np.int64), kind, counts)[0])
    return value[:-_ID_DIGITS] + b"%016X" % moved if kind is MESSAGE_IDS else b"%0*d" % (len(value), moved)


def copy_timer_log(
    staging: StagingHandle, file: StoreFile, addresses: Addresses, counts: Counter[str]
) -> None:
    """Copy a file of the timer log, whose units lead to messages."""
    with staging.create_file(file.label, file.size_bytes) as target:
        for position in range(0, file.size_bytes, _TIMER_BYTES):
            data = np.frombuffer(bytearray(file.read_at(position, _TIMER_BYTES)), np.uint8)
            units = data[: len(data) // TIMER_UNIT.size * TIMER_UNIT.size].view(_TIMER_UNITS)
            is_unit = (units["size"] == TIMER_UNIT.size) & (units["magic"] & ~TIMER_UNIT_MAGICS == 0)
            used = units[: len(units) if is_unit.all() else int(np.argmin(is_unit))]
            used["physicalOffset"] = addresses.map(
                used["physicalOffset"].astype(np.int64), TIMER_UNITS, counts
            )
            if data.any():
                target.write_at(position, data.data)
