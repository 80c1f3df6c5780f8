"""Results as JSON values: the one place where a record gets its names in JSON.

A record is a dataclass or a NamedTuple. Its object has ``schema`` and ``type`` first, where its class has
them, then its fields in their order, in camel case and without ``_ms``. Nested records are objects, enums
their values, bytes hexadecimal digits, iterables lists; None is null. Exceptions are in ``_OTHERWISE``.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import fields
from enum import Enum, StrEnum
from functools import cache, partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple, cast

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    Record = DataclassInstance | tuple[Any, ...]

_FINDING = (
    "code=code.code severity file position length topic queue_id queue_offset physical_offset expected"
    " observed message=sentence brokerEffect=broker_effect remedy"
)
_OTHERWISE = {
    "Damage": "file position physical_offset length code=code.code message",
    "CarveReport": "verdict images out records logs loose loose_bytes notes seconds",
    "ConfigChoice": (
        "name about entries missing again_at_least again_at_most skipped_at_most copy_of effects"
    ),
    "ConfigCopy": "file state size_bytes entries reason?",
    "FindingCode": "code severity structure title meaning broker_effect remedy origin",
    "ExportReport": (
        "stores left_out out format partition columns asked logs engine messages log_bytes files findings"
        " counts=findings.counts seconds exit_status"
    ),
    "ColumnFile": "name messages bytes topic?",
    "Finding": _FINDING,
    "StoreFinding": f"{_FINDING} store",
    "StoreOutcome": "store exitStatus=status failure warnings log_bytes seconds",
    "Outcome": (
        "action setting starts served wrong unserved unindexed lost reused placeholders recommended command"
        " refused"
    ),
    "Prediction": (
        "store brokerVersion=release.name loads starts refusals recovery cut lost log_losses?"
        " lost_messages? deleted_files dispatched_by_recovery reput queues index ignored_index_files"
        " missing_index_entries not_served forgets hazards assumes"
    ),
    "RebuildReport": (
        "store log verdict out mode engine partial asked installable=is_installable settings"
        " doubtful_settings assumed tag_items records bytes units index_entries queues files present account"
        " skipped more_skipped unreachable skipped_units skipped_units_by_queue older_generations"
        " unsettled_generations?"
        " messagesNotIndexed=unindexed salvage_would_add log_losses lost_messages? findings"
        " counts=findings.counts not_looked_at outcomes? compared differences seconds exit_status"
    ),
    "ResultOptions": (
        "parts=sorted_parts topics exclude_topics until_timestamp_ms until_offset tagItems=tag_words"
        " generations"
    ),
    "MessageFilter": (
        "topic queue_id tag key begin_ms end_ms from_queue_offset backlog_of in_doubt dead_letters contains"
        " inside_batches"
    ),
    "RepairReport": (
        "store outcome steps left configs merged journal before after findings counts=findings.counts"
        " exit_status"
    ),
    "Setting": "value origin candidates? doubt?",
    "SkippedRange": "physicalOffset=skip.log_offset length=skip.length reason records",
    "Step": "reason file message *facts",
    "StoreSummary": (
        "path kind settings=_noted_settings commitlog=log queues index index_coverage other_parts checkpoint"
        " epochs abort abort_process lock_holder log_losses before retention findings counts=findings.counts"
    ),
    "TagRule": "value=value.__str__ origin reason",
    "TopicsReport": (
        "rows store log log_losses topics messages bytes truncated more counts=findings.counts findings"
    ),
    "UnreachableRange": "file=segment.label physicalOffset=start length reason records",
    "VerifyReport": (
        "store level result interrupted? notLookedAt=limits examined findings counts=findings.counts"
        " log_losses? picture? outcomes? outcomesRelease=release? retention? exit_status"
    ),
}
"""Members by class, where they are not just its fields: ``NAME=ATTRIBUTE`` for one of another name, ``?``
after one that is left out where it is empty, ``*`` before one whose members are taken. Methods are called."""

_PLAIN = frozenset({str, int, float, bool, type(None)})
_PLAIN_TYPES = {
    *("str", "int", "float", "bool", "None"),
    *("list[str]", "list[int]", "dict[str, str]", "dict[str, object]"),
}
_BODY, _BODY_ENCODING = "body", "bodyEncoding"
_MARKS = ("schema", "type")


def camel_case(name: str) -> str:
    """Return the JSON name of an attribute."""
    first, *others = name.removesuffix("_ms").split("_")
    return first + "".join(word.capitalize() for word in others)


def field_types(kind: type[Record]) -> dict[str, str]:
    """Return the fields of a record's class, with their types as they are written."""
    if issubclass(kind, tuple):  # a NamedTuple keeps them as forward references
        return {name: type_.__forward_arg__ for name, type_ in kind.__annotations__.items()}
    return {field.name: str(field.type) for field in fields(kind)}


def shared_fields(value: object, kind: type[Record]) -> dict[str, Any]:
    """Return the values of a value's attributes that are fields of a class."""
    return {name: getattr(value, name) for name in field_types(kind) if hasattr(value, name)}


class _Shape(NamedTuple):
    """The object of a class.

    Attributes:
        values: Returns the values of an instance, in the order of ``names``.
        converted: Names of values that may not be JSON's own.
        optional: Names that are left out without a value.
        spread: Names whose members are taken.
        needs_work: Whether any is converted, optional or spread; the many rows have none of these.
    """

    names: tuple[str, ...]
    values: Callable[[object], tuple[Any, ...]]
    converted: tuple[str, ...]
    optional: tuple[str, ...]
    spread: tuple[str, ...]
    has_body: bool
    needs_work: bool


class Member(NamedTuple):
    """A member of an object; ``path`` is the dotted name of an attribute or method.

    An optional one is left out where it is empty; of a spread one, the members are taken.
    """

    name: str
    path: str
    is_optional: bool
    is_spread: bool


def members_of(kind: type[Record]) -> tuple[Member, ...]:
    """Return the members of a class's objects, in order."""
    types = field_types(kind)
    marks = [name for name in _MARKS if name not in types and isinstance(getattr(kind, name, None), str)]
    words = [*marks, *_OTHERWISE.get(kind.__name__, " ".join(types)).split()]
    if types.get(_BODY) == "bytes":
        words.insert(words.index(_BODY) + 1, f"{_BODY_ENCODING}={_BODY}")
    named = [(word, *word.strip("?*").rpartition("=")) for word in words]
    return tuple(
        Member(name or camel_case(path), path, word.endswith("?"), word.startswith("*"))
        for word, name, _, path in named
    )


@cache
def _shape_of(kind: type[Any]) -> _Shape:
    types = field_types(kind)
    members = members_of(kind)
    names = tuple(member.name for member in members)
    paths = [member.path for member in members]
    plain = {name for name, text in types.items() if _PLAIN_TYPES.issuperset(text.split(" | "))}
    plain |= {*(name for name in _MARKS if name not in types), _BODY}
    getter = attrgetter(*paths)
    converted = tuple(member.name for member in members if member.path not in plain)
    optional = tuple(member.name for member in members if member.is_optional)
    spread = tuple(member.name for member in members if member.is_spread)
    return _Shape(
        names=names,
        values=getter if len(paths) > 1 else lambda value: (getter(value),),
        converted=converted,
        optional=optional,
        spread=spread,
        has_body=types.get(_BODY) == "bytes",
        needs_work=bool(converted or optional or spread),
    )


def columns_of(kind: type[Record]) -> tuple[str, ...]:
    """Return the JSON names of a class, in order."""
    return _shape_of(kind).names


class BodyMode(StrEnum):
    """Values of ``--body``."""

    NONE = "none"
    TEXT = "text"  # base64 where a body cannot be
    HEX = "hex"
    BASE64 = "base64"


TEXT_BODIES = (BodyMode.TEXT, BodyMode.HEX, BodyMode.BASE64)
"""Forms of bodies in a column of text."""

Encoded = tuple[str | None, str | None]
"""A body as a string, and its encoding: ``utf-8``, ``hex`` or ``base64``; None twice for no body."""


def encoded_body(body: bytes, mode: str, fits: Callable[[str], bool] | None = None) -> Encoded:
    """Return a body for programs by a `BodyMode`; base64 where it is no text, or one that does not fit."""
    if mode == BodyMode.NONE:
        return None, None
    if mode == BodyMode.HEX:
        return body.hex(), "hex"
    if mode == BodyMode.TEXT:
        with suppress(UnicodeDecodeError):
            text = body.decode()
            if fits is None or fits(text):
                return text, "utf-8"
    return base64.b64encode(body).decode(), "base64"


_in_hex = partial(encoded_body, mode=BodyMode.HEX)


def json_object(value: Record, body: Callable[[bytes], Encoded] = _in_hex) -> dict[str, Any]:
    """Return the object of a record; ``body`` returns the text of a message's body, and its encoding."""
    shape = _shape_of(type(value))
    members = dict(zip(shape.names, shape.values(value), strict=True))
    if shape.has_body:
        members[_BODY], members[_BODY_ENCODING] = body(members[_BODY])
    return _finished(members, shape) if shape.needs_work else members


def _finished(members: dict[str, Any], shape: _Shape) -> dict[str, Any]:
    for name in shape.converted:
        members[name] = json_value(members[name])
    for name in shape.optional:
        if not members[name]:
            del members[name]
    for name in shape.spread:
        members |= members.pop(name)
    return members


def json_value(value: object) -> Any:  # noqa: ANN401 - any value of JSON
    """Return a value as JSON has it.

    Raises:
        TypeError: JSON has nothing like it.
    """
    if type(value) in _PLAIN:
        return value
    if hasattr(type(value), "__dataclass_fields__") or hasattr(type(value), "_fields"):
        return json_object(cast("Record", value))
    for kind, form in _FORMS.items():
        if isinstance(value, kind):
            return form(value)
    if callable(value):
        return json_value(value())
    raise TypeError(f"{value!r} has no form in JSON")


_FORMS: dict[type[Any], Callable[[Any], Any]] = {
    Enum: attrgetter("value"),
    bytes: bytes.hex,
    Mapping: lambda members: {name: json_value(value) for name, value in members.items()},
    Iterable: lambda values: [json_value(value) for value in values],
}
