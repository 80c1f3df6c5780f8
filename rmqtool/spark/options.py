"""Options of a reader, named as on the command line, in any spelling.

Spark keeps no case of an option's name, and Python and SQL have no dashes in names: ``--from-offset`` is
``fromOffset``, ``from_offset`` and ``from-offset``.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from enum import StrEnum
from typing import TYPE_CHECKING

from rmqtool.columns.pieces import TASK_BYTES
from rmqtool.errors import UsageError
from rmqtool.findings import meant
from rmqtool.options import check_least, request_of, word_of
from rmqtool.projection import TEXT_BODIES, BodyMode
from rmqtool.rows.messages import MessageFilter
from rmqtool.store.geometry import zone_of_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


class Table(StrEnum):
    """Kind of rows."""

    MESSAGES = "messages"
    CONSUMEQUEUE = "consumequeue"
    INDEX = "index"
    DAMAGE = "damage"
    SEGMENTS = "segments"


class Mode(StrEnum):
    """Treatment of damaged records, as in Spark's readers of csv and JSON."""

    PERMISSIVE = "PERMISSIVE"
    DROPMALFORMED = "DROPMALFORMED"
    FAILFAST = "FAILFAST"


OPTIONS = {
    "path": "Store roots, their commitlog/, or globs of them; `load()` takes it, too.",
    "table": "`messages`, `consumequeue`, `index`, `damage` or `segments`.",
    "columns": "Names of columns, separated by commas: only these are read.",
    "mode": "`PERMISSIVE`, `DROPMALFORMED` or `FAILFAST`.",
    "topic": "Only these topics: a glob.",
    "queue": "Only this queue ID.",
    "tag": "Only messages of this tag.",
    "key": "Only messages with this key or unique key.",
    "begin": "Stored at this time or later.",
    "end": "Stored at this time or earlier.",
    "fromOffset": "From this physical offset on.",
    "toOffset": "Before this physical offset.",
    "fromQueueOffset": "From this queue offset on.",
    "body": "`binary`; or `text`, `hex` or `base64`: the column is a string, with `bodyEncoding` beside it.",
    "decompress": "`true` unpacks bodies that SYSFLAG says are compressed.",
    "brokerConf": "The broker's own properties file.",
    "property": "Settings of the broker, `NAME=VALUE`, separated by `;`.",
    "brokerVersion": "Release of the broker; inferred by default.",
    "timezone": "Zone of times without one.",
    "splitBytes": "Bytes of log that one task reads; 256 MiB by default.",
    "pushFilters": "`true` applies a query's filter while the log is read; for a table that one query reads.",
}
"""All options, and the purpose of each."""

_PATHS = "paths"
_NAMES = {name.lower(): name for name in OPTIONS}
_TRUTH = {"true": True, "false": False}


@dataclass(frozen=True)
class ReadOptions:
    """Options of a read; offsets are physical, ``bodies`` None leaves them bytes."""

    paths: tuple[str, ...]
    table: Table = Table.MESSAGES
    columns: tuple[str, ...] | None = None
    mode: Mode = Mode.PERMISSIVE
    messages: MessageFilter = field(default_factory=MessageFilter)
    from_offset: int | None = None
    to_offset: int | None = None
    bodies: BodyMode | None = None
    decompress: bool = False
    broker_conf: str | None = None
    properties: tuple[str, ...] = ()
    broker_version: str | None = None
    timezone: str | None = None
    split_bytes: int = TASK_BYTES
    pushes_filters: bool = False

    def between(self, begin: int | None, end: int | None) -> ReadOptions:
        """Return the options with further bounds of physical offsets."""
        starts = [bound for bound in (self.from_offset, begin) if bound is not None]
        stops = [bound for bound in (self.to_offset, end) if bound is not None]
        return replace(self, from_offset=max(starts, default=None), to_offset=min(stops, default=None))


def options_of(given: Mapping[str, str]) -> ReadOptions:
    """Return the options by their names in any case."""
    paths = _paths_of(given)
    texts = _by_name(given)
    zone = None if "timezone" not in texts else zone_of_name(texts["timezone"])
    filters: dict[str, object] = {name: texts.get(name) for name in ("topic", "tag", "key", "begin", "end")}
    filters["queue"] = _number(texts, "queue")
    filters["from_queue_offset"] = _number(texts, "fromQueueOffset", least=0)
    messages = request_of(MessageFilter, filters, zone)
    body, columns = texts.get("body", "binary"), texts.get("columns")
    return ReadOptions(
        paths,
        table=word_of("table", texts.get("table", Table.MESSAGES).lower(), Table),
        columns=None if columns is None else tuple(column.strip() for column in columns.split(",")),
        mode=word_of("mode", texts.get("mode", Mode.PERMISSIVE).upper(), Mode),
        messages=messages,
        from_offset=_number(texts, "fromOffset", least=0),
        to_offset=_number(texts, "toOffset", least=0),
        bodies=None if body == "binary" else word_of("body", body, TEXT_BODIES),
        decompress=_truth(texts, "decompress"),
        broker_conf=texts.get("brokerConf"),
        properties=tuple(
            setting.strip() for setting in texts.get("property", "").split(";") if setting.strip()
        ),
        broker_version=texts.get("brokerVersion"),
        timezone=texts.get("timezone"),
        split_bytes=_number(texts, "splitBytes", least=1) or TASK_BYTES,
        pushes_filters=_truth(texts, "pushFilters"),
    )


def _paths_of(given: Mapping[str, str]) -> tuple[str, ...]:
    """Return the paths; ``load`` makes a JSON array of several."""
    several = given.get(_PATHS)
    paths = tuple(json.loads(several)) if several else ()
    if "path" in given:
        paths = (given["path"], *paths)
    if not paths:
        raise UsageError("nothing to read: give the path of a store, as in .load('/data/store')")
    return paths


def _by_name(given: Mapping[str, str]) -> dict[str, str]:
    texts = {}
    for name, text in given.items():
        own = _NAMES.get(name.lower().replace("-", "").replace("_", ""))
        if own is not None:
            texts[own] = text
        elif name.lower() != _PATHS:
            close = get_close_matches(name.lower(), _NAMES, n=1)
            hint = f"did you mean {_NAMES[close[0]]}?" if close else f"there are {', '.join(OPTIONS)}"
            raise UsageError(f"there is no option {name!r}; {hint}")
    return texts


def _number(texts: Mapping[str, str], name: str, least: int | None = None) -> int | None:
    text = texts.get(name)
    if text is None:
        return None
    try:
        number = int(text)
    except ValueError:
        raise UsageError(f"{name}={text!r}: give a number") from None
    if least is not None:
        check_least(least, **{name: number})
    return number


def _truth(texts: Mapping[str, str], name: str) -> bool:
    text = texts.get(name, "false").lower()
    if text not in _TRUTH:
        raise UsageError(f"{name}={text!r}: give true or false")
    return _TRUTH[text]


def unknown_column(name: str, names: Iterable[str]) -> UsageError:
    """Return the error for an unknown column."""
    known = list(names)
    hint = meant(name, known, f"there are {', '.join(known)}")
    return UsageError(f"there is no column {name!r} here; {hint}")
