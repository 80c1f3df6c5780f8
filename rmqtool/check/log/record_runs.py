"""What a checked split consists of: stretches of records, and damage between them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rmqtool.scan.check_kernels import measure_times
from rmqtool.scan.rows import Outcome

if TYPE_CHECKING:
    from typing import Any

    import numpy as np
    import numpy.typing as npt

    from rmqtool.scan.walk import MessageBatch

MAX_PARTS = 10_000
"""Parts of one split that are told apart; a log that is torn more often than that is only counted on."""

_WORD = 8  # bytes that decide whether a range begins with zeros: TOTALSIZE and MAGICCODE
_NO_TIME = -(1 << 63)


@dataclass(frozen=True, slots=True)
class Stretch:
    """Records that follow each other without damage, their store times never falling.

    Attributes:
        start: physical offset of the first record.
        stop: physical offset behind the last one.
        records: how many.
        first_ms: STORETIMESTAMP of the first.
        last_ms: STORETIMESTAMP of the last, the highest.
    """

    start: int
    stop: int
    records: int
    first_ms: int
    last_ms: int


@dataclass(frozen=True, slots=True)
class Damage:
    """Bytes in which no record can be followed.

    Attributes:
        start: physical offset.
        stop: physical offset of the next true record or BLANK, or where the search ended.
        reason: what the bytes at ``start`` are instead of a record.
        total_size: their TOTALSIZE.
        magic: their MAGICCODE; of a BLANK, when TOTALSIZE is not what is left of the file.
        own: whether they carry a PHYSICALOFFSET that is ``start``: a record was written here.
        data_start: physical offset of the first byte that is not zero, at most ``stop``.
    """

    start: int
    stop: int
    reason: Outcome
    total_size: int
    magic: int
    own: bool
    data_start: int

    @property
    def zero(self) -> bool:
        """Whether all bytes are zero."""
        return self.data_start >= self.stop

    @property
    def begins_with_zeros(self) -> bool:
        """Whether there is nothing where a record should begin."""
        return self.data_start >= min(self.start + _WORD, self.stop)


class Parts:
    """Puts stretches together out of batches."""

    def __init__(self) -> None:
        self.done: list[Stretch | Damage] = []
        self.more_damage = self.more_steps = self.records = 0
        self._open: Stretch | None = None
        self._latest_ms = _NO_TIME

    def add_batch(self, batch: MessageBatch) -> None:
        """Take the records of a batch, and the damage between them."""
        row = 0
        for number, damage in enumerate(batch.damages):
            self.add_records(batch.rows[row : damage["row"]])
            row = int(damage["row"])
            if len(self.done) >= MAX_PARTS:
                self.more_damage += len(batch.damages) - number
                break
            self.add_damage(_damage_of(damage))
        self.add_records(batch.rows[row:])

    def add_records(self, rows: npt.NDArray[np.void]) -> None:
        """Take records that follow each other, and the open stretch if there is one."""
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
        end = int(last["place"]) + int(last["total_size"])
        self.records += stop - first
        if self._open is None:
            start, first_ms = int(rows["place"][first]), int(rows["store_timestamp_ms"][first])
            self._open = Stretch(start, end, stop - first, first_ms, last_ms)
        else:
            before = self._open
            count = before.records + stop - first
            self._open = Stretch(before.start, end, count, before.first_ms, last_ms)

    def _step(self) -> None:
        """Begin a new stretch, if there is room for one."""
        self._latest_ms = _NO_TIME
        if len(self.done) >= MAX_PARTS:
            self.more_steps += 1
        else:
            self.close()

    def add_damage(self, damage: Damage) -> None:
        """Take damage; where there is no room, only the last one is kept apart: a split may end in it."""
        if len(self.done) >= MAX_PARTS:
            self.more_damage += 1
            return
        self.close()
        self.done.append(damage)

    def close(self) -> None:
        """End the open stretch."""
        if self._open is not None:
            self.done.append(self._open)
        self._open, self._latest_ms = None, _NO_TIME


def _damage_of(row: Any) -> Damage:  # noqa: ANN401 - a numpy row
    return Damage(
        start=int(row["start"]),
        stop=int(row["stop"]),
        reason=Outcome(int(row["reason"])),
        total_size=int(row["total_size"]),
        magic=int(row["magic"]),
        own=bool(row["own"]),
        data_start=int(row["data_start"]),
    )
