"""Messages by tag through the consume queues, where the index has no tag items."""

from __future__ import annotations

import heapq
from itertools import chain, islice
from typing import TYPE_CHECKING

from rmqtool.dispatch.index_keys import ALL_TAG_ITEMS, tag_rule
from rmqtool.findings import counted
from rmqtool.formats.consumequeue import BATCH_UNITS, UNITS
from rmqtool.javacompat import string_hash
from rmqtool.lookup.context import Reason
from rmqtool.lookup.queue import QueueConsumer
from rmqtool.scan.records import Record, record_at
from rmqtool.store.kinds import UNIT_QUEUE_KINDS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.lookup.context import KeyQuestion, QueryContext
    from rmqtool.store import QueueFiles, Segment


def has_all_tag_items(context: QueryContext) -> bool:
    """Whether the index has an item for the tags of every message; adds a step."""
    rule = tag_rule(context.store)
    message = f"messages with tag items: {rule.value}, {rule.reason}"
    context.explanation.add(Reason.TAG_ITEMS, message, None, tagItems=str(rule.value))
    return rule.value == ALL_TAG_ITEMS


def by_tags_code(context: QueryContext, question: KeyQuestion) -> Iterator[Record]:
    """Yield the newest messages of a topic that have a tag, in the order of the log."""
    queues = chain.from_iterable(context.store.queues(kind, question.topic) for kind in UNIT_QUEUE_KINDS)
    sought = context.limit.sought
    searches = [_QueueSearch(context, question, queue) for queue in queues]
    newest = heapq.merge(
        *(islice(search.records(), sought) for search in searches),
        key=lambda record: record.physical_offset,
        reverse=True,
    )
    found = context.limit.newest(list(islice(newest, sought))[::-1])
    context.progress.note(
        f"answered by the consume queues: {counted(len(found), 'hit')} by the tags code,"
        " for not all messages have tag items in an index"
    )
    for search in searches:
        search.finish()
    yield from found


class _QueueSearch:
    """The search in one queue, from its end on."""

    def __init__(self, context: QueryContext, question: KeyQuestion, queue: QueueFiles) -> None:
        self._queue = QueueConsumer(context, queue)
        self._context = context
        self._question = question
        self._code = string_hash(question.key)
        self._units = self._candidates = 0

    def records(self) -> Iterator[Record]:
        """Yield the messages that answer, newest first."""
        request = self._context.request
        for segment in reversed(self._queue.queue.files.segments):
            for physical_offset in self._offsets(segment):
                record = record_at(self._context.store.commitlog, physical_offset)
                if record is None or not self._question.answered_by(record):
                    continue
                if request.admits_time(record.head.store_timestamp_ms):
                    yield record
                else:
                    self._context.left_out.add_time(record.head.store_timestamp_ms)

    def _offsets(self, segment: Segment) -> list[int]:
        """Return the places of a file's candidates, newest first.

        A code beyond 32 bits is not that of tags but the address of an ext unit, or a time of delivery.
        """
        import numpy as np  # most questions need none

        units = BATCH_UNITS if self._queue.is_of_batches else UNITS
        data = segment.read_at(0, segment.size_bytes, [])
        rows = np.frombuffer(data, units.dtype, len(data) // units.size)
        rows = rows[rows["size"] > 0]
        codes = rows["tagsCode"]
        found = rows["physicalOffset"][(codes == self._code) | (codes < -(1 << 31)) | (codes >= 1 << 31)]
        self._units += len(rows)
        self._candidates += len(found)
        offsets: list[int] = found[::-1].tolist()
        return offsets

    def finish(self) -> None:
        """Explain how far the search went, and which messages the queue lacks."""
        message = f"{self._queue.name}: of {counted(self._units, 'unit')}, {self._candidates} may have it"
        self._context.explanation.add(Reason.QUEUE, message, None, tagsCode=self._code)
        self._queue.check_begin()
        self._queue.check_end()
        self._queue.queue.files.close()
