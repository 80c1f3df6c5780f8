"""Rows as JSON objects, with the names and the order of the ndjson contract."""

from __future__ import annotations

import base64
from dataclasses import fields
from enum import StrEnum
from typing import TYPE_CHECKING

from rmqtool.commands import rows
from rmqtool.findings import FindingCode
from rmqtool.report.escaping import escape_bytes

if TYPE_CHECKING:
    from collections.abc import Callable

JsonValue = str | int | None | list[str] | list[int] | dict[str, str] | dict[str, object]


class BodyMode(StrEnum):
    """Values of ``--body``."""

    NONE = "none"
    TEXT = "text"
    HEX = "hex"
    BASE64 = "base64"


_BODIES: dict[BodyMode, Callable[[bytes], str | None]] = {
    BodyMode.NONE: lambda _: None,
    BodyMode.TEXT: escape_bytes,
    BodyMode.HEX: bytes.hex,
    BodyMode.BASE64: lambda body: base64.b64encode(body).decode(),
}


_HIDDEN = ("structure", "severity_override")
_COLUMNS: dict[str, tuple[tuple[str, str], ...]] = {}


def body_text(body: bytes, mode: BodyMode) -> str | None:
    """Return a body as ``--body`` asks for."""
    return _BODIES[mode](body)


def columns_of(kind: type[rows.Row]) -> tuple[tuple[str, str], ...]:
    """Return attribute and JSON name of a row's fields, in order; what a damage counts for is not shown."""
    found = _COLUMNS.get(kind.type)
    if found is None:
        hidden = _HIDDEN if kind is rows.Damage else ()
        names = [one.name for one in fields(kind) if one.name not in hidden]
        found = _COLUMNS[kind.type] = tuple((name, camel_case(name)) for name in names)
    return found


def camel_case(name: str) -> str:
    """Return the JSON name of an attribute."""
    first, *others = name.removesuffix("_ms").split("_")
    return first + "".join(word.capitalize() for word in others)


def row_object(row: rows.Row, body: BodyMode) -> dict[str, JsonValue]:
    """Return a row as an object; its ``type`` comes first."""
    found: dict[str, JsonValue] = {"type": row.type}
    for attribute, name in columns_of(type(row)):
        value = getattr(row, attribute)
        if isinstance(value, FindingCode):
            value = value.code
        elif isinstance(value, bytes):
            value = body_text(value, body if attribute == "body" else BodyMode.HEX)
        found[name] = value
    return found
