"""Messages by tag: through the index where all messages have tag items, else through the consume queues.

A broker of 5.4.0 or later answers from its tag items alone (index type ``T``), and so misses what an older
one dispatched. The units of a consume queue hold the hash of TAGS whatever the broker; the records decide.
"""

from __future__ import annotations

import heapq
from itertools import chain, islice
from typing import TYPE_CHECKING

from rmqtool.commands.query.explain import Reason
from rmqtool.commands.query.queue import QueueReader
from rmqtool.dispatch.tag_evidence import tag_rule
from rmqtool.dispatch.tag_items import ALL_TAG_ITEMS
from rmqtool.findings.wording import counted
from rmqtool.formats import consumequeue, struct_of
from rmqtool.javacompat import string_hash
from rmqtool.scan.record_at import record_at
from rmqtool.store import PathKind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.commands.query.inquiry import Inquiry
    from rmqtool.commands.query.request import KeyQuestion
    from rmqtool.scan.records import Record
    from rmqtool.store import QueueFiles, Segment

_UNIT = struct_of(consumequeue.UNIT)
_BATCH_UNIT = struct_of(consumequeue.BATCH_UNIT)
_CHUNK_UNITS = 1 << 14


def has_all_tag_items(inquiry: Inquiry) -> bool:
    """Tell whether the index has an item for the tags of every message, and say so."""
    rule = tag_rule(inquiry.store)
    message = f"messages with tag items: {rule.value}, {rule.reason}"
    inquiry.explanation.add(Reason.TAG_ITEMS, message, None, tagItems=str(rule.value))
    return rule.value == ALL_TAG_ITEMS


def by_tags_code(inquiry: Inquiry, question: KeyQuestion) -> Iterator[Record]:
    """Yield the newest messages of a topic that have a tag, in the order of the log."""
    kinds = (PathKind.CONSUMEQUEUE, PathKind.BATCHCONSUMEQUEUE)
    queues = chain.from_iterable(inquiry.store.queues(kind, question.topic) for kind in kinds)
    wanted = inquiry.request.max_messages
    searches = [_QueueSearch(inquiry, question, queue) for queue in queues]
    newest = heapq.merge(
        *(islice(search.records(), wanted) for search in searches),
        key=lambda record: record.physical_offset,
        reverse=True,
    )
    found = list(islice(newest, wanted))
    inquiry.progress.note(
        f"answered by the consume queues: {counted(len(found), 'hit')} by the tags code,"
        " for not all messages have tag items in an index"
    )
    for search in searches:
        search.finish()
    yield from reversed(found)


class _QueueSearch:
    """The search in one queue, from its end on."""

    def __init__(self, inquiry: Inquiry, question: KeyQuestion, queue: QueueFiles) -> None:
        self._reader = QueueReader(inquiry, queue)
        self._inquiry = inquiry
        self._question = question
        self._code = string_hash(question.key)
        self._units = self._candidates = 0

    def records(self) -> Iterator[Record]:
        """Yield the messages that answer, newest first."""
        request = self._inquiry.request
        for segment in reversed(self._reader.queue.files.segments):
            for physical_offset in self._offsets(segment):
                record = record_at(self._inquiry.store.commitlog, physical_offset)
                if record is None or not self._question.answered_by(record):
                    continue
                if request.admits_time(record.head.store_timestamp_ms):
                    yield record

    def _offsets(self, segment: Segment) -> Iterator[int]:
        """Yield where the candidates of a file lie, newest first.

        A code beyond 32 bits is none of tags but the address of an ext unit, or a time of delivery.
        """
        unit = _BATCH_UNIT if self._reader.is_of_batches else _UNIT
        count = segment.size_bytes // unit.size
        for stop in range(count, 0, -_CHUNK_UNITS):
            start = max(stop - _CHUNK_UNITS, 0)
            data = segment.read_at(start * unit.size, (stop - start) * unit.size, [])
            whole = data[: len(data) // unit.size * unit.size]
            rows = [row[:3] for row in unit.iter_unpack(whole)]
            self._units += len(rows)
            for physical_offset, size, code in reversed(rows):
                if size > 0 and (code == self._code or not -(1 << 31) <= code < 1 << 31):
                    self._candidates += 1
                    yield physical_offset

    def finish(self) -> None:
        """Say how far the search went, and what the queue does not hold."""
        message = f"{self._reader.name}: of {counted(self._units, 'unit')}, {self._candidates} may have it"
        self._inquiry.explanation.add(Reason.QUEUE, message, None, tagsCode=self._code)
        self._reader.check_begin()
        self._reader.check_end()
        self._reader.queue.files.close()
