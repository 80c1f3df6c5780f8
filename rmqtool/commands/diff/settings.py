"""Settings of two stores in ``config/``: offsets of groups and delay levels, topics, groups."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rmqtool.commands.diff import Change, Difference, DifferenceLimiter, StoreComparison, Value
from rmqtool.doctor import CONFIG_KINDS, OTHER_KEEPERS, ConfigKind, Document, entries_of, has_shape
from rmqtool.doctor.choices import offsets_of
from rmqtool.store.broker_json import ConfigFileError, ConfigSource

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.store import Store

_NOUNS = {"topics.json": "topic", "subscriptionGroup.json": "group"}
_COMPARED = ("consumerOffset.json", "lmqConsumerOffset.json", "delayOffset.json", *_NOUNS)
_ONLY = (Change.ONLY_A, Change.ONLY_B)


def diff_settings(a: Store, b: Store, comparison: StoreComparison) -> Iterator[Difference]:
    """Yield the differences of the settings that brokers would load; they are counted by file."""
    have = [store.config is not None and store.config.is_there() for store in (a, b)]
    if not all(have):
        if any(have) and all(len(store.commitlog) for store in (a, b)):  # what was rebuilt has none
            comparison.note(f"only {'AB'[have.index(True)]} has a config; it is not compared")
        return
    for side, store in zip("AB", (a, b), strict=True):
        for name in OTHER_KEEPERS:
            if store.config is not None and (store.config / name).is_directory():
                comparison.note(f"{side}: config/{name} is a database of settings; they are not compared")
                return
    for name in _COMPARED:
        kind = CONFIG_KINDS[name]
        documents = [_document(store, kind, comparison) for store in (a, b)]
        if documents[0] is None or documents[1] is None:
            if documents[0] or documents[1]:
                has = "A" if documents[1] is None else "B"
                comparison.note(f"only {has} has a config/{name} that can be read; it is not compared")
            continue
        limiter = DifferenceLimiter(comparison, f"config/{name}")
        rows = _offsets if kind.numbers else _entries
        yield from limiter.add_all(rows(kind, documents[0], documents[1], comparison))
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


def _offsets(
    kind: ConfigKind, ours: Document, theirs: Document, comparison: StoreComparison
) -> Iterator[Difference]:
    sides = offsets_of(ours, kind), offsets_of(theirs, kind)
    places = sorted({*sides[0], *sides[1]}, key=lambda place: (place.entry, _number(place.inner)))
    comparison.compared["settings"] += len(places)
    for place in places:
        offsets = [side.get(place) for side in sides]
        if offsets[0] != offsets[1]:
            reader = place.reader(kind)
            who = place.entry if reader is None else f"{reader[0]} in {reader[1]}/{reader[2]}"
            where = {} if reader is None else {"topic": reader[1], "queue_id": reader[2]}
            values: list[dict[str, Value] | None] = [
                None if offset is None else {"offset": offset} for offset in offsets
            ]
            yield _difference(kind, f"offset of {who}", values, **where)


def _number(text: str | None) -> tuple[int, str]:
    return (len(text), text) if text else (0, "")


def _entries(
    kind: ConfigKind, ours: Document, theirs: Document, comparison: StoreComparison
) -> Iterator[Difference]:
    sides = [
        {(table, name): value for table, name, value in entries_of(side, kind)} for side in (ours, theirs)
    ]
    places = sorted({*sides[0], *sides[1]})
    comparison.compared["settings"] += len(places)
    for place in places:
        entries = [side.get(place) for side in sides]
        if entries[0] == entries[1]:
            continue
        members = [entry if isinstance(entry, dict) else {} for entry in entries]
        unequal = [
            name
            for name in sorted({*members[0], *members[1]})
            if members[0].get(name) != members[1].get(name)
        ]
        values: list[dict[str, Value] | None] = [
            None if entry is None else {name: _text(member[name]) for name in unequal if name in member}
            for entry, member in zip(entries, members, strict=True)
        ]
        what = f"{_NOUNS[kind.name]} {place[1]}"
        yield _difference(kind, what, values, topic=place[1] if kind.name == "topics.json" else None)


def _text(value: object) -> Value:
    return value if isinstance(value, (int, str)) else str(value)


def _difference(
    kind: ConfigKind,
    what: str,
    values: list[dict[str, Value] | None],
    **where: Any,  # noqa: ANN401
) -> Difference:
    a, b = values
    if a is not None and b is not None:
        names = sorted({*a, *b})
        texts = ", ".join(f"{name} {a.get(name, 'none')} and {b.get(name, 'none')}" for name in names)
        return Difference(f"config/{kind.name}", Change.CHANGED, f"{what}: {texts}", a=a, b=b, **where)
    side = 0 if b is None else 1
    only = a if b is None else b
    offset = f": {only['offset']}" if only is not None and [*only] == ["offset"] else ""
    sentence = f"only {'AB'[side]} has the {what}{offset}"
    return Difference(f"config/{kind.name}", _ONLY[side], sentence, a=a, b=b, **where)
