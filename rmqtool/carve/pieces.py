"""What was written side by side: pieces of logs, as they lie in an image."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    from rmqtool.arrays import Int64s

    Rows = npt.NDArray[Any]


@dataclass(frozen=True)
class Pieces:
    """Maximal stretches of records of one image that lie there as in their log, holes between them or not.

    Attributes:
        rows: proven records, ``(n,)`` of ``FOUND_ROW`` by image and position; in a piece, by offset as well.
        first: of each piece its first row, ``(k,)``.
        last: its last row.
        family: which store hosts are one broker's, numbers from 0.
    """

    rows: Rows
    first: Int64s
    last: Int64s
    family: Int64s

    def __len__(self) -> int:
        return len(self.first)

    def of(self, number: int) -> Rows:
        """Return the records of a piece, by offset."""
        return self.rows[self.first[number] : self.last[number] + 1]

    @property
    def starts(self) -> Int64s:
        """Return the physical offset where each begins."""
        starts: Int64s = self.rows["log_offset"][self.first]
        return starts

    @property
    def stops(self) -> Int64s:
        """Return the physical offset where each ends."""
        stops: Int64s = self.rows["log_offset"][self.last] + self.rows["total_size"][self.last]
        return stops

    @property
    def sizes(self) -> Int64s:
        """Return how many records each has."""
        return self.last - self.first + 1

    @property
    def number_of_row(self) -> Int64s:
        """Return the piece of each row, ``(n,)``."""
        return np.repeat(np.arange(len(self)), self.sizes)


def find_pieces(rows: Rows, *, one_log: bool = False) -> Pieces:
    """Put together what was written side by side.

    Records are of one piece if position and own offset grow alike. Where another store host begins, they must
    follow each other without a hole, for two brokers' files of one size may lie side by side, too.

    Args:
        rows: proven records, ``(n,)`` of ``FOUND_ROW`` by image and position.
        one_log: whether all store hosts are those of one broker.
    """
    moved = np.diff(rows["log_offset"] - rows["position"]) != 0
    moved |= np.diff(rows["image"].astype(np.int64)) != 0
    renamed = np.diff(rows["host"]) != 0
    apart = (rows["position"] + rows["total_size"])[:-1] != rows["position"][1:]
    breaks = np.flatnonzero(moved | (renamed & apart)) + 1
    first = np.concatenate([[0], breaks]) if len(rows) else np.empty(0, np.int64)
    last = np.concatenate([breaks - 1, [len(rows) - 1]]) if len(rows) else first
    same = np.flatnonzero(renamed & ~(moved | (renamed & apart)))
    family = _families(rows["host"], same)[first]
    return Pieces(rows, first, last, np.zeros_like(family) if one_log else family)


def _families(hosts: Int64s, same: Int64s) -> Int64s:
    """Return the family of each row: hosts are of one if a row and the next are one broker's.

    Args:
        hosts: of each row.
        same: rows whose next one is of another host and the same broker.
    """
    names, number = np.unique(hosts, return_inverse=True)
    family: Int64s = np.arange(len(names))
    for one, other in np.unique(np.stack([number[same], number[same + 1]], axis=1), axis=0):
        family[family == family[other]] = family[one]
    families: Int64s = np.unique(family, return_inverse=True)[1]
    return families[number].astype(np.int64)
