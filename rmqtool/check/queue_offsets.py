"""Queue offsets along the log: in every queue they go up by one.

Runs that join need no look at their rows; only queues whose runs do not are read row by row.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from rmqtool.findings import Finding, FindingCode, FindingLog, codes, counted
from rmqtool.kernels.continuity import BREAK_ROW, Discontinuity, find_breaks, new_progress
from rmqtool.reput.blocks import UNIT_COLUMNS, Block
from rmqtool.reput.queues import PLACE, QueuePlan
from rmqtool.reput.units import QueueUnits, by_queue
from rmqtool.store.segments import FileQueue, finding_at
from rmqtool.topics import LMQ_PREFIX

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import numpy.typing as npt

    from rmqtool.arrays import Bools, Int64s, Rows
    from rmqtool.engine import Engine


class RepeatedName(NamedTuple):
    """A message that names a queue more than once.

    Attributes:
        log_offset: of the message.
        queue_offset: that all the names have.
        times: how often it is named.
    """

    log_offset: int
    queue_offset: int
    times: int


class RepeatedNames:
    """Finds messages that name one light queue more than once in INNER_MULTI_DISPATCH, chunk by chunk.

    A broker gives all of these names the same queue offset, and the queue one unit: dispatch skips the others
    as repetitions. 4.9 counts the queue up by one, 5.x by one for each name, so that queue offsets in the log
    run ahead of the queue until a restart counts it again (``LmqDispatch#updateLmqOffsets`` and
    ``QueueOffsetOperator#increaseLmqOffset``, 5.3.3; ``MultiDispatch#updateMultiQueueOffset``, 4.9.8).

    Attributes:
        kept: the first messages that name the queue more than once.
        count: how many there are.
        skipped: how far the queue offsets of the log ran ahead of the queue at most.
    """

    def __init__(self, max_kept: int) -> None:
        self._max_kept = max_kept
        self._log_offset = self._queue_offset = -1
        self._times, self._ahead = 1, 0
        self.kept: list[RepeatedName] = []
        self.count = 0
        self.skipped = 0

    def take(self, queue_offsets: Int64s, log_offsets: Int64s) -> tuple[Int64s, Bools | None]:
        """Look at consecutive units.

        Returns:
            Queue offsets as they would be had every message named the queue once, and which units to keep;
            None for all of them.
        """
        again = (log_offsets == np.concatenate([[self._log_offset], log_offsets[:-1]])) & (
            queue_offsets == np.concatenate([[self._queue_offset], queue_offsets[:-1]])
        )
        if self._times == 1 and not self._ahead and not again.any():
            self._log_offset, self._queue_offset = int(log_offsets[-1]), int(queue_offsets[-1])
            return queue_offsets, None
        places = queue_offsets.copy()
        for row, (queue_offset, log_offset) in enumerate(
            zip(queue_offsets.tolist(), log_offsets.tolist(), strict=True)
        ):
            if again[row]:
                self._repeat()
            else:
                self._next(queue_offset, log_offset)
            places[row] -= self._ahead if queue_offset >= 0 else 0
        return places, ~again

    def _repeat(self) -> None:
        self._times += 1
        if self._times == 2:
            self.count += 1
            if len(self.kept) < self._max_kept:
                self.kept.append(RepeatedName(self._log_offset, self._queue_offset, self._times))
        elif self.kept and self.kept[-1].log_offset == self._log_offset:
            self.kept[-1] = self.kept[-1]._replace(times=self._times)

    def _next(self, queue_offset: int, log_offset: int) -> None:
        if self._times > 1 and queue_offset == self._queue_offset + self._times:
            self._ahead += self._times - 1
            self.skipped = max(self.skipped, self._ahead)
        elif self._ahead and queue_offset == self._queue_offset - self._ahead + 1:
            self._ahead = 0
        self._log_offset, self._queue_offset, self._times = log_offset, queue_offset, 1


_TASKS = 16
_BACKWARD = frozenset({Discontinuity.REPEATED, Discontinuity.RESET})
_CODES = {
    Discontinuity.GAP: codes.CL_QOFF_GAP,
    Discontinuity.REPEATED: codes.CL_QOFF_DUP,
    Discontinuity.RESET: codes.CL_QOFF_RESET,
    Discontinuity.OUT_OF_RANGE: codes.CL_QOFF_RANGE,
}


@dataclass(frozen=True, slots=True)
class Break:
    """A record whose queue offset does not follow.

    Attributes:
        code: what it is.
        topic: of the queue.
        queue_id: of the queue.
        expected: the queue offset after the record before.
        observed: the record's queue offset.
        log_offset: physical offset of the record.
    """

    code: FindingCode
    topic: str
    queue_id: int
    expected: int
    observed: int
    log_offset: int


@dataclass
class Breaks:
    """Where queue offsets do not follow.

    Attributes:
        kept: those of a queue in log order.
        totals: how many there are of each code, kept or not.
        skipped: by queue, how far its offsets run ahead of its units, see `RepeatedNames`.
    """

    kept: list[Break]
    totals: Counter[FindingCode]
    skipped: dict[tuple[str, int], int] = field(default_factory=dict)


def breaks_of(
    plans: Sequence[QueuePlan], blocks: Sequence[Block], engine: Engine, *, from_zero: bool, max_breaks: int
) -> Breaks:
    """Return where queue offsets do not follow; only queues whose runs do not join are read.

    Args:
        plans: the queues.
        blocks: where their units are.
        engine: reads them.
        from_zero: the log begins at 0, so every queue must begin at offset 0.
        max_breaks: breaks of one queue that are returned.
    """
    wanted = sorted((plan for plan in plans if not _in_order(plan, from_zero=from_zero)), key=PLACE)
    size = max(-(-len(wanted) // _TASKS), 1)
    groups = [wanted[first : first + size] for first in range(0, len(wanted), size)]
    slim = tuple(block.slim(*UNIT_COLUMNS) for block in blocks)
    check = partial(_check_queues, blocks=slim, from_zero=from_zero, max_breaks=max_breaks)
    found = Breaks([], Counter())
    for part in engine.map(check, groups) if groups else ():
        found.kept += part.kept
        found.totals.update(part.totals)
        found.skipped.update(part.skipped)
    return found


def _in_order(plan: QueuePlan, *, from_zero: bool) -> bool:
    shape = plan.shape
    return shape.in_order and not (from_zero and shape.first_queue_offset)


def _check_queues(
    plans: Sequence[QueuePlan], blocks: Sequence[Block], *, from_zero: bool, max_breaks: int
) -> Breaks:
    found = Breaks([], Counter())
    for plan, pieces in by_queue(plans, blocks):
        _Queue(plan, found, from_zero=from_zero, max_breaks=max_breaks).run(pieces)
    return found


class _Queue:
    """One queue, row by row in chunks; the last row of a chunk waits for the one after it."""

    def __init__(self, plan: QueuePlan, found: Breaks, *, from_zero: bool, max_breaks: int) -> None:
        self._plan = plan
        self._found = found
        self._progress = new_progress(0 if from_zero else None)
        self._totals = np.zeros(len(Discontinuity), np.int64)
        self._room: Rows = np.empty(max_breaks, BREAK_ROW)
        self._repeated = RepeatedNames(max_breaks)

    def run(self, pieces: Iterable[QueueUnits]) -> None:
        pending: _Rows | None = None
        for chunk in self._chunks(pieces):
            rows = chunk if pending is None else pending.followed_by(chunk)
            self._judge(rows, len(rows.offsets) - 1)
            pending = rows.last()
        if pending is not None:
            self._judge(pending, 1)
        for kind in Discontinuity:
            if self._totals[kind]:
                self._found.totals[self._code(kind)] += int(self._totals[kind])
        self._tell_repeated()

    def _tell_repeated(self) -> None:
        queue, found = (self._plan.topic, self._plan.queue_id), self._repeated
        for one in found.kept:
            self._found.kept.append(
                Break(codes.LMQ_TWICE, *queue, one.times, one.queue_offset, one.log_offset)
            )
        if found.count:
            self._found.totals[codes.LMQ_TWICE] += found.count
        if found.skipped:
            self._found.skipped[queue] = found.skipped

    def _code(self, kind: Discontinuity) -> FindingCode:
        if kind in _BACKWARD and self._plan.topic.startswith(LMQ_PREFIX):
            return codes.LMQ_COUNTER_RESET
        return _CODES[kind]

    def _chunks(self, pieces: Iterable[QueueUnits]) -> Iterator[_Rows]:
        for piece in pieces:
            log_offsets = piece.column("units")["physicalOffset"].astype(np.int64)
            counts: Int64s = np.ones(len(piece), np.int64)
            if self._plan.batch:
                counts = piece.column("batch_sizes").astype(np.int64)
            offsets, kept = self._repeated.take(piece.column("queue_offsets"), log_offsets)
            rows = _Rows(offsets, counts, log_offsets)
            yield rows if kept is None else rows.where(kept)

    def _judge(self, rows: _Rows, judged: int) -> None:
        filled = find_breaks(rows.offsets, rows.counts, judged, self._progress, self._room, self._totals)
        for one in self._room[:filled]:
            code = self._code(Discontinuity(int(one["kind"])))
            log_offset = int(rows.log_offsets[one["row"]])
            queue = self._plan.topic, self._plan.queue_id
            self._found.kept.append(
                Break(code, *queue, int(one["expected"]), int(one["observed"]), log_offset)
            )
        self._room = self._room[filled:]


@dataclass(frozen=True, slots=True)
class _Rows:
    """Queue offsets, how many offsets each unit takes, and physical offsets; ``(n,)`` each."""

    offsets: Int64s
    counts: Int64s
    log_offsets: Int64s

    def where(self, kept: npt.NDArray[np.bool_]) -> _Rows:
        return _Rows(self.offsets[kept], self.counts[kept], self.log_offsets[kept])

    def last(self) -> _Rows:
        return _Rows(self.offsets[-1:], self.counts[-1:], self.log_offsets[-1:])

    def followed_by(self, other: _Rows) -> _Rows:
        return _Rows(
            np.concatenate([self.offsets, other.offsets]),
            np.concatenate([self.counts, other.counts]),
            np.concatenate([self.log_offsets, other.log_offsets]),
        )


_MESSAGES = {
    codes.CL_QOFF_GAP.code: "{missing} missing before this record",
    codes.CL_QOFF_DUP.code: "queue offset {observed} is repeated: the queue was at {expected}",
    codes.CL_QOFF_RESET.code: "queue offsets begin again at 0: the queue was at {expected}",
    codes.CL_QOFF_RANGE.code: "queue offset {observed} where only {expected} can be",
    codes.LMQ_COUNTER_RESET.code: "queue offset {observed} is repeated: the light queue was at {expected}",
    codes.LMQ_TWICE.code: "names the queue {expected} times, all with queue offset {observed}: it has one"
    " unit",
}


def add_breaks(findings: FindingLog, log: FileQueue, breaks: Breaks, lost: Sequence[tuple[int, int]]) -> None:
    """Add breaks to the findings, in log order."""
    for one in sorted(breaks.kept, key=lambda one: (one.log_offset, one.topic, one.queue_id)):
        findings.add(_finding(log, one, lost))
    kept = Counter(one.code for one in breaks.kept)
    for code, count in (breaks.totals - kept).items():
        findings.add(Finding(code=code), count=count)


def _finding(log: FileQueue, found: Break, lost: Sequence[tuple[int, int]]) -> Finding:
    message = _MESSAGES[found.code.code].format(
        observed=found.observed,
        expected=found.expected,
        missing=counted(found.observed - found.expected, "queue offset is", "queue offsets are"),
    )
    if found.code is codes.CL_QOFF_GAP and any(start < found.log_offset for start, _ in lost):
        message += "; they may be lost in damage before it"
    return finding_at(
        log.segment_at(found.log_offset),
        found.code,
        found.log_offset,
        message,
        topic=found.topic,
        queue_id=found.queue_id,
        queue_offset=found.observed,
        expected=1 if found.code is codes.LMQ_TWICE else found.expected,
        observed=found.expected if found.code is codes.LMQ_TWICE else found.observed,
    )


def repeats_from(breaks: Breaks, log_offset: int) -> bool:
    """Whether a record at ``log_offset`` or after it carries a queue offset that came before."""
    repeated = {codes.CL_QOFF_DUP.code, codes.CL_QOFF_RESET.code, codes.LMQ_COUNTER_RESET.code}
    return any(one.log_offset >= log_offset and one.code.code in repeated for one in breaks.kept)


def without_copies(breaks: Breaks, copies: frozenset[int]) -> Breaks:
    """Leave out what copies of older records repeat, which claim these physical offsets."""
    repeated = {codes.CL_QOFF_DUP.code, codes.CL_QOFF_RESET.code, codes.LMQ_COUNTER_RESET.code}
    dropped = [one for one in breaks.kept if one.log_offset in copies and one.code.code in repeated]
    kept = [one for one in breaks.kept if one not in dropped]
    return Breaks(kept, breaks.totals - Counter(one.code for one in dropped))
