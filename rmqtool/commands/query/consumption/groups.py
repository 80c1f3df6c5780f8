"""Messages that a group received by pop and acknowledged, its committed offsets, and whether it is known.

A check point names messages that a group received by pop and that are invisible until a time; those not
acknowledged by then are written to a pop retry topic. Check points and acks are records of the revive topic.
Both are timed: until they are due they lie in the timer's topic. A broker that has all acks of a check point
in memory writes neither, and commits the offset.

Origin: ``ConsumerOffsetManager``, ``LmqConsumerOffsetManager``, ``SubscriptionGroupManager``,
``MessageRequestModeManager`` (4.9.8, 5.3.3); ``PopMessageProcessor#buildCkMsg``,
``PopBufferMergeService#scanCommitOffset``, ``PopReviveService#consumeReviveMessage``, ``PopCheckPoint``,
``AckMsg``, ``BatchAckMsg`` (5.0.0 to 5.5.1).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from rmqtool.commands.query.consumption.copies import TopicRecords, meant_for
from rmqtool.derived.positions import offsets_in
from rmqtool.store.broker_json import ConfigFileError, load_config
from rmqtool.topics import DEAD_LETTER_PREFIX, RETRY_PREFIX, REVIVE_PREFIX, TIMER_TOPIC

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from rmqtool.lookup.queue import RecordPlace
    from rmqtool.progress import Progress
    from rmqtool.scan.records import Record
    from rmqtool.store import Store

_OFFSETS, _LIGHT_OFFSETS = "consumerOffset.json", "lmqConsumerOffset.json"
_READER = "group "
_NAMED = 5


class GroupOffsets:
    """The committed offsets of one group.

    Attributes:
        file: Their file, relative to the store; None without one.
        offsets: By topic and queue: the next queue offset to be consumed.
    """

    def __init__(self, store: Store, group: str, topics: Iterable[str], progress: Progress) -> None:
        self._store = store
        self._group = group
        self._progress = progress
        self._topics = list(topics)
        self.file: str | None = None
        self.offsets: dict[tuple[str, int], int] = {}
        self._groups: set[str] = set()
        self._read_offsets()

    def _read_offsets(self) -> None:
        """Read the first table that exists; with ``enableLmq`` a broker reads that of light queues alone."""
        names = [_OFFSETS, _LIGHT_OFFSETS]
        for name in reversed(names) if self._store.settings.enable_lmq else names:
            found = self._document(name)
            if found is None:
                continue
            self.file, document = found
            for consumed in offsets_in(self.file, document):
                reader = consumed.reader.removeprefix(_READER)
                self._groups.add(reader)
                if reader == self._group:
                    self.offsets[consumed.topic, consumed.queue_id] = consumed.offset
            return

    def _document(self, name: str) -> tuple[str, object] | None:
        """Return a config file and its name: ``.bak`` where the other cannot be used."""
        if self._store.config is None:
            return None
        try:
            found = load_config(self._store.config / name)
        except ConfigFileError as failure:
            self._progress.warn(str(failure))
            return None
        if found is None:
            return None
        if found.problem is not None:
            self._progress.warn(f"{found.problem}; {found.path.name} is read instead")
        return f"config/{found.path.name}", found.document

    @cached_property
    def known(self) -> frozenset[str]:
        """Return the groups that offsets, subscriptions and topics of retries name."""
        document = self._document("subscriptionGroup.json")
        table = None if document is None else _member(document[1], "subscriptionGroupTable")
        prefixes = (RETRY_PREFIX, DEAD_LETTER_PREFIX)
        of_topics = {
            topic.removeprefix(one) for one in prefixes for topic in self._topics if topic.startswith(one)
        }
        return frozenset({*self._groups, *(table or ()), *of_topics})

    @property
    def is_known(self) -> bool:
        """Whether anything in the store names the group."""
        return self._group in self.known

    def near(self) -> str:
        """Return the groups that an unknown name may mean, as a sentence goes on."""
        folded = {one.casefold(): one for one in sorted(self.known)}
        near = [folded[one] for one in get_close_matches(self._group.casefold(), folded)]
        if near:
            return f"near it: {', '.join(near)}"
        some = sorted(self.known)[:_NAMED]
        more = f" and {len(self.known) - _NAMED} more" if len(self.known) > _NAMED else ""
        return f"it has {', '.join(some)}{more}" if some else "it names no group"

    def is_popping(self, topic: str) -> bool:
        """Whether ``messageRequestMode.json`` (5.0.0+) gives the group a topic by pop."""
        document = self._document("messageRequestMode.json")
        modes = None if document is None else _member(document[1], "messageRequestModeMap")
        mode = _member(_member(modes, topic), self._group)
        return mode is not None and mode.get("mode") == "POP"

    @property
    def are_all(self) -> bool:
        """Whether the group has committed no offsets elsewhere."""
        return self.file is not None and self.elsewhere is None

    @cached_property
    def elsewhere(self) -> str | None:
        """Return the database that may hold offsets and is not read; None without one."""
        return next(self._unread("config/"), None)

    @cached_property
    def popped_elsewhere(self) -> str | None:
        """Return the database of popped messages (5.4.0+) that is not read; None without one."""
        return next(self._unread("kvStore"), None)

    def _unread(self, start: str) -> Iterator[str]:
        return (one.label for one in self._store.features if one.label.startswith(start))


def _member(document: object, name: str) -> dict[str, object] | None:
    found = document.get(name) if isinstance(document, dict) else None
    return found if isinstance(found, dict) else None


_BITS = 32


class CheckPoint(NamedTuple):
    """Messages that a group received at once.

    Attributes:
        record_offset: Physical offset of the record.
        start: Queue offset of the first one.
        offsets: Queue offsets of all, in the order of the bits.
        bits: Those that were acknowledged when it was written.
        pop_ms: When they were received.
        due_ms: Until when they are invisible.
    """

    record_offset: int
    start: int
    offsets: tuple[int, ...]
    bits: int
    pop_ms: int
    due_ms: int

    def has_acknowledged(self, queue_offset: int) -> bool:
        """Whether it was written with an acknowledgement of a message."""
        return bool(self.bits >> self.offsets.index(queue_offset) & 1)


class Ack(NamedTuple):
    """An acknowledgement of messages, by queue offsets; ``start`` and ``pop_ms`` name its check point."""

    record_offset: int
    start: int | None
    pop_ms: int | None
    offsets: frozenset[int]


@dataclass(frozen=True)
class Popped:
    """The last check point of a message, and the physical offset of the record that acknowledges it."""

    check_point: CheckPoint
    ack_offset: int | None


class PopLog:
    """Check points and acks of one group, read once, on first use."""

    def __init__(self, group: str, topics: Iterable[str], records: TopicRecords) -> None:
        self._group = group
        self._topics = [one for one in topics if one == TIMER_TOPIC or one.startswith(REVIVE_PREFIX)]
        self._records = records

    def of(self, place: RecordPlace) -> Popped | None:
        """Return the last check point of a message; None if no check point names it.

        Only an acknowledgement of that one counts: to make a message invisible for longer, a broker writes a
        further check point and acknowledges the one before (``ChangeInvisibleTimeProcessor``).
        """
        points, acks = self._found.get((place.topic, place.queue_id), ([], []))
        own = [one for one in points if place.queue_offset in one.offsets]
        if not own:
            return None
        last = max(own, key=lambda one: (one.pop_ms, one.record_offset))
        if last.has_acknowledged(place.queue_offset):
            return Popped(last, last.record_offset)
        of_last = (one for one in acks if (one.start, one.pop_ms) == (last.start, last.pop_ms))
        return Popped(
            last, next((one.record_offset for one in of_last if place.queue_offset in one.offsets), None)
        )

    @property
    def is_popping(self) -> bool:
        """Whether the group received anything by pop."""
        return bool(self._found)

    @cached_property
    def _found(self) -> dict[tuple[str, int], tuple[list[CheckPoint], list[Ack]]]:
        found: dict[tuple[str, int], tuple[list[CheckPoint], list[Ack]]] = {}
        for record in self._records.of(self._topics):
            body = self._body(record)
            place = None if body is None else _place(body)
            if body is None or place is None:
                continue
            points, acks = found.setdefault(place, ([], []))
            if record.properties.get("TAGS") == "ck":
                points.extend(_check_points(record, body))
            else:
                of_point = _number(body, "so"), _number(body, "pt")
                acks.append(Ack(record.physical_offset, *of_point, frozenset(_acknowledged(body))))
        return found

    def _body(self, record: Record) -> Mapping[str, object] | None:
        """Return the object in a check point or ack of the group."""
        if not meant_for(record).startswith(REVIVE_PREFIX):
            return None
        try:
            found = json.loads(record.body)
        except (ValueError, RecursionError):
            return None
        return found if isinstance(found, dict) and found.get("c") == self._group else None


def _place(body: Mapping[str, object]) -> tuple[str, int] | None:
    topic, queue_id = body.get("t"), body.get("q")
    return (topic, queue_id) if isinstance(topic, str) and isinstance(queue_id, int) else None


def _check_points(record: Record, body: Mapping[str, object]) -> Iterator[CheckPoint]:
    """Java: ``PopCheckPoint#ackOffsetByIndex``; without differences the messages follow one another."""
    start, count, bits, pop_ms, invisible_ms = (_number(body, name) for name in ("so", "n", "bm", "pt", "it"))
    if start is None or count is None or pop_ms is None or invisible_ms is None:
        return
    given = body.get("d")
    differences = [one for one in given if isinstance(one, int)] if isinstance(given, list) else []
    offsets = tuple(start + one for one in (differences or range(min(max(count, 0), _BITS))))
    yield CheckPoint(record.physical_offset, start, offsets, bits or 0, pop_ms, pop_ms + invisible_ms)


def _acknowledged(body: Mapping[str, object]) -> Iterator[int]:
    many = body.get("aol")
    for one in many if isinstance(many, list) else [body.get("ao")]:
        if isinstance(one, int):
            yield one


def _number(body: Mapping[str, object], name: str) -> int | None:
    value = body.get(name)
    return value if isinstance(value, int) else None
