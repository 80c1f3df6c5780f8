"""What transactions say of each other: half messages, op messages, and the commits that name a half message.

Half messages below the first one of the log have expired, and with them whatever named them: normal wear.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rmqtool.findings import Finding, FindingLog
from rmqtool.findings.transactions import CL_HALF, CL_IN_DOUBT, CL_OP, CL_PREPARED
from rmqtool.findings.wording import counted
from rmqtool.scan.records import HALF_TOPIC, OP_TOPIC
from rmqtool.scan.transaction_kernels import TRANSACTION_ROW, Role

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt

    from rmqtool.findings import FindingCode
    from rmqtool.reput.blocks import Block
    from rmqtool.reput.trail import SegmentTrail
    from rmqtool.store.segments import FileQueue

    Bools = npt.NDArray[np.bool_]
    Int64s = npt.NDArray[np.int64]
    Rows = npt.NDArray[Any]

_COLUMN = "transactions"


@dataclass(frozen=True, slots=True)
class TransactionTask:
    """All transactions of a log; picklable.

    Attributes:
        log: the commit log.
        blocks: the rows, in log order.
        sound: ``(start, stop)`` of ranges in which every record is known, ascending.
        checked: by half queue, the next queue offset that the broker's check looks at.
        max_findings: findings of one code that are kept.
    """

    log: FileQueue
    blocks: tuple[Block, ...]
    sound: tuple[tuple[int, int], ...]
    checked: Mapping[int, int]
    max_findings: int


def transaction_task(
    log: FileQueue, trails: Sequence[SegmentTrail], checked: Mapping[int, int], max_findings: int
) -> TransactionTask:
    """Make the task of what the splits found."""
    blocks = tuple(report.block.slim(_COLUMN) for trail in trails for report in trail.reports)
    sound = tuple((stretch.start, stretch.stop) for trail in trails for stretch in trail.stretches)
    return TransactionTask(log, blocks, sound, checked, max_findings)


def check_transactions(task: TransactionTask) -> FindingLog:
    """Hold half messages, op messages and commits against each other.

    Raises:
        OSError: a block file cannot be read.
    """
    return _Balance(task).run()


def _read(blocks: Sequence[Block]) -> Rows:
    parts = [block.read(_COLUMN) for block in blocks if block.count(_COLUMN)]
    return np.concatenate(parts) if parts else np.empty(0, TRANSACTION_ROW)


class _Balance:
    """All rows of a log, by role."""

    def __init__(self, task: TransactionTask) -> None:
        self._task = task
        self._findings = FindingLog(task.max_findings)
        rows = _read(task.blocks)
        self._of = {role: rows[rows["role"] == role] for role in Role}

    def run(self) -> FindingLog:
        self._check_shapes()
        self._check_endings()
        halves, ops = _by_queue(self._of[Role.HALF]), _by_queue(self._of[Role.OP])
        none = self._of[Role.OP][:0]
        for queue_id in sorted(halves.keys() | ops.keys()):
            of_queue, named = halves.get(queue_id, none), ops.get(queue_id, none)
            self._check_ops(of_queue, named)
            self._count_doubtful(queue_id, of_queue, named["target"])
        return self._findings

    def _check_shapes(self) -> None:
        texts = {
            Role.BAD_HALF: (
                CL_HALF,
                "REAL_TOPIC, REAL_QID or transaction type of a half message is wrong",
            ),
            Role.BAD_TAG: (CL_OP, 'an op message without the tag "d"'),
            Role.BAD_BODY: (CL_OP, "an op message that is no list of queue offsets"),
        }
        for role, (code, text) in texts.items():
            self._add(code, self._of[role], text)

    def _check_endings(self) -> None:
        """Find commits whose half message should be in the log, where something else lies."""
        endings = self._of[Role.ENDING]
        found = _look_up(self._of[Role.HALF], "place", endings["target"])
        older = found["place"] != endings["target"]
        found[older] = _look_up(self._of[Role.PREPARED], "place", endings["target"][older])
        met = found["place"] == endings["target"]
        same_keys = (found["keys"] == endings["keys"]) & (found["keys"] != 0)
        same = (found["unique_key"] == endings["unique_key"]) | same_keys
        text = "where PREPARED_TRANSACTION_OFFSET {target} points lies no half message"
        self._add(CL_PREPARED, endings[~met & self._is_known(endings["target"])], text)
        text = "the half message at PREPARED_TRANSACTION_OFFSET {target} has other keys"
        self._add(CL_PREPARED, endings[met & ~same], text)

    def _is_known(self, places: Int64s) -> Bools:
        """Tell which places lie among records that follow each other without damage."""
        sound = np.array([(0, 0), *self._task.sound], np.int64)
        number = np.searchsorted(sound[:, 0], places, side="right") - 1
        return np.asarray(places < sound[number, 1], np.bool_)

    def _check_ops(self, halves: Rows, ops: Rows) -> None:
        """Find ops whose half message was not written before them, though it cannot have expired."""
        ascending = bool((halves["target"][1:] > halves["target"][:-1]).all())
        in_order = halves if ascending else halves[np.lexsort((halves["place"], halves["target"]))]
        found = _look_up(in_order, "target", ops["target"])
        met = (found["target"] == ops["target"]) & (found["place"] < ops["place"])
        judged = np.full(len(ops), self._task.log.start == 0)
        for first in halves[:1]:
            judged |= (ops["target"] >= first["target"]) & (ops["place"] > first["place"])
        self._add(CL_OP, ops[judged & ~met], "half message {target} was not in the half queue before this op")

    def _count_doubtful(self, queue_id: int, halves: Rows, settled: Int64s) -> None:
        is_settled = np.isin(halves["target"], settled)
        # Most half messages are settled, so of few keys all copies have to be looked at.
        copies = np.isin(halves["unique_key"], halves["unique_key"][~is_settled])
        last = halves[copies][_last_copies(halves[copies], is_settled[copies])]
        doubtful = last[last["target"] >= self._task.checked.get(queue_id, 0)]
        if not len(doubtful):
            return
        committed = int(np.isin(doubtful["place"], self._of[Role.ENDING]["target"]).sum())
        oldest = doubtful[0]
        text = (
            f"{counted(len(doubtful), 'half message is', 'half messages are')} in doubt, the oldest with"
            f" store time {int(oldest['store_timestamp_ms'])}"
        )
        if committed:
            text += f"; {counted(committed, 'has', 'have')} been committed, without op message"
        self._findings.add(self._finding(CL_IN_DOUBT, oldest, text, observed=len(doubtful)))

    def _add(self, code: FindingCode, rows: Rows, text: str) -> None:
        kept = self._findings.max_per_code
        for row in rows[:kept]:
            target = int(row["target"])
            self._findings.add(self._finding(code, row, text.format(target=target), observed=target))
        self._findings.add(Finding(code=code), count=max(len(rows) - kept, 0))

    def _finding(self, code: FindingCode, row: Any, text: str, *, observed: int) -> Finding:  # noqa: ANN401
        place, role = int(row["place"]), Role(int(row["role"]))
        segment = self._task.log.segment_at(place)
        is_half = role in {Role.HALF, Role.BAD_HALF}
        topic = HALF_TOPIC if is_half else OP_TOPIC if role != Role.ENDING else None
        return Finding(
            code=code,
            file=None if segment is None else segment.label,
            position=None if segment is None else place - segment.start,
            topic=topic,
            queue_id=int(row["queue_id"]),
            queue_offset=int(row["target"]) if is_half else None,
            physical_offset=place,
            observed=None if role in {Role.BAD_HALF, Role.BAD_TAG, Role.BAD_BODY} else observed,
            message=text,
        )


def _by_queue(rows: Rows) -> dict[int, Rows]:
    """Return the rows of each queue, in log order; brokers fill a single one."""
    if len(rows) and (rows["queue_id"] == rows["queue_id"][0]).all():
        return {int(rows["queue_id"][0]): rows}
    ordered = rows[np.argsort(rows["queue_id"], kind="stable")]
    ids, starts = np.unique(ordered["queue_id"], return_index=True)
    return dict(zip(ids.tolist(), np.split(ordered, starts[1:]), strict=False))


def _look_up(rows: Rows, column: str, wanted: Int64s) -> Rows:
    """Return the first row with each wanted value, or another one; ``rows`` ascend by the column."""
    if not len(rows):
        return np.full(len(wanted), -1, TRANSACTION_ROW)
    return rows[np.minimum(np.searchsorted(rows[column], wanted), len(rows) - 1)]


def _last_copies(halves: Rows, settled: Bools) -> Bools:
    """Tell which half messages are the last of those with their unique key, none of which is settled.

    A check writes a half message again, behind all others, and goes on with that
    (``TransactionalMessageServiceImpl#putBackHalfMsgQueue``; 4.9.8, 5.3.3).
    """
    if not len(halves):
        return settled
    without = halves["unique_key"] == 0
    keys = np.where(without, -1 - np.arange(len(halves)), halves["unique_key"])
    _, first_from_end, group = np.unique(keys[::-1], return_index=True, return_inverse=True)
    last = np.zeros(len(halves), np.bool_)
    last[len(halves) - 1 - first_from_end] = True
    open_groups = np.bincount(group, settled[::-1], len(first_from_end)) == 0
    return np.asarray(last & open_groups[group[::-1]], np.bool_)
