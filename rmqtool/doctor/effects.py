"""What a choice of offsets means: messages that come again, messages that are passed over.

A broker answers a reader without an offset with 0 where the queue's first message is there and in memory,
and with nothing otherwise; the client then begins at the end, or where its settings say
(``ConsumerManageProcessor#queryConsumerOffset``, ``RebalancePushImpl#computePullFromWhere``, 4.9.8, 5.3.3).
Delay levels without one begin at the start (``ScheduleMessageService#start``).
"""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

from rmqtool.doctor.copies import entries_of
from rmqtool.doctor.model import OffsetEffect
from rmqtool.topics import SCHEDULE_TOPIC

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from rmqtool.doctor.bounds import QueueEnds
    from rmqtool.doctor.copies import Document
    from rmqtool.doctor.kinds import ConfigKind

DELAYS = "delayOffset.json"


class Place(NamedTuple):
    """One number of a file of offsets.

    Attributes:
        table: member of the root object.
        entry: ``topic@group``, or a delay level.
        inner: queue id as text; None where the entry is the number itself.
    """

    table: str
    entry: str
    inner: str | None

    def reader(self, kind: ConfigKind) -> tuple[str, str, int] | None:
        """Return reader, topic and queue id; None if it names none."""
        if kind.name == DELAYS:
            is_level = self.entry.isdecimal() and int(self.entry) > 0
            return (f"delay level {self.entry}", SCHEDULE_TOPIC, int(self.entry) - 1) if is_level else None
        topic, separator, group = self.entry.rpartition("@")
        number = "0" if self.inner is None else self.inner
        if not separator or not number.lstrip("-").isdecimal():
            return None
        return f"group {group}", topic, int(number)


Offsets = dict[Place, int]


def offsets_of(document: Document, kind: ConfigKind) -> Offsets:
    """Return the numbers of a document that are offsets; negative ones mean none."""
    found: Offsets = {}
    for table, entry, value in entries_of(document, kind):
        inner = value.items() if isinstance(value, dict) else [(None, value)]
        for key, number in inner:
            if (offset := int(number)) >= 0:
                found[Place(table, entry, key)] = offset
    return found


def proven_offsets(copies: Iterable[Offsets]) -> Offsets:
    """Return the highest offset of each place: the reader was that far once."""
    highest: Offsets = {}
    for offsets in copies:
        for place, offset in offsets.items():
            highest[place] = max(offset, highest.get(place, 0))
    return highest


def effects_of(
    choice: Offsets, places: Iterable[Place], proven: Mapping[Place, int], kind: ConfigKind, ends: QueueEnds
) -> Iterator[OffsetEffect]:
    """Yield what a choice means, by reader, topic and queue.

    Args:
        choice: its offsets.
        places: all that are known of.
        proven: the highest offset that any copy has.
        kind: of the file.
        ends: the queues.
    """
    named = ((place.reader(kind), place) for place in places)
    for reader, place in sorted(((who, one) for who, one in named if who is not None), key=itemgetter(0)):
        yield _effect(reader, choice.get(place), proven.get(place), kind, ends)


def _effect(
    reader: tuple[str, str, int], offset: int | None, proven: int | None, kind: ConfigKind, ends: QueueEnds
) -> OffsetEffect:
    bounds = ends.bounds(*reader[1:])
    if bounds is None:
        least = 0 if offset is None or proven is None else max(proven - offset, 0)
        over = 0 if offset is None or proven is None else max(offset - proven, 0)
        return OffsetEffect(*reader, offset, proven, None, None, least, least, over)
    low, high = bounds
    had = min(max(low if proven is None else proven, low), high)
    if offset is not None:
        at = min(max(offset, low), high)
        again = max(had - at, 0), high - at
        return OffsetEffect(*reader, offset, proven, low, high, *again, max(at - had, 0))
    if kind.name == DELAYS:
        return OffsetEffect(*reader, None, proven, low, high, had - low, high - low, 0)
    return OffsetEffect(*reader, None, proven, low, high, 0, high - low, high - had)
