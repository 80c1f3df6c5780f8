"""Catching up with the log: a running broker's dispatch from the end of its queues on.

Origin: ``DefaultMessageStore.ReputMessageService#doReput`` (4.9.8, 5.3.3).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rmqtool.formats.message import Outcome
from rmqtool.kernels.compare import are_among
from rmqtool.kernels.rows import Rules
from rmqtool.recovery import Dispatched, Reput
from rmqtool.recovery.loaded import DispatchStallError, LoadedStore
from rmqtool.reput.chain import Region
from rmqtool.reput.dispatcher import Dispatcher
from rmqtool.scan.walk import SegmentWalk

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rmqtool.arrays import Bools, Int64s
    from rmqtool.recovery.log_records import LogRecords


def catch_up(
    loaded: LoadedStore,
    log_end: int,
    rules: Int64s,
    dispatcher: Dispatcher,
    known: LogRecords | None = None,
    start: int | None = None,
    done: Dispatched | None = None,
) -> Reput:
    """Dispatch from the end of the consume queues, or ``start``, to physical offset ``log_end``.

    Records that are ``known`` to be read and dispatched just so are not read again. What is dispatched is
    added to what was ``done`` before.
    """
    segments = [one for one in loaded.log if one.start <= log_end]
    start = log_offset = max(loaded.max_physical_offset if start is None else start, segments[0].start)
    done, kept = done or Dispatched(), 0
    ranges: list[tuple[int, int]] = []  # of known records, in log order
    while log_offset < log_end:
        segment = next((file for file in segments if file.start <= log_offset < file.stop), None)
        if segment is None:
            break
        stop, walk = min(segment.stop, log_end), SegmentWalk(segment, rules)
        if known is not None and known.chains is not None:
            end, kept = known.chains.follow(log_offset, stop, int(rules[Rules.KEPT_ARRAY]))
            ranges.append((log_offset, end))
            log_offset = min(end, stop)
        try:
            for batch in walk.batches(log_offset, stop, kept):
                if known is not None and len(batch.rows):
                    loaded.put(dispatcher, done)
                    _put(known, loaded, ranges)
                    end_phy_offset = loaded.index.end_phy_offset
                    ranges, dispatcher = [], Dispatcher(known.policy, end_phy_offset=end_phy_offset)
                    if (batch.rows["physical_offset"] != batch.rows["log_offset"]).any():
                        known = None  # an item that leads elsewhere decides what is indexed after it
                loaded.take(dispatcher, batch, done)
        except DispatchStallError as stall:
            return Reput(start, int(stall.args[0]), done)
        segment.close()
        region = Region()
        region.add(walk.mismatches)
        log_offset = region.after(stop)
        if walk.outcome == Outcome.FILE_END:
            log_offset = region.rolled(walk.log_offset, segment, segment.size_bytes)
    loaded.put(dispatcher, done)
    if known is not None:
        _put(known, loaded, ranges)
    return Reput(start, log_offset if log_offset < log_end else None, done)


def _put(records: LogRecords, loaded: LoadedStore, ranges: Sequence[tuple[int, int]]) -> None:
    """Dispatch the records in ranges of the log to a store that has none of them."""
    if not ranges:
        return
    starts, stops = np.array(ranges, np.int64).T

    def are_in(places: Int64s) -> Bools:
        number = np.searchsorted(starts, places, "right") - 1
        return np.asarray((number >= 0) & (places < stops[number]))

    for key, of_queue in (records.queues | records.light).items():
        rows = of_queue.only(are_in(of_queue.places))
        if len(rows.places):
            queue = loaded.queue(key)
            queue.put(rows.queue_offsets, rows.places, rows.messages if queue.batch else rows.sizes)
    entries = records.entries[are_in(records.entries["physical_offset"])]
    places = records.places[are_in(records.places)]
    keyless = places[~are_among(places, entries["physical_offset"])]
    before = np.unique(np.searchsorted(entries["physical_offset"], keyless))
    loaded.index.put(entries, before.astype([("entries_before", np.int64)]))
