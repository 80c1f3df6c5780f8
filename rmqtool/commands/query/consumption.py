"""Consumption of a message by a group: the evidence of offsets, copies for retry, dead letters and pop.

No store shows what a consumer did: a broker only learns how far it may go on. Most queries do not need this
module, so it is imported on use.

Origin: ``ConsumerOffsetManager``, ``LmqConsumerOffsetManager``, ``SubscriptionGroupManager``,
``MessageRequestModeManager`` (4.9.8, 5.3.3).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING

from rmqtool.commands.query.group_records import (
    WAITING_TOPICS,
    CheckPoint,
    GroupTopics,
    Lineage,
    MessageCopies,
    PopLog,
    TopicRecords,
    meant_for,
    queue_meant_for,
)
from rmqtool.derived.positions import DELAY_FILE, offsets_in
from rmqtool.derived.queues import bounds_of
from rmqtool.findings import Finding, counted, near_names
from rmqtool.javacompat import parse_int, parse_long
from rmqtool.lookup.delivery import never_delivered
from rmqtool.lookup.queue import RecordPlace
from rmqtool.lookup.topic_names import topics_of
from rmqtool.rows.messages import has_unit
from rmqtool.scan.records import Record, record_at
from rmqtool.store.broker_json import ConfigFileError, ConfigSource
from rmqtool.times import time_text
from rmqtool.topics import DEAD_LETTER_PREFIX, HALF_TOPIC, RETRY_PREFIX, ROCKSDB_HALF_TOPIC

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from rmqtool.lookup.context import QueryContext
    from rmqtool.progress import Progress
    from rmqtool.store import Store


class ConsumptionState(StrEnum):
    """Progress of a group with a message; the values are stable."""

    CONSUMED = "consumed"
    NOT_YET = "not-yet"
    IN_RETRY = "in-retry"
    DEAD_LETTERED = "dead-lettered"
    UNKNOWN = "unknown"

    @property
    def words(self) -> str:
        """Return it as people read it."""
        words = self.value.upper()
        return words if self is ConsumptionState.DEAD_LETTERED else words.replace("-", " ")


@dataclass(frozen=True, slots=True)
class Evidence:
    """One fact that a verdict rests on.

    Attributes:
        kind: ``offset``, ``copy``, ``pop``, ``group`` or ``message``.
        message: One sentence.
        file: Its source in the store; None if it is a record of the log.
        topic: Of the queue that it is about.
        queue_id: Of that queue.
        queue_offset: Of a message in it.
        committed_offset: Of the group in it: the next queue offset to be consumed.
        physical_offset: Of a record.
    """

    kind: str
    message: str
    file: str | None = None
    topic: str | None = None
    queue_id: int | None = None
    queue_offset: int | None = None
    committed_offset: int | None = None
    physical_offset: int | None = None


@dataclass(frozen=True, slots=True)
class Consumption:
    """The verdict of a store on one message and one group.

    Attributes:
        group: The group.
        state: The verdict.
        evidence: Its facts, the decisive one first.
    """

    group: str
    state: ConsumptionState
    evidence: tuple[Evidence, ...]

    @property
    def reason(self) -> str:
        """Return the decisive sentence."""
        return self.evidence[0].message


_HALF_TOPICS = (HALF_TOPIC, ROCKSDB_HALF_TOPIC)
_ACKNOWLEDGED = "the group acknowledged it or passed it over; no store knows the outcome"
_MAY_BE_AT_WORK = "not acknowledged, though the group may be at work on it"
_CLIENT_SIDE = "broadcasting consumers, and those that commit nothing, keep their offsets at the client"


_OFFSETS, _LIGHT_OFFSETS = "consumerOffset.json", "lmqConsumerOffset.json"
_READER = "group "
_NAMED = 5


class GroupOffsets:
    """The committed offsets of one group.

    Attributes:
        file: Their file, relative to the store; None without one.
        offsets: By topic and queue: the next queue offset to be consumed.
        known: The groups that offsets, subscriptions and topics of retries name.
        elsewhere: The database that may hold offsets and is not read; None without one.
        popped_elsewhere: The database of popped messages (5.4.0+) that is not read; None without one.
    """

    def __init__(self, store: Store, group: str, topics: Iterable[str], progress: Progress) -> None:
        self._store = store
        self._group = group
        self._progress = progress
        self.file: str | None = None
        self.offsets: dict[tuple[str, int], int] = {}
        prefixes = (RETRY_PREFIX, DEAD_LETTER_PREFIX)
        self.known = {
            topic.removeprefix(prefix) for prefix in prefixes for topic in topics if topic.startswith(prefix)
        }
        self._read_offsets()
        self.known.update(_member(self._document("subscriptionGroup.json"), "subscriptionGroupTable"))
        unread = [feature.label for feature in store.hidden]
        self.elsewhere = next((label for label in unread if label.startswith("config/")), None)
        self.popped_elsewhere = next((label for label in unread if label.startswith("kvStore")), None)

    def _read_offsets(self) -> None:
        """Read the first table that exists; with ``enableLmq`` a broker reads that of light queues alone."""
        names = [_OFFSETS, _LIGHT_OFFSETS]
        for name in reversed(names) if self._store.settings.enable_lmq else names:
            read = self._document(name)
            if read is None:
                continue
            self.file, document = read
            for consumed in offsets_in(self.file, document):
                reader = consumed.reader.removeprefix(_READER)
                self.known.add(reader)
                if reader == self._group:
                    self.offsets[consumed.topic, consumed.queue_id] = consumed.offset
            return

    def _document(self, name: str) -> tuple[str, object] | None:
        """Return a config file and its name: ``.bak`` where the other cannot be used."""
        try:
            document = ConfigSource(self._store.root).load(name)
        except ConfigFileError as failure:
            self._progress.warn(str(failure))
            return None
        if document is None:
            return None
        if document.problem is not None:
            self._progress.warn(f"{document.problem}; {document.path.name} is read instead")
        return f"config/{document.path.name}", document.document

    @property
    def missing_group(self) -> str | None:
        """Return that nothing in the store names the group, and which may be meant; else None."""
        if self._group in self.known or not self.are_all:
            return None
        near = near_names(self._group, sorted(self.known), _NAMED) if self.known else "it names no group"
        where = "offsets, subscriptions or retry topics"
        return f"the store has no group {self._group} in {where}; {near}"

    def is_popping(self, topic: str) -> bool:
        """Whether ``messageRequestMode.json`` (5.0.0+) gives the group a topic by pop."""
        modes = _member(
            self._document("messageRequestMode.json"), "messageRequestModeMap", topic, self._group
        )
        return modes.get("mode") == "POP"

    @property
    def are_all(self) -> bool:
        """Whether the group has committed no offsets elsewhere."""
        return self.file is not None and self.elsewhere is None


def _member(read: tuple[str, object] | None, *names: str) -> dict[str, object]:
    """Return an object inside a config file; empty without it."""
    document = None if read is None else read[1]
    for name in names:
        document = document.get(name) if isinstance(document, dict) else None
    return document if isinstance(document, dict) else {}


class ConsumptionJudge:
    """Judges how far a group has come with messages."""

    def __init__(self, context: QueryContext, group: str, note_defect: Callable[[Finding], None]) -> None:
        store = context.store
        self._context = context
        self._topics = GroupTopics(group)
        self._known = topics_of(store, context.progress)
        self.offsets = GroupOffsets(store, group, self._known, context.progress)
        records = TopicRecords(context, note_defect)
        self._copies = MessageCopies(context, self._topics, self._known, records)
        self._pops = PopLog(group, self._known, records)

    @cached_property
    def missing_group(self) -> str | None:
        """Return that the store does not name the group, and which may be meant; None if it does."""
        return self.offsets.missing_group

    def consumption(self, physical_offset: int) -> Consumption:
        """Return the verdict on the message at a physical offset.

        The newest copy decides: the group gets the last written one next, or got it last.
        """
        record = record_at(self._context.store.commitlog, physical_offset)
        if record is None:
            return self._verdict(ConsumptionState.UNKNOWN, _of_message("the message no longer exists", None))
        if self.missing_group is not None:
            return self._verdict(ConsumptionState.UNKNOWN, Evidence("group", self.missing_group))
        copies = self._copies.of(Lineage(record, self._topics))
        if copies:
            return self._by_copies(copies)
        waits = record.topic in WAITING_TOPICS
        if waits or record.topic in _HALF_TOPICS:
            return self._by_delivery(record, waits=waits)
        if not has_unit(record):
            why = "its record is of a transaction that is prepared or rolled back: no consumer gets it"
            return self._verdict(ConsumptionState.UNKNOWN, _of_message(why, record))
        return self._by_place(record)

    def _by_copies(self, copies: list[Record]) -> Consumption:
        newest, topic = copies[-1], meant_for(copies[-1])
        older = [_of_copy(record, "an earlier copy of it") for record in reversed(copies[:-1])]
        if topic == self._topics.dead_letter and newest.topic == topic:
            what = "it was written as a dead letter: the group does not get it again by itself"
            return self._verdict(ConsumptionState.DEAD_LETTERED, _of_copy(newest, what), *older)
        if newest.topic in WAITING_TOPICS:
            passed = self._passed_over(newest)
            if passed is not None:
                return self._verdict(ConsumptionState.UNKNOWN, passed, *older)
            what = f"it waits to be delivered to {topic}/{queue_meant_for(newest)}{self._due(newest)}"
            return self._verdict(ConsumptionState.IN_RETRY, _of_copy(newest, what), *older)
        consumption = self._by_place(newest)
        copy = _of_copy(newest, f"it was written again for the group, to {topic}")
        if consumption.state is ConsumptionState.NOT_YET:
            return self._verdict(ConsumptionState.IN_RETRY, copy, *consumption.evidence, *older)
        is_begun = (newest.topic, newest.head.queue_id) in self.offsets.offsets
        if consumption.state is ConsumptionState.UNKNOWN and self.offsets.are_all and not is_begun:
            what = (
                f"{self.offsets.file}: the group has no offset in {topic}, so it has consumed nothing of it"
            )
            none = Evidence("offset", what, self.offsets.file, topic, newest.head.queue_id)
            return self._verdict(ConsumptionState.IN_RETRY, copy, none, *older)
        return self._verdict(consumption.state, *consumption.evidence, copy, *older)

    def _by_delivery(self, record: Record, *, waits: bool) -> Consumption:
        """Judge a message in a topic of the broker's own by its delivery."""
        topic = record.properties.get("REAL_TOPIC", "")
        copies = self._copies.index.delivered([record])
        if copies is None and topic:
            why = (
                f"it is meant for {topic}; only a sound index and a unique key show whether it was delivered"
            )
            return self._verdict(ConsumptionState.UNKNOWN, _of_message(why, record))
        delivered = copies[0] if copies else []
        if delivered:
            consumption = self.consumption(delivered[-1].physical_offset)
            as_what = _of_message(f"it was delivered to {topic}", delivered[-1])
            return self._verdict(consumption.state, *consumption.evidence, as_what)
        passed = self._passed_over(record)
        if passed is not None:
            return self._verdict(ConsumptionState.UNKNOWN, passed)
        why = (
            f"it waits to be delivered to {topic}{self._due(record)}"
            if waits
            else f"its transaction is not committed: it is not in {topic}"
        )
        return self._verdict(ConsumptionState.NOT_YET, _of_message(why, record))

    def _passed_over(self, record: Record) -> Evidence | None:
        """Return that a delayed message is never delivered; None if its level may still come to it."""
        what = never_delivered(self._copies.index, record)
        if what is None:
            return None
        head = record.head
        return Evidence(
            "offset",
            what,
            DELAY_FILE,
            record.topic,
            head.queue_id,
            head.queue_offset,
            physical_offset=record.physical_offset,
        )

    def _due(self, record: Record) -> str:
        """Return when a waiting message is delivered."""
        due_ms = parse_long(record.properties.get("TIMER_OUT_MS", ""))
        level = parse_int(record.properties.get("DELAY", ""))
        if due_ms is None and level is not None:
            delay_ms = self._context.store.settings.delay_levels.delay_ms.get(level)
            due_ms = None if delay_ms is None else record.head.store_timestamp_ms + delay_ms
        return "" if due_ms is None else f", due at {time_text(due_ms)}"

    def _by_place(self, record: Record) -> Consumption:
        """Judge by the group's offset in the queue of a record, and by pop."""
        head = record.head
        number = parse_int(record.properties.get("INNER_NUM", "")) or 1
        place = RecordPlace(record.topic, head.queue_id, head.queue_offset + number - 1)
        popped = self._pops.of(place)
        if popped is not None:
            return self._by_pop(place, *popped)
        committed = self.offsets.offsets.get((place.topic, place.queue_id))
        if committed is None:
            return self._without_offset(place)
        return self._by_offset(place, committed)

    def _by_pop(self, place: RecordPlace, point: CheckPoint, ack_offset: int | None) -> Consumption:
        words = f"{place.topic}/{place.queue_id} #{place.queue_offset}"
        where = f"by pop, {words}, at {time_text(point.pop_ms)}"
        if ack_offset is not None:
            what = f"the group got it {where}, and acknowledged it; no store knows the outcome"
            return self._verdict(ConsumptionState.CONSUMED, _of_place("pop", what, place, ack_offset))
        what = (
            f"the group got it {where}, and has not acknowledged it; it comes back as a retry if that is not"
            f" done by {time_text(point.due_ms)}"
        )
        return self._verdict(ConsumptionState.NOT_YET, _of_place("pop", what, place, point.record_offset))

    def _by_offset(self, place: RecordPlace, committed: int) -> Consumption:
        def evidence(what: str) -> Evidence:
            said = (
                f"{self.offsets.file}: the group's offset in {place.topic}/{place.queue_id} is {committed}, "
            )
            return Evidence(
                "offset", said + what, self.offsets.file, *place[:2], place.queue_offset, committed
            )

        if committed <= place.queue_offset:
            what = f"the message is {place.queue_offset}: {_MAY_BE_AT_WORK}"
            return self._verdict(ConsumptionState.NOT_YET, evidence(what))
        problem = self._offset_problem(place, committed)
        if problem is not None:
            return self._verdict(ConsumptionState.UNKNOWN, evidence(problem))
        return self._verdict(
            ConsumptionState.CONSUMED, evidence(f"after the message, {place.queue_offset}: {_ACKNOWLEDGED}")
        )

    def _offset_problem(self, place: RecordPlace, committed: int) -> str | None:
        """Return why an offset after a message does not show that it was consumed; None if it does."""
        bounds = bounds_of(self._context.store, place.topic, place.queue_id)
        if bounds is not None and committed > (end := bounds.max_offset):
            return f"after the queue's end, {end}: it is of another queue of that name, or the log was cut"
        if self.offsets.popped_elsewhere and self._is_popping(place.topic):
            what = f"unacknowledged messages are in {self.offsets.popped_elsewhere}, not read"
            return f"but the group gets the topic by pop, and {what}"
        return None

    def _is_popping(self, topic: str) -> bool:
        retries = {*self._topics.pop_retries(topic)}
        return self._pops.is_popping or self.offsets.is_popping(topic) or not retries.isdisjoint(self._known)

    def _without_offset(self, place: RecordPlace) -> Consumption:
        file = self.offsets.file
        begun = [queue_id for topic, queue_id in self.offsets.offsets if topic == place.topic]
        if begun and file is not None:
            others = counted(len(begun), "other queue")
            what = f"{file}: the group has an offset in {others} of {place.topic}, none in this one"
            return self._verdict(ConsumptionState.NOT_YET, _of_place("offset", what, place, None, file))
        if self.offsets.elsewhere is not None:
            what = f"the group's offsets are in {self.offsets.elsewhere}, which is not read"
        elif file is None:
            what = "config/consumerOffset.json is missing: the offsets of groups are unknown"
        else:
            what = f"{file}: the group has no offset in {place.topic}; {_CLIENT_SIDE}"
        return self._verdict(ConsumptionState.UNKNOWN, _of_place("offset", what, place, None, file))

    def _verdict(self, state: ConsumptionState, *evidence: Evidence) -> Consumption:
        return Consumption(self._topics.group, state, evidence)


def _of_place(
    kind: str, message: str, place: RecordPlace, physical_offset: int | None, file: str | None = None
) -> Evidence:
    return Evidence(kind, message, file, *place, physical_offset=physical_offset)


def _of_copy(record: Record, what: str) -> Evidence:
    head = record.head
    times = f"log offset {record.physical_offset}, {record.topic}/{head.queue_id} #{head.queue_offset}"
    stored = time_text(head.store_timestamp_ms)
    message = f"{what} ({times}, reconsumeTimes {head.reconsume_times}, stored {stored})"
    place = record.topic, head.queue_id, head.queue_offset
    return Evidence("copy", message, None, *place, physical_offset=record.physical_offset)


def _of_message(message: str, record: Record | None) -> Evidence:
    return Evidence("message", message, physical_offset=None if record is None else record.physical_offset)
