"""Rows as JSON objects, with the names and the order of the ndjson contract."""

from __future__ import annotations

import base64
from dataclasses import dataclass, fields
from enum import StrEnum
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from rmqtool import rows
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


_BODY = "body"
_HIDDEN = ("structure", "severity_override")


def body_text(body: bytes, mode: BodyMode) -> str | None:
    """Return a body as ``--body`` asks for."""
    return _BODIES[mode](body)


@dataclass(frozen=True, slots=True)
class _Shape:
    """What a class of rows looks like as an object.

    Attributes:
        names: JSON names; ``type`` is the first.
        values: Returns the values of a row, in that order.
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
    return _Shape(
        names=("type", *(camel_case(one.name) for one in shown)),
        values=attrgetter("type", *(one.name for one in shown)),
        raw=tuple(name for name in raw if name != _BODY),
        has_body=_BODY in raw,
        has_code=any(one.type == "FindingCode" for one in shown),
    )


def columns_of(kind: type[rows.Row]) -> tuple[str, ...]:
    """Return the JSON names of a row, in order."""
    return _shape_of(kind).names


def camel_case(name: str) -> str:
    """Return the JSON name of an attribute."""
    first, *others = name.removesuffix("_ms").split("_")
    return first + "".join(word.capitalize() for word in others)


def row_object(row: rows.Row, body: BodyMode) -> dict[str, JsonValue]:
    """Return a row as an object; its ``type`` comes first."""
    shape = _shape_of(type(row))
    found: dict[str, Any] = dict(zip(shape.names, shape.values(row), strict=True))
    if shape.has_body:
        found[_BODY] = body_text(found[_BODY], body)
    if shape.has_code:
        found["code"] = found["code"].code
    for name in shape.raw:
        found[name] = found[name].hex()
    return found
