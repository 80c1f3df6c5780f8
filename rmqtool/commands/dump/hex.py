"""Bytes of a row, field by field, and the tables of fields that the schemas give."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rmqtool import rows
from rmqtool.errors import UsageError
from rmqtool.findings import Structure, codes
from rmqtool.formats import FieldLayout, checkpoint, consumequeue, entry, index, layout, message
from rmqtool.rows import LayoutField
from rmqtool.rows.messages import host_text
from rmqtool.scan.classify import is_of_record
from rmqtool.store.files import store_file
from rmqtool.store.kinds import KINDS
from rmqtool.store.ledger import framing_in

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from rmqtool.store import PathKind, Store, StoreFile

    _Fields = Generator[rows.FieldBytes, None, int]


_HOSTS = ("bornHost", "storeHost")
_TEXTS = ("topic", "properties")
_SCHEMAS: dict[type[rows.Row], Any] = {
    rows.Message: message.MESSAGE,
    rows.Blank: message.END_MARK,
    rows.Unit: consumequeue.UNIT,
    rows.Preblank: consumequeue.UNIT,
    rows.BatchUnit: consumequeue.BATCH_UNIT,
    rows.ExtUnit: consumequeue.EXT_UNIT,
    rows.IndexHeader: index.HEADER,
    rows.Slot: index.SLOT,
    rows.Item: index.ITEM,
    rows.Checkpoint: checkpoint.CHECKPOINT,
    rows.EntryUnit: entry.ENTRY_UNIT,
}
_DAMAGED_SCHEMAS = {
    codes.CQ_BAD_UNIT: consumequeue.UNIT,
    codes.BQ_BAD_UNIT: consumequeue.BATCH_UNIT,
    codes.CQ_EXT_UNIT: consumequeue.EXT_UNIT,
    codes.IX_COUNT: index.HEADER,
    codes.DL_UNIT: entry.ENTRY_UNIT,
}
_MAGICS = {"V1": message.MAGIC_V1, "V2": message.MAGIC_V2}
_REST_BYTES = 256
"""Limit for bytes of no field."""


class HexRows:
    """Adds to a row of a store the rows of its fields."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._file: StoreFile | None = None

    def fields(self, row: rows.Row) -> Iterator[rows.FieldBytes]:
        """Yield the fields of a row with their bytes; nothing for a row that has none of its own.

        Damaged bytes are named as far as they could be a record's or unit's. Bytes of no field, such as the
        undefined ones of an end mark, come as one last row.
        """
        if isinstance(row, rows.Damage):
            yield from self._damaged(row)
            return
        schema = _SCHEMAS.get(type(row))
        if schema is None:
            return
        context: dict[str, int] = {}
        if isinstance(row, rows.Message):
            context = {"sysFlag": row.sys_flag, "magic": _MAGICS[row.magic]}
        label, position = self._place(row)
        if isinstance(row, rows.Message | rows.Blank) and framing_in(self._open(label).path.parent).lead:
            if isinstance(row, rows.Blank):
                schema = entry.ENTRY_END
            else:
                start = position - entry.ENTRIES.size
                yield from self._fields(label, start, layout(entry.ENTRY), None, "entry.")
        stop = yield from self._fields(label, position, layout(schema, **context), None)
        if isinstance(row, rows.Blank):
            yield from self._rest(label, position, stop, row.total_size, "undefined")

    def _damaged(self, row: rows.Damage) -> Iterator[rows.FieldBytes]:
        label, position, length = row.file, row.position, row.length or 0
        if position is None or is_of_record(row.finding()):
            return
        stop = 0
        schema = _DAMAGED_SCHEMAS.get(row.code)
        if schema is not None:
            stop = yield from self._fields(label, position, layout(schema), length)
        elif row.structure is Structure.COMMITLOG:
            stop = yield from self._damaged_record(label, position, length)
        yield from self._rest(label, position, stop, length, "damage")

    def _damaged_record(self, label: str, position: int, length: int) -> _Fields:
        """Yield the fields that damaged bytes would have as a record; none of zeros."""
        at = message.HEAD_OFFSETS[0]
        values = {}
        for name in ("totalSize", "magic", "sysFlag"):
            values[name] = int.from_bytes(self._read(label, position + at[name], 4), "big", signed=True)
        if not values["totalSize"] and not values["magic"]:
            return 0
        return (yield from self._fields(label, position, layout(message.MESSAGE, **values), length))

    def _fields(
        self, label: str, position: int, fields: tuple[FieldLayout, ...], limit: int | None, of: str = ""
    ) -> _Fields:
        """Yield the fields of a structure up to ``limit`` bytes; return where they end.

        ``of`` begins the names of those of a structure around that of the row.
        """
        offset = length = 0
        for field in fields:
            size = max(length, 0) if field.size is None else field.size
            if limit is not None and offset + size > limit:
                break
            raw = self._read(label, position + offset, size)
            length = int.from_bytes(raw, "big", signed=True)
            value = _value(field, raw)
            place = (label, position + offset, of + field.name, field.java_name)
            yield rows.FieldBytes(*place, raw, value, offset, size, field.unit)
            offset += size
        return offset

    def _rest(
        self, label: str, position: int, offset: int, length: int, name: str
    ) -> Iterator[rows.FieldBytes]:
        if length > offset:
            raw = self._read(label, position + offset, min(length - offset, _REST_BYTES))
            yield rows.FieldBytes(
                label, position + offset, name, name, raw, None, offset, length - offset, "bytes"
            )

    def _place(self, row: rows.Row) -> tuple[str, int]:
        if isinstance(row, rows.Checkpoint):
            return "checkpoint", 0
        slots = self._store.settings.index_geometry.slots
        label = str(getattr(row, "file", ""))
        if isinstance(row, rows.Item):
            return label, index.item_position(slots, row.item)
        if isinstance(row, rows.Slot):
            return label, index.slot_position(row.slot)
        return label, int(getattr(row, "position", 0))

    def _read(self, label: str, position: int, length: int) -> bytes:
        return self._open(label).read_at(position, length, [])

    def _open(self, label: str) -> StoreFile:
        if self._file is None or self._file.label != label:
            if self._file is not None:
                self._file.close()
            self._file = store_file(self._store.base / label, self._store.base)
        return self._file


def _value(field: FieldLayout, raw: bytes) -> int | str | None:
    if field.code is not None or (field.size is not None and field.unit == "bytes"):  # of V1 or V2 width
        return int.from_bytes(raw, "big", signed=True)
    if field.name in _HOSTS and len(raw) in {8, 20}:
        return host_text(raw)
    return raw.decode(errors="replace") if field.name in _TEXTS else None


def layout_rows(kind: PathKind | None = None) -> Iterator[LayoutField]:
    """Yield the fields of one kind of file, UsageError if it is text, or of all; a message has IPv4 hosts."""
    kinds = tuple(KINDS) if kind is None else (kind,)
    if not any(KINDS[one].schemas for one in kinds):
        raise UsageError("--layout: files in config/ are JSON; they have no fields at fixed places")
    for one_kind in kinds:
        for structure, schema in KINDS[one_kind].schemas.items():
            for field in layout(schema, sysFlag=0):
                yield LayoutField(
                    structure,
                    field.name,
                    field.java_name,
                    field.offset,
                    field.size,
                    field.unit,
                    field.meaning,
                )
