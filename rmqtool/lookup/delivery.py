"""Deliveries of messages that waited: copies in their own topics, by unique key in a sound index."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqtool.derived.positions import DELAY_FILE, passed_delays
from rmqtool.derived.queues import find_queue, unit_of
from rmqtool.lookup.context import KeyQuestion, QueryContext, QueryRequest
from rmqtool.lookup.index import IndexSearch, index_problem
from rmqtool.lookup.queue import QueueConsumer
from rmqtool.progress import NullProgress, RecordingProgress
from rmqtool.scan.records import Record, record_at
from rmqtool.topics import HALF_TOPIC, SCHEDULE_TOPIC

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rmqtool.store import Store


class SoundIndex:
    """The index, as long as its answers show neither damage nor a part of the log that it lacks.

    Attributes:
        store: Its store.
        doubts: Why it does not answer, the start of a sentence; None while it does.
    """

    def __init__(self, store: Store, doubts: str | None = None) -> None:
        self.store = store
        problem = index_problem(store)
        self.doubts = doubts or (problem and problem[1])

    def places(self, questions: Sequence[KeyQuestion]) -> set[int] | None:
        """Return the physical offsets of all that match; None, from then on, if it cannot be trusted."""
        if self.doubts:
            return None
        remarks = RecordingProgress()
        beside = QueryContext(self.store, QueryRequest(), remarks)
        places = {offset for offsets in IndexSearch(beside).answers(questions) for offset in offsets}
        if remarks.warnings:
            self.doubts = remarks.warnings[0].partition(";")[0]
            return None
        return places

    def delivered(self, records: Sequence[Record]) -> list[list[Record]] | None:
        """Return the copies of each record that waited, in log order; None if that is unknown."""
        names = [name_of(record) for record in records]
        places = (
            None
            if None in names
            else self.places([KeyQuestion(*name, unique=True) for name in names if name])
        )
        if places is None:
            return None
        copies = [one for place in sorted(places) if (one := record_at(self.store.commitlog, place))]
        return [
            [
                copy
                for copy in copies
                if (copy.topic, copy.properties.get("UNIQ_KEY")) == name
                and copy.physical_offset > record.physical_offset
            ]
            for record, name in zip(records, names, strict=True)
        ]


def record_in(store: Store, topic: str, queue_id: int, queue_offset: int) -> Record | None:
    """Return the record of the log to which a unit leads; None without a unit or a record."""
    unit = unit_of(store, topic, queue_id, queue_offset)
    return None if unit is None else record_at(store.commitlog, unit.physical_offset)


def name_of(record: Record) -> tuple[str, str] | None:
    """Return the topic and unique key that the delivery of a waiting message has; None without one."""
    topic, unique = record.properties.get("REAL_TOPIC", ""), record.properties.get("UNIQ_KEY", "")
    return (topic, unique) if topic and unique else None


def never_delivered(index: SoundIndex, record: Record) -> str | None:
    """Return that its level has passed a delayed message for ever; None if not, or if that is unknown."""
    queue_id, number = record.head.queue_id, record.head.queue_offset
    passed = passed_delays(index.store) if record.topic == SCHEDULE_TOPIC else ()
    if not 0 <= queue_id < len(passed) or number >= passed[queue_id] or index.delivered([record]) != [[]]:
        return None
    level = f"{DELAY_FILE}: level {queue_id + 1} has offset {passed[queue_id]}, after the message, #{number}"
    topic = record.properties["REAL_TOPIC"]
    return f"{level}, and {topic} has no copy of it: it was passed over, and no consumer gets it"


_STEPS = 20_000
"""Steps from an index file to another that the count of one level may take."""


def count_passed(index: SoundIndex, queue_id: int, offset: int) -> int | None:
    """Return how many messages below the offset of a delay level were never delivered; None if it is unknown.

    Of a long queue only the newest ones below the offset are examined.
    """
    copies = count_deliveries(index, queue_id, offset)
    return None if copies is None else copies.count(0)


def count_deliveries(index: SoundIndex, queue_id: int, offset: int) -> list[int] | None:
    """Return how many copies each message below the offset of a delay level has; None if it is unknown."""
    return copies_below(index, queue_id, offset) if passed_delays(index.store) else None


def copies_below(index: SoundIndex, queue_id: int, offset: int) -> list[int] | None:
    """Return the same, whether or not the store says that any level has passed a message."""
    store = index.store
    queue = find_queue(store, SCHEDULE_TOPIC, queue_id)
    if queue is None or not queue.file_count:
        return None
    reader = QueueConsumer(QueryContext(store, QueryRequest(), NullProgress()), queue)
    low, high = reader.bounds
    most = _STEPS // max(len(store.index_files), 1)
    low, high = max(low, min(offset, high) - most), min(offset, high)
    records = [
        record
        for entry in (reader.entries(low, high - low) if high > low else ())
        if (record := reader.record(entry)) is not None and name_of(record) is not None
    ]
    queue.close()
    copies = index.delivered([record for record in records if record.properties["REAL_TOPIC"] != HALF_TOPIC])
    return None if copies is None else list(map(len, copies))
