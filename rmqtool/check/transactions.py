"""Balance of transactions: half messages, op messages, and the commits that name a half message.

Half messages below the first one of the log have expired, and with them whatever named them: normal wear.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rmqtool.findings import Finding, FindingCode, FindingLog, codes, counted
from rmqtool.kernels.compare import are_among
from rmqtool.kernels.rows import TRANSACTION_ROW
from rmqtool.kernels.transactions import Role, TransactionRows
from rmqtool.releases import LENIENT
from rmqtool.scan.gap_walk import GapWalk
from rmqtool.scan.log_pass import LogPass, ReadJob, SplitRead, plan_splits, read_split, stitch
from rmqtool.store.segments import FileQueue, finding_at
from rmqtool.times import utc_text
from rmqtool.topics import HALF_TOPIC, OP_TOPIC

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rmqtool.arrays import Bools, Int64s, Rows
    from rmqtool.engine import Engine
    from rmqtool.kernels.rows import MessageBatch
    from rmqtool.reput.blocks import Block
    from rmqtool.scan.classify import FoundEdge
    from rmqtool.scan.log_pass import Split
    from rmqtool.scan.records import Gap
    from rmqtool.store.segments import Segment


COLUMN = "transactions"
_CHUNK_ROWS = 1 << 18
_TOLD = ("log_offset", "target", "queue_id")
_KEYS = ("unique_key", "keys")


class CollectedRows:
    """The rows of a log, of which only what a check needs is held: a half topic may have millions."""

    def __init__(self, blocks: Sequence[Block]) -> None:
        self._blocks = blocks
        self._counts = np.zeros(len(Role), np.int64)
        for rows in self._chunks():
            self._counts += np.bincount(rows["role"], minlength=len(Role))

    def of(self, role: Role, *columns: str) -> Rows:
        """Return some columns of the rows of a role, ``(n,)`` in log order."""
        taken = np.empty(self._counts[role], [(name, TRANSACTION_ROW[name]) for name in columns])
        count = 0
        for rows in self._chunks() if len(taken) else ():
            chosen = np.flatnonzero(rows["role"] == role)
            for name in columns:
                taken[name][count : count + len(chosen)] = rows[name][chosen]
            count += len(chosen)
        return taken

    def _chunks(self) -> Iterator[Rows]:
        for block in self._blocks:
            for first in range(0, block.count(COLUMN), _CHUNK_ROWS):
                yield block.read(COLUMN, first, min(_CHUNK_ROWS, block.count(COLUMN) - first))


class TransactionBalance:
    """Compares half messages, op messages and commits of a log, one kind of rows after the other; picklable.

    Args:
        log: the commit log.
        blocks: the rows, in log order.
        sound: ``(start, stop)`` of ranges in which every record is known, ascending.
        checked: by half queue, the next queue offset that the broker's check reads.
        max_findings: findings of one code that are kept.
    """

    def __init__(
        self,
        log: FileQueue,
        blocks: Sequence[Block],
        sound: Sequence[tuple[int, int]],
        checked: Mapping[int, int],
        max_findings: int,
    ) -> None:
        self._log, self._blocks, self._sound, self._checked = log, blocks, sound, checked
        self._findings = FindingLog(max_findings)

    def check(self) -> FindingLog:
        """Return what does not fit."""
        self._rows = CollectedRows(self._blocks)
        self._check_shapes()
        self._check_endings()
        committed = self._rows.of(Role.ENDING, "target")["target"]
        halves = self._rows.of(Role.HALF, *_TOLD, "unique_key", "store_timestamp_ms")
        ops = self._rows.of(Role.OP, *_TOLD)
        halves_of, ops_of = _by_queue(halves), _by_queue(ops)
        for queue_id in sorted(halves_of.keys() | ops_of.keys()):
            of_queue = halves_of.get(queue_id, halves[:0])
            named = ops_of.get(queue_id, ops[:0])
            self._check_ops(of_queue, named)
            self._count_doubtful(queue_id, of_queue, named["target"], committed)
        return self._findings

    def _check_shapes(self) -> None:
        texts = {
            Role.BAD_HALF: (
                codes.CL_HALF,
                "REAL_TOPIC, REAL_QID or transaction type of a half message is wrong",
            ),
            Role.BAD_TAG: (codes.CL_OP, 'an op message without the tag "d"'),
            Role.BAD_BODY: (codes.CL_OP, "an op message that is not a list of queue offsets"),
        }
        for role, (code, text) in texts.items():
            self._add(code, role, self._rows.of(role, *_TOLD), text)

    def _check_endings(self) -> None:
        """Find commits whose half message should be in the log, where something else lies."""
        endings = self._rows.of(Role.ENDING, *_TOLD, *_KEYS)
        is_matched, is_same = np.zeros((2, len(endings)), np.bool_)
        for role in (Role.HALF, Role.PREPARED):
            started = self._rows.of(role, "log_offset", *_KEYS)
            at, matched = _look_up(started["log_offset"], endings["target"])
            rows = np.flatnonzero(matched)
            is_matched |= matched
            is_same[rows] = _have_same_keys(started[at[rows]], endings[rows])
        text = "PREPARED_TRANSACTION_OFFSET {target} points to no half message"
        self._add(
            codes.CL_PREPARED, Role.ENDING, endings[~is_matched & self._is_known(endings["target"])], text
        )
        text = "the half message at PREPARED_TRANSACTION_OFFSET {target} has other keys"
        self._add(codes.CL_PREPARED, Role.ENDING, endings[is_matched & ~is_same], text)

    def _is_known(self, log_offsets: Int64s) -> Bools:
        """Return which places lie among records that follow each other without damage."""
        sound = np.array([(0, 0), *self._sound], np.int64)
        number = np.searchsorted(sound[:, 0], log_offsets, side="right") - 1
        return np.asarray(log_offsets < sound[number, 1], np.bool_)

    def _check_ops(self, halves: Rows, ops: Rows) -> None:
        """Find ops whose half message was not written before them, though it cannot have expired."""
        targets, log_offsets = halves["target"].copy(), halves["log_offset"].copy()
        if not (targets[1:] > targets[:-1]).all():
            order = np.lexsort((log_offsets, targets))
            targets, log_offsets = targets[order], log_offsets[order]
        text = "half message {target} was not in the half queue before this op"
        for first in range(0, len(ops), _CHUNK_ROWS):
            some = ops[first : first + _CHUNK_ROWS]
            at, matched = _look_up(targets, some["target"])
            matched[matched] = log_offsets[at[matched]] < some["log_offset"][matched]
            judged = np.full(len(some), self._log.start == 0)
            for oldest in halves[:1]:
                judged |= (some["target"] >= oldest["target"]) & (some["log_offset"] > oldest["log_offset"])
            self._add(codes.CL_OP, Role.OP, some[judged & ~matched], text)

    def _count_doubtful(self, queue_id: int, halves: Rows, settled: Int64s, committed: Int64s) -> None:
        """Say how many half messages wait for their end, and since when the oldest does."""
        doubtful = _doubtful(halves, settled, self._checked.get(queue_id, 0))
        if not len(doubtful):
            return
        oldest = doubtful[0]
        text = (
            f"{counted(len(doubtful), 'half message is', 'half messages are')} in doubt, the oldest with"
            f" store time {utc_text(int(oldest['store_timestamp_ms']))}"
        )
        if ended := int(np.isin(doubtful["log_offset"], committed).sum()):
            text += f"; {counted(ended, 'has', 'have')} been committed, without op message"
        self._findings.add(self._finding(codes.CL_IN_DOUBT, Role.HALF, oldest, text, observed=len(doubtful)))

    def _add(self, code: FindingCode, role: Role, rows: Rows, text: str) -> None:
        def finding(row: Any) -> Finding:  # noqa: ANN401 - a numpy row
            target = int(row["target"])
            return self._finding(code, role, row, text.format(target=target), observed=target)

        self._findings.add_rows(rows, finding)

    def _finding(
        self,
        code: FindingCode,
        role: Role,
        row: Any,  # noqa: ANN401 - one of Rows
        text: str,
        *,
        observed: int,
    ) -> Finding:
        log_offset = int(row["log_offset"])
        is_half = role in {Role.HALF, Role.BAD_HALF}
        topic = HALF_TOPIC if is_half else OP_TOPIC if role != Role.ENDING else None
        return finding_at(
            self._log.segment_at(log_offset),
            code,
            log_offset,
            text,
            topic=topic,
            queue_id=int(row["queue_id"]),
            queue_offset=int(row["target"]) if is_half else None,
            observed=None if role in {Role.BAD_HALF, Role.BAD_TAG, Role.BAD_BODY} else observed,
        )


class _Collector:
    """Sink of one split: its rows."""

    def __init__(self) -> None:
        self._rows = TransactionRows()

    def batch(self, batch: MessageBatch) -> None:
        self._rows.collect(batch)

    def gap(self, gap: Gap) -> None:
        """Take a gap, which has no rows."""

    def result(self, read: SplitRead) -> _Collected:
        return _Collected(**vars(read), rows=self._rows.rows)


@dataclass(kw_only=True)
class _Collected(SplitRead):
    rows: Rows


@dataclass(frozen=True, slots=True)
class _Collecting(ReadJob[_Collected]):
    stale_from: int | None

    def walk(self, segment: Segment) -> GapWalk:
        return GapWalk(segment, LENIENT, self.stale_from)

    def sink(self, split: Split, walk: GapWalk) -> _Collector:
        del split, walk
        return _Collector()


def halves_in_doubt(edge: FoundEdge, checked: Mapping[int, int], engine: Engine) -> Int64s:
    """Return the physical offsets of half messages that neither an op message nor a commit ended, ascending.

    ``checked`` has, by half queue, the next queue offset that the broker's check reads.
    """
    segments = edge.segments
    splits = plan_splits(segments, max(segment.stop for segment in segments))
    log_pass = LogPass(engine, _Collecting(edge.stale_from), splits, read_split)
    log_pass.run()
    pieces = [
        split.rows
        for segment, results in log_pass.by_file()
        for split in stitch(results, segment.start, lambda result, at: log_pass.reread(result.split, at))
    ]
    rows = np.concatenate([np.empty(0, TRANSACTION_ROW), *pieces])
    halves, ops = (_by_queue(rows[rows["role"] == role]) for role in (Role.HALF, Role.OP))
    places = [
        _doubtful(of_queue, ops.get(queue_id, rows[:0])["target"], checked.get(queue_id, 0))["log_offset"]
        for queue_id, of_queue in halves.items()
    ]
    ended = rows["target"][rows["role"] == Role.ENDING]
    return np.setdiff1d(np.concatenate([ended[:0], *places]), ended)


def _doubtful(halves: Rows, settled: Int64s, checked: int) -> Rows:
    """Return the half messages of a queue that no op message settles, and that the check has yet to read."""
    is_settled = are_among(halves["target"], settled)
    # Most half messages are settled, so of few keys all copies have to be read.
    is_copy = are_among(halves["unique_key"], np.unique(halves["unique_key"][~is_settled]))
    copies = halves[is_copy]
    last = copies[_last_copies(copies, is_settled[is_copy])]
    return last[last["target"] >= checked]


def _by_queue(rows: Rows) -> dict[int, Rows]:
    """Return the rows of each queue, in log order; brokers fill a single one."""
    if len(rows) and (rows["queue_id"] == rows["queue_id"][0]).all():
        return {int(rows["queue_id"][0]): rows}
    ordered = rows[np.argsort(rows["queue_id"], kind="stable")]
    ids, starts = np.unique(ordered["queue_id"], return_index=True)
    return dict(zip(ids.tolist(), np.split(ordered, starts[1:]), strict=False))


def _have_same_keys(halves: Rows, endings: Rows) -> Bools:
    same_keys = (halves["keys"] == endings["keys"]) & (halves["keys"] != 0)
    return np.asarray((halves["unique_key"] == endings["unique_key"]) | same_keys, np.bool_)


def _look_up(values: Int64s, wanted: Int64s) -> tuple[Int64s, Bools]:
    """Return where the first of each wanted value is in ascending ones, and whether it is there."""
    at = np.searchsorted(values, wanted)
    matched = at < len(values)
    matched[matched] = values[at[matched]] == wanted[matched]
    return at, matched


def _last_copies(halves: Rows, settled: Bools) -> Bools:
    """Return which half messages are the last of those with their unique key, none of which is settled.

    A check writes a half message again, after all others, and goes on with that
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
