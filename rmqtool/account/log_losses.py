"""One account of what a log has lost: messages that something proves, and whose records it has not.

A message is a topic, a queue id and a queue offset in its own queue; copies in light queues are not counted
again. Units prove messages, and so do the queue offsets of the records on both sides.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rmqtool.account.absent import Absent, AbsentFinder, Kept, Pin
from rmqtool.account.model import LogLosses, QueueLosses
from rmqtool.derived.live_units import all_live_units
from rmqtool.dispatch.offset_gaps import RUN_ROW
from rmqtool.errors import EnvironmentFailureError
from rmqtool.formats.consumequeue import PREBLANK_SIZE
from rmqtool.formats.message import SMALLEST_RECORD
from rmqtool.store.features import is_rocksdb
from rmqtool.store.kinds import UNIT_QUEUE_KINDS
from rmqtool.topics import LMQ_PREFIX

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.account.lost import LostMessages
    from rmqtool.account.survey import Survey
    from rmqtool.arrays import Bools, Int64s, Rows
    from rmqtool.derived.live_units import LiveUnits
    from rmqtool.store import QueueFiles
    from rmqtool.store.files import StoreFiles
    from rmqtool.store.kinds import PathKind

_END = (1 << 63) - 1
_NO_RUNS = np.empty(0, RUN_ROW)
QueueKey = tuple[str, int]


@dataclass
class _Queue:
    """The files of a queue, and where its units lead to."""

    files: QueueFiles
    places: Int64s


class Account:
    """What a log has lost, by the units of the queues beside it.

    Args:
        store: whose queues.
        log_start: physical offset of the log's first byte.

    Attributes:
        unread: sentences about queues that cannot be read, and so prove nothing.
    """

    def __init__(self, store: StoreFiles, log_start: int) -> None:
        self._log_start = log_start
        self._queues: dict[QueueKey, _Queue] = {}
        self.unread: list[str] = []
        for kind in UNIT_QUEUE_KINDS:
            root = store.roots.get(kind)
            if root is not None and not is_rocksdb(root.paths[0]):
                self._read(store, kind)

    def _read(self, store: StoreFiles, kind: PathKind) -> None:
        try:
            queues = list(store.queues(kind))
        except EnvironmentFailureError as failure:
            self.unread.append(str(failure))
            return
        for queue in queues:
            try:
                places = np.sort(all_live_units(queue).physical_offsets)
            except EnvironmentFailureError as failure:
                self.unread.append(str(failure))
                continue
            self._queues[queue.topic or "", queue.queue_id or 0] = _Queue(queue, places)

    def lists(self, key: QueueKey, physical_offsets: Int64s) -> Bools:
        """Tell to which records, ``(n,)``, a unit of a queue leads."""
        queue = self._queues.get(key)
        if queue is None or not len(queue.places):
            return np.zeros(len(physical_offsets), np.bool_)
        number = np.searchsorted(queue.places, physical_offsets)
        return np.asarray(queue.places[np.minimum(number, len(queue.places) - 1)] == physical_offsets)

    def losses(self, looked: Survey) -> Iterator[tuple[QueueKey, list[Absent], QueueLosses]]:
        """Yield, of each queue with lost messages, which they are, by topic and queue id.

        Raises:
            EnvironmentFailureError: a file of a queue cannot be opened or read.
        """
        finder = AbsentFinder(looked.start, looked.start == 0, _END, looked.room)
        for key in sorted({*self._queues, *looked.runs}):
            if key[0].startswith(LMQ_PREFIX):
                continue
            runs, pins = looked.runs.get(key, _NO_RUNS), self._pins(key, looked)
            if not pins and len(runs) == 1 and not (looked.start == 0 and runs["first"][0] > 0):
                continue
            absent = [
                one for part in _generations(runs, pins) for one in finder.find(*part[:2], goes_on=part[2])
            ]
            if absent:
                yield key, absent, _of_queue(key, absent, runs)

    def _pins(self, key: QueueKey, looked: Survey) -> list[Pin]:
        queue = self._queues.get(key)
        if queue is None:
            return []
        places = queue.places[np.searchsorted(queue.places, self._log_start) :]
        if not looked.without_record(places).any():
            return []
        units = all_live_units(queue.files)
        pins = _free(units, looked)
        numbers, messages = pins.keys.tolist(), pins.messages.tolist()
        columns = (pins.physical_offsets.tolist(), pins.sizes.tolist(), pins.tags_codes.tolist())
        found = [
            Pin(number, count, *of_unit, "listed")
            for number, count, of_unit in zip(numbers, messages, zip(*columns, strict=True), strict=True)
        ]
        return sorted(found)


def _free(units: LiveUnits, looked: Survey) -> LiveUnits:
    """Return the units that lead to where a record can have been, and is none."""
    offsets, sizes = units.physical_offsets, units.sizes
    sane = (
        (sizes >= SMALLEST_RECORD)
        & (sizes < PREBLANK_SIZE)
        & (offsets >= looked.start)
        & (units.messages > 0)
    )
    units = units.only(np.asarray(sane))
    return units.only(looked.is_free(units.physical_offsets, units.sizes))


def _generations(runs: Rows, pins: list[Pin]) -> Iterator[tuple[list[Pin], Kept, bool]]:
    """Yield the runs of a queue up to where its queue offsets begin again; the pins are of the last."""
    bounds = [0, *(number for number in np.flatnonzero(runs["anew"]).tolist() if number), len(runs)]
    for number, start in enumerate(bounds[:-1]):
        last = number == len(bounds) - 2
        yield pins if last else [], _ascending(runs[start : bounds[number + 1]]), last


def _ascending(runs: Rows) -> Kept:
    """Return runs as far as they go beyond those before them."""
    first, stop = runs["first"], runs["stop"]
    reach = np.maximum.accumulate(stop) if len(stop) else stop
    before = np.concatenate([first[:1], reach[:-1]])
    first = np.maximum(first, before)
    new = stop > first
    return Kept(first[new], stop[new], runs["place"][new], runs["end"][new])


def _of_queue(key: QueueKey, absent: list[Absent], runs: Rows) -> QueueLosses:
    listed = sum(one.messages for one in absent if one.log_offset is not None)
    unlisted = sum(one.messages for one in absent) - listed
    firsts = [one.queue_offset for one in absent] + runs["first"].tolist()
    ends = [one.queue_offset + one.messages for one in absent] + runs["stop"].tolist()
    there = int((runs["stop"] - runs["first"]).sum())
    return QueueLosses(*key, min(firsts), max(ends), there, listed, unlisted)


def log_losses(account: Account, looked: Survey, lost: LostMessages | None = None) -> LogLosses:
    """Return what a log has lost.

    Args:
        account: of the queues beside it.
        looked: what is in it.
        lost: is told each of the messages; None if nobody asks.

    Raises:
        EnvironmentFailureError: a file cannot be opened or read.
    """
    queues, beyond, stop = [], 0, looked.end
    for key, absent, losses in account.losses(looked):
        queues.append(losses)
        for one in absent:
            if one.log_offset is not None and one.size is not None and one.log_offset >= looked.end:
                beyond, stop = beyond + one.messages, max(stop, one.log_offset + one.size)
        if lost is not None:
            lost.absent(key, absent)
    listed, unlisted = sum(one.listed for one in queues), sum(one.unlisted for one in queues)
    beyond_bytes = stop - looked.end if beyond else None
    return LogLosses(listed + unlisted, listed, unlisted, beyond, beyond_bytes, tuple(queues))
