"""Messages that no pull serves, though log and queue have them: a unit before them leads out of the log.

A pull that meets such a unit goes on with the first unit that leads to the log's next file, or beyond it
(``DefaultMessageStore#getMessage``, ``CommitLog#rollNextFile``; 4.9.8, 5.3.3, 5.4.0 and 5.5.1 do the same).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rmqtool.derived.queue_files import all_live_units
from rmqtool.findings.wording import counted
from rmqtool.formats.consumequeue import UNIT_SIZE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rmqtool.account.log_losses import LogAccount
    from rmqtool.arrays import Bools, Int64s
    from rmqtool.derived.queue_files import LiveUnits
    from rmqtool.recovery.model import QueueOutcome
    from rmqtool.store.segments import Segment

_PULL_UNITS = 800
"""A pull ends after 16,000 bytes of units, whatever it found (``maxFilterMessageSize``)."""


def not_served(
    queues: Sequence[QueueOutcome], log: Sequence[Segment], end: int, file_size: int, account: LogAccount
) -> Iterator[tuple[str, int]]:
    """Yield, for each queue, a sentence on how many messages pulls skip at most.

    ``end`` is the physical offset at which the start ends the log, ``file_size`` the bytes of a queue's file.
    """
    kept = [one for one in log if one.start < end]
    for queue in queues:
        key = queue.topic, queue.queue_id
        files = account.queue_files(key)
        if queue.batch or not kept or files is None:
            continue
        units = all_live_units(files)
        units = units.only((units.keys >= queue.min_offset) & (units.keys < queue.max_offset))
        count = _stepped_over(units, _leads_to_bytes(units, kept, end), kept[0].size_bytes, file_size)
        if count:
            messages = counted(count, "message", spec=",")
            sentence = (
                f"Up to {messages} of {queue.topic}/{queue.queue_id} that the log has are not served: a unit"
                " before them leads out of the log, and a pull goes on with the log's next file after that."
            )
            yield sentence, count


def _leads_to_bytes(units: LiveUnits, log: Sequence[Segment], end: int) -> Bools:
    """Return which units lead to bytes of one file of the log."""
    starts = np.array([one.start for one in log], np.int64)
    stops = np.minimum(np.array([one.stop for one in log], np.int64), end)
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
