"""Settings of two stores in ``config/``: offsets of groups and delay levels, topics, groups."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from rmqtool.commands.diff import Change, Difference, DifferenceLimiter, StoreComparison, Value
from rmqtool.doctor import (
    CONFIG_KINDS,
    ConfigKind,
    Document,
    database_in,
    entries_of,
    has_shape,
)
from rmqtool.store.broker_json import OFFSET_TABLES, ConfigFileError, ConfigSource, offsets_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.store import Store

_NOUNS = {"topics.json": "topic", "subscriptionGroup.json": "group"}
_ONLY = (Change.ONLY_A, Change.ONLY_B)


def diff_settings(a: Store, b: Store, comparison: StoreComparison) -> Iterator[Difference]:
    """Yield the differences of the settings that brokers would load; they are counted by file."""
    have = [store.config is not None and store.config.is_there() for store in (a, b)]
    if not all(have):
        if any(have) and all(len(store.commitlog) for store in (a, b)):  # what was rebuilt has none
            comparison.note(f"only {'AB'[have.index(True)]} has a config; it is not compared")
        return
    for side, store in zip("AB", (a, b), strict=True):
        if name := database_in(store.config):
            comparison.note(f"{side}: config/{name} is a database of settings; they are not compared")
            return
    for name in (*OFFSET_TABLES, *_NOUNS):
        kind = CONFIG_KINDS[name]
        documents = [_document(store, kind, comparison) for store in (a, b)]
        if documents[0] is None or documents[1] is None:
            if documents[0] or documents[1]:
                has = "A" if documents[1] is None else "B"
                comparison.note(f"only {has} has a config/{name} that can be read; it is not compared")
            continue
        limiter = DifferenceLimiter(comparison, f"config/{name}")
        sides = [_settings_in(document, kind) for document in documents if document is not None]
        comparison.compared["settings"] += len({*sides[0], *sides[1]})
        yield from limiter.add_all(_differences(f"config/{name}", *sides))
        yield from limiter.finish()


def _document(store: Store, kind: ConfigKind, comparison: StoreComparison) -> Document | None:
    """Return a file's entries, none without a file; None of one that no broker loads."""
    try:
        document = ConfigSource(store.root).document(kind.name)
    except ConfigFileError as failure:
        comparison.note(f"{failure}; it is not compared")
        return None
    if document is None:
        return {}
    is_known = isinstance(document, dict) and has_shape(document, kind)
    return document if is_known and isinstance(document, dict) else None


class _Setting(NamedTuple):
    """A setting of a file: its name in a sentence, its place in a difference, and its value."""

    name: str
    place: dict[str, Any]
    value: object


_Settings = dict[tuple[str | int, ...], _Setting]
"""By what orders them."""


def _settings_in(document: Document, kind: ConfigKind) -> _Settings:
    """Return the offsets of a document, or its topics or groups."""
    found: _Settings = {}
    for table, entry, value in () if kind.numbers else entries_of(document, kind):
        place: dict[str, Any] = {"topic": entry} if kind.name == "topics.json" else {}
        found[table, entry] = _Setting(f"{_NOUNS[kind.name]} {entry}", place, value)
    for at, offset in offsets_of(kind.name, document).items():
        reader, number = at.reader(kind.name), at.inner or ""
        who = at.entry if reader is None else f"{reader[0]} in {reader[1]}/{reader[2]}"
        place = {} if reader is None else {"topic": reader[1], "queue_id": reader[2]}
        order = at.entry, len(number), number, at.table
        found[order] = _Setting(f"offset of {who}", place, {"offset": offset})
    return found


def _differences(file: str, ours: _Settings, theirs: _Settings) -> Iterator[Difference]:
    for order in sorted({*ours, *theirs}):
        pair = ours.get(order), theirs.get(order)
        known = pair[0] or pair[1]
        if known is None or (pair[0] and pair[1] and pair[0].value == pair[1].value):
            continue
        members = [one.value if one and isinstance(one.value, dict) else {} for one in pair]
        names = [
            name
            for name in sorted({*members[0], *members[1]})
            if members[0].get(name) != members[1].get(name)
        ]
        a, b = (
            None if one is None else {name: _text(own[name]) for name in names if name in own}
            for one, own in zip(pair, members, strict=True)
        )
        change, sentence = Change.CHANGED, f"{known.name}: "
        if a is not None and b is not None:
            sentence += ", ".join(f"{one} {a.get(one, 'none')} and {b.get(one, 'none')}" for one in names)
        else:
            side, only = (1, b) if a is None else (0, a)
            offset = f": {only['offset']}" if only is not None and [*only] == ["offset"] else ""
            change, sentence = _ONLY[side], f"only {'AB'[side]} has the {known.name}{offset}"
        yield Difference(file, change, sentence, a=a, b=b, **known.place)


def _text(value: object) -> Value:
    return value if isinstance(value, (int, str)) else str(value)
