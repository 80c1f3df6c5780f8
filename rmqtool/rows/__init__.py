"""ROWS that commands yield: one class for each ``type`` of the ndjson objects, and rows of records.

``model`` and ``derived`` have the classes; ``messages`` makes rows from a walk over the log, and filters
them; ``log_splits`` reads a large log by kernels, on all cores, and makes rows of the rest;
``system_messages`` explains the broker's own; ``bodies`` unpacks bodies. ``report`` decides how rows look.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from rmqtool.rows.model import Blank, Damage, InnerMessage, Lines, Message

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

if TYPE_CHECKING:
    from rmqtool.rows.derived import (
        BatchUnit,
        Chain,
        Checkpoint,
        Columns,
        ConfigEntry,
        ExtUnit,
        FieldBytes,
        IndexHeader,
        Item,
        LayoutField,
        Preblank,
        Row,
        Slot,
        Unit,
    )
else:

    def __getattr__(name: str) -> object:
        """Load the rows of other files on first use (`rmqtool.rows.derived` says why)."""
        if name not in __all__:
            raise AttributeError(f"module 'rmqtool.rows' has no attribute {name!r}")
        found = globals()[name] = getattr(import_module("rmqtool.rows.derived"), name)
        return found
