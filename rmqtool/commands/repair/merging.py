"""Settings of another store, merged into those of the one that is repaired (``--settings-from``).

A client's own ``offsets.json`` counts as a store that has consumer offsets of one group, and nothing else.
Nothing in the other store is trusted: files are read without following links, and an entry that a broker
might not load, or that is no plain data, is refused before anything is written.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from rmqtool.doctor import ConfigKind, CopyState, Document, database_in, entries_of, read_bytes
from rmqtool.doctor.choices import QueueEnds
from rmqtool.doctor.offset_evidence import client_offsets
from rmqtool.errors import EnvironmentFailureError, RefusedError, UsageError
from rmqtool.findings import counted
from rmqtool.lookup.delivery import SoundIndex, copies_below, record_in
from rmqtool.store import PathKind
from rmqtool.store.broker_json import DELAYS, LARGEST_CONFIG, OFFSET_TABLES, OffsetPlace, offsets_of
from rmqtool.store.disk import Disk
from rmqtool.store.names import component_problem, real_path

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.doctor.choices import ConfigChoice, ConfigDiagnosis
    from rmqtool.store import Store

MERGED = ("topics.json", "subscriptionGroup.json", *OFFSET_TABLES)
"""The files that are merged, topics first."""

_LAST_RESORTS = {"sent-back", "oldest", "newest", "queues", "groups", "empty"}
_LARGEST_LONG, _LARGEST_INT = (1 << 63) - 1, (1 << 31) - 1
_MOST_QUEUES = 1 << 16
_LONGEST_NAME = 255
_SHOWN_NAMES = 5
_FLAGS = (
    "order consumeEnable consumeFromMinEnable consumeBroadcastEnable consumeMessageOrderly"
    " notifyConsumerIdsChangedEnable"
)
_NUMBERS = (
    "readQueueNums writeQueueNums retryQueueNums perm topicSysFlag retryMaxTimes brokerId"
    " whichBrokerWhenConsumeSlowly groupSysFlag consumeTimeoutMinute"
)
_MEMBERS: dict[str, type] = {
    **dict.fromkeys(_FLAGS.split(), bool),
    **dict.fromkeys(_NUMBERS.split(), int),
    **dict.fromkeys(("topicName", "groupName", "topicFilterType"), str),
    **{"groupRetryPolicy": dict, "subscriptionDataSet": list, "attributes": dict},
}
_NAMED = {"topics.json": "topicName", "subscriptionGroup.json": "groupName"}


@dataclass(frozen=True, slots=True)
class MergedSetting:
    """One setting that the two stores do not share.

    Attributes:
        file: relative to the store.
        entry: topic, group, ``topic@group``, or delay level.
        queue_id: of an offset; None for others.
        ours: offset in the store; None without one.
        theirs: offset in the other store; None for a topic or group, which only that one has.
        result: offset after the repair; None for a topic or group, or where there is none.
        taken: whether the other store's is taken.
        why: the rule, as a short sentence.
    """

    file: str
    entry: str
    queue_id: int | None
    ours: int | None
    theirs: int | None
    result: int | None
    taken: bool
    why: str


class MergedFile(NamedTuple):
    """One file after the merge; ``settings`` are those that the two sides do not share."""

    data: bytes
    settings: list[MergedSetting]
    source: str

    @property
    def is_changed(self) -> bool:
        """Return whether anything of the other is in it."""
        return any(setting.taken for setting in self.settings)

    @property
    def why(self) -> str:
        """Return the number of settings taken and left out, for a step."""
        taken = sum(setting.taken for setting in self.settings)
        left = len(self.settings) - taken
        said = f"{counted(taken, 'setting', spec=',')} taken from {self.source}"
        return f"{said}, {left:,} left out" if left else said


class _Source(Protocol):
    """Owner of the settings; ``ends_there`` are its queues, None where it knows none."""

    name: str
    ends_there: QueueEnds | None

    def label(self, kind: ConfigKind) -> str:
        """Return the path of a file of it."""

    def document(self, kind: ConfigKind) -> Document | None:
        """Return what it has in a file; None if it has no such file. May raise `RefusedError`."""

    def differs(self, topic: str, queue_id: int, number: int) -> bool:
        """Return whether it has another message than the store at a queue offset."""


class _ClientFile:
    """Offsets that a client keeps of its group, of all brokers; it knows no queues and no messages."""

    name = "the client's file"
    ends_there: QueueEnds | None = None

    def __init__(self, store: Store, file: Path) -> None:
        self._file, self._own = file, store.settings.broker_name
        self._disk = _disk(file.parent)

    def label(self, _: ConfigKind) -> str:
        return str(self._file)

    def document(self, kind: ConfigKind) -> Document | None:
        """Return what it says of the store's broker; None of other files than consumer offsets."""
        if kind.name != "consumerOffset.json":
            return None
        label, group = str(self._file), real_path(self._file).parent.name
        _check_name(label, group.replace("@", "/"))
        data = _read(self._disk, self._file.name) or b""
        documents = client_offsets(data.decode("utf-8", "replace"), group)
        if not documents:
            raise _refused(label, "holds no offsets of a client; give its GROUP/offsets.json, or a store")
        name = self._own or next(iter(documents))
        if name not in documents or (self._own is None and len(documents) > 1):
            known = ", ".join(repr(name[:_LONGEST_NAME]) for name in sorted(documents)[:_SHOWN_NAMES])
            why = f"it is a client's own file, of brokers {known}: name the store's with -p brokerName=NAME"
            raise _refused(label, why)
        return documents[name]

    def differs(self, _topic: str, _queue_id: int, _number: int) -> bool:
        return False


class _OtherStore:
    """The settings of a store's ``config/``, with the queues and messages that they are about."""

    name = "the other store"

    def __init__(self, store: Store, other: Store) -> None:
        root, mine = (None if side.root is None else side.root.local_path() for side in (other, store))
        if root is None or other.kind is not PathKind.STORE:
            raise UsageError(f"--settings-from {other.base}: give a store root of this machine")
        if mine is not None and real_path(mine) == real_path(root):
            raise UsageError(f"--settings-from {other.base}: is the store itself")
        _refuse_database(other)
        self._stores, self._disk = (store, other), _disk(root)
        self.ends_there: QueueEnds | None = QueueEnds(other)

    def label(self, kind: ConfigKind) -> str:
        return str(self._disk.root / "config" / kind.name)

    def document(self, kind: ConfigKind) -> Document | None:
        """Return what a broker of it loads; None if it has no such file."""
        problem = None
        for suffix in ("", ".bak"):
            data = _read(self._disk, f"config/{kind.name}{suffix}")
            if data is None:
                continue
            state, document = read_bytes(data, kind)
            if state is CopyState.SOUND:
                return document
            problem = problem or f"is {state}"
        if problem is not None:
            raise _refused(self.label(kind), f"{problem}: repair {self._disk.root} first")
        return None

    def differs(self, topic: str, queue_id: int, number: int) -> bool:
        """Whether both stores have a message at a queue offset, and not the same."""
        raws = []
        for store in self._stores:
            record = None
            with suppress(EnvironmentFailureError):  # shows no other message
                record = record_in(store, topic, queue_id, number)
            raws.append(None if record is None else record.raw)
        return None not in raws and raws[0] != raws[1]


class SettingsMerge:
    """Merges the settings of another store, or a client's offsets, into those of one.

    The rule: of an offset the greatest that the queue still has, unless the message before it is another one
    in the other store; topics and groups that only one store has, and the own one of two.
    """

    def __init__(self, store: Store, other: Store | Path) -> None:
        _refuse_database(store)
        self._other: _Source = (
            _ClientFile(store, other) if isinstance(other, Path) else _OtherStore(store, other)
        )
        self._index, self._ends = SoundIndex(store), QueueEnds(store)

    def merged(
        self, kind: ConfigKind, diagnosis: ConfigDiagnosis | None, wanted: str | None
    ) -> MergedFile | None:
        """Return a file after the merge; None if the other has no such file.

        ``diagnosis`` is of the store's own file, ``wanted`` the user's choice of its content. May raise
        `RefusedError`.
        """
        theirs = self._other.document(kind)
        if theirs is None:
            return None
        ours, resort = _own(diagnosis, wanted)
        document = json.loads(json.dumps(ours))
        settings = self._offsets(kind, document, theirs) if kind.numbers else _union(kind, document, theirs)
        listed = [*settings]
        for table, name, value in entries_of(resort, kind):
            _table(document, table).setdefault(name, value)
        text = json.dumps(document, ensure_ascii=False, indent=1)
        return MergedFile(text.encode("utf-8", "surrogateescape"), listed, self._other.name)

    def _offsets(self, kind: ConfigKind, document: Document, theirs: Document) -> Iterator[MergedSetting]:
        """Put the greatest offset that the queue still has; in ``document``."""
        own = offsets_of(kind.name, document)
        for place, offset in offsets_of(kind.name, theirs).items():
            ours = own.get(place)
            if ours == offset:
                continue
            if offset > _LARGEST_LONG:
                raise _refused(self._other.label(kind), f"{place.entry}: {offset} is no offset")
            result, why = self._offset(kind, place, ours, offset)
            is_taken = result is not None and (ours is None or result > ours)
            if result is not None and not is_taken:
                continue
            queue_id = None if place.inner is None else int(place.inner)
            after = result if is_taken else ours
            yield MergedSetting(
                f"config/{kind.name}", place.entry, queue_id, ours, offset, after, taken=is_taken, why=why
            )
            if is_taken:
                for name in filter(None, place.entry.rpartition("@")[::2]):
                    _check_name(self._other.label(kind), name)
                table = _table(document, place.table)
                inner = table.get(place.entry)
                own_numbers = inner if isinstance(inner, dict) else {}
                table[place.entry] = result if place.inner is None else {**own_numbers, place.inner: result}

    def _offset(
        self, kind: ConfigKind, place: OffsetPlace, ours: int | None, theirs: int
    ) -> tuple[int | None, str]:
        """Return which offset the other store's makes, and the rule; None if it is left out."""
        reader = place.reader(kind.name)
        bounds = None if reader is None or reader[2] > _LARGEST_INT else self._ends.bounds(*reader[1:])
        if reader is None or bounds is None:
            return None, "no such queue here"
        low, high = bounds
        offset = min(max(theirs, low), high)
        why = "the greatest"
        if offset != theirs:
            why = f"the queue ends at {high}" if theirs > high else f"the queue begins at {low}"
        if ours is not None and offset <= ours:
            return offset, why
        problem = self._problem(kind, reader, theirs, (max(ours or 0, low), offset))
        return (offset, why) if problem is None else (None, problem)

    def _problem(
        self, kind: ConfigKind, reader: tuple[str, str, int], theirs: int, step: tuple[int, int]
    ) -> str | None:
        """Return why a reader must not go on from one offset to another; None if it may."""
        _, topic, queue_id = reader
        first, offset = step
        ends = self._other.ends_there
        there = ends.bounds(topic, queue_id) if ends and theirs > offset else None
        if theirs > offset and (there is None or theirs > there.max_offset):
            return f"beyond the end of its queue{', in the other store, too' if ends else ''}"
        if first < offset and self._other.differs(topic, queue_id, offset - 1):
            return f"message {offset - 1} is another one in the other store"
        if kind.name == DELAYS and not self._is_delivered(queue_id, first, offset):
            return "not shown that this store's log has the deliveries of all messages before it"
        return None

    def _is_delivered(self, queue_id: int, first: int, offset: int) -> bool:
        """Whether the log has a copy of each message of a delay level between two offsets."""
        copies = copies_below(self._index, queue_id, offset)
        return copies is not None and len(copies) >= offset - first and 0 not in copies[first - offset :]


def _own(diagnosis: ConfigDiagnosis | None, wanted: str | None) -> tuple[Document, Document]:
    """Return the store's own document, and what a broker would otherwise be left with."""
    if diagnosis is None:
        return {}, {}
    if diagnosis.is_sound:
        return diagnosis.copies[0].document, {}
    if wanted is not None:
        own: ConfigChoice | None = diagnosis.wanted(wanted)
    else:
        own = next((choice for choice in diagnosis.choices if choice.name not in _LAST_RESORTS), None)
    resort = diagnosis.choice("queues") or diagnosis.choice("groups")
    return ({} if own is None else own.document, {} if resort is None else resort.document)


def _union(kind: ConfigKind, document: Document, theirs: Document) -> Iterator[MergedSetting]:
    """Add the entries that only the other store has; to ``document``."""
    for table, name, value in entries_of(theirs, kind):
        own = _table(document, table)
        if name in own or table != kind.tables[0]:
            continue
        label = f"config/{kind.name} of the other store"
        _check_name(label, name)
        _check_entry(label, name, value, _NAMED[kind.name])
        own[name] = value
        why = "only the other store has it"
        yield MergedSetting(f"config/{kind.name}", name, None, None, None, None, taken=True, why=why)


def _table(document: Document, name: str) -> Document:
    table = document.get(name)
    if not isinstance(table, dict):
        table = document[name] = {}
    return table


def _refuse_database(store: Store) -> None:
    if name := database_in(store.config):
        raise RefusedError(
            f"{store.config}/{name}: a database keeps the settings of that store, and JSON files"
            " beside it are old; nothing was changed"
        )


def _disk(root: Path) -> Disk:
    try:
        return Disk(root)
    except OSError as failure:
        raise EnvironmentFailureError(f"{root}: {failure.strerror}") from failure


def _read(disk: Disk, path: str) -> bytes | None:
    """Return a file beside the store's; None if there is none."""
    try:
        return disk.read(path, LARGEST_CONFIG)
    except FileNotFoundError:
        return None
    except OSError as failure:
        raise _refused(f"{disk.root / path}", f"{failure.strerror}, or a link") from failure


def _refused(label: str, why: str) -> RefusedError:
    return RefusedError(f"{label}: {why}; nothing was changed")


def _check_name(label: str, name: str) -> None:
    unsafe = component_problem(name)
    if unsafe is not None or len(name) > _LONGEST_NAME or not name.isprintable():
        raise _refused(label, f"{name[:_LONGEST_NAME]!r} is not a name of a topic or group")


def _check_entry(label: str, name: str, value: object, named: str) -> None:
    """Refuse an entry that is no plain data, or whose known members a broker cannot load."""
    _check_plain(f"{label}: {name}", value)
    if not isinstance(value, dict) or value.get(named) != name:
        raise _refused(label, f"{name}: its {named} is another one")
    for member, content in value.items():
        if not _fits(member, content):
            raise _refused(label, f"{name}: {member} is {str(content)[:40]}, which no broker loads")


def _fits(member: str, content: object) -> bool:
    kind = _MEMBERS.get(member, object)
    if content is None or kind is int:
        most = _MOST_QUEUES if member.endswith("QueueNums") else _LARGEST_INT
        return kind not in {bool, int} if content is None else type(content) is int and -1 <= content <= most
    is_text = not isinstance(content, dict) or all(isinstance(text, str) for text in content.values())
    return isinstance(content, kind) and (is_text or member != "attributes")


def _check_plain(label: str, value: object) -> None:
    """Refuse numbers beyond Java's long, and members that make a parser load classes (``@type``)."""
    waiting: list[Any] = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict):
            strange = next((key for key in item if key.startswith(("@", "$"))), None)
            if strange is not None:
                raise _refused(label, f"its member {strange[:40]} is no setting")
            waiting += item.values()
        elif isinstance(item, list):
            waiting += item
        elif isinstance(item, (int, float)) and abs(item) > _LARGEST_LONG:
            raise _refused(label, "a number in it is too large")
