"""Forms of output, and values in them: text of JSON, cells of csv."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from rmqtool.projection import json_object
from rmqtool.report.escaping import escape_cell, escape_json

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

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
