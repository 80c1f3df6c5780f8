"""Rows of the small commands as json, ndjson and csv: any frozen dataclass with a ``type``."""

from __future__ import annotations

import csv
from dataclasses import fields
from typing import TYPE_CHECKING

from rmqtool.report.escaping import escape_controls
from rmqtool.report.objects import camel_case
from rmqtool.report.sinks import Format, to_json

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any, TextIO

    from rmqtool.errors import ExitStatus


def record_object(record: Any) -> dict[str, Any]:  # noqa: ANN401 - any dataclass instance
    """Return a row as an object; its ``type`` comes first."""
    values = {camel_case(one.name): getattr(record, one.name) for one in fields(record)}
    return {"type": record.type, **values}


def write_records(
    chosen: Format,
    stream: TextIO,
    records: Sequence[Any],
    *,
    schema: str,
    kind: type[Any],
    status: ExitStatus,
    facts: Mapping[str, Any] | None = None,
) -> None:
    """Write rows in a format for programs.

    Args:
        chosen: json, ndjson or csv.
        stream: Receives the text.
        records: The rows, all of one class.
        schema: Name and version of the json document.
        kind: Their class, which names the columns.
        status: Exit status, for the json document.
        facts: More members of the json document; a last line of ndjson, of type ``summary``.
    """
    more = dict(facts or {})
    if chosen is Format.JSON:
        rows = [record_object(record) for record in records]
        document = {"schema": schema, **more, "rows": rows, "exitStatus": int(status)}
        stream.write(to_json(document, indent=2) + "\n")
    elif chosen is Format.NDJSON:
        for record in records:
            stream.write(to_json(record_object(record)) + "\n")
        if more:
            stream.write(to_json({"type": "summary", **more}) + "\n")
    else:
        _write_csv(stream, records, kind)


def _write_csv(stream: TextIO, records: Sequence[Any], kind: type[Any]) -> None:
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(["type", *(camel_case(one.name) for one in fields(kind))])
    for record in records:
        writer.writerow([_cell(value) for value in record_object(record).values()])


def _cell(value: object) -> object:
    return escape_controls(value) if isinstance(value, str) else value
