"""Lost messages: those that the records of a queue leave out, reported one by one, and added up."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import repeat
from operator import attrgetter
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np

from rmqtool.formats.message import SMALLEST_RECORD
from rmqtool.javacompat import split_keys
from rmqtool.scan.records import Record, holds_bytes, record_at
from rmqtool.times import utc_text
from rmqtool.topics import TopicKind, kind_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from rmqtool.arrays import Int64s
    from rmqtool.derived.queues import LiveUnits
    from rmqtool.store.segments import FileQueue


class LostReason(StrEnum):
    """Why nobody will see a message."""

    CUT = "cut"  # the next start ends the log before it
    NO_UNIT = "no-unit"  # it stays in the log, and no unit of its queue leads to it
    SKIPPED = "skipped"  # a broker's dispatch jumps over it because of damage
    UNREACHABLE = "unreachable"  # it lies after the last record that a broker reaches through the log
    LEFT_OUT = "left-out"  # its queue has it now, and the one made has not
    DAMAGED = "damaged"  # its record is not as stored, or cannot be read, and a unit leads there
    GONE = "gone"  # the log has nothing at the place that a unit leads to
    MISSING = "missing"  # the log has its neighbours in the queue, and nothing names its place
    CONSUMED = "consumed"  # a consumer has read it, and nothing else of the store names it
    INDEXED = "indexed"  # an index item leads to its place, and nothing names its queue
    BEFORE = "before"  # a unit or an index item leads before the log's first byte: expired, or removed


class QueuePlace(NamedTuple):
    """A place in a queue."""

    topic: str
    queue_id: int
    queue_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LostMessage:
    """A message that is lost, in one queue.

    Attributes:
        topic: of the queue; None where nothing names that, as for the next three.
        kind: whose topic it is.
        queue_id: of the queue.
        queue_offset: in it.
        keys: of its record; None where that cannot be read, as for the next three.
        uniq_key: likewise.
        tags: likewise.
        store_timestamp: ISO 8601 in UTC.
        physical_offset: where it lies, or lay, in the log; None where nothing names its place.
        size: bytes of the record; likewise.
        tags_code: of the unit, where only that is known.
        reason: why it is lost.
    """

    type: ClassVar = "lost"
    topic: str | None = None
    kind: TopicKind | None = None
    queue_id: int | None = None
    queue_offset: int | None = None
    keys: list[str] | None = None
    uniq_key: str | None = None
    tags: str | None = None
    store_timestamp: str | None = None
    physical_offset: int | None = None
    size: int | None = None
    tags_code: int | None = None
    reason: LostReason


@dataclass(frozen=True, slots=True)
class LostTopic:
    """Lost messages of one topic.

    Attributes:
        topic: its name.
        kind: whose it is.
        messages: how many.
        bytes: their size.
    """

    topic: str
    kind: TopicKind
    messages: int
    bytes: int


class OffsetGaps(NamedTuple):
    """Queue offsets that are missing between those of a log.

    Attributes:
        offsets: how many.
        queues: in how many queues.
    """

    offsets: int
    queues: int


@dataclass(frozen=True, slots=True)
class LostTotals:
    """Lost messages, added up.

    Attributes:
        messages: those that were reported, but for those before the log's first byte.
        bytes: their size.
        reasons: all that were reported, by reason.
        topics: messages by topic, as far as that is known.
        unnamed: units that are lost, too, and lead to nothing that could be reported.
        missing_queue_offsets: between those of the records in the log: messages whose record is nowhere.
        queues_with_missing: queues that these are of.
    """

    messages: int
    bytes: int
    reasons: Mapping[str, int]
    topics: tuple[LostTopic, ...]
    unnamed: int
    missing_queue_offsets: int
    queues_with_missing: int


@dataclass
class LossReporter:
    """Reports lost messages to ``tell`` as they are found; their records are read from ``log``."""

    log: FileQueue
    tell: Callable[[LostMessage], object]
    _topics: dict[str, list[int]] = field(default_factory=dict)
    _reasons: Counter[LostReason] = field(default_factory=Counter)
    _last_place: int | None = None

    @property
    def reasons(self) -> Mapping[LostReason, int]:
        """Return how many were reported, by reason."""
        return self._reasons

    def records(
        self, log_offsets: Iterable[int], reason: LostReason, messages: Iterable[int] = repeat(1)
    ) -> None:
        """Report the messages of records at some places, each in its queue; an inner batch has several."""
        for log_offset, count in zip(log_offsets, messages, strict=False):
            record = record_at(self.log, log_offset)
            if record is not None:
                first = record.head.queue_offset
                for number in range(first, first + count):
                    place = QueuePlace(record.topic, record.head.queue_id, number)
                    self._tell(_of_record(place, record, reason))

    def message(self, place: QueuePlace, log_offset: int, reason: LostReason) -> None:
        """Report a message of a queue whose record can be read."""
        record = record_at(self.log, log_offset)
        if record is not None:
            self._tell(_of_record(place, record, reason))

    def units(
        self, queue: tuple[str, int], units: LiveUnits, else_: Callable[[QueuePlace, int], None] | None = None
    ) -> None:
        """Report messages of a present queue whose place in the log another record takes.

        ``else_`` receives place and physical offset of those whose record can be read; None skips these.
        """
        columns = (units.keys, units.physical_offsets, units.sizes, units.tags_codes)
        for number, offset, size, tags_code in zip(*(column.tolist() for column in columns), strict=True):
            place = QueuePlace(*queue, number)
            record = record_at(self.log, offset)
            if record is None or record.head.physical_offset != offset:
                self._tell(_unreadable(place, offset, size, tags_code, LostReason.LEFT_OUT))
            elif else_ is not None:
                else_(place, offset)

    def absent(self, queue: tuple[str, int], absent: Iterable[Absent]) -> None:
        """Report messages of a queue without a record in the log, one by one."""
        for gone in absent:
            for number in range(gone.queue_offset, gone.queue_offset + gone.messages):
                place = QueuePlace(*queue, number)
                if gone.log_offset is None or gone.size is None:
                    reason = LostReason.CONSUMED if gone.cause == "consumed" else LostReason.MISSING
                    self._tell(_unreadable(place, None, None, None, reason))
                else:
                    self._tell(self._of_unit(place, gone.log_offset, gone.size, gone.tags_code))

    def indexed(self, places: Iterable[int]) -> None:
        """Report messages that index items alone point to."""
        for place in places:
            self._tell(_unreadable(None, place, None, None, LostReason.INDEXED))

    def before(self, queue: tuple[str, int] | None, units: LiveUnits) -> None:
        """Report messages before the log's first byte, by their units, or by index items alone (no queue)."""
        columns = (units.keys, units.physical_offsets, units.sizes, units.tags_codes, units.messages)
        for number, offset, size, tags_code, messages in zip(
            *(column.tolist() for column in columns), strict=True
        ):
            if queue is None:
                self._tell(_unreadable(None, offset, None, None, LostReason.BEFORE))
                continue
            for each in range(number, number + messages):
                place = QueuePlace(*queue, each)
                self._tell(_unreadable(place, offset, size, tags_code, LostReason.BEFORE))

    def totals(self, gaps: OffsetGaps, unnamed: int = 0) -> LostTotals:
        """Return the reported messages, and those missing in the whole log."""
        topics = tuple(
            LostTopic(topic, kind_of(topic), *both) for topic, both in sorted(self._topics.items())
        )
        return LostTotals(
            messages=self._reasons.total() - self._reasons[LostReason.BEFORE],
            bytes=sum(topic.bytes for topic in topics),
            reasons={reason.value: count for reason, count in sorted(self._reasons.items())},
            topics=topics,
            unnamed=unnamed,
            missing_queue_offsets=gaps.offsets,
            queues_with_missing=gaps.queues,
        )

    def _tell(self, message: LostMessage) -> None:
        if message.topic is not None and message.reason is not LostReason.BEFORE:
            total = self._topics.setdefault(message.topic, [0, 0])
            total[0] += 1
            is_next = message.physical_offset is not None and message.physical_offset == self._last_place
            total[1] += 0 if is_next else message.size or 0  # messages of a batch share a record
        self._last_place = message.physical_offset
        self._reasons[message.reason] += 1
        self.tell(message)

    def _of_unit(self, place: QueuePlace, log_offset: int, size: int, tags_code: int | None) -> LostMessage:
        reason = LostReason.DAMAGED if holds_bytes(self.log, log_offset) else LostReason.GONE
        return _unreadable(place, log_offset, size, tags_code, reason)


def _unreadable(
    place: QueuePlace | None, log_offset: int | None, size: int | None, tags_code: int | None, why: LostReason
) -> LostMessage:
    topic, queue_id, queue_offset = place or (None, None, None)
    return LostMessage(
        topic=topic,
        kind=None if topic is None else kind_of(topic),
        queue_id=queue_id,
        queue_offset=queue_offset,
        physical_offset=log_offset,
        size=size,
        tags_code=tags_code,
        reason=why,
    )


def _of_record(place: QueuePlace, record: Record, why: LostReason) -> LostMessage:
    properties, (topic, queue_id, queue_offset) = record.properties, place
    return LostMessage(
        topic=topic,
        kind=kind_of(topic),
        queue_id=queue_id,
        queue_offset=queue_offset,
        keys=split_keys(properties.get("KEYS", "")),
        uniq_key=properties.get("UNIQ_KEY"),
        tags=properties.get("TAGS"),
        store_timestamp=utc_text(record.head.store_timestamp_ms),
        physical_offset=record.physical_offset,
        size=len(record.raw),
        reason=why,
    )


_QUEUE_OFFSET = attrgetter("queue_offset")


class Pin(NamedTuple):
    """An absent message of which something names the place.

    Attributes:
        queue_offset: of the first message.
        messages: more than one of an inner batch.
        log_offset: physical offset of the record.
        size: its bytes.
        tags_code: of the unit.
        cause: ``listed``: a unit leads there; ``body``: the record is there, and damaged.
    """

    queue_offset: int
    messages: int
    log_offset: int
    size: int
    tags_code: int | None
    cause: str


class Kept(NamedTuple):
    """Records of a queue, or runs of them, in order, ``(n,)`` each.

    ``starts`` and ``stops`` are the queue offsets of the first and after the last, ``places`` and ``ends``
    the physical ones.
    """

    starts: Int64s
    stops: Int64s
    places: Int64s
    ends: Int64s


NOTHING_KEPT = Kept(*(np.empty(0, np.int64) for _ in Kept._fields))


class Absent(NamedTuple):
    """Messages of a queue that its records leave out.

    Attributes:
        queue_offset: of the first.
        messages: how many, one after the other.
        start: physical offset at or after which they were.
        stop: physical offset at or before which they ended.
        cause: that of their pin; ``hole``: nothing but their queue offsets is known; ``consumed``: a consumer
            has read them.
        log_offset: of their pin, as the next two; None without one.
        size: bytes of the record.
        tags_code: of the unit.
        from_start: nothing names a message before the queue's first record.
    """

    queue_offset: int
    messages: int
    start: int
    stop: int
    cause: str
    log_offset: int | None = None
    size: int | None = None
    tags_code: int | None = None
    from_start: bool = False


class _Stretch(NamedTuple):
    """A part of a queue between two of its records, from queue offset ``first`` and place ``start`` on.

    ``last`` is the queue offset after it; None without a second record: as far as something names messages.
    """

    first: int
    start: int
    last: int | None = None
    stop: int | None = None


class AbsentFinder(NamedTuple):
    """Finds the absent messages of queues.

    Attributes:
        log_start: physical offset of the log's first byte.
        from_zero: the log begins at 0, so every queue begins at 0, too.
        horizon: physical offset up to which the log is wanted.
        room: returns the bytes between two places that neither a record nor an end mark takes.
    """

    log_start: int
    from_zero: bool
    horizon: int
    room: Callable[[int, int], int]

    def find(
        self, pins: list[Pin], kept: Kept, *, goes_on: bool = True, begun: bool = False
    ) -> Iterator[Absent]:
        """Yield them by queue offset.

        Args:
            pins: absent messages of which something names the place, by queue offset.
            kept: the records, whose queue offsets ascend.
            goes_on: no other records of the queue come after these, whose queue offsets begin again.
            begun: the log has records of the queue, whether or not they are kept.
        """
        if not len(kept.starts):
            first = pins[0].queue_offset if pins and not (begun and self.from_zero) else 0
            yield from self._between(pins, _Stretch(first, self.log_start))
            return
        starts, stops, places, ends = kept
        first = pins[0].queue_offset if pins else int(starts[0])
        first = 0 if self.from_zero else min(first, int(starts[0]))
        before = list(self._between(pins, _Stretch(first, self.log_start, int(starts[0]), int(places[0]))))
        unnamed = all(absent.log_offset is None for absent in before)
        yield from (absent._replace(from_start=unnamed) for absent in before)
        for number in np.flatnonzero(starts[1:] > stops[:-1]):
            after = int(starts[number + 1]), int(places[number + 1])
            yield from self._between(pins, _Stretch(int(stops[number]), int(ends[number]), *after))
        if goes_on or pins:
            yield from self._between(pins, _Stretch(int(stops[-1]), int(ends[-1])))

    def _between(self, pins: list[Pin], stretch: _Stretch) -> Iterator[Absent]:
        if stretch.last is not None and stretch.first >= stretch.last:
            return
        missing = list(self._within(pins, stretch))
        nowhere = self._lacks_room([absent for absent in missing if absent.log_offset is None])
        # Queue offsets that no hole has room for were never in this part of the log.
        yield from (absent for absent in missing if absent.log_offset is not None or not nowhere)

    def _within(self, pins: list[Pin], stretch: _Stretch) -> Iterator[Absent]:
        last, reach = stretch.last, self.horizon if stretch.stop is None else stretch.stop
        due, place = stretch.first, stretch.start
        for pin in pins[bisect_left(pins, due, key=_QUEUE_OFFSET) :]:
            if last is not None and pin.queue_offset >= last:
                break
            over = last is not None and pin.queue_offset + pin.messages > last
            if pin.queue_offset < due or over or pin.log_offset < place or pin.log_offset + pin.size > reach:
                continue
            if pin.queue_offset > due:
                yield Absent(due, pin.queue_offset - due, place, pin.log_offset, "hole")
            named = pin.cause, pin.log_offset, pin.size, pin.tags_code
            yield Absent(pin.queue_offset, pin.messages, place, reach, *named)
            due, place = pin.queue_offset + pin.messages, pin.log_offset + pin.size
        if last is not None and due < last:
            yield Absent(due, last - due, place, reach, "hole")

    def _lacks_room(self, absent: list[Absent]) -> bool:
        """Return whether no hole can have held messages of which nothing names the place."""
        if not absent:
            return False
        start, stop = absent[0].start, max(gone.stop for gone in absent)
        return self.room(start, stop) < sum(gone.messages for gone in absent) * SMALLEST_RECORD
