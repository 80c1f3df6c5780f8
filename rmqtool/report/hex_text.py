"""Fields with their bytes for people: place, bytes, name, value and meaning.

A number and its bytes stand on one line. Longer fields have lines of 16 bytes with their characters below
their name, properties one by one. Repeated lines are left out as in ``hexdump``, and long bodies are cut.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from rmqtool import rows
from rmqtool.formats import message
from rmqtool.formats.consumequeue import EXT_ADDRESS_BASE, EXT_ADDRESS_MAX
from rmqtool.javacompat import masked_crc32
from rmqtool.report.formats import BodyMode
from rmqtool.report.terminal import Ink, escape_bytes, escape_text, fold

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_LINE_BYTES = 16
_NUMBER_BYTES = 8
_GROUP_BYTES = 4
_MARGIN = 36
"""Columns of position, offset and the bytes of a number."""
_COLORS = ("cyan", "green", "yellow", "magenta", "bright_blue", "bright_cyan")
_SHOWN_BYTES = {None: 64, BodyMode.NONE: 16}
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
"""Of a body, by ``--body``; the other modes show all of it."""
_MAGICS = {message.MAGIC_V1: "V1", message.MAGIC_V2: "V2", message.BLANK_MAGIC: "BLANK"}


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
