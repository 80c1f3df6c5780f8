"""Bytes of a log in which no record can be followed, as every walk yields them: facts, no judgement.

What a gap is called depends on what lies around it too: ``rmqtool.scan.classify``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rmqtool.formats.message import Outcome


@dataclass(frozen=True, slots=True)
class Gap:
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
    def length(self) -> int:
        """Return how many bytes they are."""
        return self.stop - self.start

    @property
    def zero(self) -> bool:
        """Whether all bytes are zero."""
        return self.data_start >= self.stop

    @property
    def begins_with_zeros(self) -> bool:
        """Whether there is nothing where a record should begin: no TOTALSIZE, and no MAGICCODE."""
        return self.data_start >= min(self.start + _START_BYTES, self.stop)


_START_BYTES = 8
