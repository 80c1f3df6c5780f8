"""Where rows go: text, ndjson, one json document, or csv; each written as the rows come."""

from __future__ import annotations

import csv
import json
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

from rmqtool.commands import rows
from rmqtool.report.escaping import escape_controls, escape_json
from rmqtool.report.objects import BodyMode, columns_of, row_object
from rmqtool.report.row_text import RowText

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import tzinfo
    from typing import TextIO

    from rmqtool.errors import ExitStatus
    from rmqtool.report.objects import JsonValue


class Format(StrEnum):
    """Values of ``--format``."""

    TEXT = "text"
    JSON = "json"
    NDJSON = "ndjson"
    CSV = "csv"


class Sink(Protocol):
    """Something that writes rows."""

    def add(self, row: rows.Row) -> None:
        """Write one row."""
        ...

    def finish(self, status: ExitStatus) -> None:
        """Write what comes after the last row."""
        ...


def open_sink(
    chosen: Format,
    stream: TextIO,
    *,
    schema: str,
    body: BodyMode | None = None,
    zone: tzinfo | None = None,
    warn: Callable[[str], None],
) -> Sink:
    """Return a sink of a format.

    Args:
        chosen: The format.
        stream: Receives the text.
        schema: Name and version of a json document.
        body: How bodies are shown; None is the format's habit: a preview in text, else nothing.
        zone: In which text prints times.
        warn: Told what a format cannot show.
    """
    if chosen is Format.TEXT:
        return _TextSink(stream, RowText(body, zone))
    shown = BodyMode.NONE if body is None else body
    if chosen is Format.NDJSON:
        return _NdjsonSink(stream, shown)
    if chosen is Format.JSON:
        return _JsonSink(stream, shown, schema)
    return _CsvSink(stream, shown, warn)


def to_json(value: object, *, indent: int | None = None) -> str:
    """Return JSON text that is harmless on a terminal."""
    return escape_json(json.dumps(value, ensure_ascii=False, indent=indent))


class _TextSink:
    def __init__(self, stream: TextIO, text: RowText) -> None:
        self._stream = stream
        self._text = text

    def add(self, row: rows.Row) -> None:
        self._stream.write(self._text.lines(row))

    def finish(self, status: ExitStatus) -> None:
        """Nothing follows the last line; the exit status says the rest."""


class _NdjsonSink:
    def __init__(self, stream: TextIO, body: BodyMode) -> None:
        self._stream = stream
        self._body = body

    def add(self, row: rows.Row) -> None:
        if isinstance(row, rows.Lines):
            self._stream.write(row.text)
        else:
            self._stream.write(to_json(row_object(row, self._body)) + "\n")

    def finish(self, status: ExitStatus) -> None:
        """Nothing follows the last object; the exit status says the rest."""


class _JsonSink:
    def __init__(self, stream: TextIO, body: BodyMode, schema: str) -> None:
        self._stream = stream
        self._body = body
        self._separator = f'{{"schema": {json.dumps(schema)}, "rows": [\n'

    def add(self, row: rows.Row) -> None:
        self._stream.write(self._separator + to_json(row_object(row, self._body)))
        self._separator = ",\n"

    def finish(self, status: ExitStatus) -> None:
        opened = self._separator == ",\n"
        start = "\n" if opened else self._separator
        self._stream.write(f'{start}], "exitStatus": {int(status)}}}\n')


class _CsvSink:
    """The rows of one type, which the first of them decides; damage is left to standard error."""

    def __init__(self, stream: TextIO, body: BodyMode, warn: Callable[[str], None]) -> None:
        self._writer = csv.writer(stream, lineterminator="\n")
        self._body = body
        self._warn = warn
        self._kind: type[rows.Row] | None = None
        self._left_out: dict[str, int] = {}

    def add(self, row: rows.Row) -> None:
        kind = rows.Unit if isinstance(row, rows.Preblank) else type(row)
        if isinstance(row, rows.Damage):
            self._warn(f"{row.code.code}: {row.message}")
            return
        if self._kind is None and not isinstance(row, rows.Blank | rows.IndexHeader):
            self._kind = kind
            self._writer.writerow(["type", *(name for _, name in columns_of(kind))])
        if kind is not self._kind:
            self._left_out[row.type] = self._left_out.get(row.type, 0) + 1
            return
        self._writer.writerow([_cell(value) for value in row_object(row, self._body).values()])

    def finish(self, status: ExitStatus) -> None:
        for kind, count in self._left_out.items():
            self._warn(f"csv holds one type of row: {count} of type {kind} left out")


def _cell(value: JsonValue) -> str | int | None:
    if isinstance(value, str):
        return escape_controls(value)
    return to_json(value) if isinstance(value, list | dict) else value
