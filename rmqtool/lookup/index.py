"""Messages by key: the index names candidates, the records decide; and the index's coverage of the log."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING

from rmqtool.derived.index_files import (
    LARGEST_LONG,
    IndexFile,
    index_headers,
    opened_index_files,
    warn_of_assumed_geometry,
)
from rmqtool.derived.queues import queues_of, unit_of
from rmqtool.dispatch.index_keys import of_other_keys
from rmqtool.findings import Finding, Severity, codes, counted
from rmqtool.formats.message import TRANSACTION_MASK, TRANSACTION_ROLLBACK
from rmqtool.javacompat import item_hashes, string_hash
from rmqtool.lookup.context import KeyQuestion, QueryContext, QueryRequest, Reason
from rmqtool.rows.messages import keys_of
from rmqtool.scan.record_walk import record_finding
from rmqtool.scan.records import Record, record_at
from rmqtool.store.kinds import PathKind
from rmqtool.times import second_text, time_text
from rmqtool.topics import SCHEDULE_TOPIC

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rmqtool.formats.index import HeaderFields, ItemFields
    from rmqtool.store import Store


def is_indexed(record: Record) -> bool:
    """Whether a broker puts a record into the index.

    Java: ``IndexService#buildIndex`` (4.9.8, 5.3.3).
    """
    return not is_rolled_back(record) and bool(keys_of(record))


def is_rolled_back(record: Record) -> bool:
    """Whether the record's transaction was rolled back."""
    return record.head.sys_flag & TRANSACTION_MASK == TRANSACTION_ROLLBACK


def coverage(store: Store) -> tuple[int, int] | None:
    """Return physical offsets of the first and the last indexed message; None without items."""
    headers = [header for header in index_headers(store.index_files) if header.index_count > 1]
    if not headers:
        return None
    return min(header.begin_phy_offset for header in headers), max(
        header.end_phy_offset for header in headers
    )


INDEX = {PathKind.INDEX: "an index"}
QUEUES = {PathKind.CONSUMEQUEUE: "consume queues", PathKind.BATCHCONSUMEQUEUE: "consume queues"}


def part_problem(store: Store, needed: Mapping[PathKind, str]) -> tuple[Reason, str] | None:
    """Return that the path is only a part of a store, and has nothing of what the answer needs; else None."""
    if store.kind is PathKind.STORE or any(kind in store.roots for kind in needed):
        return None
    what = next(iter(needed.values()))
    return (
        Reason.PART,
        f"{store.place.path}: is only the {store.kind.value} of a store, without {what} to query",
    )


def index_problem(store: Store) -> tuple[Reason, str] | None:
    """Return why no index can answer; None if there are index files."""
    if store.index_files:
        return None
    directory = store.root / "index" if store.root is not None else None
    if directory is not None and store.around.is_in_database(PathKind.INDEX):
        return Reason.INDEX_ROCKSDB, f"{directory} is a RocksDB database, which is not read"
    if not store.settings.message_index_enable:
        return Reason.INDEX_DISABLED, "messageIndexEnable is false: this broker builds no index"
    return Reason.INDEX_MISSING, f"there are no index files in {directory or store.place.path}"


class SearchedIndex:
    """Follows a search through the index files, newest first, and examines the log between them.

    A broker indexes every message once, in the order of the log: where one file ends the next begins, and
    between the two, before the first and after the last there is no message with keys.
    """

    def __init__(self, context: QueryContext) -> None:
        self._context = context
        self._log = context.store.commitlog
        self._newer: tuple[str, int] | None = None

    def examine(self, index_file: IndexFile | None) -> None:
        """Examine the log after a file and before the newer one; with None, before the oldest file."""
        start, stop, newer = self._log.start - 1, None, self._newer
        facts: dict[str, int | None] = {"physicalOffset": None}
        if index_file is not None:
            header, label = index_file.header, index_file.file.label
            if index_file.last_item == 0:
                return
            self._newer = label, header.begin_phy_offset
            start = facts["physicalOffset"] = header.end_phy_offset
            reason, what = Reason.INDEX_BEHIND, f"the index goes up to log offset {start}"
            if newer is not None:
                name, stop = newer
                facts["nextPhysicalOffset"] = stop
                if start > stop:
                    message = f"{label} ends with log offset {start}, and {name} begins with {stop}"
                    self._context.explain_doubt(Reason.INDEX_GAP, message, label, **facts)
                    return
                reason = Reason.INDEX_GAP
                what = f"{label} goes up to log offset {start}, {name} begins with {stop}"
        elif newer is None:
            reason, what = Reason.INDEX_BEHIND, "the index files hold nothing"
        else:
            stop = facts["physicalOffset"] = newer[1]
            reason, what = Reason.INDEX_BEGINS_LATER, f"the index begins with log offset {stop}"
        from rmqtool.lookup.queue import peek_after  # an answer needs none of it

        look = peek_after(self._log, start, stop, is_indexed)
        if look.record is not None:
            offset = look.record.physical_offset
            message = f"{what}: the message at log offset {offset} has keys and is not indexed"
            self._context.explain_doubt(reason, message, None, unindexedPhysicalOffset=offset, **facts)
        elif not look.is_complete and reason is not Reason.INDEX_GAP:
            message = f"{what}: later messages are not indexed, or have no keys"
            self._context.explanation.add(reason, message, None, **facts)


_INT_MIN, _INT_MAX = -(1 << 31), (1 << 31) - 1
_SUSPICIOUS = (Reason.NO_RECORD, Reason.WRONG_RECORD)


@dataclass(slots=True)
class _Search:
    """The search for one key, with its hits so far, newest first."""

    question: KeyQuestion
    key_hash: int
    found: list[int] = field(default_factory=list)
    seen: set[int] = field(default_factory=set)  # a repeated key or dispatch makes several items of a message


class IndexSearch:
    """Looks keys up in all index files, whatever the times in their headers.

    A broker rules files out by those times, which a clock that was set back makes wrong. Messages that it
    would miss are found here, and reported. Of the request, the times and the limit for each key count.
    """

    def __init__(self, context: QueryContext) -> None:
        self._context = context
        self._log = context.store.commitlog
        self._request = context.request
        self._explanation = context.explanation
        self._limit = context.limit

    def answers(self, questions: Sequence[KeyQuestion]) -> list[list[int]]:
        """Return the physical offsets that match each question, ascending; the newest, if there are more.

        Java: ``IndexService#queryOffset``, ``IndexFile#selectPhyOffset`` (4.9.8, 5.3.3). Where a chain is
        broken, older messages of that file may be missed; the answer says so, as it does for messages outside
        the files' coverage.
        """
        searches = [_Search(question, question.key_hash) for question in questions]
        reach = SearchedIndex(self._context)
        for index_file in index_files(self._context):
            reach.examine(index_file)
            label = index_file.file.label
            wanted = [search for search in searches if not self._is_full(search)]
            if not wanted:
                message = f"{label}: as many messages as wanted were found in newer files"
                self._explanation.add(Reason.FILE_NOT_NEEDED, message, label)
                break
            times = _wanted_times(self._request)
            is_left_out = not index_file.is_short and not index_file.is_time_matched(*times)
            if is_left_out and times != (0, LARGEST_LONG):
                why = f"its header says {header_times(index_file.header)}"
                message = f"{label}: a broker rules it out, because {why}; walked here all the same"
                self._explanation.add(Reason.FILE_OUT_OF_TIME, message, label)
            for search in sorted(wanted, key=lambda one: one.key_hash % index_file.slots):
                self._walk(index_file, search)
        else:
            reach.examine(None)
        return [list(self._limit.newest(sorted(search.found))) for search in searches]

    def _is_full(self, search: _Search) -> bool:
        return len(search.found) == self._limit.sought

    def _walk(self, index_file: IndexFile, search: _Search) -> None:
        slot, label = search.key_hash % index_file.slots, index_file.file.label
        last, items, hits, place = None, 0, 0, len(self._explanation.steps)
        for last in index_file.chain(slot):
            items += 1
            self._check_slot(index_file, slot, *last)
            if last[1].key_hash == search.key_hash:
                hits += 1
                self._judge(index_file, *last, search)
                if self._is_full(search):
                    break
        key = search.question.key
        if self._request.is_of_any_topic:
            key = f"{search.question.topic}#{key}"
        if items:  # before the steps of its items
            number = counted(items, "item")
            message = f"{label}: slot {slot} points to {number}, {hits} with the hash of {key}"
            facts = {"slot": slot, "items": items, "hits": hits}
            self._explanation.add(Reason.FILE_WALKED, message, label, place, **facts)
        elif index_file.slot(slot) == 0:
            message = f"{label}: slot {slot} of {key} is empty"
            self._explanation.add(Reason.SLOT_EMPTY, message, label, slot=slot)
            if index_file.lost_slots:  # the wanted one may be among them
                more = counted(index_file.lost_slots, "slot")
                message = f"{label} is damaged: its header counts {more} more than are in use"
                self._context.explain_doubt(Reason.INDEX_DAMAGED, message, label)
        problem = None if self._is_full(search) else index_file.chain_problem(slot, last)
        if problem is not None and last is None:
            self._context.doubt(f"{label} is damaged: {problem}")
            why = f"{label}: {problem}; a broker takes such a slot, stale after a crash, for empty"
            self._explanation.add(Reason.SLOT_STALE, why, label, slot=slot)
        elif problem is not None:
            message = f"{label} is damaged: {problem}"
            self._context.explain_doubt(Reason.CHAIN_BROKEN, message, label, slot=slot)

    def _check_slot(self, index_file: IndexFile, slot: int, number: int, item: ItemFields) -> None:
        """Warn if an item is in a chain that its hash does not lead to: it may be a wanted one."""
        if item.key_hash >= 0 and item.key_hash % index_file.slots == slot:
            return
        label = index_file.file.label
        what = f"item {number} of slot {slot} has the hash {item.key_hash}, which belongs to another slot"
        message = f"{label} is damaged: {what}"
        self._context.explain_doubt(Reason.WRONG_SLOT, message, label, item=number, slot=slot)

    def _judge(self, index_file: IndexFile, number: int, item: ItemFields, search: _Search) -> None:
        """Decide on one hit by its record."""
        label, offset, rejected = index_file.file.label, item.physical_offset, self._context.rejected
        message = f"{label}: item {number} points to log offset {offset}"
        if offset in search.seen:
            refusal: tuple[Reason, str] | None = (Reason.REPEATED, "that message was met already")
        else:
            refusal = self._refusal(offset, search)
        if refusal is None:
            search.found.append(offset)
            search.seen.add(offset)
            reason, why = self._found(index_file, item)
        else:
            reason, why = refusal
            if reason is not Reason.RECORD_OUT_OF_TIME:  # which are counted with their times
                rejected.add(reason, offset)
            borne_out = offset <= index_file.header.end_phy_offset
            if reason in {Reason.LOG_MISSING, Reason.NO_RECORD} and borne_out:
                rejected.prove(offset, self._proof(index_file, item, search))
                rejected.keys.setdefault(offset, []).append(search.question)
            if reason in _SUSPICIOUS:
                self._context.doubt(f"{message}: {why}")
        facts = {"item": number, "physicalOffset": offset}
        if reason is Reason.OTHER_KIND:
            self._explanation.advise(reason, f"{message}: {why}", label, **facts)
        else:
            self._explanation.add(reason, f"{message}: {why}", label, **facts)

    def _proof(self, index_file: IndexFile, item: ItemFields, search: _Search) -> str:
        """Return the known facts of a message that a hit leads to and that the log lacks."""
        from rmqtool.lookup.queue import unit_at  # an answer needs none of it

        topic, stored_ms = search.question.topic, index_file.header.begin_timestamp_ms + item.time_diff * 1000
        queues = queues_of(self._context.store, PathKind.CONSUMEQUEUE, topic)
        units = (unit_at(queue, item.physical_offset) for queue in queues)
        unit = next((facts for start, facts in filter(None, units) if start == item.physical_offset), None)
        by_unit = "" if unit is None else f", {unit}"
        stored = f"stored about {second_text(stored_ms)}"
        return f"{search.question.key} of {topic}, or a key with its hash: {stored}{by_unit}"

    def _refusal(self, offset: int, search: _Search) -> tuple[Reason, str] | None:
        """Return why the record at an offset is no answer; None if it is one."""
        record, question = record_at(self._log, offset), search.question
        if record is None:
            return self._context.rejected.absence(offset)
        if search.key_hash not in item_hashes(record.topic, record.properties):
            return Reason.WRONG_RECORD, "the record there has no key of that hash"
        if not question.answered_by(record):
            if replace(question, unique=not question.unique).answered_by(record):
                return Reason.OTHER_KIND, f"{question.key} is a key of that message, use --key"
            other = f"{record.topic} {record.properties.get('KEYS', '')}".rstrip()
            return Reason.COLLISION, f"another key with the same hash, of {other}"
        time_ms = record.head.store_timestamp_ms
        if not self._request.admits_time(time_ms):
            self._context.rejected.add_time(time_ms)
            return Reason.RECORD_OUT_OF_TIME, f"stored at {time_text(time_ms)}, outside of --begin and --end"
        return None

    def _found(self, index_file: IndexFile, item: ItemFields) -> tuple[Reason, str]:
        begin_ms = index_file.header.begin_timestamp_ms
        time_ms = begin_ms + item.time_diff * 1000
        if self._request.admits_time(time_ms) and item.time_diff >= 0:
            return Reason.FOUND, "found"
        file_time = f"the file's {time_text(begin_ms)} + {item.time_diff} s"
        why = f"the item's time is {time_text(time_ms)} ({file_time}), out of range"
        return Reason.ITEM_OUT_OF_TIME, f"found by the record's own time; a broker misses it: {why}"


def header_times(header: HeaderFields) -> str:
    """Return the store times in the header of an index file."""
    return f"{time_text(header.begin_timestamp_ms)} to {time_text(header.end_timestamp_ms)}"


def index_files(context: QueryContext) -> Iterator[IndexFile]:
    """Yield the index files, newest first; each is closed when the next one is drawn."""
    store = context.store
    geometry = store.settings.index_geometry
    assumed = warn_of_assumed_geometry(store, context.progress)
    for stray in store.index_strays:
        context.explain_doubt(Reason.INDEX_DAMAGED, f"{stray.label} {stray.reason}", stray.label)
    for file in reversed(store.index_files):
        if file.size_bytes != geometry.size_bytes and not assumed:
            sizes = f"has {file.size_bytes} bytes where the settings require {geometry.size_bytes}"
            context.explain_doubt(Reason.INDEX_DAMAGED, f"{file.label} {sizes}", file.label)
        index_file = IndexFile(file, geometry)
        try:
            if index_file.problem is not None and not assumed:
                message = f"{file.label} is damaged: {index_file.problem}"
                context.explain_doubt(Reason.INDEX_DAMAGED, message, file.label)
            yield index_file
            for bad in index_file.take_unreadable():
                context.doubt(f"{bad.length} bytes of {file.label} at {bad.position} cannot be read")
        finally:
            file.close()


def item_at(store: Store, physical_offset: int) -> str | None:
    """Return what an index item that leads to a place shows of the message; None without one.

    The items of a file are in the order of the log.
    """
    for index_file in opened_index_files(store) if PathKind.INDEX in store.roots else ():
        header, numbers = index_file.header, range(1, index_file.last_item + 1)
        if header.begin_phy_offset <= physical_offset <= header.end_phy_offset:
            row = bisect_left(numbers, physical_offset, key=lambda number: _place_of(index_file, number))
            item = index_file.item(numbers[row]) if row < len(numbers) else None
            if item is not None and item.physical_offset == physical_offset:
                time = second_text(header.begin_timestamp_ms + item.time_diff * 1000)
                return f"item {numbers[row]} of {index_file.file.label} leads there, stored about {time}"
    return None


def _place_of(index_file: IndexFile, number: int) -> int:
    item = index_file.item(number)
    return LARGEST_LONG if item is None else item.physical_offset


def broker_hits(context: QueryContext, questions: Sequence[KeyQuestion]) -> list[list[int]]:
    """Return the physical offsets that a broker's index has for each key, ascending.

    Java: ``IndexService#queryOffset``, ``DefaultMessageStore#queryMessage`` (4.9.8, 5.3.3), which sorts them.
    """
    every: list[list[int]] = [[] for _ in questions]
    sought = context.limit.sought
    for file in _consulted(context):
        for question, hits in zip(questions, every, strict=True):
            walk = _broker_walk(context, question.key_hash, file)
            hits.extend(islice(walk, None if sought is None else sought - len(hits)))
        if all(len(hits) == sought for hits in every):
            break
    return [sorted(context.limit.newest(hits[::-1])) for hits in every]  # they come in a broker's order


def _wanted_times(request: QueryRequest) -> tuple[int, int]:
    return request.begin_ms or 0, LARGEST_LONG if request.end_ms is None else request.end_ms


def _consulted(context: QueryContext) -> Iterator[IndexFile]:
    """Yield the files that a broker walks: newest first, none after one that begins too early."""
    begin_ms, end_ms = _wanted_times(context.request)
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


def _broker_walk(context: QueryContext, key_hash: int, index_file: IndexFile) -> Iterator[int]:
    """Yield the hits that a broker's walk through the chain of a key meets in one file, newest first.

    Java: ``IndexFile#selectPhyOffset`` (4.9.8, 5.3.3). It also follows a link that does not descend,
    round and round; here that ends the chain, with a warning.
    """
    header, label = index_file.header, index_file.file.label
    if not index_file.has_items:
        return
    begin_ms, end_ms = _wanted_times(context.request)
    slot = key_hash % index_file.slots
    number, newest = index_file.slot(slot), header.index_count
    message = f"{label}: slot {slot} points to item {number}"
    context.explanation.add(Reason.FILE_WALKED, message, label, slot=slot, item=number)
    while 0 < number <= newest:
        item = index_file.item(number)
        if item is None or item.time_diff < 0:
            return
        time_ms = header.begin_timestamp_ms + item.time_diff * 1000
        if item.key_hash == key_hash:
            if begin_ms <= time_ms <= end_ms:
                yield item.physical_offset
            else:
                message = f"{label}: item {number} is left out, its time is {time_text(time_ms)}"
                context.explanation.add(Reason.ITEM_OUT_OF_TIME, message, label, item=number)
        if item.previous == number or time_ms < begin_ms:
            return
        if item.previous > number:
            what = f"{label} is damaged: item {number} is followed by item {item.previous}"
            context.explain_doubt(Reason.CHAIN_BROKEN, what, label, item=number)
            return
        number = item.previous


def contradiction(context: QueryContext, record: Record) -> Finding | None:
    """Return the finding about a record whose properties unit and index contradict; None if they do not."""
    store, place = context.store, record.physical_offset
    if record.has_torn_properties or not _unit_contradicts(store, record):
        return None  # torn ones are a finding of their own
    if not of_other_keys(store, store.commitlog, [place]):
        return None
    sentence = (
        f"the properties of the record at {place} are not those that it was stored with: the tags code of its"
        " unit and the index contradict them"
    )
    return record_finding(codes.CL_PROPERTIES, record, sentence, Severity.ERROR)


def _unit_contradicts(store: Store, record: Record) -> bool:
    head = record.head
    if PathKind.CONSUMEQUEUE not in store.roots or record.topic == SCHEDULE_TOPIC or head.queue_offset < 0:
        return False
    unit = unit_of(store, record.topic, head.queue_id, head.queue_offset)
    if (
        unit is None
        or unit.physical_offset != record.physical_offset
        or not _INT_MIN <= unit.tags_code <= _INT_MAX
    ):
        return False  # an address of an ext unit
    tags = record.properties.get("TAGS", "")
    return unit.tags_code != (string_hash(tags) if tags else 0)
