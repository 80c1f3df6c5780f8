"""Columns as lines of ndjson or csv, joined column by column."""

from __future__ import annotations

import base64
import json
import re
from contextlib import suppress
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from rmqtool.columns import TextBodies

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from _typeshed import SupportsWrite

_UNSHOWN = r"\x00-\x1f\x7f-\x{9f}\x{61c}\x{200e}\x{200f}\x{2028}-\x{202e}\x{2066}-\x{2069}\x{feff}"
"""Characters that some format must escape; see ``rmqtool.kernels.json.is_harmful``."""

_PLAIN = f"^[^{_UNSHOWN}]*$"
_ESCAPED = re.compile("^[=+@-]|[\\\\\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]")
"""Characters that cells of csv escape as reports do: `rmqtool.report.terminal.escape_cell`."""

_NOT_IN_BODIES = re.compile(
    _ESCAPED.pattern.replace("^[", "^[\t\r").replace("\\\\\x00-\x1f", "\x00-\x08\x0b\x0c\x0e-\x1f")
)
"""Of bodies, tabs and ends of lines can be in a cell, but not first where a formula begins."""

_SPECIAL_IN_CELLS = r"^[=+@-]|\\"
"""Those of these characters that other formats do not escape."""


class _Kind(StrEnum):
    NUMBER = "number"
    TEXT = "text"
    BODY = "body"
    JSON = "json"


class LineForm(NamedTuple):
    """Form of rows in a file of text: head line, text before each value, end of a line, text of null.

    With ``in_cells``, bodies with control characters cannot be text; ``quoted`` makes cells of values that
    are not numbers, by kind.
    """

    head: str
    before: dict[str, str]
    after: str
    absent: str
    in_cells: bool
    quoted: Mapping[_Kind, Callable[[pa.Array], pa.Array]]
    bodies: TextBodies


def ndjson_form(schema: pa.Schema, bodies: TextBodies) -> LineForm:
    """Return the form of JSON objects, one a line."""
    names = _names(schema)
    before = {name: f'{", " if number else "{"}"{name}": ' for number, name in enumerate(names)}
    return LineForm(
        "", before, "}\n", "null", False, {_Kind.TEXT: _json_text, _Kind.BODY: _json_text}, bodies
    )


def csv_form(schema: pa.Schema, bodies: TextBodies) -> LineForm:
    """Return the form of csv: all but numbers is quoted, lists and properties are JSON."""
    names = _names(schema)
    before = {name: "," if number else "" for number, name in enumerate(names)}
    quoted = {_Kind.TEXT: _csv_text, _Kind.JSON: _csv_cell, _Kind.BODY: _csv_cell}
    return LineForm(",".join(names) + "\n", before, "\n", "", True, quoted, bodies)


class LineWriter:
    """Writer of tables as lines."""

    def __init__(self, output: SupportsWrite[bytes | memoryview], form: LineForm) -> None:
        self._output = output
        self._form = form
        output.write(form.head.encode())

    def write(self, table: pa.Table) -> None:
        """Append the lines of a table."""
        for batch in table.to_batches():
            for start in range(0, batch.num_rows, _LINES_AT_ONCE):
                self._output.write(self._lines(batch.slice(start, _LINES_AT_ONCE)))

    def finish(self) -> None:
        """Do nothing: the last line has no sequel."""

    def _lines(self, batch: pa.RecordBatch) -> memoryview:
        form, pieces = self._form, []
        for name in batch.schema.names:
            for own, found, kind in _columns(name, batch[name], form):
                pieces += [_scalar(form.before[own]), _cells(found, kind, form).fill_null(form.absent)]
        lines = pc.binary_join_element_wise(*pieces, _scalar(form.after), _scalar(""))
        return memoryview(lines.buffers()[2])[: pc.sum(pc.binary_length(lines)).as_py()]


_LINES_AT_ONCE = 1 << 14


def _names(schema: pa.Schema) -> list[str]:
    return [own for name in schema.names for own in ((name, "bodyEncoding") if name == "body" else (name,))]


def _scalar(text: str) -> pa.Scalar:
    return pa.scalar(text, pa.large_string())


def _cells(found: pa.Array, kind: _Kind, form: LineForm) -> pa.Array:
    if kind not in form.quoted:
        return found.cast(pa.large_string())
    if pa.types.is_dictionary(found.type):
        return form.quoted[kind](found.dictionary).take(found.indices)
    return form.quoted[kind](found)


def _columns(name: str, column: pa.Array, form: LineForm) -> list[tuple[str, pa.Array, _Kind]]:
    """Return a column as text or numbers; of bodies, two columns."""
    if name == "body":
        body, encoding = body_texts(column, form.bodies, in_cells=form.in_cells)
        return [(name, body, _Kind.BODY), ("bodyEncoding", encoding, _Kind.TEXT)]
    kind = column.type
    if pa.types.is_map(kind):
        return [(name, object_texts(column), _Kind.JSON)]
    if pa.types.is_list(kind):
        return [(name, _lists(column), _Kind.JSON)]
    if pa.types.is_dictionary(kind) or pa.types.is_string(kind):
        return [(name, column, _Kind.TEXT)]
    return [(name, column.cast(pa.int64()) if pa.types.is_timestamp(kind) else column, _Kind.NUMBER)]


def _json_text(texts: pa.Array) -> pa.Array:
    texts = texts.cast(pa.large_string())
    if not _are_plain(texts):
        return _each(texts, json.dumps)
    for character in ("\\", '"'):
        texts = pc.replace_substring(texts, character, "\\" + character)
    return _between('"', texts, '"')


def _csv_text(texts: pa.Array) -> pa.Array:
    r"""Return texts as quoted cells; harmful characters become ``\xNN`` or ``\uNNNN``, a backslash two."""
    texts = texts.cast(pa.large_string())
    is_special = pc.match_substring_regex(texts, _SPECIAL_IN_CELLS)
    if pc.any(is_special, min_count=0).as_py() or not _are_plain(texts):
        texts = _each(texts, lambda text: _ESCAPED.sub(_escaped, text))
    return _csv_cell(texts)


def _csv_cell(texts: pa.Array) -> pa.Array:
    return _between('"', pc.replace_substring(texts, '"', '""'), '"')


def _are_plain(texts: pa.Array) -> bool:
    if pc.all(pc.ascii_is_printable(texts), min_count=0).as_py():  # far faster than the expression
        return True
    return bool(pc.all(pc.match_substring_regex(texts, _PLAIN), min_count=0).as_py())


def _each(texts: pa.Array, change: Callable[[str], str]) -> pa.Array:
    return pa.array([None if one is None else change(one) for one in texts.to_pylist()], pa.large_string())


def _escaped(match: re.Match[str]) -> str:
    code = ord(match[0])
    if match[0] == "\\":
        return "\\\\"
    return f"\\x{code:02x}" if code <= 0xFF else f"\\u{code:04x}"


def _between(start: str, texts: pa.Array, stop: str) -> pa.Array:
    return pc.binary_join_element_wise(_scalar(start), texts, _scalar(stop), _scalar(""))


def _lists(column: pa.ListArray) -> pa.Array:
    return _joined(column.offsets, _json_text(column.flatten()), "[", "]")


def object_texts(column: pa.MapArray) -> pa.Array:
    """Return maps as JSON objects."""
    first, last = column.offsets[0].as_py(), column.offsets[-1].as_py()
    names = _json_text(column.keys.slice(first, last - first))
    values = _json_text(column.items.slice(first, last - first))
    return _joined(column.offsets, pc.binary_join_element_wise(names, values, _scalar(": ")), "{", "}")


def _joined(stops: pa.Array, pieces: pa.Array, start: str, stop: str) -> pa.Array:
    """Return lists of pieces, which begin at the first of ``stops``, as text."""
    lists = pa.ListArray.from_arrays(pc.subtract(stops, stops[0]), pieces.cast(pa.string()))
    return _between(start, pc.binary_join(lists, ", ").cast(pa.large_string()), stop)


def body_texts(column: pa.Array, bodies: TextBodies, *, in_cells: bool = False) -> tuple[pa.Array, pa.Array]:
    """Return bodies as text, and the encoding of each; ``in_cells`` as for `LineForm`."""
    encoded = [_encoded(one, bodies, in_cells) for one in column.to_pylist()]
    texts, encodings = zip(*encoded, strict=True) if encoded else ((), ())
    return pa.array(texts, pa.large_string()), pa.array(encodings, pa.large_string())


def _encoded(body: bytes, bodies: TextBodies, in_cells: bool) -> tuple[str, str]:
    if bodies is TextBodies.HEX:
        return body.hex(), "hex"
    if bodies is TextBodies.TEXT:
        with suppress(UnicodeDecodeError):
            text = body.decode()
            if not in_cells or not _NOT_IN_BODIES.search(text):
                return text, "utf-8"
    return base64.b64encode(body).decode(), "base64"
