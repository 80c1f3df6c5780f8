"""Rows as JSON objects, with the names and the order of the ndjson contract."""

from __future__ import annotations

import base64
from enum import StrEnum
from typing import TYPE_CHECKING

from rmqtool.projection import json_object
from rmqtool.report.escaping import escape_bytes

if TYPE_CHECKING:
    from collections.abc import Callable

    from rmqtool import rows

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


def body_text(body: bytes, mode: BodyMode) -> str | None:
    """Return a body as ``--body`` asks for."""
    return _BODIES[mode](body)


def row_object(row: rows.Row, body: BodyMode) -> dict[str, JsonValue]:
    """Return a row as an object; its ``type`` comes first."""
    return json_object(row, _BODIES[body])
