"""Rows of the small commands as json, ndjson and csv: any frozen dataclass with a ``type``."""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING

from rmqtool.projection import columns_of, json_object
from rmqtool.report.formats import Format, csv_cell, to_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any, TextIO

    from rmqtool.errors import ExitStatus


def write_records(
    chosen: Format,
    stream: TextIO,
    records: Iterable[Any],
    *,
    schema: str,
    kind: type[Any],
    status: Callable[[], ExitStatus],
    facts: Callable[[], Mapping[str, Any]] = dict,
) -> None:
    """Write rows in a format for programs, each as it comes.

    ``schema`` is name and version, for the json document and the summary of ndjson; ``kind`` names the
    columns. ``status`` and ``facts`` are called after the last row; facts are members of the json document,
    or a last line of ndjson of type ``summary``.
    """
    if chosen is Format.CSV:
        _write_csv(stream, records, kind)
    elif chosen is Format.NDJSON:
        for record in records:
            stream.write(to_json(json_object(record)) + "\n")
        more = facts()
        if more:
            stream.write(to_json({"type": "summary", "schema": schema, **more}) + "\n")
    else:
        _write_json(stream, records, schema)
        for name, value in (*facts().items(), ("exitStatus", int(status()))):
            stream.write(f",\n  {to_json(name)}: {to_json(value)}")
        stream.write("\n}\n")


def _write_json(stream: TextIO, records: Iterable[Any], schema: str) -> None:
    stream.write(f'{{\n  "schema": {to_json(schema)},\n  "rows": [')
    separator = "\n"
    for record in records:
        stream.write(f"{separator}    {to_json(json_object(record))}")
        separator = ",\n"
    stream.write("]" if separator == "\n" else "\n  ]")


def _write_csv(stream: TextIO, records: Iterable[Any], kind: type[Any]) -> None:
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(columns_of(kind))
    for record in records:
        writer.writerow([csv_cell(value) for value in json_object(record).values()])
