"""Rows as lines of text; one line each, and one more for a body."""

from __future__ import annotations

import json
from codecs import getincrementaldecoder
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from rmqtool.findings import counted
from rmqtool.formats.consumequeue import EXT_ADDRESS_BASE, EXT_ADDRESS_MAX
from rmqtool.report.formats import BodyMode, body_text
from rmqtool.report.hex_text import HexText, field_label
from rmqtool.report.terminal import SEVERITY_STYLES, Ink, columns_of, escape_json, escape_text, fold, wrapped
from rmqtool.times import time_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from datetime import tzinfo

    from rmqtool import rows
    from rmqtool.commands.decode_id import Reading
    from rmqtool.commands.query.consumption import Consumption
    from rmqtool.rows import Message


_NAMED = 8

"""Queue offsets that are named; a batch of op messages has thousands."""


_FAILED = "{group}, first of topic {topic}, {reconsumeTimes} times failed"
_SENTENCES = {
    "half": "half message for {queue}",
    "op": "ends the half messages of queue offset {offsets}",
    "op-of-record": "ends the half message at physical offset {physicalOffset}",
    "delay": "delay level {level} for {queue}{due}",
    "timer": "timer message for {queue}{due}{rolled}",
    "retry": f"to be consumed again by group {_FAILED}",
    "dead-letter": f"dead letter of group {_FAILED}",
    "pop-check-point": "{count} popped from queue offset {queueOffset} of {queue} by group {group}{until}",
    "pop-ack": "acknowledges queue offset {offsets} of {queue} by group {group}",
    "multi-dispatch": "also in {topics} at {places}",
}


def system_text(row: Message, time: Callable[[int], str]) -> str | None:
    """Return the explanation of a message of the broker's own; None for any other. ``time`` formats ms."""
    found: dict[str, Any] | None = row.explanation
    if found is None:
        return None
    words = {name: "?" if value is None else value for name, value in found.items()}
    words["topic"] = found.get("topic") or "?"
    words["queue"] = f"{words['topic']}/{words.get('queueId')}"
    due, hidden = found.get("deliverTimestamp"), found.get("reviveTimestamp")
    words["due"] = "" if due is None else f", due {time(due)}"
    words["until"] = "" if hidden is None else f", hidden until {time(hidden)}"
    words["until"] += ", suspended" if found.get("suspended") else ""
    words["rolled"] = f", rolled: {found['rollLabel']}" if "rollLabel" in found else ""
    offsets = found.get("queueOffsets", ())
    more = f" and {len(offsets) - _NAMED} more" if len(offsets) > _NAMED else ""
    words["offsets"] = f"{', '.join(map(str, offsets[:_NAMED])) or '?'}{more}"
    others = found.get("queues", ())
    words["topics"] = ",".join(one["topic"] for one in others)
    words["places"] = ",".join(
        "?" if one["queueOffset"] is None else str(one["queueOffset"]) for one in others
    )
    kind = "op-of-record" if "physicalOffset" in found else found["kind"]
    return escape_text(_SENTENCES[kind].format_map(words))


_PREVIEW_BYTES = 48
_UTF_8 = getincrementaldecoder("utf-8")
_BROKEN = "surrogateescape"
_INDENT = 14
_INNER_INDENT = 18
_LAYOUT_MARGIN = 45

"""Columns of a field's offset, size and names."""
_LAYOUT_HEAD = f"{'offset':>6} {'size':>5}  {'field':<29}  unit: meaning\n"


class RowText:
    """Writer of rows as text.

    ``body`` None shows a preview of bodies, ``zone`` None is this machine's, ``width`` None does not break
    lines; with ``fields``, fields follow the rows and show a body as it lies in the log.
    """

    def __init__(
        self,
        body: BodyMode | None,
        zone: tzinfo | None,
        width: int | None = None,
        *,
        color: bool = False,
        fields: bool = False,
    ) -> None:
        self._body = body
        self._zone = zone
        self._width = width
        self._fields = fields
        self._ink = Ink(color=color)
        self._hex = HexText(self._time, body, width, color=color)
        self._file: str | None = None
        self._in_fields = False
        self._writers: dict[str, Callable[[Any], str]] = {
            "message": self._message,
            "inner-message": self._inner_message,
            "blank": lambda row: f"{row.physical_offset:>12}  BLANK, {row.total_size} bytes",
            "damage": self._damage,
            "unit": self._unit,
            "preblank": lambda row: f"{row.queue_offset:>12}  pre-blank",
            "batch-unit": self._batch_unit,
            "ext-unit": self._ext_unit,
            "index-header": self._index_header,
            "slot": lambda row: f"{'slot':>6} {row.slot:>10}  item {row.item}",
            "chain": self._chain,
            "item": self._item,
            "checkpoint": self._checkpoint,
            "config-entry": _config_entry,
            "bytes": self._hex.text,
            "field": self._layout_field,
        }

    def lines(self, row: rows.Row) -> str:
        """Return the lines of a row, each with its line end, after a heading for a new file."""
        text = self._writers[row.type](row) + "\n"
        is_field = row.type == "bytes"
        after_fields, self._in_fields = self._in_fields and not is_field, is_field
        if not is_field:
            self._hex.begin(row)
        heading = self._heading(row)
        gap = "\n" if after_fields or (heading and self._file is not None) else ""
        self._file = heading or self._file
        title = f"{escape_text(heading)}\n" if heading else ""
        return f"{gap}{title}{_LAYOUT_HEAD if heading and row.type == 'field' else ''}{text}"

    def _heading(self, row: rows.Row) -> str | None:
        if row.type == "checkpoint":
            file: str | None = "checkpoint"
        else:
            file = getattr(row, "file", None) or getattr(row, "structure", None)
        return None if file in {None, self._file} else str(file)

    def _time(self, timestamp_ms: int) -> str:
        return time_text(timestamp_ms, self._zone)

    def _message(self, row: rows.Message) -> str:
        parts = [
            f"{escape_text(row.topic)}/{row.queue_id} #{row.queue_offset}",
            self._time(row.store_timestamp_ms),
            f"{row.total_size} B",
        ]
        if row.transaction_type != "none":
            parts.append(row.transaction_type)
        parts += _names(row)
        shown_below = self._fields and len(row.body) == row.body_length
        about = wrapped(system_text(row, self._time) or "", self._room(_INDENT))
        more = (*about, None if shown_below else self._message_body(row, _INDENT))
        line = fold(parts, self._width, _INDENT, f"{row.physical_offset:>12}  ")
        return line + "".join(f"\n{'':>{_INDENT}}{text}" for text in more if text)

    def consumption(self, found: Consumption) -> str:
        """Return lines on a group's progress with a message, below those of the message."""
        first, *others = (one.message for one in found.evidence)
        said = [f"{found.state.words} by {found.group}: {first}", *others]
        lines = (line for one in said for line in wrapped(escape_text(one), self._room(_INDENT)))
        return "".join(f"{'':>{_INDENT}}{line}\n" for line in lines)

    def _inner_message(self, row: rows.InnerMessage) -> str:
        place = f"{escape_text(row.topic)}/{row.queue_id} #{row.queue_offset}"
        parts = (place, f"{row.total_size} B", *_names(row))
        line = fold(parts, self._width, _INNER_INDENT, f"{f'[{row.index}]':>16}  ")
        body = self._message_body(row, _INNER_INDENT)
        return f"{line}\n{'':>{_INNER_INDENT}}{body}" if body else line

    def _message_body(self, row: rows.Message | rows.InnerMessage, indent: int) -> str | None:
        if self._body is not None:
            return body_text(row.body, self._body)
        return preview(row.body, self._room(indent))

    def _room(self, indent: int) -> int | None:
        return None if self._width is None else self._width - indent

    def _damage(self, row: rows.Damage) -> str:
        place = row.physical_offset if row.physical_offset is not None else f"@{row.position}"
        code = self._ink(row.code.code, SEVERITY_STYLES[row.severity])
        return f"{place:>12}  {code} ({row.severity}): {escape_text(row.message)}"

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
            f"{'item':>6} {row.item:>10}  log {row.physical_offset:<12}  hash {row.key_hash:<10}"
            f"  slot {slot:<7}  +{row.time_diff} s  previous {row.previous}"
        )

    def _chain(self, row: rows.Chain) -> str:
        return f"{'chain':>6} {row.slot:>10}  {' > '.join(map(str, row.items))}  {row.ends}"

    def _checkpoint(self, row: rows.Checkpoint) -> str:
        return "\n".join(
            (
                f"  physicMsgTimestamp    {self._time(row.physic_msg_timestamp_ms)}",
                f"  logicsMsgTimestamp    {self._time(row.logics_msg_timestamp_ms)}",
                f"  indexMsgTimestamp     {self._time(row.index_msg_timestamp_ms)}",
                f"  masterFlushedOffset   {row.master_flushed_offset}",
                f"  confirmPhyOffset      {row.confirm_phy_offset}",
                f"  logicsPhysicalOffset  {row.logics_physical_offset}",
            )
        )

    def _layout_field(self, row: rows.LayoutField) -> str:
        offset = "-" if row.offset is None else row.offset
        size = "-" if row.size is None else row.size
        start = f"{offset:>6} {size:>5}  {field_label(row.java_name, row.name):<29}  "
        said = row.meaning if row.unit == "-" else f"{row.unit}: {row.meaning}"
        room = len(said) if self._width is None else max(self._width - _LAYOUT_MARGIN, 20)
        return start + f"\n{'':{_LAYOUT_MARGIN}}".join(wrap(said, room))


def _config_entry(row: rows.ConfigEntry) -> str:
    names = [escape_text(name) for name in (row.table, row.name) if name is not None]
    return "  ".join(("", *names, escape_json(json.dumps(row.value, ensure_ascii=False))))


def _names(row: rows.Message | rows.InnerMessage) -> list[str]:
    names = (("tags", row.tags), ("keys", " ".join(row.keys)), ("uniq", row.uniq_key))
    return [f"{name}={escape_text(value)}" for name, value in names if value]


def _unit_fields(row: rows.Unit | rows.BatchUnit) -> str:
    tags_code = row.tags_code
    tags = f"ext {tags_code - EXT_ADDRESS_BASE}" if tags_code <= EXT_ADDRESS_MAX else f"tags {tags_code}"
    return f"log {row.physical_offset:<12}  {f'{row.size} B':>9}  {tags}"


def preview(body: bytes, room: int | None) -> str:
    r"""Return the start of a body on one line, and the size of the rest.

    Bytes that are not UTF-8 are ``\xNN``. ``room`` is the columns of the line, None for any number. No
    character is cut, and one is always shown.
    """
    text = _UTF_8(_BROKEN).decode(body[:_PREVIEW_BYTES], final=len(body) <= _PREVIEW_BYTES)
    shown = _preview_line(text, len(body))
    while room is not None and len(text) > 1 and columns_of(shown) > room:
        text = text[:-1]
        shown = _preview_line(text, len(body))
    return shown


def _preview_line(text: str, length: int) -> str:
    left = length - len(text.encode("utf-8", _BROKEN))
    return escape_text(text) + (f" … {counted(left, 'byte')} more" if left > 0 else "")


_CANDIDATES = 3

"""Months that text shows; ids under examination are rarely old."""


def reading_lines(readings: Sequence[Reading], zone: tzinfo | None) -> Iterator[str]:
    """Yield lines for the plausible readings of one id, for all of them when none is."""
    shown = [reading for reading in readings if reading.plausible] or list(readings)
    for reading in shown:
        doubt = f" (doubtful: {reading.doubt})" if reading.doubt else ""
        other = " (or the other reading)" if len(shown) > 1 and not doubt else ""
        yield f"{reading.id} {reading.reading}{other}{doubt}\n"
        for name, value in _facts(reading, zone):
            yield f"  {name:<15} {value}\n"


def _facts(reading: Reading, zone: tzinfo | None) -> Iterator[tuple[str, str]]:
    if reading.reading == "offset-id":
        host = f"[{reading.host}]" if ":" in str(reading.host) else reading.host
        yield "broker", f"{host}:{reading.port}"
        yield "physical offset", str(reading.physical_offset)
        return
    yield "client", str(reading.host or reading.mac)
    yield "process id", f"{reading.process_id} (low 16 bits)"
    if reading.loader_hash is not None:
        yield "class loader", f"{reading.loader_hash:08x}"
    yield "counter", f"{reading.counter} (low {16 if reading.mac is None else 32} bits)"
    candidates = [time_text(one, zone) for one in reading.candidates_ms or ()]
    if reading.timestamp_ms is not None:
        yield "made", time_text(reading.timestamp_ms, zone)
        for text in candidates:
            yield "or", f"{text}, if the client counts from 2021 in UTC, as documented"
    elif reading.doubt is None and reading.delta_ms is not None:
        yield "made", f"{_in_month(reading.delta_ms)} of a month (--near TIME decides)"
        for text in candidates[:_CANDIDATES]:
            yield "perhaps", text


def _in_month(delta_ms: int) -> str:
    seconds, milliseconds = divmod(delta_ms, 1000)
    minutes, second = divmod(seconds, 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    return f"day {days + 1}, {hour:02d}:{minute:02d}:{second:02d}.{milliseconds:03d},"
