"""Rows as JSON objects, with the names and the order of the ndjson contract."""

from __future__ import annotations

import base64
from contextlib import suppress
from enum import StrEnum
from typing import TYPE_CHECKING

from rmqtool.projection import json_object
from rmqtool.report.escaping import escape_bytes, is_cell_text

if TYPE_CHECKING:
    from rmqtool import rows

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
