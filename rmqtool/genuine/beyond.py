"""Units that lead beyond a log, or to no record: up to where they are plausible, and of which queue."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from rmqtool.scan.records import record_at
from rmqtool.store.segments import ENDLESS
from rmqtool.topics import LMQ_PREFIX

if TYPE_CHECKING:
    from collections.abc import Callable

    from rmqtool.arrays import Bools, Int64s
    from rmqtool.derived.queues import LiveUnits
    from rmqtool.store import Store


_JUDGED = 3  # units before one, by which it is its queue's own or not


def covered(starts: Int64s, stops: Int64s, queue_offsets: Int64s) -> Bools:
    """Return which queue offsets, ``(n,)``, lie in runs of some, by first and end ``(k,)``."""
    order = np.argsort(starts, kind="stable")
    reach = np.maximum.accumulate(stops[order])
    before = np.searchsorted(starts[order], queue_offsets, "right") - 1
    return np.asarray((before >= 0) & (queue_offsets < np.append(reach, 0)[before]))


def able_to_prove(is_judged: Bools, lead_to_own: Callable[[Int64s], Bools]) -> Bools:
    """Return which units of a queue, ``(n,)``, can prove a lost message of it.

    The queue of another store, or a file of one, leads into a log to where no record of the queue is: what it
    lists elsewhere is no message of this log. A unit is taken for what most of those before it are.

    Args:
        is_judged: whether the log has a record where a unit leads, or elsewhere the record of its queue
            offset, ``(n,)`` in the order of the queue; of these, all are returned.
        lead_to_own: returns which of them, by number, ``(k,)``, lead to a record of the queue.
    """
    judged, others = np.flatnonzero(is_judged), np.flatnonzero(~is_judged)
    can_prove = np.ones(len(is_judged), np.bool_)
    width = min(_JUDGED, len(judged))
    if width and len(others):
        before = np.clip(np.cumsum(is_judged)[others] - width, 0, len(judged) - width)
        window = before[:, None] + np.arange(width)
        needed, own = np.unique(window), np.zeros(len(judged), np.int64)
        own[needed] = lead_to_own(judged[needed])
        can_prove[others] = 2 * own[window].sum(axis=1) >= width
    return can_prove


_NOWHERE = np.empty(0, np.int64)
_WITNESSES = 16  # units before one that leads beyond the log, up to the first with a record


class UnitsBeyond:
    """Decides which units beyond a log prove a message of their queue: without a file of the log, all may."""

    def __init__(self, store: Store) -> None:
        self._log, self._file_size = store.log, store.settings.commitlog_file_size
        self._places: dict[tuple[str, int], Int64s] = {}  # by queue offset; of few before those beyond

    def add(self, key: tuple[str, int], units: LiveUnits) -> None:
        """Take the units of a queue, before the first decision."""
        beyond = units.physical_offsets >= self._log.stop
        if not len(self._log) or not beyond.any():
            return
        units = units.sane
        places = units.physical_offsets[np.argsort(units.keys, kind="stable")]
        number = np.arange(len(places))
        far = len(places) + _WITNESSES
        due = np.where(places >= self._log.stop, number, far)
        due = np.minimum.accumulate(due[::-1])[::-1]  # the next that leads beyond
        self._places[key] = places[due - number <= _WITNESSES]

    def proves(self, key: tuple[str, int], places: Int64s) -> Bools:
        """Return which units of a queue, by where they lead to, ``(n,)``, can prove a message of it."""
        proves: Bools = places <= self.last
        return proves & ~np.isin(places, self._of_others.get(key, _NOWHERE))

    @cached_property
    def last(self) -> int:
        """Up to which place units are plausible: a rotted bit leads anywhere.

        None lies farther after all before it than a file of the log, and than the log up to these, is long.
        """
        if not self._places:
            return ENDLESS
        places = np.concatenate(list(self._places.values()))
        beyond = np.unique(places[places >= self._log.stop])
        before = np.concatenate([[self._log.stop], beyond])[:-1]
        wild = np.flatnonzero(beyond - before > np.maximum(before - self._log.start, self._file_size))
        return int(before[wild[0]]) if len(wild) else ENDLESS

    @cached_property
    def _of_others(self) -> dict[tuple[str, int], Int64s]:
        """Return, by queue, the places that are another queue's.

        A file of one queue copied over another's names its messages twice. Of ordinary queues that name a
        place, it belongs to the first whose units before it lead to records of its own, else to one where
        they lead to none of other queues.
        """
        ordinary = [key for key in self._places if not key[0].startswith(LMQ_PREFIX)]
        named = [np.unique(self._places[key]) for key in ordinary]
        places, counts = np.unique(np.concatenate([_NOWHERE, *named]), return_counts=True)
        shared = places[(counts > 1) & (places >= self._log.stop)] if len(places) else _NOWHERE
        names = [np.isin(shared, places) for places in named]
        witnessed = [self._witnessed(key, shared) for key in ordinary]
        owner = np.full(len(shared), -1)
        for claims in (
            [np.isin(shared, own) for own, _ in witnessed],
            [name & ~np.isin(shared, others) for name, (_, others) in zip(names, witnessed, strict=True)],
            names,
        ):
            for number, claimed in enumerate(claims):
                owner[claimed & (owner < 0)] = number
        return {
            key: shared[is_named & (owner != number)]
            for number, (key, is_named) in enumerate(zip(ordinary, names, strict=True))
        }

    def _witnessed(self, key: tuple[str, int], shared: Int64s) -> tuple[Int64s, Int64s]:
        """Return before which shared places a queue leads to a record of its own, and to one of another."""
        own, others = list[int](), list[int]()
        wanted, is_own = set(np.intersect1d(shared, self._places[key]).tolist()), None
        if not wanted:
            return _NOWHERE, _NOWHERE
        for place in self._places[key].tolist():
            if place < self._log.stop:
                record = record_at(self._log, place)
                if record is not None and record.head.physical_offset == place:
                    is_own = (record.topic, record.head.queue_id) == key
            elif place in wanted and is_own is not None:
                (own if is_own else others).append(place)
        return np.array(own, np.int64), np.array(others, np.int64)
