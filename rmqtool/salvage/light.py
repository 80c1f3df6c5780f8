"""Messages that stood in light queues, too (multi dispatch): one tombstone stands in all of them.

A light queue has no records of its own: a record of another queue names it, with its queue offset
there (``INNER_MULTI_DISPATCH``, ``INNER_MULTI_QUEUE_OFFSET``). So a gap of a light queue is closed by the
tombstones of the queue whose messages it lists.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np

from rmqtool.salvage.making import bare_content, light_properties, record_size

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rmqtool.salvage.ground import Ground
    from rmqtool.salvage.model import Lost, RecordForm
    from rmqtool.salvage.survey import Survey

    Key = tuple[str, int]


def light_queues(survey: Survey) -> dict[Key, frozenset[Key]]:
    """Return the light queues, and of each the queues whose messages it lists."""
    units = survey.units
    light = np.flatnonzero(units["light"])
    first = np.searchsorted(units["log_offset"], units["log_offset"][light])
    pairs = np.unique(np.stack([units["queue"][light], units["queue"][first]]), axis=1)
    found: defaultdict[Key, set[Key]] = defaultdict(set)
    for one, other in pairs.T:
        found[survey.queues[one]].add(survey.queues[other])
    return {key: frozenset(others) for key, others in found.items()}


@dataclass(frozen=True)
class LightRoom:
    """Tells what the holes of a log have room for.

    Attributes:
        ground: what stays of the log.
        form: how records are made.
    """

    ground: Ground
    form: RecordForm

    def fits(self, lost: Lost, light: Mapping[str, int]) -> bool:
        """Whether a hole between a message's neighbours has room for a tombstone that names light queues."""
        properties, body = bare_content(lost.topic, lost.queue_id, 0)
        named = properties + light_properties(tuple(light.items()))
        return record_size(self.form, lost.topic, named, body) <= self.ground.room(lost.start, lost.stop)


@dataclass
class _Open:
    """A run of lost messages whose tombstones can still name light queues.

    Attributes:
        lost: the run.
        names: by number in the run, the light queues that its tombstone names.
    """

    lost: Lost
    names: defaultdict[int, dict[str, int]] = field(default_factory=lambda: defaultdict(dict))

    def split(self) -> Iterator[Lost]:
        """Yield the run, those that name light queues apart."""
        numbers = range(self.lost.count)
        if self.lost.physical_offset is not None:  # one message, or one batch
            yield replace(self.lost, light=tuple(self.names[0].items()))
            return
        for light, group in groupby(numbers, key=lambda number: tuple(self.names.get(number, {}).items())):
            run = list(group)
            if not light:
                yield replace(self.lost, queue_offset=self.lost.queue_offset + run[0], count=len(run))
            for number in run if light else ():
                offset = self.lost.queue_offset + number
                yield replace(self.lost, queue_offset=offset, count=1, light=light)


def attach_light(lost: Sequence[Lost], queues: Mapping[Key, frozenset[Key]], room: LightRoom) -> list[Lost]:
    """Let tombstones name the light queues that miss a message at their place.

    Args:
        lost: by queue and queue offset.
        queues: see ``light_queues``.
        room: of the holes; a message whose place is named had it for all of its names.
    """
    own = [_Open(one) for one in lost if (one.topic, one.queue_id) not in queues]
    at = {one.lost.physical_offset: one for one in own if one.lost.physical_offset is not None}
    told = []
    for one in lost:
        key = one.topic, one.queue_id
        if key in queues:
            hosts = [run for run in own if (run.lost.topic, run.lost.queue_id) in queues[key]]
            exact = None if one.physical_offset is None else at.get(one.physical_offset)
            placed = _named(one, hosts, room) if exact is None else _named(one, [exact], None)
            told += [replace(part, in_light=True) for part in placed]
    return [part for run in own for part in run.split()] + told


def _named(one: Lost, hosts: list[_Open], room: LightRoom | None) -> Iterator[Lost]:
    """Name a light queue in the tombstones of its hosts, in order; yield it with what found a place."""
    free = (
        (run, number)
        for run in sorted(hosts, key=lambda run: (run.lost.start, run.lost.queue_offset))
        if run.lost.placed and run.lost.start < one.stop and one.start < run.lost.stop
        for number in range(1 if run.lost.physical_offset is not None else run.lost.count)
        if one.topic not in run.names.get(number, {})
        and (room is None or room.fits(run.lost, {**run.names.get(number, {}), one.topic: one.queue_offset}))
    )
    count = 0
    for run, number in free:
        if count == one.count:
            break
        run.names[number][one.topic] = one.queue_offset + count
        count += 1
    if count:
        yield replace(one, count=count, placed=True)
    if count < one.count:
        yield replace(one, queue_offset=one.queue_offset + count, count=one.count - count, placed=False)
