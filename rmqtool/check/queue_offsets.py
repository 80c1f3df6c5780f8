"""Queue offsets along the log: up by one in every queue, and from 0 again in a topic that was created again.

Where all runs of a queue join, its rows are not read; other queues are read row by row.

A broker deletes a topic's queues at once and its messages never (``DefaultMessageStore#cleanUnusedTopic``,
4.9.8; ``#deleteTopics``, 5.3.3); created again, each queue begins at offset 0. So the log holds two
generations of a queue, and the present queue shows which one lives: it begins with a record of queue offset 0
that is not the log's first of that queue.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from rmqtool.findings import Finding, FindingCode, FindingLog, codes, counted
from rmqtool.formats.consumequeue import PREBLANK_SIZE
from rmqtool.kernels.continuity import BREAK_ROW, Discontinuity, find_breaks, new_progress
from rmqtool.reput.blocks import UNIT_COLUMNS, Block
from rmqtool.reput.queues import PLACE, QueuePlan
from rmqtool.reput.units import QueueUnits, by_queue
from rmqtool.store.segments import FileQueue, finding_at
from rmqtool.topics import LMQ_PREFIX

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from rmqtool.arrays import Bools, Int64s, Rows
    from rmqtool.derived.queues import Queue
    from rmqtool.engine import Engine


class RepeatedName(NamedTuple):
    """A message that names a queue more than once; all the names have one queue offset."""

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
        """Examine consecutive units.

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


class Break(NamedTuple):
    """A record whose queue offset, ``observed``, is not that after the record before, ``expected``."""

    code: FindingCode
    topic: str
    queue_id: int
    expected: int
    observed: int
    log_offset: int


@dataclass
class Breaks:
    """Places at which queue offsets do not follow.

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

    With ``from_zero`` the log begins at 0, so every queue must begin at offset 0. Of one queue, at most
    ``max_breaks`` are returned.
    """
    wanted = sorted((plan for plan in plans if not _in_order(plan, from_zero=from_zero)), key=PLACE)
    size = max(-(-len(wanted) // _TASKS), 1)
    groups = [wanted[first : first + size] for first in range(0, len(wanted), size)]
    slim = tuple(block.slim(*UNIT_COLUMNS) for block in blocks)
    check = partial(_check_queues, blocks=slim, from_zero=from_zero, max_breaks=max_breaks)
    faults = Breaks([], Counter())
    for part in engine.map(check, groups) if groups else ():
        faults.kept += part.kept
        faults.totals.update(part.totals)
        faults.skipped.update(part.skipped)
    return faults


def _in_order(plan: QueuePlan, *, from_zero: bool) -> bool:
    shape = plan.shape
    return shape.in_order and not (from_zero and shape.first_queue_offset)


def _check_queues(
    plans: Sequence[QueuePlan], blocks: Sequence[Block], *, from_zero: bool, max_breaks: int
) -> Breaks:
    faults = Breaks([], Counter())
    for plan, pieces in by_queue(plans, blocks):
        _Queue(plan, faults, from_zero=from_zero, max_breaks=max_breaks).run(pieces)
    return faults


class _LightPlaces:
    """Slots that a broker gives the units of a light queue, chunk by chunk.

    No record is a light queue's own: where the log lost some that named it, the others follow each other in
    their order, and none is dropped as long as no record names a queue offset below its slot.

    Attributes:
        ahead: how far the queue offsets that records name are above their slots at most.
    """

    def __init__(self) -> None:
        self.ahead = 0
        self._slot: int | None = None
        self._are_appended = True
        self._last = self._reached = 0

    def take(self, named: Int64s, offsets: Int64s) -> Int64s:
        """Return queue offsets of consecutive units that only go up, if a broker appends all units."""
        if not len(named):
            return offsets
        if self._slot is None:
            self._slot = int(named[0])
            self._last = self._reached = int(offsets[0]) - 1
        slots = self._slot + np.arange(len(named))
        self._slot = int(slots[-1]) + 1
        self.ahead = max(self.ahead, int((named - slots).max()))
        self._are_appended &= bool((named >= slots).all())
        if not self._are_appended:
            return offsets
        steps = np.diff(offsets, prepend=self._last)
        upward: Int64s = self._reached + np.cumsum(np.maximum(steps, 1))
        self._last, self._reached = int(offsets[-1]), int(upward[-1])
        return upward


class _Queue:
    """One queue, row by row in chunks; the last row of a chunk waits for the one after it."""

    def __init__(self, plan: QueuePlan, breaks: Breaks, *, from_zero: bool, max_breaks: int) -> None:
        self._plan = plan
        self._found = breaks
        self._progress = new_progress(0 if from_zero else None)
        self._totals = np.zeros(len(Discontinuity), np.int64)
        self._room: Rows = np.empty(max_breaks, BREAK_ROW)
        self._repeated = RepeatedNames(max_breaks)
        self._light = _LightPlaces() if plan.topic.startswith(LMQ_PREFIX) else None

    def run(self, pieces: Iterable[QueueUnits]) -> None:
        pending: Int64s | None = None
        for chunk in self._chunks(pieces):
            rows = chunk if pending is None else np.concatenate([pending, chunk], axis=1)
            self._judge(rows, rows.shape[1] - 1)
            pending = rows[:, -1:]
        if pending is not None:
            self._judge(pending, 1)
        for kind in Discontinuity:
            if self._totals[kind]:
                self._found.totals[self._code(kind)] += int(self._totals[kind])
        self._tell_repeated()

    def _tell_repeated(self) -> None:
        queue, repeated = (self._plan.topic, self._plan.queue_id), self._repeated
        for name in repeated.kept:
            self._found.kept.append(
                Break(codes.LMQ_TWICE, *queue, name.times, name.queue_offset, name.log_offset)
            )
        if repeated.count:
            self._found.totals[codes.LMQ_TWICE] += repeated.count
        if skipped := max(repeated.skipped, 0 if self._light is None else self._light.ahead):
            self._found.skipped[queue] = skipped

    def _code(self, kind: Discontinuity) -> FindingCode:
        if kind in _BACKWARD and self._light is not None:
            return codes.LMQ_COUNTER_RESET
        return _CODES[kind]

    def _chunks(self, pieces: Iterable[QueueUnits]) -> Iterator[Int64s]:
        """Yield queue offsets, how many of them each unit takes, and physical offsets; ``(3, n)``."""
        for piece in pieces:
            log_offsets = piece.column("units")["physicalOffset"].astype(np.int64)
            counts: Int64s = np.ones(len(piece), np.int64)
            if self._plan.batch:
                counts = piece.column("batch_sizes").astype(np.int64)
            named = piece.column("queue_offsets")
            offsets, kept = self._repeated.take(named, log_offsets)
            rows = np.stack([offsets, counts, log_offsets])
            if kept is not None:
                rows, named = rows[:, kept], named[kept]
            if self._light is not None:
                rows[0] = self._light.take(named, rows[0])
            yield rows

    def _judge(self, rows: Int64s, judged: int) -> None:
        offsets, counts, log_offsets = rows
        filled = find_breaks(offsets, counts, judged, self._progress, self._room, self._totals)
        for place in self._room[:filled]:
            code = self._code(Discontinuity(int(place["kind"])))
            log_offset = int(log_offsets[place["row"]])
            queue = self._plan.topic, self._plan.queue_id
            self._found.kept.append(
                Break(code, *queue, int(place["expected"]), int(place["observed"]), log_offset)
            )
        self._room = self._room[filled:]


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
    for fault in sorted(breaks.kept, key=lambda one: (one.log_offset, one.topic, one.queue_id)):
        findings.add(_finding(log, fault, lost))
    kept = Counter(one.code for one in breaks.kept)
    for code, count in (breaks.totals - kept).items():
        findings.add(Finding(code=code), count=count)


def _finding(log: FileQueue, fault: Break, lost: Sequence[tuple[int, int]]) -> Finding:
    message = _MESSAGES[fault.code.code].format(
        observed=fault.observed,
        expected=fault.expected,
        missing=counted(fault.observed - fault.expected, "queue offset is", "queue offsets are"),
    )
    if fault.code is codes.CL_QOFF_GAP and any(start < fault.log_offset for start, _ in lost):
        message += "; they may be lost in damage before it"
    return finding_at(
        log.segment_at(fault.log_offset),
        fault.code,
        fault.log_offset,
        message,
        topic=fault.topic,
        queue_id=fault.queue_id,
        queue_offset=fault.observed,
        expected=1 if fault.code is codes.LMQ_TWICE else fault.expected,
        observed=fault.expected if fault.code is codes.LMQ_TWICE else fault.observed,
    )


def repeats_from(breaks: Breaks, log_offset: int) -> bool:
    """Whether a record at ``log_offset`` or after it carries a queue offset that came before."""
    repeated = {codes.CL_QOFF_DUP.code, codes.CL_QOFF_RESET.code, codes.LMQ_COUNTER_RESET.code}
    return any(fault.log_offset >= log_offset and fault.code.code in repeated for fault in breaks.kept)


def without_copies(breaks: Breaks, copies: frozenset[int]) -> Breaks:
    """Leave out what copies of older records repeat, which claim these physical offsets."""
    repeated = {codes.CL_QOFF_DUP.code, codes.CL_QOFF_RESET.code, codes.LMQ_COUNTER_RESET.code}
    dropped = [fault for fault in breaks.kept if fault.log_offset in copies and fault.code.code in repeated]
    kept = [fault for fault in breaks.kept if fault not in dropped]
    return Breaks(kept, breaks.totals - Counter(fault.code for fault in dropped))


class Older(NamedTuple):
    """The units of a queue that are of an older generation; all of a queue that no longer exists.

    ``physical_offset`` is that of the first message of the topic since it was created again.
    """

    units: int
    physical_offset: int


def _first_of_those_there(queue: Queue | None) -> tuple[int, int] | None:
    """Return number and physical offset of a queue's first unit; None without any.

    Those before it are pre-blank, if the queue was deleted while messages of the new generation came.
    """
    if queue is None or queue.first_number != 0:
        return None
    number = 0
    while (unit := queue.unit(number)) is not None and unit.size == PREBLANK_SIZE:
        number += 1
    queue.close()
    return None if unit is None or unit.size <= 0 else (number, unit.physical_offset)


def _restart(pieces: Iterable[QueueUnits], number: int, first_there: int) -> Older | None:
    """Return the units before the generation whose ``number`` leads to a place; None without any."""
    row, begin = 0, Older(0, 0)
    for piece in pieces:
        places, queue_offsets = piece.column("units")["physicalOffset"], piece.column("queue_offsets")
        positions = np.flatnonzero((places == first_there) & (queue_offsets == number))
        stop = int(positions[0]) + 1 if len(positions) else len(piece)
        zeros = np.flatnonzero(queue_offsets[:stop] == 0)
        if len(zeros):
            begin = Older(row + int(zeros[-1]), int(places[zeros[-1]]))
        if len(positions):
            return begin if begin.units else None
        row += len(piece)
    return None


def last_restarts(plans: Iterable[QueuePlan], blocks: Sequence[Block]) -> dict[tuple[str, int], Older]:
    """Return the units before the last one of queue offset 0, of queues that have some."""
    older_by_queue: dict[tuple[str, int], Older] = {}
    for plan, pieces in by_queue(_doubtful(plans), blocks):
        row = 0
        for piece in pieces:
            zeros = np.flatnonzero(piece.column("queue_offsets") == 0)
            if len(zeros) and row + zeros[-1] > 0:
                physical_offset = piece.column("units")["physicalOffset"][zeros[-1]]
                older_by_queue[plan.topic, plan.queue_id] = Older(row + int(zeros[-1]), int(physical_offset))
            row += len(piece)
    return older_by_queue


def _doubtful(plans: Iterable[QueuePlan]) -> list[QueuePlan]:
    return [plan for plan in plans if not plan.batch and not plan.joined]


def _physical_offset_of(plan: QueuePlan, blocks: Sequence[Block], row: int) -> int:
    runs, before = plan.runs_from(row)
    place = int(runs["first_row"][0]) + before
    return int(blocks[int(runs["block"][0])].read("units", place, 1)["physicalOffset"][0])


def restarts(
    plans: Iterable[QueuePlan],
    blocks: Sequence[Block],
    queue_of: Callable[[str, int], Queue | None],
) -> dict[tuple[str, int], Older]:
    """Return the older units of the present queues that hold a later generation."""
    older_by_queue: dict[tuple[str, int], Older] = {}
    for plan, pieces in by_queue(_doubtful(plans), blocks):
        key = plan.topic, plan.queue_id
        first_there = _first_of_those_there(queue_of(*key))
        older = None if first_there is None else _restart(pieces, *first_there)
        if older is not None:
            older_by_queue[key] = older
    return older_by_queue


def with_queues_gone(
    older_by_queue: Mapping[tuple[str, int], Older],
    plans: Iterable[QueuePlan],
    blocks: Sequence[Block],
    is_there: Callable[[str, int], bool],
) -> dict[tuple[str, int], Older]:
    """Add the missing queues of those topics that have no message since.

    ``older_by_queue`` comes from `restarts`; ``is_there`` returns whether a queue has files.
    """
    topics: dict[str, int] = {}
    for (topic, _), older in older_by_queue.items():
        topics[topic] = min(older.physical_offset, topics.get(topic, older.physical_offset))
    gone = {
        (plan.topic, plan.queue_id): Older(plan.units, topics[plan.topic])
        for plan in plans
        if plan.topic in topics
        and not is_there(plan.topic, plan.queue_id)
        and _physical_offset_of(plan, blocks, plan.units - 1) < topics[plan.topic]
    }
    return {**older_by_queue, **gone}
