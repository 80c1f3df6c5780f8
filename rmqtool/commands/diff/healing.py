"""Messages that one side's log has lost and the other side has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from rmqtool.account.model import indexes_beyond, lists_beyond
from rmqtool.account.store_account import StoreAccount
from rmqtool.commands.diff.model import Healing
from rmqtool.scan.record_at import record_at

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rmqtool.account.absent import Absent
    from rmqtool.account.survey import SurveyedLog
    from rmqtool.commands.diff.align import LogBounds
    from rmqtool.commands.diff.model import Comparison
    from rmqtool.store import FileQueue, Store


class _Replica(NamedTuple):
    name: str
    store: Store
    account: StoreAccount
    bounds: tuple[int, int]


@dataclass
class _Held:
    """Counts lost messages of a log that another log has: by their queue offsets, or by their places."""

    there: SurveyedLog
    log: FileQueue
    messages: int = 0

    def absent(self, queue: tuple[str, int], absent: Iterable[Absent]) -> None:
        """Take those of a queue."""
        runs = self.there.runs.get(queue)
        if runs is None:
            return
        for one in absent:
            last = one.queue_offset + one.messages
            held = np.minimum(runs["stop"], last) - np.maximum(runs["first"], one.queue_offset)
            self.messages += min(int(np.maximum(held, 0).sum()), one.messages)

    def indexed(self, places: Iterable[int]) -> None:
        """Take those that only the index knows."""
        self.messages += sum(record_at(self.log, place) is not None for place in places)


def healing(a: Store, b: Store, reaches: LogBounds, comparison: Comparison) -> Iterator[Healing]:
    """Yield, for each side with losses, how much of them the other side has, after the whole comparison."""
    sides = [
        _Replica(name, store, StoreAccount(store), bounds)
        for name, store, bounds in zip(
            "ab", (a, b), zip(reaches.starts, reaches.ends, strict=True), strict=True
        )
    ]
    for side, other in (sides, sides[::-1]):
        damaged = comparison.damaged[side.name]
        if not (comparison.is_damaged or _leads_beyond(side)) or not side.account.can_tell:
            continue
        lost = side.account.losses().messages
        held = _Held(other.account.looked, other.store.commitlog) if lost else None
        if held is not None:
            comparison.is_damaged |= side.account.is_log_cut  # a lagging slave has no trace of these
            side.account.losses(lost=held)
        if lost or damaged:
            yield Healing(side.name, lost, 0 if held is None else held.messages, damaged)


def _leads_beyond(side: _Replica) -> bool:
    start, end = side.bounds
    return side.account.can_tell and (lists_beyond(side.store, start, end) or indexes_beyond(side.store, end))
