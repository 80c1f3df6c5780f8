"""Messages that a group received by pop, and those that it acknowledged: records of the revive topic.

A check point names messages that are invisible until a time; those not acknowledged by then are written to a
pop retry topic. Both are timed: until they are due they lie in the timer's topic. A broker that has all acks
of a check point in memory writes neither, and commits the offset.

Origin: ``PopMessageProcessor#buildCkMsg``, ``PopBufferMergeService#scanCommitOffset``,
``PopReviveService#consumeReviveMessage``, ``PopCheckPoint``, ``AckMsg``, ``BatchAckMsg`` (5.0.0 to 5.5.1).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from rmqtool.commands.query.consumption.copies import TopicRecords, meant_for
from rmqtool.topics import REVIVE_PREFIX, TIMER_TOPIC

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from rmqtool.lookup.queue import RecordPlace
    from rmqtool.scan.records import Record

_BITS = 32


class CheckPoint(NamedTuple):
    """Messages that a group received at once.

    Attributes:
        record_offset: Physical offset of the record.
        start: Queue offset of the first one.
        offsets: Queue offsets of all, in the order of the bits.
        bits: Those that were acknowledged when it was written.
        pop_ms: When they were received.
        due_ms: Until when they are invisible.
    """

    record_offset: int
    start: int
    offsets: tuple[int, ...]
    bits: int
    pop_ms: int
    due_ms: int

    def has_acknowledged(self, queue_offset: int) -> bool:
        """Whether it was written with an acknowledgement of a message."""
        return bool(self.bits >> self.offsets.index(queue_offset) & 1)


class Ack(NamedTuple):
    """An acknowledgement of messages, by queue offsets; ``start`` and ``pop_ms`` name its check point."""

    record_offset: int
    start: int | None
    pop_ms: int | None
    offsets: frozenset[int]


@dataclass(frozen=True)
class Popped:
    """The last check point of a message, and the physical offset of the record that acknowledges it."""

    check_point: CheckPoint
    ack_offset: int | None


class PopLog:
    """Check points and acks of one group, read once, on first use."""

    def __init__(self, group: str, topics: Iterable[str], records: TopicRecords) -> None:
        self._group = group
        self._topics = [one for one in topics if one == TIMER_TOPIC or one.startswith(REVIVE_PREFIX)]
        self._records = records

    def of(self, place: RecordPlace) -> Popped | None:
        """Return the last check point of a message; None if no check point names it.

        Only an acknowledgement of that one counts: to make a message invisible for longer, a broker writes a
        further check point and acknowledges the one before (``ChangeInvisibleTimeProcessor``).
        """
        points, acks = self._found.get((place.topic, place.queue_id), ([], []))
        own = [one for one in points if place.queue_offset in one.offsets]
        if not own:
            return None
        last = max(own, key=lambda one: (one.pop_ms, one.record_offset))
        if last.has_acknowledged(place.queue_offset):
            return Popped(last, last.record_offset)
        of_last = (one for one in acks if (one.start, one.pop_ms) == (last.start, last.pop_ms))
        return Popped(
            last, next((one.record_offset for one in of_last if place.queue_offset in one.offsets), None)
        )

    @property
    def is_popping(self) -> bool:
        """Whether the group received anything by pop."""
        return bool(self._found)

    @cached_property
    def _found(self) -> dict[tuple[str, int], tuple[list[CheckPoint], list[Ack]]]:
        found: dict[tuple[str, int], tuple[list[CheckPoint], list[Ack]]] = {}
        for record in self._records.of(self._topics):
            body = self._body(record)
            place = None if body is None else _place(body)
            if body is None or place is None:
                continue
            points, acks = found.setdefault(place, ([], []))
            if record.properties.get("TAGS") == "ck":
                points.extend(_check_points(record, body))
            else:
                of_point = _number(body, "so"), _number(body, "pt")
                acks.append(Ack(record.physical_offset, *of_point, frozenset(_acknowledged(body))))
        return found

    def _body(self, record: Record) -> Mapping[str, object] | None:
        """Return the object in a check point or ack of the group."""
        if not meant_for(record).startswith(REVIVE_PREFIX):
            return None
        try:
            found = json.loads(record.body)
        except (ValueError, RecursionError):
            return None
        return found if isinstance(found, dict) and found.get("c") == self._group else None


def _place(body: Mapping[str, object]) -> tuple[str, int] | None:
    topic, queue_id = body.get("t"), body.get("q")
    return (topic, queue_id) if isinstance(topic, str) and isinstance(queue_id, int) else None


def _check_points(record: Record, body: Mapping[str, object]) -> Iterator[CheckPoint]:
    """Java: ``PopCheckPoint#ackOffsetByIndex``; without differences the messages follow one another."""
    start, count, bits, pop_ms, invisible_ms = (_number(body, name) for name in ("so", "n", "bm", "pt", "it"))
    if start is None or count is None or pop_ms is None or invisible_ms is None:
        return
    given = body.get("d")
    differences = [one for one in given if isinstance(one, int)] if isinstance(given, list) else []
    offsets = tuple(start + one for one in (differences or range(min(max(count, 0), _BITS))))
    yield CheckPoint(record.physical_offset, start, offsets, bits or 0, pop_ms, pop_ms + invisible_ms)


def _acknowledged(body: Mapping[str, object]) -> Iterator[int]:
    many = body.get("aol")
    for one in many if isinstance(many, list) else [body.get("ao")]:
        if isinstance(one, int):
            yield one


def _number(body: Mapping[str, object], name: str) -> int | None:
    value = body.get(name)
    return value if isinstance(value, int) else None
