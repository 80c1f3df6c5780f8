"""Headers of DLedger's entries, which a walk passes as the leads of its records."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rmqtool.formats.entry import ENTRIES, ENTRY_MAGIC
from rmqtool.kernels.rows import frame_starts

if TYPE_CHECKING:
    from rmqtool.arrays import Bools, Rows
    from rmqtool.formats.entry import Entry
    from rmqtool.kernels.rows import MessageBatch
    from rmqtool.store.segments import Segment


def entry_headers(batch: MessageBatch) -> Rows:
    """Return the headers before a batch's records, ``(n,)`` of ``ENTRIES.dtype``."""
    windows = np.lib.stride_tricks.sliding_window_view(batch.buffer, ENTRIES.size)
    headers: Rows = windows[frame_starts(batch.rows) - batch.base].view(ENTRIES.dtype)[:, 0]
    return headers


def fits_frame(headers: Rows, batch: MessageBatch) -> Bools:
    """Whether place, magic and lengths of each entry are those of its frame, ``(n,)``."""
    sizes = batch.rows["total_size"]
    fits: Bools = (headers["pos"] == frame_starts(batch.rows)) & (headers["magic"] == ENTRY_MAGIC)
    fits &= (headers["size"] - ENTRIES.size == sizes) & (headers["bodyLength"] == sizes)
    return fits


def first_entry(segment: Segment) -> Entry | None:
    """Return the header with which a file of entries begins; None if it begins with none."""
    header = ENTRIES.padded(segment.read_at(0, ENTRIES.size, []))
    return header if (header.magic, header.pos) == (ENTRY_MAGIC, segment.start) else None
