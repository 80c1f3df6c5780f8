"""The rows of a split that take part in transactions, collected while its records are checked."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rmqtool.scan.transaction_kernels import TRANSACTION_ROW, collect_transactions

if TYPE_CHECKING:
    import numpy.typing as npt

    from rmqtool.scan.walk import MessageBatch

_FIRST_ROWS = 1 << 12


class TransactionRows:
    """Collects rows out of batches."""

    def __init__(self) -> None:
        self._rows: npt.NDArray[np.void] = np.empty(_FIRST_ROWS, TRANSACTION_ROW)
        self._count = 0

    @property
    def rows(self) -> npt.NDArray[np.void]:
        """Return the rows so far, ``(n,)`` of ``TRANSACTION_ROW`` in log order."""
        return self._rows[: self._count]

    def collect(self, batch: MessageBatch) -> None:
        """Take a batch."""
        row = 0
        while True:
            row, self._count = collect_transactions(
                batch.buffer, batch.rows, batch.values, row, batch.base, batch.cut, self._rows, self._count
            )
            if row == len(batch.rows):
                return
            self._grow(2 + int(batch.rows["body_length"][row]))

    def _grow(self, needed: int) -> None:
        grown = np.empty(max(2 * len(self._rows), self._count + needed), TRANSACTION_ROW)
        grown[: self._count] = self.rows
        self._rows = grown
