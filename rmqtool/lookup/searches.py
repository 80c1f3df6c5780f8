"""Messages by store time, as they were stored in order, or by tag: searches in the queues of a topic."""

from __future__ import annotations

import heapq
from bisect import bisect_left
from itertools import chain, islice
from typing import TYPE_CHECKING

from rmqtool.derived.queues import find_queue, queues_of
from rmqtool.dispatch.index_keys import ALL_TAG_ITEMS, tag_rule
from rmqtool.findings import counted
from rmqtool.javacompat import string_hash
from rmqtool.lookup.context import KeyQuestion, QueryContext, Reason
from rmqtool.lookup.queue import QueueConsumer, QueueEntry, doubt_missing_queues, is_in_batch
from rmqtool.scan.records import Record, record_at
from rmqtool.store.kinds import UNIT_QUEUE_KINDS, PathKind
from rmqtool.times import time_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.derived.queues import LiveUnits, Queue


_SKIPPED = 1000  # units without a message that are skipped to find the time of a place in the queue


def records_by_time(context: QueryContext) -> Iterator[Record]:
    """Yield the messages of a topic or queue that were stored between two times, in log order.

    Java: ``ConsumeQueue#getOffsetInQueueByTime`` (5.3.3) finds the same first message; 4.9.8 first chooses a
    file of the queue by its modification time, which a copy does not keep.
    """
    store, request = context.store, context.request
    topic, queue_id = request.topic or "", request.queue_id
    if queue_id is None:
        queues = list(chain.from_iterable(queues_of(store, kind, topic) for kind in UNIT_QUEUE_KINDS))
        doubt_missing_queues(context, topic)
    else:
        queues = list(filter(None, [find_queue(store, topic, queue_id)]))
    records = [_TimeSearch(context, QueueConsumer(context, queue)).records() for queue in queues]
    if queues:
        message = (
            "a 4.9 broker first chooses a file of the queue by its modification time: on a copy of the store"
            " its answer can be another one"
        )
        context.explanation.add(Reason.MODIFICATION_TIMES, message)
    if any(queue.kind is PathKind.BATCHCONSUMEQUEUE for queue in queues):
        message = (  # BatchConsumeQueue#getOffsetInQueueByTime (5.3.3)
            "for a time between two files of a batch queue, a broker begins with the last batch of the"
            " older file, which was stored before"
        )
        context.explanation.add(Reason.BATCH_QUEUE, message)
    yield from heapq.merge(*records, key=lambda record: record.physical_offset)


class _TimeSearch:
    def __init__(self, context: QueryContext, reader: QueueConsumer) -> None:
        self._context = context
        self._reader = reader
        self._log = context.store.commitlog
        self._request = context.request
        self._low, self._high = reader.bounds
        self._met_end = False

    def records(self) -> Iterator[Record]:
        """Yield the messages between the times, in queue order."""
        first = self.first_offset()
        message = (
            f"{self._reader.name}: of the queue offsets from {self._low} to before {self._high}, {first} is"
            f" the first that was stored at {time_text(self._request.begin_ms or 0)} or later"
        )
        bounds = {"minOffset": self._low, "maxOffset": self._high}
        self._context.explanation.add(Reason.QUEUE, message, None, queueOffset=first, **bounds)
        if first == self._low:
            self._reader.check_begin()
        yield from self._walk(first)
        self._check_order(first)
        self._reader.queue.close()

    def _walk(self, first: int) -> Iterator[Record]:
        end_ms = self._request.end_ms
        for entry in self._reader.entries(first):
            record = self._reader.record(entry, of_any_offset=True)
            if record is None:
                continue
            time_ms = record.head.store_timestamp_ms
            if end_ms is not None and time_ms > end_ms:
                self._met_end = True
                return
            if self._request.admits_time(time_ms):
                yield record

    def first_offset(self) -> int:
        """Return the queue offset of the first message that is not too early; after the last if none is."""
        begin_ms = self._request.begin_ms
        if begin_ms is None:
            return self._low

        def is_late(number: int) -> bool:
            time_ms = self._time_from(self._low + number)
            return time_ms is None or time_ms >= begin_ms

        return self._low + bisect_left(range(self._high - self._low), True, key=is_late)

    def _time_from(self, queue_offset: int) -> int | None:
        """Return when a message was stored; if it cannot be read, when one of the next ones was."""
        for entry in self._reader.entries(queue_offset, _SKIPPED):
            record = record_at(self._log, entry.physical_offset)
            if record is not None and self._reader.place_of(record) is not None:
                self._check_place(queue_offset, entry, record)
                return record.head.store_timestamp_ms
        return None

    def _check_place(self, wanted: int, entry: QueueEntry, record: Record) -> None:
        """Warn if units are in the wrong slots, where a binary search fails."""
        place = self._reader.place_of(record)
        is_within = wanted < entry.queue_offset or is_in_batch(wanted, entry, record)
        if place != entry.queue_offset or (self._reader.is_of_batches and not is_within):
            units = f"at offset {wanted} is the message of queue offset {place}"
            self._context.doubt(f"the units of {self._reader.name} are in the wrong slots: {units}")

    def _check_order(self, first: int) -> None:
        """Warn if the ends of the queue contradict the result: its store times do not ascend then."""
        begin_ms, end_ms = self._request.begin_ms, self._request.end_ms
        oldest = self._time_from(self._low) if first > self._low else None
        newest = self._time_from(self._high - 1) if first < self._high else None
        starts_late = oldest is not None and begin_ms is not None and oldest >= begin_ms
        ends_early = newest is not None and begin_ms is not None and newest < begin_ms
        stopped_early = self._met_end and newest is not None and end_ms is not None and newest <= end_ms
        if starts_late or ends_early or stopped_early:
            self._context.doubt(f"the store times of {self._reader.name} do not ascend")


def has_all_tag_items(context: QueryContext) -> bool:
    """Whether the index has an item for the tags of every message; adds a step."""
    rule = tag_rule(context.store)
    message = f"messages with tag items: {rule.value}, {rule.reason}"
    context.explanation.add(Reason.TAG_ITEMS, message, None, tagItems=str(rule.value))
    return rule.value == ALL_TAG_ITEMS


def records_by_tag(context: QueryContext, question: KeyQuestion) -> Iterator[Record]:
    """Yield the newest messages of a topic that have a tag, in the order of the log."""
    queues = chain.from_iterable(queues_of(context.store, kind, question.topic) for kind in UNIT_QUEUE_KINDS)
    doubt_missing_queues(context, question.topic)
    sought = context.limit.sought
    searches = [_TagSearch(context, question, queue) for queue in queues]
    newest = heapq.merge(
        *(islice(search.records(), sought) for search in searches),
        key=lambda record: record.physical_offset,
        reverse=True,
    )
    records = context.limit.newest(list(islice(newest, sought))[::-1])
    context.progress.note(
        f"answered by the consume queues: {counted(len(records), 'hit')} by the tags code,"
        " for not all messages have tag items in an index"
    )
    for search in searches:
        search.finish()
    yield from records


class _TagSearch:
    """The search in one queue, from its end on."""

    def __init__(self, context: QueryContext, question: KeyQuestion, queue: Queue) -> None:
        self._queue = QueueConsumer(context, queue)
        self._context = context
        self._question = question
        self._code = string_hash(question.key)
        self._units = self._candidates = 0

    def records(self) -> Iterator[Record]:
        """Yield the messages that answer, newest first."""
        request = self._context.request
        for units in self._queue.queue.newest_units():
            for physical_offset in self._offsets(units):
                record = record_at(self._context.store.commitlog, physical_offset)
                if record is None or not self._question.answered_by(record):
                    continue
                if request.admits_time(record.head.store_timestamp_ms):
                    yield record
                else:
                    self._context.rejected.add_time(record.head.store_timestamp_ms)

    def _offsets(self, units: LiveUnits) -> list[int]:
        """Return the places of candidates, newest first.

        A code beyond 32 bits is not that of tags but the address of an ext unit, or a time of delivery.
        """
        codes = units.tags_codes
        places = units.physical_offsets[(codes == self._code) | (codes < -(1 << 31)) | (codes >= 1 << 31)]
        self._units += len(codes)
        self._candidates += len(places)
        offsets: list[int] = places[::-1].tolist()
        return offsets

    def finish(self) -> None:
        """Explain how far the search went, and which messages the queue lacks."""
        message = f"{self._queue.name}: of {counted(self._units, 'unit')}, {self._candidates} may have it"
        self._context.explanation.add(Reason.QUEUE, message, None, tagsCode=self._code)
        self._queue.check_begin()
        self._queue.check_end()
        self._queue.queue.close()
