"""Files of the log: records become records, what closes a file stays, and all else becomes noise."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from rmqtool.commands.metadump.records import Records, frame_of, frames_of
from rmqtool.commands.metadump.sparse import write_sparse
from rmqtool.dispatch.hash_kernels import hash_messages
from rmqtool.formats.message import (
    BLANK_MAGIC,
    HEAD_OFFSETS,
    HEAD_SIZES,
    RECORD_STARTS,
    TOPIC_LENGTHS,
)
from rmqtool.releases import LENIENT
from rmqtool.scan.gap_walk import GapWalk, first_nonzero
from rmqtool.scan.gaps import Gap, Outcome
from rmqtool.scan.loose import WINDOW_BYTES, find_loose
from rmqtool.scan.loose_rows import LOOK_BYTES, Found
from rmqtool.scan.rows import rules_of
from rmqtool.scan.walk import SegmentWalk

if TYPE_CHECKING:
    from rmqtool.commands.metadump.disguise import Disguise
    from rmqtool.commands.metadump.fitting import HashTable
    from rmqtool.scan.walk import MessageBatch
    from rmqtool.store.segments import Segment
    from rmqtool.store.staged_file import StagedFile

_PIECE_BYTES = 1 << 20
_IPV4_BYTES = 4
_LARGEST_RECORD = 256 << 20
"""What is longer counts as no record, so that memory is bounded whatever a length says."""


class LogFile:
    """Makes one file of the log anew.

    Args:
        segment: The file.
        target: Receives it, at its full size already.
        disguise: Replaces names.
        tables: Receive the tag hash and the key hashes of every record; None for a file that is none of the
            log's.
    """

    def __init__(
        self,
        segment: Segment,
        target: StagedFile,
        disguise: Disguise,
        tables: tuple[HashTable, HashTable] | None,
    ) -> None:
        self._segment, self._target, self._disguise, self._tables = segment, target, disguise, tables
        self._records = Records(disguise)
        self._stale = SegmentWalk(segment, rules_of(LENIENT), stops_at_mismatch=True)

    def run(self) -> None:
        """Go through the file."""
        segment = self._segment
        walk = GapWalk(segment, LENIENT)
        for part in walk.parts(segment.start, segment.stop):
            if isinstance(part, Gap):
                self._put_gap(part.start, part.stop)
            else:
                self._put_batch(part)
        if walk.outcome is Outcome.BLANK:
            self._put_gap(walk.log_offset, segment.stop)

    def _put_batch(self, batch: MessageBatch) -> None:
        row = 0
        for gap in batch.gaps:
            self._put_records(batch, row, int(gap["row"]))
            self._put_gap(int(gap["start"]), int(gap["stop"]))
            row = int(gap["row"])
        self._put_records(batch, row, len(batch.rows))

    def _put_records(self, batch: MessageBatch, first: int, stop: int) -> None:
        """Put records that follow each other, and note the hashes that queues and index have of them."""
        rows, values = batch.rows[first:stop], batch.values[first:stop]
        if not len(rows):
            return
        begin, end = int(rows["log_offset"][0]), int(rows["log_offset"][-1] + rows["total_size"][-1])
        if batch.cut and end - begin > _LARGEST_RECORD:
            self._put_wreck(begin, end)
        elif batch.cut:
            self._put_records(self._whole(batch, end), 0, 1)
        else:
            data = bytearray(batch.buffer[: end - batch.base])
            self._records.rewrite(data, frames_of(rows, batch.base))
            self._write(begin, memoryview(data)[begin - batch.base :])
            self._note(batch, data, rows, values)

    def _whole(self, batch: MessageBatch, stop: int) -> MessageBatch:
        """Return the batch of a record that is longer than a window, with its body."""
        rows = batch.rows.copy()
        rows["topic_start"] += batch.cut
        rows["topic_stop"] += batch.cut
        values = np.where(batch.values < 0, batch.values, batch.values + batch.cut)
        buffer = np.frombuffer(bytearray(self._read(batch.base, stop)), np.uint8)
        return replace(batch, buffer=buffer, rows=rows, values=values, cut=0)

    def _note(self, batch: MessageBatch, data: bytearray, rows: Any, values: Any) -> None:  # noqa: ANN401
        if self._tables is None:
            return
        old = hash_messages(batch.buffer, rows, values)
        new = hash_messages(np.frombuffer(data, np.uint8), rows, values)
        for table, chosen in zip(
            self._tables, (old["of_queue"] & (old["code"] != 0), ~old["of_queue"]), strict=True
        ):
            table.extend(old["log_offset"][chosen], old["code"][chosen], new["code"][chosen])

    def _put_gap(self, start: int, stop: int) -> None:
        """Put what lies between true records: records of elsewhere among it become records, too."""
        base, segment = self._segment.start, self._segment
        window = min(WINDOW_BYTES, stop - start + LOOK_BYTES)
        for found in find_loose(_Image(segment), start - base, stop - base, window):
            at, size = base + int(found["position"]), int(found["total_size"])
            if at >= start and at + size <= stop and not found["marks"] & Found.FRAME:
                self._put_wreck(start, at)
                for batch in self._stale.batches(at, at + 1):
                    self._put_records(batch, 0, len(batch.rows))
                start = at + size
        self._put_wreck(start, stop)

    def _put_wreck(self, start: int, stop: int) -> None:
        """Put what should be a record and is none: its numbers stay as far as they can be told."""
        if not any(self._read(start, min(start + RECORD_STARTS.size, stop))):
            start = first_nonzero(self._segment, start, stop)
        head = self._read(start, min(start + RECORD_STARTS.size, stop))
        size, magic = RECORD_STARTS.padded(head)
        known = b""
        if magic == BLANK_MAGIC:
            known = head
        elif magic in TOPIC_LENGTHS:
            known = self._known(self._read(start, min(stop, start + _LARGEST_RECORD)))
        elif 0 < size <= self._segment.size_bytes:
            known = head[:4]
        self._write(start, known)
        self._put_noise(start + len(known), stop)

    def _known(self, raw: bytes) -> bytes:
        """Return the part of a broken record that can be told apart, from its first byte on."""
        frame = frame_of(raw, strict=False)
        if frame is not None:
            made = bytearray(raw[: frame.stop])
            self._records.rewrite(made, [frame])
            return bytes(made)
        found = bytearray(raw[: HEAD_SIZES[0]])
        for at in (HEAD_OFFSETS[0]["bornHost"], HEAD_OFFSETS[0]["storeHost"]):
            address = slice(at, at + _IPV4_BYTES)
            if len(raw) >= address.stop:
                found[address] = self._disguise.host(raw[address])
        return bytes(found)

    def _put_noise(self, start: int, stop: int) -> None:
        base, label = self._segment.start, self._segment.label
        while start < stop:
            data = self._read(start, min(start + _PIECE_BYTES, stop))
            if np.frombuffer(data, np.uint8).any():
                self._write(start, self._disguise.noise(data, label, start - base))
            hole = base + self._segment.next_written(start - base) - start
            start += max(hole // _PIECE_BYTES, 1) * _PIECE_BYTES

    def _read(self, start: int, stop: int) -> bytes:
        return self._segment.read_at(start - self._segment.start, stop - start, [])

    def _write(self, start: int, data: bytes | memoryview) -> None:
        write_sparse(self._target, start - self._segment.start, data)


class _Image:
    """A file as the search for records reads it: bytes that the disk does not deliver are zeros.

    Args:
        segment: The file.
    """

    def __init__(self, segment: Segment) -> None:
        self.size_bytes = segment.size_bytes
        self.next_data = segment.next_written
        self._segment = segment

    def read_into(self, position: int, view: memoryview[Any]) -> int:
        """Fill a view from a position on; return how many bytes came."""
        return self._segment.read_into(position, view, [])
