"""What a checked split consists of: runs of records, and gaps between them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rmqtool.scan.check_kernels import measure_times
from rmqtool.scan.gap_walk import gap_of

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from rmqtool.scan.gaps import Gap
    from rmqtool.scan.walk import MessageBatch

MAX_PARTS = 10_000
"""Parts of one split that are told apart; a log that is torn more often than that is only counted on."""

_NO_TIME = -(1 << 63)


@dataclass(frozen=True, slots=True)
class RecordRun:
    """Records that follow each other without a gap, their store times never falling.

    Attributes:
        start: physical offset of the first record.
        stop: physical offset after the last one.
        records: how many.
        first_ms: STORETIMESTAMP of the first.
        last_ms: STORETIMESTAMP of the last, the highest.
    """

    start: int
    stop: int
    records: int
    first_ms: int
    last_ms: int


class RunBuilder:
    """Puts runs together out of batches."""

    def __init__(self) -> None:
        self.done: list[RecordRun | Gap] = []
        self.more_gaps = self.more_steps = self.records = 0
        self._open: RecordRun | None = None
        self._latest_ms = _NO_TIME

    def add_batch(self, batch: MessageBatch) -> None:
        """Take the records of a batch, and the gaps between them."""
        row = 0
        for number, gap in enumerate(batch.gaps):
            self.add_records(batch.rows[row : gap["row"]])
            row = int(gap["row"])
            if len(self.done) >= MAX_PARTS:
                self.more_gaps += len(batch.gaps) - number
                break
            self.add_gap(gap_of(gap))
        self.add_records(batch.rows[row:])

    def add_records(self, rows: npt.NDArray[np.void]) -> None:
        """Take records that follow each other, and the open run if there is one."""
        row = 0
        while row < len(rows):
            step, latest_ms = measure_times(rows, row, self._latest_ms)
            if step > row:
                self._extend(rows, row, step, latest_ms)
                self._latest_ms = latest_ms
            row = step
            if row < len(rows):
                self._step()

    def _extend(self, rows: npt.NDArray[np.void], first: int, stop: int, last_ms: int) -> None:
        last = rows[stop - 1]
        end = int(last["log_offset"]) + int(last["total_size"])
        self.records += stop - first
        if self._open is None:
            start, first_ms = int(rows["log_offset"][first]), int(rows["store_timestamp_ms"][first])
            self._open = RecordRun(start, end, stop - first, first_ms, last_ms)
        else:
            before = self._open
            count = before.records + stop - first
            self._open = RecordRun(before.start, end, count, before.first_ms, last_ms)

    def _step(self) -> None:
        """Begin a new run, if there is room for one."""
        self._latest_ms = _NO_TIME
        if len(self.done) >= MAX_PARTS:
            self.more_steps += 1
        else:
            self.close()

    def add_gap(self, gap: Gap) -> None:
        """Take a gap; where there is no room it only counts."""
        if len(self.done) >= MAX_PARTS:
            self.more_gaps += 1
            return
        self.close()
        self.done.append(gap)

    def close(self) -> None:
        """End the open run."""
        if self._open is not None:
            self.done.append(self._open)
        self._open, self._latest_ms = None, _NO_TIME
