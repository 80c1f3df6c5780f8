"""The formats' tables of fields, straight from the schemas."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqtool.errors import UsageError
from rmqtool.formats import batch, checkpoint, consumequeue, index, layout, message
from rmqtool.rows import LayoutField
from rmqtool.store import PathKind

if TYPE_CHECKING:
    from collections.abc import Iterator

_SCHEMAS = {
    PathKind.COMMITLOG: {
        "message": message.MESSAGE,
        "blank": message.BLANK,
        "inner-message": batch.INNER_MESSAGE,
    },
    PathKind.CONSUMEQUEUE: {"unit": consumequeue.UNIT},
    PathKind.CONSUMEQUEUE_EXT: {"ext-unit": consumequeue.EXT_UNIT},
    PathKind.BATCHCONSUMEQUEUE: {"batch-unit": consumequeue.BATCH_UNIT},
    PathKind.INDEX: {"index-header": index.HEADER, "slot": index.SLOT, "item": index.ITEM},
    PathKind.CHECKPOINT: {"checkpoint": checkpoint.CHECKPOINT},
}


def layout_rows(kind: PathKind | None = None) -> Iterator[LayoutField]:
    """Yield the fields of one kind of file, or of all; of a message, as it is with IPv4 hosts.

    Raises:
        UsageError: That kind of file is text.
    """
    if kind is PathKind.CONFIG:
        raise UsageError("--layout: files in config/ are JSON; they have no fields at fixed places")
    for schemas in _SCHEMAS.values() if kind is None else [_SCHEMAS[kind]]:
        for structure, schema in schemas.items():
            for one in layout(schema, sysFlag=0):
                yield LayoutField(
                    structure, one.name, one.java_name, one.offset, one.size, one.unit, one.meaning
                )
