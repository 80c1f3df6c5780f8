"""Messages by key or tag: through the index, or the consume queues where the index has no tag items."""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from itertools import chain, islice
from typing import TYPE_CHECKING

from rmqtool.commands.query.index import IndexSearch, header_times, index_files
from rmqtool.commands.query.miss_reasons import explain_absence
from rmqtool.derived.index_files import LARGEST_LONG, IndexFile
from rmqtool.dispatch.index_keys import ALL_TAG_ITEMS, tag_rule
from rmqtool.findings.model import counted
from rmqtool.formats.consumequeue import BATCH_UNITS, UNITS
from rmqtool.javacompat import string_hash
from rmqtool.lookup.explain import Reason
from rmqtool.lookup.queue import QueueConsumer
from rmqtool.scan.records import Record, record_at
from rmqtool.store.kinds import UNIT_QUEUE_KINDS
from rmqtool.times import time_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rmqtool.lookup.context import KeyQuestion, QueryContext
    from rmqtool.store import QueueFiles, Segment


def broker_hits(context: QueryContext, questions: Sequence[KeyQuestion]) -> list[list[int]]:
    """Return the physical offsets that a broker's index has for each key, ascending.

    Java: ``IndexService#queryOffset``, ``DefaultMessageStore#queryMessage`` (4.9.8, 5.3.3), which sorts them.
    """
    request = context.request
    begin_ms = request.begin_ms or 0
    end_ms = LARGEST_LONG if request.end_ms is None else request.end_ms
    walks = [_Walk(context, question.key_hash, begin_ms, end_ms) for question in questions]
    found: list[list[int]] = [[] for _ in questions]
    sought = context.limit.sought
    for file in _consulted(context, begin_ms, end_ms):
        for walk, hits in zip(walks, found, strict=True):
            hits.extend(islice(walk.hits(file), None if sought is None else sought - len(hits)))
        if all(len(hits) == sought for hits in found):
            break
    return [_cut(context, hits) for hits in found]


def _cut(context: QueryContext, hits: list[int]) -> list[int]:
    """Return the wanted number of the newest hits, ascending; they come in a broker's order."""
    return sorted(context.limit.newest(hits[::-1]))


def _consulted(context: QueryContext, begin_ms: int, end_ms: int) -> Iterator[IndexFile]:
    """Yield the files that a broker walks: newest first, none after one that begins too early."""
    for index_file in index_files(context):
        header, label = index_file.header, index_file.file.label
        if index_file.is_short:
            continue
        first = header.begin_timestamp_ms
        if index_file.is_time_matched(begin_ms, end_ms):
            yield index_file
        else:
            message = f"{label}: ruled out, its header says {header_times(header)}"
            context.explanation.add(Reason.FILE_OUT_OF_TIME, message, label)
        if first < begin_ms:
            message = f"{label} begins before --begin: older files are skipped"
            context.explanation.add(Reason.FILE_NOT_NEEDED, message, label)
            return


@dataclass(frozen=True, slots=True)
class _Walk:
    """A broker's walk through the chain of one key."""

    context: QueryContext
    key_hash: int
    begin_ms: int
    end_ms: int

    def hits(self, index_file: IndexFile) -> Iterator[int]:
        """Yield the hits of one file, newest first.

        Java: ``IndexFile#selectPhyOffset`` (4.9.8, 5.3.3). It also follows a link that does not descend,
        round and round; here that ends the chain, with a warning.
        """
        header = index_file.header
        if not index_file.has_items:
            return
        slot = self.key_hash % index_file.slots
        number, newest = index_file.slot(slot), header.index_count
        label = index_file.file.label
        message = f"{label}: slot {slot} points to item {number}"
        self.context.explanation.add(Reason.FILE_WALKED, message, label, slot=slot, item=number)
        while 0 < number <= newest:
            item = index_file.item(number)
            if item is None or item.time_diff < 0:
                return
            time_ms = header.begin_timestamp_ms + item.time_diff * 1000
            if item.key_hash == self.key_hash:
                if self.begin_ms <= time_ms <= self.end_ms:
                    yield item.physical_offset
                else:
                    self._explain_time(label, number, time_ms)
            if item.previous == number or time_ms < self.begin_ms:
                return
            if item.previous > number:
                what = f"{label} is damaged: item {number} is followed by item {item.previous}"
                self.context.explain_doubt(Reason.CHAIN_BROKEN, what, label, item=number)
                return
            number = item.previous

    def _explain_time(self, label: str, number: int, time_ms: int) -> None:
        message = f"{label}: item {number} is left out, its time is {time_text(time_ms)}"
        self.context.explanation.add(Reason.ITEM_OUT_OF_TIME, message, label, item=number)


Match = tuple["KeyQuestion | None", "Record"]


def indexed(context: QueryContext, questions: Sequence[KeyQuestion]) -> Iterator[Match]:
    """Yield the newest hits that answer each question, in the order of the log, as a broker does."""
    search = IndexSearch(context)
    found = search.answers(questions)
    count = sum(map(len, found))
    is_of_many = context.request.keys is not None
    missing = [question for question, offsets in zip(questions, found, strict=True) if not offsets]
    if missing and (not count or is_of_many):
        explain_absence(context, missing)
    _explain_limit(context, max(map(len, found), default=0))
    over = f" for {counted(len(questions), 'key')}" if is_of_many else ""
    left_out = str(context.left_out)
    others = f"; left out: {left_out}" if left_out else ""
    context.progress.note(f"answered by the index: {counted(count, 'hit')}{over}{others}")
    for question, offsets in zip(questions, found, strict=True):
        for offset in offsets:
            record = record_at(context.store.commitlog, offset)
            if record is not None:
                yield question, record


def _explain_limit(context: QueryContext, most: int) -> None:
    limit = context.store.settings.max_msgs_num_batch
    if most > limit:
        message = f"a broker returns at most {limit} hits (maxMsgsNumBatch); here are {most}"
        context.explanation.add(Reason.BROKER_LIMIT, message)


def with_collisions(context: QueryContext, questions: Sequence[KeyQuestion]) -> Iterator[Match]:
    """Yield every hit as a broker does, whatever its key and topic, question by question."""
    found = broker_hits(context, questions)
    count = sum(map(len, found))
    context.progress.note(f"answered by the index: {counted(count, 'hit')} as a broker finds them")
    for question, offsets in zip(questions, found, strict=True):
        for offset in offsets:
            record = record_at(context.store.commitlog, offset)
            if record is not None:
                yield question, record
            else:
                context.explain_nothing_at(offset)


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
