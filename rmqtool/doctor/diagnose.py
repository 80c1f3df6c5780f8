"""Diagnosis of the JSON files and of the timer's checkpoint in ``config/``, choices best first."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from rmqtool.derived.timer import TIMER_CHECKPOINT, TIMER_PROGRESS
from rmqtool.doctor import (
    CONFIG_KINDS,
    ConfigCopy,
    ConfigKind,
    CopyState,
    Document,
    database_in,
    entries_of,
    read_copy,
)
from rmqtool.doctor.choices import (
    BrokerTakes,
    ConfigChoice,
    ConfigDiagnosis,
    QueueEnds,
    effects_of,
    proven_offsets,
)
from rmqtool.doctor.offset_evidence import sent_back_offsets
from rmqtool.errors import DeniedError, EnvironmentFailureError
from rmqtool.findings import counted
from rmqtool.formats.checkpoint import TIMER_CHECKPOINTS
from rmqtool.store.broker_json import DELAYS, OffsetPlace, Offsets, offsets_of
from rmqtool.topics import LMQ_PREFIX, SCHEDULE_TOPIC, TIMER_TOPIC, group_of, is_own_group

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rmqtool.io import Location
    from rmqtool.releases import Release
    from rmqtool.store import Store


_SUFFIXES = ("", ".bak", ".tmp")
_TOPICS, _OFFSETS, _GROUPS = "topics.json", "consumerOffset.json", "subscriptionGroup.json"
_FORGETFUL = (BrokerTakes.FILE, BrokerTakes.BACKUP, BrokerTakes.REFUSES, BrokerTakes.NOTHING)
_ENTRY_DEPTH = 2  # of members that are entries; deeper ones are offsets by queue
_READ_AND_WRITE = 6  # PermName: PERM_READ | PERM_WRITE
_SENT_BACK = (
    "after the last message of each queue that the group sent back, else the start of the queue; what it was"
    " still consuming then is not delivered again"
)


def diagnose(
    store: Store,
    release: Release | None = None,
    made: Iterable[tuple[str, int, bool]] = (),
    config: Location | None = None,
) -> tuple[ConfigDiagnosis, ...]:
    """Return the diagnosis of every JSON file that has a copy, by name; of a denied directory, itself.

    A store root whose settings are not in RocksDB is required, else there is nothing to diagnose. ``release``
    is that of the broker to be started; None is the store's own, or, where the files leave that open, the
    candidate that forgets most. ``made`` are topic and number of queues that a repair will make,
    and whether they are batch queues. ``config`` is the directory, if not all that a broker reads is read.
    """
    releases = store.settings.candidates if release is None else (release,)
    config = store.config if config is None else config
    if config is None or database_in(config):
        return ()
    if config.is_there() and not config.is_open():
        copied = read_copy(config / _TOPICS, config.name, CONFIG_KINDS[_TOPICS])
        return (ConfigDiagnosis(config.name, (copied,), BrokerTakes.UNKNOWN, "its settings", (), False),)
    ends = QueueEnds(store, made)
    diagnoses = []
    for kind in CONFIG_KINDS.values():
        copies = tuple(
            read_copy(config / f"{kind.name}{suffix}", f"config/{kind.name}{suffix}", kind)
            for suffix in _SUFFIXES
        )
        is_there = any(copy.state is not CopyState.MISSING for copy in copies)
        if is_there or (not copies[0].entries and _is_needed(store, kind, ends)):
            diagnoses.append(_diagnosis(store, kind, copies, releases, ends))
    return tuple(diagnoses)


def broker_takes(copies: tuple[ConfigCopy, ...], kind: ConfigKind, release: Release) -> BrokerTakes:
    """Return the copy that a broker takes (``ConfigManager#load``, ``#loadBak``); it never reads ``.tmp``.

    Proven with the real class on cut, zero-filled, empty, blank and void files (4.9.8, 5.3.3, 5.4.0, 5.5.1):
    ``null``, and before 5.4.0 white space, too, is a file without entries, and the ``.bak`` is not read. A
    missing or empty ``.bak`` is no failure: the broker starts, and has forgotten everything.
    """
    file, backup = copies[0], copies[1]
    voids = {CopyState.VOID} if release.distrusts_blank_config else {CopyState.VOID, CopyState.SPACES}
    if file.is_sound:
        return BrokerTakes.FILE
    if file.state in voids:
        return BrokerTakes.NOTHING
    if backup.is_sound:
        return BrokerTakes.BACKUP
    if backup.state in {CopyState.MISSING, CopyState.EMPTY, *voids} or not kind.stops:
        return BrokerTakes.NOTHING
    return BrokerTakes.REFUSES


def _diagnosis(
    store: Store,
    kind: ConfigKind,
    copies: tuple[ConfigCopy, ...],
    releases: tuple[Release, ...],
    ends: QueueEnds,
) -> ConfigDiagnosis:
    takes = max((broker_takes(copies, kind, release) for release in releases), key=_FORGETFUL.index)
    there = tuple(copy for copy in copies if copy.state is not CopyState.MISSING)
    choices: tuple[ConfigChoice, ...] = ()
    obvious = True
    shown: Offsets = {}
    lists_nothing = takes in {BrokerTakes.FILE, BrokerTakes.NOTHING} and not copies[0].entries
    if lists_nothing and _is_needed(store, kind, ends):
        takes = BrokerTakes.NOTHING
    if takes is not BrokerTakes.FILE and any(copy.state is CopyState.DENIED for copy in copies):
        takes, obvious = BrokerTakes.UNKNOWN, False
    elif takes is not BrokerTakes.FILE:
        if kind.name == _OFFSETS and not any(copied.entries for copied in copies):
            shown = sent_back_offsets(store, ends)
        drafts = list(_drafts(kind, copies, ends, shown)) or list(_last_resorts(store, kind, takes, ends))
        choices = tuple(_judged(drafts, kind, copies, ends, shown))
        obvious = (
            bool(choices)
            and any(copied.is_whole and copied.entries for copied in copies)
            and not choices[0].missing
        )
        if kind.name == _TOPICS:  # a broker deletes the queues of topics without an entry
            choices = tuple(sorted(choices, key=lambda choice: bool(choice.missing)))
    return ConfigDiagnosis(f"config/{kind.name}", there, takes, kind.loses, choices, obvious)


def _is_needed(store: Store, kind: ConfigKind, ends: QueueEnds) -> bool:
    """Return whether a file must list something: topics that have queues, offsets of known groups."""
    if kind.name == _TOPICS:
        return any(not topic.startswith(LMQ_PREFIX) for topic, _ in ends.topics())
    if kind.name != _OFFSETS or not any(ends.topics()):
        return False
    names = [] if store.config is None else [name for _, name, _ in _entries_in(store.config, _GROUPS)]
    return not all(map(is_own_group, [*names, *_groups_with_topics(ends)]))


def _entries_in(config: Location, name: str) -> Iterator[tuple[str, str, Any]]:
    kind = CONFIG_KINDS[name]
    return entries_of(read_copy(config / name, f"config/{name}", kind).document, kind)


def _groups_with_topics(ends: QueueEnds) -> list[str]:
    """Return the groups of retry and dead-letter topics: they had read the queues, and sent messages back."""
    return [group for topic, _ in ends.topics() if (group := group_of(topic)) is not None]


def _drafts(
    kind: ConfigKind, copies: tuple[ConfigCopy, ...], ends: QueueEnds, shown: Offsets
) -> Iterator[ConfigChoice]:
    """Yield the choices, their effects not known yet: the newest entries, the rest from older copies, first.

    ``shown`` are offsets that messages sent back prove, where no copy has any.
    """
    file, backup, made = copies
    readable = [copy for copy in (made, file, backup) if copy.entries or copy.is_whole]
    sound = {copy.file: copy for copy in readable if copy.is_sound}
    newest_first = _by_age(readable)
    trailed = [copy for copy in newest_first if copy.state is CopyState.TRAILED]
    if trailed[:1] == newest_first[:1]:
        yield from (_beginning_of(copy, copies) for copy in trailed)
    if len(newest_first) > 1:
        names = ", then of ".join(copy.file for copy in newest_first)
        yield ConfigChoice("merged", f"each entry of {names}", _merged(newest_first, kind))
    for name, copy in (("tmp", made), ("bak", backup)):
        if copy.file in sound:
            about = "the version that the broker was writing" if name == "tmp" else "the previous version"
            yield ConfigChoice(name, f"{copy.file}, {about}", copy.document, copy.file)
    if trailed[:1] != newest_first[:1]:
        yield from (_beginning_of(copy, copies) for copy in trailed)
    for copy in (file, made, backup):
        if copy.state is CopyState.CUT and copy.entries:
            yield _beginning_of(copy, copies)
    if kind.name == _TOPICS:
        yield from _from_directories(newest_first, kind, ends)
    if kind.name == DELAYS or kind.depth > _ENTRY_DEPTH:
        yield from _from_bounds(_places(kind, copies, ends) | shown.keys(), kind, ends, shown)


def _beginning_of(copy: ConfigCopy, copies: tuple[ConfigCopy, ...]) -> ConfigChoice:
    """Return what of a copy can be decoded as a choice."""
    origin = dict(zip((copied.file for copied in copies), ("", "bak-", "tmp-"), strict=True))[copy.file]
    if copy.state is CopyState.TRAILED:
        about = f"{copy.file} without the bytes after it, left of a longer version"
        return ConfigChoice(f"{origin}whole", about, copy.document)
    return ConfigChoice(f"{origin}prefix", f"the whole entries of {copy.file}, which is cut", copy.document)


def _last_resorts(
    store: Store, kind: ConfigKind, takes: BrokerTakes, ends: QueueEnds
) -> Iterator[ConfigChoice]:
    """Yield what a broker starts with where no copy has anything: known groups, and no entry at all."""
    table = kind.tables[0]
    if kind.name == _GROUPS and store.config is not None:
        offsets = [entry.rpartition("@")[2] for _, entry, _ in _entries_in(store.config, _OFFSETS)]
        names = sorted({group for group in (*offsets, *_groups_with_topics(ends)) if not is_own_group(group)})
        if names:
            about = "the groups of consumer offsets and retry topics, with a broker's default settings"
            yield ConfigChoice("groups", about, {table: {name: {"groupName": name} for name in names}})
    if takes is BrokerTakes.REFUSES:
        yield ConfigChoice("empty", f"nothing: a broker starts, and has forgotten {kind.loses}", {table: {}})


def _by_age(copies: list[ConfigCopy]) -> list[ConfigCopy]:
    """Order copies, the newest first: by the counter of their versions, else as a broker writes them.

    4.x and 5.0.0 write ``.tmp``, then ``.bak`` with the old content, then rename; 5.1.0+ write ``.bak``, then
    the file (``MixAll#string2File``; 5.4.0+ rename the file to ``.bak``).
    """
    counters = [_counter(copy.document) for copy in copies]
    if None in counters:
        return copies
    ordered = sorted(zip(counters, copies, strict=True), key=lambda entry: -(entry[0] or 0))
    return [copy for _, copy in ordered]


def _counter(document: Document) -> int | None:
    version = document.get("dataVersion")
    counter = version.get("counter") if isinstance(version, dict) else None
    return counter if isinstance(counter, int) else None


def _merged(newest_first: list[ConfigCopy], kind: ConfigKind) -> Document:
    """Return each entry of the newest copy that has it; of maps of numbers, each number."""
    merged: Document = {}
    for copy in newest_first:
        for name, value in copy.document.items():
            if name not in kind.tables:
                merged.setdefault(name, value)
            elif isinstance(value, dict):
                _add_entries(merged.setdefault(name, {}), value)
    return merged


def _add_entries(table: Document, older: Document) -> None:
    for entry, value in older.items():
        mine = table.get(entry)
        if mine is None:
            table[entry] = dict(value) if isinstance(value, dict) else value
        elif isinstance(mine, dict) and all(key.lstrip("-").isdecimal() for key in mine):
            table[entry] = {**value, **mine} if isinstance(value, dict) else mine


def _from_directories(
    newest_first: list[ConfigCopy], kind: ConfigKind, ends: QueueEnds
) -> Iterator[ConfigChoice]:
    """Yield the known topics, and those that only have queues, with the number of these."""
    document = json.loads(json.dumps(_merged(newest_first, kind)))
    table = document.setdefault(kind.tables[0], {})
    added = 0
    for topic, queues in ends.topics():
        if topic not in table and not topic.startswith(LMQ_PREFIX):
            table[topic] = _topic(topic, queues, batch=topic in ends.batch_topics)
            added += 1
    if added:
        about = f"what the copies have, and {counted(added, 'more topic')} with the number of their queues"
        yield ConfigChoice("queues", about, document)


def _topic(name: str, queues: int, *, batch: bool) -> dict[str, Any]:
    """Return the settings of a topic with this number of queues, by the defaults of ``TopicConfig``."""
    return {
        **({"attributes": {"queue.type": "BatchCQ"}} if batch else {}),
        "order": False,
        "perm": _READ_AND_WRITE,
        "readQueueNums": queues,
        "topicFilterType": "SINGLE_TAG",
        "topicName": name,
        "topicSysFlag": 0,
        "writeQueueNums": queues,
    }


def _places(kind: ConfigKind, copies: Iterable[ConfigCopy], ends: QueueEnds) -> set[OffsetPlace]:
    """Return all places of known offsets; of delay levels, every one.

    Among them are all queues of the entry in which a copy is cut: their numbers may be cut off.
    """
    if not kind.numbers:
        return set()
    places = {place for copy in copies for place in offsets_of(kind.name, copy.document)}
    if kind.name == DELAYS:
        numbers = ends.queue_ids(SCHEDULE_TOPIC)
        places |= {OffsetPlace(kind.tables[0], str(number + 1), None) for number in numbers if number >= 0}
    for copy in copies:
        last = [*entries_of(copy.document, kind)][-1:] if copy.state is CopyState.CUT else []
        for table, entry, value in last:
            if isinstance(value, dict):
                topic = entry.rpartition("@")[0]
                places |= {OffsetPlace(table, entry, str(id_)) for id_ in ends.queue_ids(topic)}
    return places


def _from_bounds(
    places: set[OffsetPlace], kind: ConfigKind, ends: QueueEnds, shown: Offsets
) -> Iterator[ConfigChoice]:
    if shown:
        yield ConfigChoice("sent-back", _SENT_BACK, _document_of(shown))
    for name, about in (("oldest", "the start of every queue"), ("newest", "the end of every queue")):
        offsets: Offsets = {}
        for place in places:
            reader = place.reader(kind.name)
            bounds = None if reader is None else ends.bounds(*reader[1:])
            if bounds is not None:
                offsets[place] = bounds.min_offset if name == "oldest" else bounds.max_offset
        if offsets:
            yield ConfigChoice(name, about, _document_of(offsets))


def _document_of(offsets: Offsets) -> Document:
    document: Document = {}
    for place in sorted(offsets, key=lambda key: (key.table, key.entry, int(key.inner or 0))):
        table = document.setdefault(place.table, {})
        if place.inner is None:
            table[place.entry] = offsets[place]
        else:
            table.setdefault(place.entry, {})[place.inner] = offsets[place]
    return document


def _judged(
    drafts: list[ConfigChoice],
    kind: ConfigKind,
    copies: tuple[ConfigCopy, ...],
    ends: QueueEnds,
    shown: Offsets,
) -> Iterator[ConfigChoice]:
    """Yield choices with their effects, in the same order."""
    own = [*(offsets_of(kind.name, copy.document) for copy in copies), shown]
    chosen = [offsets_of(kind.name, draft.document) for draft in drafts]
    places = {place for offsets in chosen for place in offsets} | _places(kind, copies, ends)
    proven = proven_offsets(own)
    entries = [[key for _, key, _ in entries_of(draft.document, kind)] for draft in drafts]
    known = {key for keys in entries for key in keys}
    for draft, offsets, keys in zip(drafts, chosen, entries, strict=True):
        effects = tuple(effects_of(offsets, places, proven, kind, ends))
        yield draft._replace(
            entries=len(keys),
            missing=tuple(sorted(known - {*keys})),
            again_at_least=sum(effect.again_at_least for effect in effects),
            again_at_most=sum(effect.again_at_most for effect in effects),
            skipped_at_most=sum(effect.skipped_at_most for effect in effects),
            effects=effects,
        )


class TimerDiagnosis(NamedTuple):
    """A timer that has lost its progress.

    ``file`` is relative to the store; ``state`` is ``cut``, ``empty`` or ``zero-filled``; ``again_at_most``
    is the number of messages in the timer's queue: it reads them all again, and delivers again those that are
    due.
    """

    file: str
    state: str
    again_at_most: int


def diagnose_timer(store: Store) -> TimerDiagnosis | None:
    """Return the damage of a timer's checkpoint; None if it is sound or missing, DeniedError if not read.

    A broker maps the file at 4096 bytes, which fills it up with zeros, takes the lesser of its own and the
    master's queue offset, and reads its queue from there (``TimerCheckpoint#<init>``,
    ``TimerMessageStore#recover``, 5.3.3).
    """
    path = None if store.config is None else store.config / TIMER_CHECKPOINT
    if path is None or not path.is_regular():
        return None
    try:
        head = path.read_head(TIMER_CHECKPOINTS.size, [])
    except DeniedError:
        raise
    except EnvironmentFailureError:
        return None  # an unreadable file has no diagnosis
    bounds = QueueEnds(store).bounds(TIMER_TOPIC, 0)
    waiting = 0 if bounds is None else bounds.max_offset - bounds.min_offset
    if not waiting or (len(head) == TIMER_CHECKPOINTS.size and any(head)):
        return None
    return TimerDiagnosis(
        TIMER_PROGRESS, "empty" if not head else "cut" if any(head) else "zero-filled", waiting
    )
