"""Messages as lines of ndjson, which kernels write."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rmqtool import rows
from rmqtool.kernels.filters import MAX_PROPERTIES, RowFilter
from rmqtool.kernels.ndjson import Ended, encode_ndjson
from rmqtool.rows.log_splits import LogJob, kernel_filter

if TYPE_CHECKING:
    from rmqtool.kernels.json import BodyForm
    from rmqtool.scan.walk import MessageBatch
    from rmqtool.store import Segment

_OUT_BYTES = 4 << 20


@dataclass(frozen=True)
class LineJob(LogJob):
    """Job that writes lines; messages with one of ``odd_flags`` in SYSFLAG come as rows."""

    body: BodyForm
    odd_flags: int = 0

    def encoder(self, segment: Segment) -> _LineEncoder:
        """Return a new encoder for a split of a file."""
        return _LineEncoder(self, segment)


class _LineEncoder:
    def __init__(self, job: LineJob, segment: Segment) -> None:
        self._segment = segment
        self._label = np.frombuffer(json.dumps(segment.label).encode(), np.uint8)
        self._wanted = kernel_filter(job.messages, job.odd_flags)
        self._wanted.numbers[RowFilter.BODY] = job.body
        self._parts = np.empty((MAX_PROPERTIES, 4), np.int64)
        self._out = np.empty(_OUT_BYTES, np.uint8)
        self._rows: list[rows.Row] = []

    def encode(self, batch: MessageBatch, first: int, stop: int) -> int:
        """Write lines; see `Encoder.encode`."""
        while first < stop:
            ended, first, size = self._lines(batch, first, stop)
            if size:
                self.add(rows.Lines(self._out[:size].tobytes().decode()))
            if ended == Ended.FULL and not size:
                self._out = np.empty(2 * len(self._out), np.uint8)
            if ended == Ended.ODD:
                break
        return first

    def add(self, row: rows.Row) -> None:
        """Take a row."""
        self._rows.append(row)

    def finish(self) -> list[rows.Row]:
        """Return lines and rows."""
        return self._rows

    def _lines(self, batch: MessageBatch, first: int, stop: int) -> tuple[Ended, int, int]:
        ended, first, size = encode_ndjson(
            batch.buffer,
            batch.rows[:stop],
            batch.values,
            first,
            self._segment.start,
            self._label,
            self._wanted,
            self._parts,
            self._out,
        )
        return Ended(ended), first, size
