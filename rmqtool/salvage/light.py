"""Messages that were in light queues, too (multi dispatch): one tombstone is in all of them.

A light queue has no records of its own: a record of another queue names it, with its queue offset
there (``INNER_MULTI_DISPATCH``, ``INNER_MULTI_QUEUE_OFFSET``). So a gap of a light queue is closed by the
tombstones of the queue whose messages it lists.

A broker puts units into a queue in the order of the log, and passes over a queue offset that it has gone
beyond (``ConsumeQueue#putMessagePositionInfo``). So a tombstone lies where the losses of all its queues let
it lie, and its queue offset in a light queue is settled when all tombstones have their places.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from rmqtool.salvage.making import (
    bare_content,
    has_room_for,
    light_properties,
    names_light,
    record_size,
    with_light,
)
from rmqtool.topics import LMQ_PREFIX

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence, Set

    from rmqtool.account.evidence import QueueEvidence
    from rmqtool.account.records import Survey
    from rmqtool.salvage import Lost, Part
    from rmqtool.salvage.kept_ranges import KeptRanges

    Key = tuple[str, int]
    Place = tuple[str, int, int]  # topic, queue id, queue offset
    Loss = tuple[str, int, int, int]  # and from where on it lay

_NUMBER, _START, _STOP = attrgetter("number"), attrgetter("start"), attrgetter("stop")
_PASSED = 64  # hosts of no use in a list, until it is rebuilt


def light_queues(survey: Survey, evidence: QueueEvidence) -> dict[Key, frozenset[Key]]:
    """Return the light queues, and of each the queues whose messages it lists, of a lost one all that may."""
    units = survey.units
    light = np.flatnonzero(units["light"])
    first = np.searchsorted(units["log_offset"], units["log_offset"][light])
    pairs = np.unique(np.stack([units["queue"][light], units["queue"][first]]), axis=1)
    found: defaultdict[Key, set[Key]] = defaultdict(set)
    for one, other in pairs.T:
        found[survey.queues[one]].add(survey.queues[other])
    lost = {key for key in evidence.units if key[0].startswith(LMQ_PREFIX)} - {*found, *survey.queues}
    own = {*survey.queues, *evidence.units} - {*found, *lost}
    return {key: frozenset(others) for key, others in found.items()} | dict.fromkeys(lost, frozenset(own))


class LossBounds(NamedTuple):
    """Physical offsets between which a lost message lay, as far as is known."""

    start: int
    stop: int

    def common(self, other: LossBounds) -> LossBounds:
        """Return what both have; nothing, ``start`` not below ``stop``, if they do not meet."""
        return LossBounds(max(self.start, other.start), min(self.stop, other.stop))

    @classmethod
    def of(cls, lost: Lost) -> LossBounds:
        """Return those of a loss."""
        if lost.physical_offset is None:
            return cls(lost.start, lost.stop)
        return cls(lost.physical_offset, lost.physical_offset + (lost.size or 0))


class LightRoom:
    """Measures the room in the holes of a log.

    Attributes:
        least: the shortest of the light queues' names, with a queue offset of one digit.
    """

    def __init__(self, ranges: KeptRanges, queues: Iterable[Key]) -> None:
        self._kept_ranges = ranges
        self.least = min((topic for topic, _ in queues), key=lambda name: len(name.encode()), default=""), 0

    def fits(self, lost: Lost, light: Sequence[Key], bounds: LossBounds) -> bool:
        """Whether a hole has room for a tombstone that names light queues."""
        properties, body = bare_content(lost.topic, lost.queue_id, 0)
        names = light_properties(light)
        size = record_size(self._kept_ranges.form, lost.topic, properties + names, body)
        return has_room_for(names) and size <= self._kept_ranges.room(*bounds)


@dataclass
class _Named:
    """A lost message that stood in light queues, too.

    Attributes:
        number: in its run.
        start: physical offset from which all its queues let it lie.
        stop: physical offset up to which they do.
        losses: those of light queues that it closes.
    """

    number: int
    start: int
    stop: int
    losses: list[Lost] = field(default_factory=list)

    def light(self) -> list[Key]:
        """Return its light queues with the largest queue offset that it can get in each."""
        return [(one.topic, one.queue_offset + one.count - 1) for one in self.losses]


@dataclass
class _Host:
    """A run of lost messages whose tombstones can name light queues.

    Attributes:
        lost: the run.
        named: those that do, in order; so are their bounds.
        full: how many of the first have no room for any further name.
    """

    lost: Lost
    named: list[_Named] = field(default_factory=list)
    full: int = 0

    def __post_init__(self) -> None:
        self.key = self.lost.topic, self.lost.queue_id
        self.start, self.stop = LossBounds.of(self.lost)

    @property
    def count(self) -> int:
        """Return how many tombstones it gets: one if its place is named, of a message or a batch."""
        return self.lost.count if self.lost.physical_offset is None else 1

    def is_done(self, start: int) -> bool:
        """Return whether all lay before a place, or have no room."""
        return self.stop <= start or self.full >= self.count

    def _bounds(self, number: int) -> LossBounds:
        whole = LossBounds.of(self.lost)
        at = bisect_left(self.named, number, key=_NUMBER)
        start = self.named[at - 1].start if at else whole.start
        if at == len(self.named):
            return LossBounds(start, whole.stop)
        one = self.named[at]
        return LossBounds(one.start if one.number == number else start, one.stop)

    def next_free(self, light: Lost, start: int, room: LightRoom) -> tuple[int, LossBounds] | None:
        """Return the first message from number ``start`` on that can close a loss of a light queue."""
        wanted = LossBounds.of(light)
        before = bisect_right(self.named, wanted.start, key=_STOP)
        first = self.named[before - 1].number + 1 if before else 0
        for number in range(max(start, first, self.full), self.count):
            bounds = self._bounds(number)
            common = bounds.common(wanted)
            if bounds.start >= wanted.stop or common.start >= common.stop:
                return None
            at = bisect_left(self.named, number, key=_NUMBER)
            one = self.named[at] if at < len(self.named) and self.named[at].number == number else None
            if one is not None and any(other.topic == light.topic for other in one.losses):
                continue
            names = [] if one is None else one.light()
            if room.fits(self.lost, [*names, (light.topic, light.queue_offset + light.count - 1)], common):
                return number, bounds
            if one is None:
                return None
            if number == self.full and not room.fits(self.lost, [*names, room.least], bounds):
                self.full += 1
        return None

    def about(self, number: int, bounds: LossBounds) -> int:
        """Return where a message lay if all of its run lay at even distances."""
        start, stop = LossBounds.of(self.lost)
        even = start + (stop - start) * (2 * number + 1) // (2 * self.count)
        return min(max(even, bounds.start), bounds.stop)

    def name(self, number: int, light: Lost) -> None:
        """Let a message close a loss of a light queue; it, those before and those after lie accordingly."""
        common = self._bounds(number).common(LossBounds.of(light))
        at = bisect_left(self.named, number, key=_NUMBER)
        if at == len(self.named) or self.named[at].number != number:
            self.named.insert(at, _Named(number, *common))
        one = self.named[at]
        one.start, one.stop = common
        one.losses.append(light)
        for before in reversed(self.named[:at]):
            if before.stop <= one.stop:
                break
            before.stop = one.stop
        for after in self.named[at + 1 :]:
            if after.start >= one.start:
                break
            after.start = one.start

    def split(self) -> Iterator[tuple[Lost, LossBounds, list[Lost]]]:
        """Yield the run, those that name light queues apart, with their bounds and what they close."""
        if self.lost.physical_offset is not None:
            one = self.named[0] if self.named else _Named(0, 0, 0)
            yield replace(self.lost, light=tuple(one.light())), LossBounds.of(self.lost), one.losses
            return
        done, first = 0, self.lost.queue_offset
        for one in self.named:
            yield from self._nameless(done, one.number)
            alone = replace(self.lost, queue_offset=first + one.number, count=1, light=tuple(one.light()))
            yield alone, LossBounds(one.start, one.stop), one.losses
            done = one.number + 1
        yield from self._nameless(done, self.count)

    def _nameless(self, start: int, stop: int) -> Iterator[tuple[Lost, LossBounds, list[Lost]]]:
        if start < stop:
            offset = self.lost.queue_offset + start
            yield replace(self.lost, queue_offset=offset, count=stop - start), self._bounds(start), []


class LightNames:
    """Lets tombstones name the light queues that miss a message where they may lie.

    Args:
        lost: by queue and queue offset.
        queues: see ``light_queues``.
        ranges: kept ranges of the log.

    Attributes:
        lost: the losses, those whose tombstones name light queues one by one.
        bounds: where the tombstones of each may lie.
    """

    def __init__(
        self, lost: Sequence[Lost], queues: Mapping[Key, frozenset[Key]], ranges: KeptRanges
    ) -> None:
        hosts = [_Host(one) for one in lost if (one.topic, one.queue_id) not in queues]
        light = [one for one in lost if (one.topic, one.queue_id) in queues]
        alone = {*_name_all(hosts, light, queues, LightRoom(ranges, queues))}
        self._closed: defaultdict[Place, list[tuple[Lost, list[Lost]]]] = defaultdict(list)
        self.lost: list[Lost] = []
        self.bounds: list[LossBounds] = []
        for host in hosts:
            for one, bounds, losses in host.split():
                self.lost.append(one)
                self.bounds.append(bounds)
                if losses:
                    self._closed[one.topic, one.queue_id, one.queue_offset].append((one, losses))
        self.lost += [one if one in alone else replace(one, in_light=True) for one in light]
        self.bounds += [LossBounds.of(one) for one in light]

    def settle(self, parts: Sequence[Part], reported: Sequence[Lost]) -> tuple[list[Part], list[Lost]]:
        """Give tombstones that have their places their queue offsets in light queues, in the log's order."""
        done: defaultdict[Loss, int] = defaultdict(int)
        named: dict[Loss, tuple[Key, ...]] = {}
        settled = []
        for part in parts:
            light: tuple[Key, ...] = ()
            if names_light(part.properties):
                # A queue that began again can have lost a queue offset twice: the first lies first.
                place = part.topic or "", part.queue_id or 0, part.queue_offset or 0
                host, losses = self._closed[place].pop(0)
                light = tuple((one.topic, one.queue_offset + done[_loss(one)]) for one in losses)
                for one in losses:
                    done[_loss(one)] += 1
                named[_loss(host)] = light
            settled.append(replace(part, properties=with_light(part.properties, light)) if light else part)
        return settled, [*_reported(reported, named, done)]


def _loss(one: Lost) -> Loss:
    return one.topic, one.queue_id, one.queue_offset, one.start


def _reported(
    reported: Sequence[Lost], named: Mapping[Loss, tuple[Key, ...]], done: Mapping[Loss, int]
) -> Iterator[Lost]:
    for one in reported:
        if not one.in_light:
            yield replace(one, light=named.get(_loss(one), ()))
            continue
        count = done.get(_loss(one), 0)
        if count:
            yield replace(one, count=count, placed=True)
        if count < one.count:
            yield replace(one, queue_offset=one.queue_offset + count, count=one.count - count, placed=False)


def _name_all(
    hosts: Sequence[_Host], light: Sequence[Lost], queues: Mapping[Key, frozenset[Key]], room: LightRoom
) -> Iterator[Lost]:
    """Find messages for all losses of light queues, in the log's order; yield those that have none.

    These lost messages are known by their light queue alone. They get tombstones of its own topic, which a
    broker puts into it like those of any other.
    """
    coming = sorted((one for one in hosts if one.lost.placed), key=_START, reverse=True)
    open_: list[_Host] = []
    for one in sorted(light, key=LossBounds.of):
        start, stop = LossBounds.of(one)
        while coming and coming[-1].start < stop:
            open_.append(coming.pop())
        count, passed = _name(one, open_, queues[one.topic, one.queue_id], room)
        if passed > _PASSED:
            open_ = [host for host in open_ if not host.is_done(start)]
        if not count and one.placed:
            yield one


def _name(light: Lost, hosts: Sequence[_Host], able: Set[Key], room: LightRoom) -> tuple[int, int]:
    """Find messages for a loss of a light queue, the same or those that lay first.

    Args:
        light: the loss.
        hosts: by where they begin.
        able: queues whose messages the light queue lists.
        room: of the holes.

    Returns:
        Number of those found, and of hosts that were of no use any more.
    """
    heap: list[tuple[bool, int, int, int]] = []
    exact = light.physical_offset is not None
    start, drawn, passed = LossBounds.of(light).start, 0, 0

    def offer(at: int, number: int) -> None:
        free = hosts[at].next_free(light, number, room)
        if free is not None:
            other = not (
                exact and LossBounds.of(light).common(free[1]) == free[1]
            )  # not known to be the same
            heappush(heap, (other, hosts[at].about(*free), at, free[0]))

    for count in range(light.count):
        while drawn < len(hosts) and (exact or not heap or heap[0][1] > hosts[drawn].start):
            if hosts[drawn].is_done(start):
                passed += 1
            elif hosts[drawn].key in able:
                offer(drawn, 0)
            drawn += 1
        if not heap:
            return count, passed
        *_, at, number = heappop(heap)
        hosts[at].name(number, light)
        offer(at, number + 1)
    return light.count, passed
