"""Rows as lines of text; one line each, and one more for a body; their fields with the bytes."""

from __future__ import annotations

import json
from codecs import getincrementaldecoder
from itertools import groupby
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from rmqtool import rows
from rmqtool.findings import counted
from rmqtool.formats import message
from rmqtool.formats.consumequeue import EXT_ADDRESS_BASE, EXT_ADDRESS_MAX
from rmqtool.formats.entry import ENTRY_END_MAGIC, ENTRY_MAGIC
from rmqtool.javacompat import masked_crc32
from rmqtool.projection import BodyMode
from rmqtool.report.output import body_text
from rmqtool.report.terminal import (
    SEVERITY_STYLES,
    Ink,
    columns_of,
    escape_bytes,
    escape_json,
    escape_text,
    fold,
    wrapped,
)
from rmqtool.times import time_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from datetime import tzinfo

    from rmqtool.commands.decode_id import Reading
    from rmqtool.commands.query.consumption import Consumption
    from rmqtool.commands.query.copies import MessageCopy
    from rmqtool.report.text_report import TextReport
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
    "placeholder": "a salvage put this in the place of a lost message",
    "multi-dispatch": "also in {topics} at {places}",
}


def system_text(row: Message, time: Callable[[int], str]) -> str | None:
    """Return the explanation of a message of the broker's own; None for any other. ``time`` formats ms."""
    meaning: dict[str, Any] | None = row.explanation
    if meaning is None:
        return None
    words = {name: "?" if value is None else value for name, value in meaning.items()}
    words["topic"] = meaning.get("topic") or "?"
    words["queue"] = f"{words['topic']}/{words.get('queueId')}"
    due, hidden = meaning.get("deliverTimestamp"), meaning.get("reviveTimestamp")
    words["due"] = "" if due is None else f", due {time(due)}"
    words["until"] = "" if hidden is None else f", hidden until {time(hidden)}"
    words["until"] += ", suspended" if meaning.get("suspended") else ""
    words["rolled"] = f", rolled: {meaning['rollLabel']}" if "rollLabel" in meaning else ""
    offsets = meaning.get("queueOffsets", ())
    more = f" and {len(offsets) - _NAMED} more" if len(offsets) > _NAMED else ""
    words["offsets"] = f"{', '.join(map(str, offsets[:_NAMED])) or '?'}{more}"
    others = meaning.get("queues", ())
    words["topics"] = ",".join(queue["topic"] for queue in others)
    words["places"] = ",".join(
        "?" if queue["queueOffset"] is None else str(queue["queueOffset"]) for queue in others
    )
    kind = "op-of-record" if "physicalOffset" in meaning else meaning["kind"]
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
            "entry-unit": lambda row: f"{row.index:>12}  pos {row.pos:<12}  {row.size:>7} B  term {row.term}",
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
        if row.type == "checkpoint":
            file: str | None = "checkpoint"
        else:
            file = getattr(row, "file", None) or getattr(row, "structure", None)
        heading = None if file in {None, self._file} else str(file)
        gap = "\n" if after_fields or (heading and self._file is not None) else ""
        self._file = heading or self._file
        title = f"{escape_text(heading)}\n" if heading else ""
        return f"{gap}{title}{_LAYOUT_HEAD if heading and row.type == 'field' else ''}{text}"

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

    def consumption(self, progress: Consumption) -> str:
        """Return lines on a group's progress with a message, below those of the message."""
        first, *others = (evidence.message for evidence in progress.evidence)
        said = [f"{progress.state.words} by {progress.group}: {first}", *others]
        lines = (line for sentence in said for line in wrapped(escape_text(sentence), self._room(_INDENT)))
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


def copies_text(copies: Sequence[MessageCopy], text: TextReport) -> None:
    """Write a line for each message, and below it one for each store."""
    for (topic, queue_id, queue_offset), group in groupby(
        copies, lambda copy: (copy.topic, copy.queue_id, copy.queue_offset)
    ):
        stores = list(group)
        width = max(len(copy.store) for copy in stores)
        same = sum(copy.state == "same" for copy in stores)
        key = next((f", unique key {copy.uniq_key}" for copy in stores if copy.uniq_key), "")
        name = f"{topic}/{queue_id} #{queue_offset}{key}"
        text.line(f"{name}: the same in {same} of {len(stores)} copies")
        for copy in stores:
            differs = f": {', '.join(copy.differs)}" if copy.differs else ""
            where = f"  {copy.file} @{copy.position}, physical offset {copy.physical_offset}"
            text.line(f"  {copy.store:<{width}}  {copy.state}{differs}{where if copy.file else ''}")


def readings_text(every: Iterable[Sequence[Reading]], zone: tzinfo | None, text: TextReport) -> None:
    """Write the plausible readings of each id, or all of them when none is."""
    for readings in every:
        shown = [reading for reading in readings if reading.plausible] or list(readings)
        for reading in shown:
            doubt = f" (doubtful: {reading.doubt})" if reading.doubt else ""
            other = " (or the other reading)" if len(shown) > 1 and not doubt else ""
            text.line(f"{reading.id} {reading.reading}{other}{doubt}")
            for name, value in _facts(reading, zone):
                text.line(f"  {name:<15} {value}")


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
    candidates = [time_text(moment, zone) for moment in reading.candidates_ms or ()]
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


# --- fields with their bytes, as hexdump has them

_LINE_BYTES = 16
_NUMBER_BYTES = 8
_GROUP_BYTES = 4
_MARGIN = 36
"""Columns of position, offset and the bytes of a number."""
_COLORS = ("cyan", "green", "yellow", "magenta", "bright_blue", "bright_cyan")
_SHOWN_BYTES = {None: 64, BodyMode.NONE: 16}
"""Of a body, by ``--body``; the other modes show all of it."""
_COMPRESSED = 0x1
_COMPRESSION_SHIFT, _COMPRESSION_MASK = 8, 0x7
_COMPRESSIONS = {0: "zlib", 1: "lz4", 2: "zstd", 3: "zlib"}
_TRANSACTIONS = {
    message.TRANSACTION_PREPARED: "transaction prepared",
    message.TRANSACTION_COMMIT: "transaction commit",
    message.TRANSACTION_ROLLBACK: "transaction rollback",
}
_BITS = {
    0x2: "several tags",
    message.BORN_HOST_V6: "IPv6 born host",
    message.STORE_HOST_V6: "IPv6 store host",
    0x40: "batch to unwrap",
    0x80: "inner batch",
}
_MAGICS = {
    message.MAGIC_V1: "V1",
    message.MAGIC_V2: "V2",
    message.BLANK_MAGIC: "BLANK",
    ENTRY_MAGIC: "entry of DLedger",
    ENTRY_END_MAGIC: "end of a file of entries",
}


def sys_flag_text(flag: int) -> str:
    """Return the meaning of the bits of a SYSFLAG; empty for 0.

    Source: ``MessageSysFlag``, ``CompressionType`` (5.3.3); 4.9.8 has no bits above the sixth.
    """
    said = []
    if flag & _COMPRESSED:
        kind = _COMPRESSIONS.get(flag >> _COMPRESSION_SHIFT & _COMPRESSION_MASK, "unknown compression")
        said.append(f"compressed, {kind}")
    transaction = _TRANSACTIONS.get(flag & message.TRANSACTION_MASK)
    said += [transaction] if transaction else []
    said += [words for bit, words in _BITS.items() if flag & bit]
    return ", ".join(said)


_MEANINGS: dict[str, Callable[[int], str]] = {
    "magic": lambda value: _MAGICS.get(value, "no magic of a record"),
    "sysFlag": sys_flag_text,
}
_SINGULARS = {
    "bytes": "byte",
    "bytes in the log": "byte in the log",
    "units": "unit",
    "items": "item",
    "slots": "slot",
    "messages": "message",
}
_WITHOUT_UNIT = {"-", "UTF-8", "bits"}
_PROPERTY_END = b"\x02"
_NAME_END = b"\x01"


class HexText:
    """Writer of fields, each in a colour; ``time`` formats ms, ``body`` None cuts long bodies."""

    def __init__(
        self, time: Callable[[int], str], body: BodyMode | None, width: int | None, *, color: bool
    ) -> None:
        self._time = time
        self._shown_bytes = _SHOWN_BYTES.get(body)
        self._width = width
        self._paint = Ink(color=color)
        self._field = 0
        self._row: rows.Row | None = None

    def begin(self, row: rows.Row) -> None:
        """Set the row of the next fields."""
        self._row, self._field = row, 0

    def text(self, field: rows.FieldBytes) -> str:
        """Return the lines of a field, without the last line's end."""
        color = _COLORS[self._field % len(_COLORS)]
        self._field += 1
        if field.name == "properties" and field.raw:
            return "\n".join(self._properties(field, color))
        return "\n".join(self._lines(field, color))

    def _lines(self, field: rows.FieldBytes, color: str) -> Iterator[str]:
        inline = len(field.raw) <= _NUMBER_BYTES and len(field.raw) == field.size
        said = [_value(field), self._meaning(field)]
        yield self._line(field, field.raw.hex() if inline else "", said, color)
        if not inline:
            cut = self._shown_bytes if field.name == "body" else None
            yield from self._bytes(field.raw, field.size, cut, color)

    def _properties(self, field: rows.FieldBytes, color: str) -> Iterator[str]:
        yield self._line(field, "", [_value(field)], color)
        at = 0
        for part in field.raw.split(_PROPERTY_END):
            raw = field.raw[at : at + len(part) + 1]
            if raw:
                name, equals, value = part.partition(_NAME_END)
                said = f"{escape_bytes(name)}{' = ' if equals else ''}{escape_bytes(value)}"
                place = self._place(field.position + at, field.offset + at)
                yield f"{place}{'':{_MARGIN - 18}}{self._paint(said, color)}"
                yield from self._bytes(raw, len(raw), None, color)
            at += len(raw)

    def _line(self, field: rows.FieldBytes, digits: str, said: list[str], color: str) -> str:
        place = self._place(field.position, field.offset)
        start = f"{place}{self._paint(f'{digits:<16}', color)}  "
        label = field_label(field.java_name, field.name)
        line = fold([label, *filter(None, said)], self._width, _MARGIN, start)
        return line.replace(label, self._paint(label, color), 1)

    def _place(self, position: int, offset: int) -> str:
        return self._paint(f"{position:>10}{f'+{offset}':>6}", "dim") + "  "

    def _bytes(self, raw: bytes, size: int, cut: int | None, color: str) -> Iterator[str]:
        shown = raw if cut is None or len(raw) <= cut + _LINE_BYTES else raw[:cut]
        lines = (shown[at : at + _LINE_BYTES] for at in range(0, len(shown), _LINE_BYTES))
        for part, same in groupby(lines):
            yield self._bytes_line(part, color)
            repeated = len(list(same)) - 1
            if repeated:
                yield f"{'':>18}* {repeated * _LINE_BYTES} bytes of the same"
        if size > len(shown):
            way = "; --body hex shows all" if len(shown) < len(raw) else ""
            yield f"{'':>18}… {size - len(shown)} bytes more{way}"

    def _bytes_line(self, part: bytes, color: str) -> str:
        groups = " ".join(part[at : at + _GROUP_BYTES].hex() for at in range(0, len(part), _GROUP_BYTES))
        characters = "".join(chr(byte) if 0x20 <= byte < 0x7F else "." for byte in part)
        return f"{'':>18}{self._paint(f'{groups:<35}', color)}  {characters}"

    def _meaning(self, field: rows.FieldBytes) -> str:
        value = field.value
        if not isinstance(value, int):
            return ""
        if field.unit == "ms":
            return self._time(value) if value else ""
        if field.name == "tagsCode" and value <= EXT_ADDRESS_MAX:
            return f"ext unit at byte {value - EXT_ADDRESS_BASE}"
        if field.name == "bodyCrc":
            return _crc_text(self._row, value)
        return _MEANINGS[field.name](value) if field.name in _MEANINGS else ""


def _crc_text(row: rows.Row | None, value: int) -> str:
    """Return whether the body has this checksum; nothing where the body is not that of the log."""
    if not isinstance(row, rows.Message) or not row.body or len(row.body) != row.body_length:
        return ""
    crc = masked_crc32(row.body)
    return "is that of the body" if crc == value else f"but the body has {crc}"


def field_label(java_name: str, name: str) -> str:
    """Return the Java name, with the JSON name where that is another word."""
    return java_name if java_name.replace(" ", "").lower() == name.lower() else f"{java_name} ({name})"


def _value(field: rows.FieldBytes) -> str:
    if isinstance(field.value, str) and field.name != "properties":
        return escape_text(field.value)
    value, unit = (field.value, field.unit) if isinstance(field.value, int) else (field.size, "bytes")
    if unit == "item":
        return f"item {value}"
    if value == 1:
        unit = _SINGULARS.get(unit, unit)
    return str(value) if unit in _WITHOUT_UNIT else f"{value} {unit}"
