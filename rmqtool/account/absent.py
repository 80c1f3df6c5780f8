"""Messages of one queue that its records leave out: between two of them, or listed by a unit after the last.

A unit that leads to a record's place proves a message whose record is gone, if the bytes there are free and
its place fits between those of the queue's other records. Queue offsets that no record carries prove others,
if the log has room for them there.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from rmqtool.formats.message import SMALLEST_RECORD

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rmqtool.arrays import Int64s


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

    Attributes:
        starts: queue offsets.
        stops: queue offsets after them.
        places: physical offsets.
        ends: physical offsets after them.
    """

    starts: Int64s
    stops: Int64s
    places: Int64s
    ends: Int64s


NOTHING_KEPT = Kept(*(np.empty(0, np.int64) for _ in Kept._fields))


@dataclass(frozen=True, slots=True)
class Absent:
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
    """A part of a queue between two of its records.

    Attributes:
        first: the first queue offset in it.
        start: physical offset from which its messages can lie.
        last: the queue offset after it; None without a second record: as far as something names messages.
        stop: physical offset of that record.
    """

    first: int
    start: int
    last: int | None = None
    stop: int | None = None


@dataclass(frozen=True, slots=True)
class AbsentFinder:
    """Finds the absent messages of queues.

    Attributes:
        log_start: physical offset of the log's first byte.
        from_zero: the log begins at 0, so every queue begins at 0, too.
        horizon: physical offset up to which the log is wanted.
        room: tells the bytes between two places that neither a record nor a BLANK takes.
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
        unnamed = all(one.log_offset is None for one in before)
        yield from (replace(one, from_start=unnamed) for one in before)
        for number in np.flatnonzero(starts[1:] > stops[:-1]):
            after = int(starts[number + 1]), int(places[number + 1])
            yield from self._between(pins, _Stretch(int(stops[number]), int(ends[number]), *after))
        if goes_on or pins:
            yield from self._between(pins, _Stretch(int(stops[-1]), int(ends[-1])))

    def _between(self, pins: list[Pin], stretch: _Stretch) -> Iterator[Absent]:
        if stretch.last is not None and stretch.first >= stretch.last:
            return
        found = list(self._within(pins, stretch))
        nowhere = self._lacks_room([one for one in found if one.log_offset is None])
        # Queue offsets that no hole has room for were never in this part of the log.
        yield from (one for one in found if one.log_offset is not None or not nowhere)

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
        """Tell whether no hole can have held messages of which nothing names the place."""
        if not absent:
            return False
        start, stop = absent[0].start, max(one.stop for one in absent)
        return self.room(start, stop) < sum(one.messages for one in absent) * SMALLEST_RECORD
