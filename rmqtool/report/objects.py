"""Rows as JSON objects, with the names and the order of the ndjson contract."""

from __future__ import annotations

import base64
from contextlib import suppress
from dataclasses import dataclass, fields
from enum import StrEnum
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from rmqtool import rows
from rmqtool.report.escaping import escape_bytes, is_cell_text

if TYPE_CHECKING:
    from collections.abc import Callable

JsonValue = str | int | None | list[str] | list[int] | dict[str, str] | dict[str, object]


class BodyMode(StrEnum):
    """Values of ``--body``."""

    NONE = "none"
    TEXT = "text"
    HEX = "hex"
    BASE64 = "base64"


Encoded = tuple[str | None, str | None]
"""A body as a string, and how it is encoded: ``utf-8``, ``hex`` or ``base64``; None twice for no body."""

_BODY, _BODY_ENCODING = "body", "bodyEncoding"
_HIDDEN = ("structure", "severity_override")


def encoded_body(body: bytes, mode: BodyMode, *, one_cell: bool = False) -> Encoded:
    """Return a body for programs as ``--body`` asks for; base64 where it cannot be text.

    Args:
        body: As stored.
        mode: What is asked for.
        one_cell: Whether nothing escapes controls after this, as in csv: with them it cannot be text either.
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
    r"""Return a body for people: text is on one line, and what is no UTF-8 is ``\xNN`` in it."""
    return escape_bytes(body) if mode is BodyMode.TEXT else encoded_body(body, mode)[0]


@dataclass(frozen=True, slots=True)
class _Shape:
    """What a class of rows looks like as an object.

    Attributes:
        names: JSON names; ``type`` is the first, and behind a body comes how it is encoded.
        values: Returns the values of a row, in that order; a body twice.
        raw: Names of values that are bytes, other than ``body``.
        has_body: Whether one is a body.
        has_code: Whether one is a finding code.
    """

    names: tuple[str, ...]
    values: Callable[[rows.Row], tuple[Any, ...]]
    raw: tuple[str, ...]
    has_body: bool
    has_code: bool


_SHAPES: dict[type[Any], _Shape] = {}


def _shape_of(kind: type[rows.Row]) -> _Shape:
    found = _SHAPES.get(kind)
    if found is None:
        found = _SHAPES[kind] = _new_shape(kind)
    return found


def _new_shape(kind: type[rows.Row]) -> _Shape:
    """Return the shape of a class; what a damage counts for is not shown."""
    hidden = _HIDDEN if kind is rows.Damage else ()
    shown = [one for one in fields(kind) if one.name not in hidden]
    raw = [camel_case(one.name) for one in shown if one.type == "bytes"]
    attributes = ["type", *(one.name for one in shown)]
    names = [camel_case(name) for name in attributes]
    has_body = _BODY in raw
    if has_body:
        place = names.index(_BODY) + 1
        names.insert(place, _BODY_ENCODING)
        attributes.insert(place, _BODY)
    return _Shape(
        names=tuple(names),
        values=attrgetter(*attributes),
        raw=tuple(name for name in raw if name != _BODY),
        has_body=has_body,
        has_code=any(one.type == "FindingCode" for one in shown),
    )


def columns_of(kind: type[rows.Row]) -> tuple[str, ...]:
    """Return the JSON names of a row, in order."""
    return _shape_of(kind).names


def camel_case(name: str) -> str:
    """Return the JSON name of an attribute."""
    first, *others = name.removesuffix("_ms").split("_")
    return first + "".join(word.capitalize() for word in others)


def row_object(row: rows.Row, body: BodyMode, *, one_cell: bool = False) -> dict[str, JsonValue]:
    """Return a row as an object; its ``type`` comes first. See `encoded_body`."""
    shape = _shape_of(type(row))
    found: dict[str, Any] = dict(zip(shape.names, shape.values(row), strict=True))
    if shape.has_body:
        found[_BODY], found[_BODY_ENCODING] = encoded_body(found[_BODY], body, one_cell=one_cell)
    if shape.has_code:
        found["code"] = found["code"].code
    for name in shape.raw:
        found[name] = found[name].hex()
    return found
