"""Sinks of rows: text, ndjson, one json document, csv, or messages for replay; written as they come."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, TextIO

from rmqtool import rows
from rmqtool.projection import BodyMode, columns_of, encoded_body, json_object, json_value
from rmqtool.report.output import RUNNING, Format, JsonValue, csv_cell, row_object, to_json, write_lines
from rmqtool.report.row_text import RowText
from rmqtool.report.terminal import escape_text, uses_color, width_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from datetime import tzinfo

    from rmqtool.commands.query.consumption import Consumption
    from rmqtool.errors import ExitStatus

TRUNCATED = "truncated"
"""Fact that there are more rows than the limit."""

_QUERY_KEY, _BODY = "queryKey", "body"
_CONSUMPTION = ("consumedBy", "consumption", "consumptionReason", "consumptionEvidence")


_LEADING = frozenset({"blank", "index-header"})
"""Types of rows that precede the main rows, so csv leaves them out."""


class RowSink:
    """Writer of rows; `add` writes one row, the key that it answers, and a group's progress with it."""

    def add(self, row: rows.Row, key: str | None = None, progress: Consumption | None = None) -> None:
        """Write one row."""
        raise NotImplementedError

    def finish(self, status: ExitStatus, facts: Mapping[str, object] | None = None) -> None:
        """Write the end after the last row; ``facts`` are more members of a json document."""


def open_sink(
    chosen: Format,
    stream: TextIO,
    *,
    schema: str,
    body: BodyMode | None = None,
    zone: tzinfo | None = None,
    keyed: bool = False,
    judged: bool = False,
    color: bool | None = None,
    fields: bool = False,
    asked_for: Collection[str] = (),
    warn: Callable[[str], None],
) -> RowSink:
    """Return a sink of a format.

    ``schema`` is name and version, for a json document and the summary of ndjson. ``body`` None is the
    format's default: a preview in text, else nothing. ``keyed`` rows carry the keys that they answer, as
    ``queryKey``; ``judged`` ones a group's progress, as ``consumption``. ``color`` None is: on a terminal,
    unless NO_COLOR is set. ``asked_for`` are the types of rows on the command line: then csv may be of one
    that usually precedes others. ``warn`` receives what a format cannot show.
    """
    if chosen is Format.TEXT:
        text = RowText(body, zone, width_of(stream), color=uses_color(stream, color), fields=fields)
        return _TextSink(stream, text)
    mode = BodyMode.NONE if body is None else body
    objects = _Objects(mode, keyed=keyed, judged=judged, in_cells=chosen is Format.CSV)
    if chosen is Format.NDJSON:
        return _NdjsonSink(stream, objects, schema)
    if chosen is Format.REPLAY:
        return _ReplaySink(stream, warn)
    if chosen is Format.JSON:
        return _JsonSink(stream, objects, schema)
    return _CsvSink(stream, objects, asked_for, warn)


class _Objects:
    def __init__(self, body: BodyMode, *, keyed: bool, judged: bool, in_cells: bool) -> None:
        self._body = body
        self._judged = judged
        self._in_cells = in_cells
        self._keyed = keyed

    def object(self, row: rows.Row, key: str | None, progress: Consumption | None) -> dict[str, JsonValue]:
        members = row_object(row, self._body, one_cell=self._in_cells)
        if self._keyed:
            members[_QUERY_KEY] = key
        if self._judged:
            members |= _consumption_members(progress)
        return members

    def columns(self, kind: type[rows.Row]) -> list[str]:
        more = [_QUERY_KEY] if self._keyed else []
        return [*columns_of(kind), *more, *(_CONSUMPTION if self._judged else ())]


def _consumption_members(consumption: Consumption | None) -> dict[str, JsonValue]:
    """Return a group's progress with a message; nulls for another row."""
    if consumption is None:
        return dict.fromkeys(_CONSUMPTION)
    evidence = json_value(consumption.evidence)
    values = consumption.group, consumption.state.value, consumption.reason, evidence
    return dict(zip(_CONSUMPTION, values, strict=True))


class _TextSink(RowSink):
    def __init__(self, stream: TextIO, text: RowText) -> None:
        self._stream = stream
        self._text = text
        self._key: str | None = None

    def add(self, row: rows.Row, key: str | None = None, progress: Consumption | None = None) -> None:
        if key is not None and key != self._key:
            self._stream.write(f"{escape_text(key)}:\n")
            self._key = key
        self._stream.write(self._text.lines(row))
        if progress is not None:
            self._stream.write(self._text.consumption(progress))


class _NdjsonSink(RowSink):
    def __init__(self, stream: TextIO, objects: _Objects, schema: str) -> None:
        self._stream = stream
        self._schema = schema
        self._objects = objects

    def add(self, row: rows.Row, key: str | None = None, progress: Consumption | None = None) -> None:
        if isinstance(row, rows.Lines):
            write_lines(self._stream, row.data)
        else:
            self._stream.write(to_json(self._objects.object(row, key, progress)) + "\n")

    def finish(self, status: ExitStatus, facts: Mapping[str, object] | None = None) -> None:
        """Write a summary if there are more rows than these; else nothing follows the last one."""
        if facts is not None and facts.get(TRUNCATED):
            summary = {"type": "summary", "schema": self._schema, TRUNCATED: True}
            self._stream.write(to_json(summary) + "\n")


class _JsonSink(RowSink):
    def __init__(self, stream: TextIO, objects: _Objects, schema: str) -> None:
        self._stream = stream
        self._objects = objects
        self._separator = f'{{"schema": {json.dumps(schema)}, "rows": [\n'

    def add(self, row: rows.Row, key: str | None = None, progress: Consumption | None = None) -> None:
        if isinstance(row, rows.Lines):
            self._stream.write(self._separator)
            write_lines(self._stream, row.data[:-1].replace(b"\n", b",\n"))
        else:
            self._stream.write(self._separator + to_json(self._objects.object(row, key, progress)))
        self._separator = ",\n"

    def finish(self, status: ExitStatus, facts: Mapping[str, object] | None = None) -> None:
        opened = self._separator == ",\n"
        start = "\n" if opened else self._separator
        members = "".join(
            f", {json.dumps(name)}: {to_json(value)}"
            for name, value in ({**(facts or {}), "exitStatus": int(status)} | RUNNING.member).items()
        )
        self._stream.write(f"{start}]{members}}}\n")


class _ReplaySink(RowSink):
    """Messages as `rmqtool.rows.replay` has them; damage goes to standard error."""

    def __init__(self, stream: TextIO, warn: Callable[[str], None]) -> None:
        from rmqtool.rows.replay import Replayed

        self._stream = stream
        self._warn = warn
        self._replayed = Replayed()

    def add(self, row: rows.Row, key: str | None = None, progress: Consumption | None = None) -> None:
        if isinstance(row, rows.Damage):
            self._warn(f"{row.code.code}: {row.message}")
            return
        message = self._replayed.of(row)
        if message is not None:
            self._stream.write(
                to_json(json_object(message, lambda raw: encoded_body(raw, BodyMode.BASE64))) + "\n"
            )

    def finish(self, status: ExitStatus, facts: Mapping[str, object] | None = None) -> None:
        """Warn of the messages that have no line."""
        for sentence in self._replayed.sentences():
            self._warn(sentence)


class _CsvSink(RowSink):
    """Rows of one type, that of the first; damage goes to standard error."""

    def __init__(
        self, stream: TextIO, objects: _Objects, asked_for: Collection[str], warn: Callable[[str], None]
    ) -> None:
        import csv

        self._leading = frozenset() if asked_for and _LEADING.issuperset(asked_for) else _LEADING
        self._writer = csv.writer(stream, lineterminator="\n")
        self._objects = objects
        self._warn = warn
        self._kind: type[rows.Row] | None = None
        self._columns: list[str] = []
        self._left_out: dict[str, int] = {}

    def add(self, row: rows.Row, key: str | None = None, progress: Consumption | None = None) -> None:
        kind = rows.Unit if isinstance(row, rows.Preblank) else type(row)
        if isinstance(row, rows.Damage):
            self._warn(f"{row.code.code}: {row.message}")
            return
        if self._kind is None and row.type not in self._leading:
            self._kind = kind
            self._columns = self._objects.columns(kind)
            self._writer.writerow(self._columns)
        if kind is not self._kind:
            self._left_out[row.type] = self._left_out.get(row.type, 0) + 1
            return
        members = self._objects.object(row, key, progress)
        body = members.pop(_BODY, None)  # is fit for a cell as it is
        self._writer.writerow(
            [body if name == _BODY else csv_cell(members.get(name)) for name in self._columns]
        )

    def finish(self, status: ExitStatus, facts: Mapping[str, object] | None = None) -> None:
        for kind, count in self._left_out.items():
            self._warn(f"csv holds one type of row: {count} of type {kind} left out")
