"""Contradictions of the rest of a store to the messages that a query shows, or misses, one at a time.

A unit and the index hold hashes of a record's tags and keys, made when it was stored. If both contradict the
record, its properties have changed since. The account of the store (``rmqtool.account``) shows whether a
message that was requested by its place in a queue was lost.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rmqtool.commands.query.index import IndexSearch
from rmqtool.derived.index_files import IndexFile
from rmqtool.derived.queue_files import QueueFile
from rmqtool.dispatch.index_keys import index_keys
from rmqtool.errors import RmqtoolError
from rmqtool.findings import Finding, Severity
from rmqtool.findings.codes import CL_LOST, CL_PROPERTIES
from rmqtool.formats.consumequeue import UNIT_SIZE, UNITS
from rmqtool.javacompat import string_hash
from rmqtool.lookup.context import KeyQuestion, QueryContext, QueryRequest, Reason
from rmqtool.scan.record_walk import LogExtent, record_finding
from rmqtool.store.kinds import PathKind
from rmqtool.topics import SCHEDULE_TOPIC

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from rmqtool.account.lost import Absent
    from rmqtool.derived.queue_files import LiveUnits
    from rmqtool.scan.records import Record
    from rmqtool.store import Store

_INT_MIN, _INT_MAX = -(1 << 31), (1 << 31) - 1
_ALL = 1 << 62
_CAUSES = {
    "listed": "a unit leads to log offset {0.log_offset}, where {0.size} bytes of it were, with tags code"
    " {0.tags_code}",
    "consumed": "a consumer has read it, and the log was longer once",
    "hole": "the log has messages of the queue before and after it, and lacks bytes between them",
}


def contradiction(context: QueryContext, record: Record) -> Finding | None:
    """Return the finding about a record whose properties unit and index contradict; None if they do not."""
    if not _unit_contradicts(context.store, record) or not _index_contradicts(context, record):
        return None
    sentence = (
        f"the properties of the record at {record.physical_offset} are not those that it was stored with: the"
        " tags code of its unit and the index contradict them"
    )
    return record_finding(CL_PROPERTIES, record, sentence, Severity.ERROR)


def _unit_contradicts(store: Store, record: Record) -> bool:
    head = record.head
    if PathKind.CONSUMEQUEUE not in store.roots or record.topic == SCHEDULE_TOPIC or head.queue_offset < 0:
        return False
    queue = store.queue(record.topic, head.queue_id)
    segment = None if queue is None else queue.files.segment_at(head.queue_offset * UNIT_SIZE)
    if queue is None or segment is None:
        return False
    unit = QueueFile(segment, UNITS).unit((head.queue_offset * UNIT_SIZE - segment.start) // UNIT_SIZE)
    segment.close()
    if unit.physical_offset != record.physical_offset or not _INT_MIN <= unit.tags_code <= _INT_MAX:
        return False  # another message's, or an address of an ext unit
    tags = record.properties.get("TAGS", "")
    return unit.tags_code != (string_hash(tags) if tags else 0)


def _index_contradicts(context: QueryContext, record: Record) -> bool:
    """Whether the index covers a record's place, and lacks one of its keys there."""
    place, store = record.physical_offset, context.store
    keys = index_keys(record.properties)
    headers = []
    for file in store.index_files if PathKind.INDEX in store.roots else ():
        headers.append(IndexFile(file, store.settings.index_geometry).header)
        file.close()
    if not keys or not any(one.begin_phy_offset <= place <= one.end_phy_offset for one in headers):
        return False
    search = IndexSearch(context.beside(QueryRequest()))
    questions = [KeyQuestion(record.topic, key, either=True) for key in keys]
    return not all(place in found for found in search.answers(questions))


@dataclass
class _Asked:
    """Collects the account's losses at some places in a queue."""

    queue: tuple[str, int]
    wanted: range
    found: list[tuple[int, Absent]] = field(default_factory=list)

    def absent(self, queue: tuple[str, int], absent: Iterable[Absent]) -> None:
        """Take those of a queue."""
        for one in absent if queue == self.queue else ():
            last = min(one.queue_offset + one.messages, self.wanted.stop)
            self.found += ((number, one) for number in range(max(one.queue_offset, self.wanted.start), last))

    def indexed(self, places: Iterable[int]) -> None:
        """Skip them: nothing names their queues."""

    def before(self, queue: tuple[str, int] | None, units: LiveUnits) -> None:
        """Skip those before the log."""


def lost_by_units(context: QueryContext, places: Mapping[int, int]) -> Iterator[Finding]:
    """Yield findings of lost messages, by queue offset the places that their units lead to."""
    for number, place in sorted(places.items()):
        unit = context.left_out.proofs.get(place, "a unit")
        yield _lost(context, number, place, f"{unit}, which leads to log offset {place}")


def lost_of_places(context: QueryContext, known: Collection[int]) -> Iterator[Finding]:
    """Yield findings of lost messages among those that a question by places in a queue did not find.

    ``known`` are queue offsets of messages that are certainly lost, which are left out.
    """
    from rmqtool.account.log_losses import (
        StoreAccount,  # numpy comes with it
    )

    request, account = context.request, StoreAccount(context.store)
    topic, queue_id, first = request.topic, request.queue_id, request.queue_offset
    if topic is None or queue_id is None or first is None or not account.can_tell:
        return
    asked = _Asked((topic, queue_id), range(first, first + (request.max_messages or _ALL)))
    context.progress.note("nothing lies there: the log is read to say whether the message is lost")
    account.losses(lost=asked)
    for number, one in asked.found:
        if number not in known:
            place = one.start if one.log_offset is None else one.log_offset
            yield _lost(context, number, place, _CAUSES.get(one.cause, _CAUSES["hole"]).format(one))


def explain_cut(context: QueryContext, places: Iterable[int]) -> None:
    """Add a step for each message shown, by physical offset, that the next start of a broker cuts off."""
    from rmqtool.recovery.predict import predict_recovery  # reads the whole log

    store, told = context.store, set[int]()
    for release in store.settings.candidates if store.kind is PathKind.STORE else ():
        try:
            prediction = predict_recovery(store, release)
        except RmqtoolError:
            continue  # a start that is not foreseen cuts nothing for certain
        cut = prediction.cut
        for place in places if cut is not None and prediction.loads else ():
            if cut is not None and place >= cut.physical_offset and place not in told:
                told.add(place)
                sentence = (
                    f"the next start of a {release.name} broker cuts this message, at log offset {place}: it"
                    f" lies after {cut.physical_offset}, where recovery ends the log: {cut.reason}"
                )
                context.explanation.add(Reason.CUT, sentence, cut.file, physicalOffset=place)


def _lost(context: QueryContext, number: int, place: int, why: str) -> Finding:
    """Return the finding of a lost message; after the log's last record, with the severity of verify."""
    topic, queue_id = context.request.topic, context.request.queue_id
    store = context.store
    of_kill = store.is_end_torn_by_kill and place >= LogExtent.of(store).end
    return Finding(
        code=CL_LOST,
        topic=topic,
        queue_id=queue_id,
        queue_offset=number,
        physical_offset=place,
        message=f"{topic}/{queue_id} #{number} is lost from the log: {why}",
        severity_override=Severity.WARNING if of_kill else None,
    )
