"""Walks of the log: as recovery reads it, with bodies and checksums; and over every intact record."""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from rmqtool.formats.message import Outcome
from rmqtool.javacompat import PROP_CRC_SIZE, masked_crc32, parse_prop_crc_digits
from rmqtool.kernels.units import first_bad_crc, first_bad_property
from rmqtool.scan.gap_walk import GapWalk
from rmqtool.scan.records import Gap, Record, check_record
from rmqtool.scan.walk import MessageBatch, SegmentWalk
from rmqtool.scan.window import Window

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence

    import numpy.typing as npt

    from rmqtool.arrays import Int64s
    from rmqtool.recovery import RecoverySwitches
    from rmqtool.releases import RecordRules
    from rmqtool.store.segments import Segment

    Rules = npt.NDArray[np.int64]

_CHUNK_BYTES = 1 << 20
_PARTS_OF_DUP_INFO = 2


@dataclass
class RecoveryWalk:
    """The records that recovery accepts.

    Java: the loops of ``CommitLog#recoverNormally`` and ``#recoverAbnormally`` (4.9.8, 5.3.3 to 5.5.1): the
    first record that fails in any way ends the log; BLANK leads to the next file, whatever its name.

    Attributes:
        start: physical offset in the first file at which it begins.
        end: physical offset of the end of the log, once the walk is over; it lies in ``last``.
        unreadable: files where the disk failed: a broker that maps files dies of it.
    """

    segments: Sequence[Segment]
    rules: Rules
    switches: RecoverySwitches
    start: int
    end: int = 0
    last: Segment | None = None
    unreadable: list[str] = field(default_factory=list)

    def batches(self) -> Iterator[MessageBatch]:
        """Yield the accepted records, in log order."""
        for segment in self.segments:
            self.last = segment
            walk = SegmentWalk(segment, self.rules, stops_at_mismatch=True)
            rolls = yield from self._segment(walk)
            if walk.unreadable:
                self.unreadable.append(segment.label)
            segment.close()
            if not rolls:
                return

    def _segment(self, walk: SegmentWalk) -> Generator[MessageBatch, None, bool]:
        """Yield the accepted records of a file; return whether recovery goes on to the next."""
        start = self.start if walk.segment is self.segments[0] else walk.segment.start
        for batch in walk.batches(start, walk.segment.stop):
            good = self._first_bad(walk, batch)
            if good < len(batch.rows):
                self.end = int(batch.rows["log_offset"][good])
                yield replace(batch, rows=batch.rows[:good], values=batch.values[:good])
                return False
            yield batch
        self.end = walk.log_offset
        return walk.outcome == Outcome.BLANK

    def _first_bad(self, walk: SegmentWalk, batch: MessageBatch) -> int:
        """Return the row that ends the log; the number of rows if none does."""
        good = len(batch.rows)
        if self.switches.check_property:
            good = _first_bad_property(walk, batch)
        elif self.switches.check_crc:
            good = _first_bad_crc(walk, batch)
        if self.switches.check_offsets:
            stored = batch.rows["physical_offset"][:good]
            outside = (stored < walk.segment.start) | (stored > walk.segment.stop)
            good = int(outside.argmax()) if outside.any() else good
        if self.switches.check_dup_info:
            window = Window(walk.segment)
            places = (batch.rows["log_offset"][:good] - walk.segment.start).tolist()
            good = next((n for n, at in enumerate(places) if _lacks_dup_info_at(window, walk, at)), good)
        return good


def _first_bad_crc(walk: SegmentWalk, batch: MessageBatch) -> int:
    if not walk.window.cut:
        return int(first_bad_crc(batch.buffer, batch.rows))
    row = batch.rows[0]  # a record longer than the window is alone in it, without its body
    position, left = (
        int(row["log_offset"]) - walk.segment.start + int(row["body_start"]),
        int(row["body_length"]),
    )
    value = 0
    while left > 0:
        data = walk.segment.read_at(position, min(left, _CHUNK_BYTES), [])
        if not data:
            return 0
        value, position, left = zlib.crc32(data, value), position + len(data), left - len(data)
    return int(value & 0x7FFFFFFF == row["body_crc"])


def _first_bad_property(walk: SegmentWalk, batch: MessageBatch) -> int:
    if not walk.window.cut:
        return int(first_bad_property(batch.buffer, batch.rows, batch.base))
    position = int(batch.rows["log_offset"][0]) - walk.segment.start
    found = check_record(Window(walk.segment), position, base=walk.segment.start)
    return int(found.record is not None and holds_property(found.record))


def holds_property(record: Record) -> bool:
    """Whether a record's property ``__CRC32#`` exists and matches, as ``forceVerifyPropCRC`` requires.

    Java: ``CommitLog#checkMessageAndReturnSize`` (5.3.3).
    """
    digits = record.properties.get("__CRC32#")
    sum_of_bytes = masked_crc32(record.raw[:-PROP_CRC_SIZE])
    return digits is not None and parse_prop_crc_digits(digits) == sum_of_bytes


def _lacks_dup_info_at(window: Window, walk: SegmentWalk, position: int) -> bool:
    record = check_record(window, position, base=walk.segment.start).record
    return record is None or lacks_dup_info(record)


def lacks_dup_info(record: Record) -> bool:
    """Whether a record has properties, and among them no ``DUP_INFO`` of two parts.

    Java: ``CommitLog#checkMessageAndReturnSize`` (5.3.3 to 5.5.1), by ``String#split``, which drops empty
    parts at the end. No released broker writes that property.
    """
    parts = record.properties.get("DUP_INFO", "").rstrip("_").split("_")
    return bool(record.properties_bytes) and len(parts) != _PARTS_OF_DUP_INFO


def true_batches(
    segment: Segment, start: int, stop: int, records: RecordRules, false: Int64s | None = None
) -> Iterator[MessageBatch]:
    """Yield the intact records of a range that lie at the places that they name, whatever lies between.

    Those below ``false`` frames stay in their place, see `GapWalk`.
    """
    walk = GapWalk(segment, records, false=false)
    first = walk.guess(start, stop)
    if first is None:
        return
    for batch in walk.parts(first, stop):
        if isinstance(batch, Gap):
            continue
        true = batch.rows["log_offset"] == batch.rows["physical_offset"]
        if false is not None:
            true &= ~np.isin(batch.rows["log_offset"], false)
        if true.all():
            yield batch
        elif true.any():
            yield replace(batch, rows=batch.rows[true], values=batch.values[true])
