"""ROWS. What commands yield: one class for each ``type`` of the ndjson objects, and rows of records.

``model`` has the classes; ``messages`` makes rows of what a walk over the log yields, and filters them;
``log_splits`` and ``log_pieces`` read a large log by kernels, on all cores, and make rows of what those
cannot do; ``system_messages`` says what the broker's own are about; ``decompression`` and ``inner_batches``
unpack bodies. How rows look is decided in ``report``.
"""

from __future__ import annotations

from rmqtool.rows.model import (
    BatchUnit,
    Blank,
    Chain,
    Checkpoint,
    Columns,
    ConfigEntry,
    Damage,
    ExtUnit,
    FieldBytes,
    IndexHeader,
    InnerMessage,
    Item,
    LayoutField,
    Lines,
    Message,
    Preblank,
    Row,
    Slot,
    Unit,
)

__all__ = [
    "BatchUnit",
    "Blank",
    "Chain",
    "Checkpoint",
    "Columns",
    "ConfigEntry",
    "Damage",
    "ExtUnit",
    "FieldBytes",
    "IndexHeader",
    "InnerMessage",
    "Item",
    "LayoutField",
    "Lines",
    "Message",
    "Preblank",
    "Row",
    "Slot",
    "Unit",
]
