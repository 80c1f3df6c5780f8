"""Forms of output: JSON values, csv cells, sizes, and rows as objects of the ndjson contract."""

from __future__ import annotations

import base64
import csv
import json
from contextlib import suppress
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TextIO

from rmqtool.findings import counted
from rmqtool.projection import columns_of, json_object
from rmqtool.report.terminal import escape_bytes, escape_cell, escape_json, is_cell_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from _typeshed import DataclassInstance

    from rmqtool import rows
    from rmqtool.errors import ExitStatus


_ENCODER = json.JSONEncoder(ensure_ascii=False)


class Format(StrEnum):
    """Values of ``--format``."""

    TEXT = "text"
    HTML = "html"
    JSON = "json"
    NDJSON = "ndjson"
    CSV = "csv"
    PARQUET = "parquet"
    ARROW = "arrow"
    REPLAY = "replay"


def to_json(value: object, *, indent: int | None = None) -> str:
    """Return JSON text that is harmless on a terminal."""
    return escape_json(_ENCODER.encode(value) if indent is None else _indented(value, indent))


def document_of(report: DataclassInstance, status: int) -> dict[str, Any]:
    """Return the document of a report, with the exit status that the user's options give."""
    return json_object(report) | {"exitStatus": int(status)}


def report_json(report: DataclassInstance, status: int) -> str:
    """Return the JSON text of `document_of`."""
    return to_json(document_of(report, status), indent=2) + "\n"


def _indented(value: object, indent: int) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent)


def csv_cell(value: object) -> object:
    """Return a value for a cell of csv: harmless text, a number, nothing for None, JSON for the rest."""
    if isinstance(value, str):
        return escape_cell(value)
    return to_json(value) if isinstance(value, list | dict | bool) else value


_STEPS = ("KiB", "MiB", "GiB", "TiB", "PiB")


def size_text(size_bytes: float) -> str:
    """Return a number of bytes with a unit, three digits or so."""
    if size_bytes < 1024:
        return f"{size_bytes:.0f} B"
    value = float(size_bytes)
    for step in _STEPS:
        value /= 1024
        if value < 1024 or step == _STEPS[-1]:
            return f"{value:.1f} {step}"
    raise AssertionError("the last step returns")


def several(count: int, noun: str, nouns: str = "") -> str:
    """Return a count with separators of thousands, and its noun; ``nouns`` is an irregular plural."""
    return counted(count, noun, nouns, spec=",")


def capped(
    name: str, lines: Iterable[str], noun: str, *, more: int = 0, listed: int = 20
) -> Iterator[tuple[str, str]]:
    """Yield figures of one name, and after the first of them the number of the others, ``more`` included."""
    every = list(lines)
    yield from ((name, line) for line in every[:listed])
    left = max(len(every) - listed, 0) + more
    if left:
        yield name, f"and {several(left, noun)} more, see --format json"


JsonValue = str | int | None | list[str] | list[int] | dict[str, str] | dict[str, object]


class BodyMode(StrEnum):
    """Values of ``--body``."""

    NONE = "none"
    TEXT = "text"
    HEX = "hex"
    BASE64 = "base64"


Encoded = tuple[str | None, str | None]

"""A body as a string, and its encoding: ``utf-8``, ``hex`` or ``base64``; None twice for no body."""


def encoded_body(body: bytes, mode: BodyMode, *, one_cell: bool = False) -> Encoded:
    """Return a body for programs by ``--body``; base64 where it cannot be text.

    With ``one_cell``, as in csv, nothing escapes controls later, so a body with controls is base64, too.
    """
    if mode is BodyMode.NONE:
        return None, None
    if mode is BodyMode.HEX:
        return body.hex(), "hex"
    if mode is BodyMode.TEXT:
        with suppress(UnicodeDecodeError):
            text = body.decode()
            if not one_cell or is_cell_text(text):
                return text, "utf-8"
    return base64.b64encode(body).decode(), "base64"


def body_text(body: bytes, mode: BodyMode) -> str | None:
    r"""Return a body for people: text is on one line, with bytes that are not UTF-8 as ``\xNN``."""
    return escape_bytes(body) if mode is BodyMode.TEXT else encoded_body(body, mode)[0]


def row_object(row: rows.Row, body: BodyMode, *, one_cell: bool = False) -> dict[str, JsonValue]:
    """Return a row as an object; its ``type`` comes first. See `encoded_body`."""
    return json_object(row, lambda raw: encoded_body(raw, body, one_cell=one_cell))


def write_records(
    records: Iterable[Any],
    schema: str,
    kind: type[Any],
    end: Callable[[], tuple[ExitStatus, Mapping[str, Any]]],
    chosen: Format,
    stream: TextIO,
) -> None:
    """Write rows in a format for programs, each as it comes.

    ``schema`` is name and version, for the json document and the summary of ndjson; ``kind`` names the
    columns. ``end`` is called after the last row, for the exit status and members of the json document, which
    are a last line of ndjson of type ``summary``, too.
    """
    if chosen is Format.CSV:
        write_csv(stream, columns_of(kind), map(json_object, records))
    elif chosen is Format.NDJSON:
        for record in records:
            stream.write(to_json(json_object(record)) + "\n")
        _, more = end()
        if more:
            stream.write(to_json({"type": "summary", "schema": schema, **more}) + "\n")
    else:
        _write_json(stream, records, schema)
        status, more = end()
        for name, value in (*more.items(), ("exitStatus", int(status))):
            stream.write(f",\n  {to_json(name)}: {to_json(value)}")
        stream.write("\n}\n")


def _write_json(stream: TextIO, records: Iterable[Any], schema: str) -> None:
    stream.write(f'{{\n  "schema": {to_json(schema)},\n  "rows": [')
    separator = "\n"
    for record in records:
        stream.write(f"{separator}    {to_json(json_object(record))}")
        separator = ",\n"
    stream.write("]" if separator == "\n" else "\n  ]")


def write_csv(stream: TextIO, columns: Iterable[str], objects: Iterable[Mapping[str, Any]]) -> None:
    """Write objects that have these members, in this order."""
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([csv_cell(value) for value in one.values()] for one in objects)


def write_document(
    chosen: Format,
    stream: TextIO,
    document: Callable[[], Mapping[str, Any]],
    lines: Callable[[], Iterable[Mapping[str, Any]]],
    columns: Iterable[str],
    rows: Callable[[], Iterable[Mapping[str, Any]]],
) -> None:
    """Write a report for programs: one document, its lines of ndjson, or its rows as csv."""
    if chosen is Format.JSON:
        stream.write(to_json(document(), indent=2) + "\n")
    elif chosen is Format.NDJSON:
        stream.writelines(to_json(value) + "\n" for value in lines())
    else:
        write_csv(stream, columns, rows())
