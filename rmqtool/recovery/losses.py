"""Losses of a start: records cut, records without units or index entries, messages that no pull delivers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rmqtool.account.lost import LossReporter, LostReason, QueuePlace
from rmqtool.findings import counted
from rmqtool.formats.consumequeue import UNIT_SIZE
from rmqtool.kernels.totals import QueueTotals, Total
from rmqtool.recovery import Loss, QueueOutcome
from rmqtool.recovery.log_recovery import true_batches
from rmqtool.releases import NEWEST
from rmqtool.reput.dispatcher import Dispatcher
from rmqtool.scan.records import record_at

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from rmqtool.account.log_losses import LogAccount, StoreAccount
    from rmqtool.account.lost import LostMessage, LostTotals
    from rmqtool.account.survey import SurveyedLog, Surveyor
    from rmqtool.arrays import Bools, Int64s
    from rmqtool.derived.queues import LiveUnits
    from rmqtool.dispatch.policy import DispatchPolicy
    from rmqtool.kernels.rows import MessageBatch
    from rmqtool.recovery import Prediction
    from rmqtool.recovery.loaded import LoadedStore
    from rmqtool.recovery.log_records import LogRecords
    from rmqtool.recovery.unit_queue import QueueKey
    from rmqtool.store.segments import Segment


def lost_records(surveyed: SurveyedLog, loaded: LoadedStore, cut: int) -> list[Loss]:
    """Count the intact records that a start cuts off, by topic, with those that this broker cannot read."""
    queues, places = QueueTotals(), [loaded.cut]
    for batch in records_after(loaded.log, cut, surveyed):
        queues.add(batch)
        places.append(batch.rows["log_offset"].copy())
    loaded.cut = np.concatenate(places)
    by_topic: dict[str, Total] = {}
    for (topic, _), total in queues:
        by_topic[topic] = total.plus(by_topic.get(topic))
    return [Loss(topic, total.messages, total.bytes) for topic, total in sorted(by_topic.items())]


def tell_losses(
    account: StoreAccount, prediction: Prediction, loaded: LoadedStore, tell: Callable[[LostMessage], object]
) -> LostTotals:
    """Report every message that a start loses, or that the log has lost; add them up."""
    lost = LossReporter(account.surveyed.log, tell)
    lost.records(loaded.cut.tolist(), LostReason.CUT)
    lost.log = account.log  # as a broker reads it
    for key, offsets, places in loaded.without_unit:
        for queue_offset, place in zip(offsets.tolist(), places.tolist(), strict=True):
            lost.message(QueuePlace(*key, queue_offset), place, LostReason.NO_UNIT)
    lost.log = account.surveyed.log
    told = [loaded.cut, account.surveyed.unreached, *(places for _, _, places in loaded.without_unit)]
    places, messages = account.surveyed.readable.T
    is_left = ~np.isin(places, np.concatenate(told))
    lost.records(places[is_left].tolist(), LostReason.DAMAGED, messages[is_left].tolist())
    tell_unreached(account, None if prediction.cut is None else prediction.cut.physical_offset, lost)
    account.losses(lost=lost)
    without_unit = sum(queue.missing + queue.dropped for queue in prediction.queues)
    # A missing unit's place may lead to no record.
    return lost.totals(account.surveyed.gaps, without_unit - lost.reasons.get(LostReason.NO_UNIT, 0))


def records_after(
    segments: Sequence[Segment], cut: int, surveyed: SurveyedLog | None = None
) -> Iterator[MessageBatch]:
    """Yield the intact records that lie at a place of the log or after it."""
    starts = {segment.label: segment.start for segment in segments}
    for segment in segments if surveyed is None else surveyed.log:
        start = cut + segment.start - starts.get(segment.label, segment.start)
        if segment.stop > start:
            false = None if surveyed is None else surveyed.false
            start = max(start, segment.start)
            yield from true_batches(segment, start, segment.stop, NEWEST.records, false)
            segment.close()


def tell_unreached(account: StoreAccount, cut: int | None, lost: LossReporter) -> None:
    """Report the records that no walk of a broker reaches, but for those cut off, or served by a unit."""
    log = account.surveyed.log
    starts = {segment.label: segment.start for segment in account.log}
    for place in account.surveyed.unreached.tolist():
        segment, record = log.segment_at(place), record_at(log, place)
        if segment is None or record is None:
            continue
        lies_at = place - segment.start + starts[segment.label]
        is_served = lies_at == place and account.of_queues.lists(
            (record.topic, record.head.queue_id), np.array([place], np.int64)
        )
        if (cut is None or lies_at < cut) and not is_served:
            lost.records([place], LostReason.SKIPPED)


def count_missing(
    looking: Surveyor, cut: int, policy: DispatchPolicy, loaded: LoadedStore, account: LogAccount
) -> int:
    """Count index entries, before the cut, that the start did not dispatch and that did not exist.

    Units are counted in the tallies of ``loaded``; one existed if it leads to its record, in files that the
    start keeps.
    """
    counting = _Counting(Dispatcher(policy), loaded, account)
    for segment in looking.log:
        if segment.start < cut:
            for batch in looking.batches(segment, segment.start, min(segment.stop, cut)):
                counting.take(batch)
            segment.close()
    counting.count()
    return counting.entries


def count_missing_of(records: LogRecords, cut: int, loaded: LoadedStore, account: LogAccount) -> int:
    """Count the same of a log whose records are known."""
    for key, rows in (records.queues | records.light).items():
        left = rows.only((rows.places < cut) & ~loaded.is_dispatched(rows.places))
        if len(left.places):
            absent = loaded.queue(key).absent(left.places, left.sizes) | ~account.lists(key, left.places)
            _miss(loaded, key, left.queue_offsets[absent], left.places[absent])
    places = records.entries["physical_offset"]
    places = places[(places < cut) & ~loaded.is_dispatched(places)]
    return int(np.count_nonzero(~loaded.index.covers(places)))


@dataclass
class _Counting:
    """Counts missing units and entries, many units at a time: a batch has few of each queue."""

    dispatcher: Dispatcher
    loaded: LoadedStore
    account: LogAccount
    entries: int = 0

    def take(self, batch: MessageBatch) -> None:
        left = ~self.loaded.is_dispatched(batch.rows["log_offset"])
        if not left.any():
            return
        self.dispatcher.dispatch(batch.only(left))
        put = self.dispatcher.taken()
        if put.are_many:
            self.count()
            self.dispatcher.clear()

    def count(self) -> None:
        put = self.dispatcher.taken()
        self.entries += int(np.count_nonzero(~self.loaded.index.covers(put.entries["physical_offset"])))
        for key, units in self.dispatcher.units_by_queue():
            places = np.ascontiguousarray(units["physical_offset"])
            absent = self.loaded.queue(key).absent(places, units["size"]) | ~self.account.lists(key, places)
            _miss(self.loaded, key, units["queue_offset"][absent], places[absent])


def _miss(loaded: LoadedStore, key: QueueKey, queue_offsets: Int64s, places: Int64s) -> None:
    if len(places):
        loaded.tally(key).missing += len(places)
        loaded.without_unit.append((key, queue_offsets, places))


_PULL_UNITS = 800
"""A pull ends after 16,000 bytes of units, whatever it found (``maxFilterMessageSize``)."""


def not_served(
    queues: Sequence[QueueOutcome], log: Sequence[Segment], end: int, file_size: int, account: LogAccount
) -> Iterator[tuple[str, int]]:
    """Yield, for each queue, a sentence on how many messages pulls skip at most.

    ``end`` is the physical offset at which the start ends the log, ``file_size`` the bytes of a queue's file.
    """
    kept = [segment for segment in log if segment.start < end]
    for queue in queues:
        key = queue.topic, queue.queue_id
        if queue.batch or not kept:
            continue
        units = account.units(key)
        units = units.only((units.keys >= queue.min_offset) & (units.keys < queue.max_offset))
        count = _stepped_over(units, _leads_to_bytes(units, kept, end), kept[0].size_bytes, file_size)
        if count:
            messages = counted(count, "message", spec=",")
            sentence = (
                f"Up to {messages} of {queue.topic}/{queue.queue_id} that the log has are not served: a unit"
                " before them points outside the log, and a pull then skips to the log's next file."
            )
            yield sentence, count


def _leads_to_bytes(units: LiveUnits, log: Sequence[Segment], end: int) -> Bools:
    """Return which units lead to bytes of one file of the log."""
    starts = np.array([segment.start for segment in log], np.int64)
    stops = np.minimum(np.array([segment.stop for segment in log], np.int64), end)
    number = np.searchsorted(starts, units.physical_offsets, "right") - 1
    return np.asarray((number >= 0) & (units.physical_offsets + units.sizes <= stops[number]))


def _stepped_over(units: LiveUnits, good: Bools, log_file_size: int, file_size: int) -> int:
    """Count the good units between a bad one and the next that a pull serves."""
    keys, places = units.keys.tolist(), units.physical_offsets.tolist()
    a_file, count, done = max(file_size // UNIT_SIZE, 1), 0, 0
    bad: Int64s = np.flatnonzero(~good)
    for first in bad.tolist():
        if first < done:
            continue
        rolled = _next_file(places[first], log_file_size)
        last = min((keys[first] // a_file + 1) * a_file - 1, keys[first] + _PULL_UNITS)
        done = first + 1
        while done < len(keys) and keys[done] <= last:
            if places[done] >= rolled:
                if good[done]:
                    break
                rolled = _next_file(places[done], log_file_size)
            count += bool(good[done])
            done += 1
    return count


def _next_file(place: int, file_size: int) -> int:
    return place + file_size - place % file_size
