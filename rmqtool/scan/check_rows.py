"""What the check kernels say of a record: one row for each thing that is wrong with it."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

import numpy as np

from rmqtool.jit import kernel

if TYPE_CHECKING:
    import numpy.typing as npt

    Rows = npt.NDArray[np.void]


class Check(IntEnum):
    """What can be wrong with a record that is well framed."""

    PHYSICAL_OFFSET = 0
    BODY_CRC = 1
    RECORD_CRC = 2  # the property __CRC32#
    BORN_PORT = 3
    STORE_PORT = 4
    BORN_TIME = 5
    STORE_TIME = 6
    PROPERTIES = 7
    INNER_BASE = 8  # the property that a batch queue's offset is taken from
    EMPTY_BODY_CRC = 9
    BODY_LENGTH = 10
    COMPRESSION = 11
    SYS_FLAG = 12
    INNER_FLAG = 13
    QUEUE_OFFSET = 14  # of a record that is put into no queue
    PREPARED_OFFSET = 15


HIT_ROW = np.dtype(
    [("check", np.int64), ("row", np.int64), ("expected", np.int64), ("observed", np.int64)], align=True
)
MAX_HITS = len(Check)
"""The most that one record can put."""


@kernel
def put_hit(hits: Rows, count: int, check: int, row: int, expected: int, observed: int) -> int:
    """Put a hit after the ``count`` that are there; return how many there are now."""
    hit = hits[count]
    hit.check, hit.row, hit.expected, hit.observed = check, row, expected, observed
    return count + 1
