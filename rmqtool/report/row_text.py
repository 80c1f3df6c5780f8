"""Rows as lines for people; one line each, and one more for a body."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqtool.commands import rows
from rmqtool.formats.consumequeue import EXT_ADDRESS_BASE, EXT_ADDRESS_MAX
from rmqtool.report.escaping import escape_bytes, escape_text
from rmqtool.report.objects import BodyMode, body_text
from rmqtool.report.system_text import system_text
from rmqtool.report.times import time_text

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import tzinfo
    from typing import Any

_PREVIEW_BYTES = 48
_LINE_BYTES = 16


class RowText:
    """Writes rows as text.

    Args:
        body: How bodies are shown; None is a preview.
        zone: In which times are printed; None is this machine's.
    """

    def __init__(self, body: BodyMode | None, zone: tzinfo | None) -> None:
        self._body = body
        self._zone = zone
        self._file: str | None = None
        self._writers: dict[type, Callable[[Any], str]] = {
            rows.Message: self._message,
            rows.Blank: lambda row: f"{row.physical_offset:>12}  BLANK, {row.total_size} bytes",
            rows.Damage: self._damage,
            rows.Unit: self._unit,
            rows.Preblank: lambda row: f"{row.queue_offset:>12}  pre-blank",
            rows.BatchUnit: self._batch_unit,
            rows.ExtUnit: self._ext_unit,
            rows.IndexHeader: self._index_header,
            rows.Slot: lambda row: f"{'slot':>6} {row.slot:>10}  item {row.item}",
            rows.Chain: self._chain,
            rows.Item: self._item,
            rows.Checkpoint: self._checkpoint,
            rows.FieldBytes: _field_bytes,
            rows.LayoutField: self._layout_field,
        }

    def lines(self, row: rows.Row) -> str:
        """Return the lines of a row, each with its line end; a new file is announced first."""
        text = self._writers[type(row)](row) + "\n"
        file = getattr(row, "file", None) or getattr(row, "structure", None)
        if file in {None, self._file} or isinstance(row, rows.Damage):
            return text
        first, self._file = self._file is None, file
        return f"{'' if first else chr(10)}{escape_text(str(file))}\n{text}"

    def _time(self, timestamp_ms: int) -> str:
        return time_text(timestamp_ms, self._zone)

    def _message(self, row: rows.Message) -> str:
        parts = [
            f"{row.physical_offset:>12}  {escape_text(row.topic)}/{row.queue_id} #{row.queue_offset}",
            self._time(row.store_timestamp_ms),
            f"{row.total_size} B",
        ]
        if row.transaction_type != "none":
            parts.append(row.transaction_type)
        for name, value in (("tags", row.tags), ("keys", " ".join(row.keys)), ("uniq", row.uniq_key)):
            if value:
                parts.append(f"{name}={escape_text(value)}")
        more = (system_text(row, self._time), self._message_body(row))
        return "  ".join(parts) + "".join(f"\n{'':>14}{line}" for line in more if line)

    def _message_body(self, row: rows.Message) -> str | None:
        if self._body is not None:
            return body_text(row.body, self._body)
        preview = escape_bytes(row.body[:_PREVIEW_BYTES])
        left = row.body_length - _PREVIEW_BYTES
        return f"{preview} … {left} bytes more" if left > 0 else preview

    def _damage(self, row: rows.Damage) -> str:
        place = row.physical_offset if row.physical_offset is not None else f"@{row.position}"
        return f"{place:>12}  {row.code.code} ({row.code.severity}): {escape_text(row.message)}"

    def _unit(self, row: rows.Unit) -> str:
        return f"{row.queue_offset:>12}  {_unit_fields(row)}"

    def _batch_unit(self, row: rows.BatchUnit) -> str:
        covers = f"#{row.msg_base_offset} +{row.batch_size}"
        return f"{row.position:>12}  {covers}  {_unit_fields(row)}  {self._time(row.store_timestamp_ms)}"

    def _ext_unit(self, row: rows.ExtUnit) -> str:
        byte = row.address - EXT_ADDRESS_BASE
        bit_map = f"  bit map {row.bit_map.hex()}" if row.bit_map else ""
        return f"{byte:>12}  tags {row.tags_code}  {self._time(row.store_timestamp_ms)}{bit_map}"

    def _index_header(self, row: rows.IndexHeader) -> str:
        begin, end = self._time(row.begin_timestamp_ms), self._time(row.end_timestamp_ms)
        return (
            f"  {begin} to {end}, log {row.begin_phy_offset} to {row.end_phy_offset}\n"
            f"  indexCount {row.index_count}, hashSlotCount {row.hash_slot_count}"
        )

    def _item(self, row: rows.Item) -> str:
        slot = "-" if row.slot is None else row.slot
        return (
            f"{'item':>6} {row.item:>10}  log {row.physical_offset}  hash {row.key_hash}  slot {slot}"
            f"  +{row.time_diff} s  previous {row.previous}"
        )

    def _chain(self, row: rows.Chain) -> str:
        return f"{'chain':>6} {row.slot:>10}  {' > '.join(map(str, row.items))}  {row.ends}"

    def _checkpoint(self, row: rows.Checkpoint) -> str:
        return "\n".join(
            (
                "checkpoint",
                f"  physicMsgTimestamp   {self._time(row.physic_msg_timestamp_ms)}",
                f"  logicsMsgTimestamp   {self._time(row.logics_msg_timestamp_ms)}",
                f"  indexMsgTimestamp    {self._time(row.index_msg_timestamp_ms)}",
                f"  masterFlushedOffset  {row.master_flushed_offset}",
                f"  confirmPhyOffset     {row.confirm_phy_offset}",
            )
        )

    def _layout_field(self, row: rows.LayoutField) -> str:
        offset = "-" if row.offset is None else row.offset
        size = "-" if row.size is None else row.size
        return f"{offset:>6} {size:>4}  {row.java_name:<26} {row.unit:<18} {row.meaning}"


def _field_bytes(row: rows.FieldBytes) -> str:
    """Return a field on one line, or as lines of 16 bytes with their characters."""
    start = f"{row.position:>12}  {row.java_name:<26}"
    if len(row.raw) <= _LINE_BYTES:
        value = "" if row.value is None else f"  {escape_text(str(row.value))}"
        return f"{start} {row.raw.hex()}{value}".rstrip()
    lines = [start.rstrip()]
    for at in range(0, len(row.raw), _LINE_BYTES):
        part = row.raw[at : at + _LINE_BYTES]
        shown = "".join(chr(byte) if 0x20 <= byte < 0x7F else "." for byte in part)
        lines.append(f"{row.position + at:>12}  {part.hex(' '):<{3 * _LINE_BYTES}} {shown}")
    return "\n".join(lines)


def _unit_fields(row: rows.Unit | rows.BatchUnit) -> str:
    tags_code = row.tags_code
    tags = f"ext {tags_code - EXT_ADDRESS_BASE}" if tags_code <= EXT_ADDRESS_MAX else f"tags {tags_code}"
    return f"log {row.physical_offset}  {row.size} B  {tags}"
