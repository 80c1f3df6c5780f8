"""Units as the queues of a prediction hand them around."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Int64s = npt.NDArray[np.int64]


QueueKey = tuple[str, int]
"""Topic, as Java decodes it, and queue id."""


class Units(NamedTuple):
    """Units of one file: ``(n,)`` int64 each; tags codes only of those on disk, else 0."""

    physical_offsets: Int64s
    sizes: Int64s
    tags_codes: Int64s


class Appended(NamedTuple):
    """What became of units that were put: how many were appended, landed elsewhere, were put in vain."""

    appended: int
    misplaced: int
    dropped: int
