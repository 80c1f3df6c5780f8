"""The bytes of a row, field by field, as the layout names them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqtool.commands import rows
from rmqtool.commands.messages import host_text
from rmqtool.formats import checkpoint, consumequeue, index, layout, message
from rmqtool.store.files import store_file

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.formats import FieldLayout
    from rmqtool.store import Store, StoreFile

_HOSTS = ("bornHost", "storeHost")
_TEXTS = ("topic", "properties")
_SCHEMAS = {
    rows.Message: message.MESSAGE,
    rows.Blank: message.BLANK,
    rows.Unit: consumequeue.UNIT,
    rows.Preblank: consumequeue.UNIT,
    rows.BatchUnit: consumequeue.BATCH_UNIT,
    rows.ExtUnit: consumequeue.EXT_UNIT,
    rows.IndexHeader: index.HEADER,
    rows.Slot: index.SLOT,
    rows.Item: index.ITEM,
    rows.Checkpoint: checkpoint.CHECKPOINT,
}
_MAGICS = {"V1": message.MAGIC_V1, "V2": message.MAGIC_V2}
_DAMAGED_BYTES = 256
"""How much of a damaged range is shown."""


class HexRows:
    """Adds to a row the rows of its fields.

    Args:
        store: Where the rows come from.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._file: StoreFile | None = None

    def fields(self, row: rows.Row) -> Iterator[rows.FieldBytes]:
        """Yield the fields of a row with their bytes; nothing for a row that has none of its own."""
        if isinstance(row, rows.Damage):
            if row.position is not None:
                yield self._damaged(row.file, row.position, row.length or 0)
            return
        schema = _SCHEMAS.get(type(row))
        if schema is None:
            return
        sizes = (
            {"sysFlag": row.sys_flag, "magic": _MAGICS[row.magic]} if isinstance(row, rows.Message) else {}
        )
        position, length = self._position(row), 0
        for field in layout(schema, **sizes):
            size = max(length, 0) if field.size is None else field.size
            raw = self._read(self._label(row), position, size)
            length = int.from_bytes(raw, "big", signed=True)
            yield rows.FieldBytes(
                self._label(row), position, field.name, field.java_name, raw, _value(field, raw)
            )
            position += size

    def _damaged(self, label: str, position: int, length: int) -> rows.FieldBytes:
        raw = self._read(label, position, min(length, _DAMAGED_BYTES))
        return rows.FieldBytes(label, position, "damage", "-", raw, None)

    def _label(self, row: rows.Row) -> str:
        return "checkpoint" if isinstance(row, rows.Checkpoint) else str(getattr(row, "file", ""))

    def _position(self, row: rows.Row) -> int:
        slots = self._store.settings.index_geometry.slots
        if isinstance(row, rows.Item):
            return index.item_position(slots, row.item)
        if isinstance(row, rows.Slot):
            return index.slot_position(row.slot)
        return int(getattr(row, "position", 0))

    def _read(self, label: str, position: int, length: int) -> bytes:
        if self._file is None or self._file.label != label:
            if self._file is not None:
                self._file.close()
            self._file = store_file(self._store.base / label, self._store.base)
        return self._file.read_at(position, length, [])


def _value(field: FieldLayout, raw: bytes) -> int | str | None:
    if field.code is not None:
        return int.from_bytes(raw, "big", signed=True)
    if field.name in _HOSTS and len(raw) in {8, 20}:
        return host_text(raw)
    return raw.decode(errors="replace") if field.name in _TEXTS else None
