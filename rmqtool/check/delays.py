"""Delayed messages that their level has passed without a delivery: no broker delivers them any more.

A delivery is a copy in the log, stored later, in the message's own topic and with its unique key. It can
expire only after the message itself, so in a sound log every message that was delivered has it. A level
begins at the offset that ``delayOffset.json`` has for it, cut to the ends of its queue; without, at its start
(``ScheduleMessageService#start``, 4.9.8, 5.3.3; ``#correctDelayOffset``, 4.9.2+).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rmqtool.check.transactions import COLUMN, CollectedRows
from rmqtool.derived.positions import DELAY_FILE
from rmqtool.findings import Finding, codes, counted
from rmqtool.kernels.transactions import Role
from rmqtool.times import utc_text
from rmqtool.topics import SCHEDULE_TOPIC

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rmqtool.arrays import Bools, Int64s, Rows
    from rmqtool.reput.blocks import Block


_PLACE = ("log_offset", "keys")


class DelayBalance:
    """Looks for the copies of delayed messages that were passed; picklable.

    Args:
        blocks: the rows, in log order, of a log that has all records from the first delayed one on.
        passed: offsets of the levels, by queue id.
    """

    def __init__(self, blocks: Sequence[Block], passed: Sequence[int]) -> None:
        self._blocks = [block.slim(COLUMN) for block in blocks]
        self._passed = passed

    def check(self) -> list[tuple[Finding, int]]:
        """Return a finding for each level, with the number of its messages."""
        rows = CollectedRows(self._blocks)
        delayed = rows.of(Role.DELAYED, *_PLACE, "unique_key", "target", "queue_id", "store_timestamp_ms")
        copies = rows.of(Role.DELIVERED, *_PLACE, "unique_key")
        nameless = rows.of(Role.NAMELESS, *_PLACE)
        is_passed = ~_has_later(delayed, _names(delayed), copies, _names(copies))
        is_known = ~_has_later(delayed, delayed["keys"], nameless, nameless["keys"])
        return list(self._findings(delayed, is_passed & is_known))

    def _findings(self, delayed: Rows, is_passed: Bools) -> Iterator[tuple[Finding, int]]:
        for queue_id in np.unique(delayed["queue_id"][is_passed]).tolist():
            of_queue = delayed["queue_id"] == queue_id
            never, offset = delayed[of_queue & is_passed], self._passed[queue_id]
            first = never[np.argmin(never["target"])]
            start = int(first["target"])
            again = int((of_queue & ~is_passed & (delayed["target"] >= start)).sum())
            messages = counted(len(never), "message", spec=",")
            text = (
                f"delay level {queue_id + 1} has offset {offset} in {SCHEDULE_TOPIC}/{queue_id}, and"
                f" {messages} below it were never delivered, the first #{start}, stored"
                f" {utc_text(int(first['store_timestamp_ms']))}"
                + (f"; {counted(again, 'later one', 'later ones')} below it had a delivery" if again else "")
            )
            yield (
                Finding(
                    code=codes.OF_PASSED,
                    file=DELAY_FILE,
                    topic=SCHEDULE_TOPIC,
                    queue_id=queue_id,
                    queue_offset=start,
                    physical_offset=int(first["log_offset"]),
                    expected=start,
                    observed=offset,
                    message=text,
                ),
                len(never),
            )


def _names(rows: Rows) -> Int64s:
    """Return one number for topic and unique key."""
    with np.errstate(over="ignore"):
        return np.asarray(rows["unique_key"] * np.int64(31) ^ rows["keys"], np.int64)


def _has_later(rows: Rows, names: Int64s, others: Rows, other_names: Int64s) -> Bools:
    """Return which rows another one of their name follows in the log; the others are in log order."""
    last_first = slice(None, None, -1)
    known, at = np.unique(other_names[last_first], return_index=True)
    places = others["log_offset"][last_first][at]
    number = np.searchsorted(known, names)
    is_there = number < len(known)
    is_there[is_there] = known[number[is_there]] == names[is_there]
    is_there[is_there] = places[number[is_there]] > rows["log_offset"][is_there]
    return np.asarray(is_there, np.bool_)
