"""Queues of a salvage: what is there of each, what is lost, what nobody knows."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

import numpy as np

from rmqtool.account.records import by_queue
from rmqtool.salvage import SalvagedQueue

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from rmqtool.account.belief import Belief
    from rmqtool.arrays import Bools
    from rmqtool.salvage import Lost

    Rows = npt.NDArray[Any]


def salvaged_queues(belief: Belief, lost: tuple[Lost, ...]) -> Iterator[SalvagedQueue]:
    """Yield each queue of which messages are kept or lost."""
    survey = belief.survey
    lost_of: defaultdict[tuple[str, int], list[Lost]] = defaultdict(list)
    for one in lost:
        lost_of[one.topic, one.queue_id].append(one)
    units, records = survey.units, survey.records
    kept = belief.kept[belief.record_of]
    found = by_queue(units, len(survey.queues), kept)
    for number, (key, rows) in enumerate(zip(survey.queues, found, strict=True)):
        missing = lost_of.pop(key, [])
        if len(rows) or missing:
            times = records["store_timestamp_ms"][belief.record_of[rows]]
            orderly = _is_orderly(belief, number, len(rows), kept)
            offsets, counts = units["queue_offset"][rows], units["count"][rows]
            yield _queue(key, offsets, offsets + counts, times, missing, orderly=orderly)
    for key, missing in sorted(lost_of.items()):
        nothing = units["log_offset"][:0]
        yield _queue(key, nothing, nothing, nothing, missing, orderly=True)


def _is_orderly(belief: Belief, queue: int, given_back: int, kept: Bools) -> bool:
    chain = belief.chains.get(queue)
    if chain is None:
        return given_back == 0
    return not chain.resets and int(kept[chain.rows].sum()) == given_back


def _queue(
    key: tuple[str, int], starts: Rows, stops: Rows, times: Rows, lost: list[Lost], *, orderly: bool
) -> SalvagedQueue:
    firsts = [int(starts.min())] if len(starts) else []
    lasts = [int(stops.max())] if len(starts) else []
    found = _distinct(starts, stops)
    return SalvagedQueue(
        *key,
        first_queue_offset=min(firsts + [one.queue_offset for one in lost]),
        end_queue_offset=max(lasts + [one.queue_offset + one.count for one in lost]),
        found=found,
        lost=sum(one.count for one in lost if not one.is_there),
        damaged=sum(one.count for one in lost if one.is_there),
        placed=sum(one.count for one in lost if one.placed),
        orderly=orderly,
        first_stored_ms=int(times[0]) if len(times) else None,
        last_stored_ms=int(times[-1]) if len(times) else None,
    )


def _distinct(starts: Rows, stops: Rows) -> int:
    """Return how many queue offsets units take, those of a queue that began again once."""
    if not len(starts):
        return 0
    if (starts[1:] >= stops[:-1]).all():
        return int((stops - starts).sum())
    order = np.argsort(starts, kind="stable")
    starts, reach = starts[order], np.maximum.accumulate(stops[order])
    covered = np.concatenate([[starts[0]], reach[:-1]])
    return int(np.maximum(reach - np.maximum(starts, covered), 0).sum())
