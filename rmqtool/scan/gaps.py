"""Bytes of a log in which no record can be followed, as every walk yields them: facts, no judgement.

What a gap is called depends on what lies around it too: ``rmqtool.scan.classify``.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class Outcome(IntEnum):
    """What lies at a position: ``CommitLog#checkMessageAndReturnSize``, its failures told apart."""

    NEED = 0  # the window ends before the record does
    RECORD = 1
    BLANK = 2  # success, size 0: roll to the next file
    MISMATCH = 3  # failure, size > 0: the lengths do not add up to TOTALSIZE
    BAD_MAGIC = 4  # from here on: failure, size -1
    BAD_LENGTH = 5  # a part runs past the end of the file or past TOTALSIZE, or is negative
    BAD_NUMBER = 6  # DELAY, INNER_NUM or INNER_BASE is not a number
    STOP = 7  # the walk came to the end it was given
    FULL = 8  # no room for another row
    FOREIGN = 9  # a frame of another place, and below it a true record, which a broker steps over


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
