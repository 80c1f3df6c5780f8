"""What one copy of a log holds: every true record with its sums checked, where each stands in a queue.

*True* is a record whose magic is right, whose lengths add up, and whose PHYSICALOFFSET is the place it lies
at. Whether its body is what its checksum says is a mark of its row, and whether its unprotected fields can be
believed is another question (``rmqtool.salvage.belief``). Everything between true records is a hole.

Memory goes with the number of records: some 70 bytes for each.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np

from rmqtool.check.log.record_checks import RecordChecker
from rmqtool.findings import FindingLog
from rmqtool.findings.commitlog import CL_CRC, CL_PROP_CRC
from rmqtool.formats.message import (
    TRANSACTION_MASK,
    TRANSACTION_PREPARED,
    TRANSACTION_ROLLBACK,
)
from rmqtool.reput.dispatcher import Dispatcher
from rmqtool.salvage.marks import forgive_foreign_sums, mark_torn
from rmqtool.salvage.rows import DAMAGED, RECORD_ROW, UNIT_ROW, Mark
from rmqtool.scan.check_kernels import Sum, check_records
from rmqtool.scan.field_kernels import HIT_ROW, MAX_HITS, Check
from rmqtool.scan.fingerprint_kernels import fingerprints
from rmqtool.scan.gap_walk import GapWalk, SplitEnd
from rmqtool.scan.gaps import Gap, Outcome
from rmqtool.scan.hidden import HiddenRecords
from rmqtool.scan.rows import rules_of
from rmqtool.scan.splits import plan_splits, stitch

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt

    from rmqtool.dispatch.policy import DispatchPolicy
    from rmqtool.engine import Engine
    from rmqtool.io.reading import UnreadableRange
    from rmqtool.scan.splits import Split
    from rmqtool.scan.walk import MessageBatch
    from rmqtool.store.segments import FileQueue

    Rows = npt.NDArray[Any]

SPLIT_BYTES = 64 << 20
_HITS = 64 * MAX_HITS
_NONE, _BODY, _RECORD, _STALLS = (np.uint8(mark) for mark in (0, Mark.BODY_CRC, Mark.RECORD_CRC, Mark.STALLS))


@dataclass(frozen=True, slots=True)
class SurveyTask:
    """One split to read; picklable."""

    split: Split
    policy: DispatchPolicy
    fingerprints: bool
    first_log_offset: int | None = None
    below: bool = False


@dataclass
class SplitSurvey(SplitEnd):
    """What was found in a split: rows in log order, see ``Survey``."""

    split: Split
    first_log_offset: int | None
    records: Rows
    elsewhere: Rows
    units: Rows
    queues: list[tuple[str, int]]
    outcome: Outcome
    log_offset: int
    sound_crcs: int
    unreadable: list[UnreadableRange]
    batch_topics: frozenset[str]
    covers: bool


@dataclass
class Survey:
    """What one copy of a log holds.

    Attributes:
        log: its files.
        records: ``(n,)`` of ``RECORD_ROW`` in log order, damaged ones included.
        elsewhere: ``(k, 2)``, physical offset and size that sound records name which lie in another place.
        units: ``(m,)`` of ``UNIT_ROW`` in log order.
        queues: topic and queue id by number.
        blanks: where each file's BLANK lies, by the file's start.
        sound_crcs: records that carry a property ``__CRC32#`` that holds.
        unreadable: ranges that the disk did not deliver, as physical offset and length.
        batch_topics: topics that prove to have batch queues though the policy did not know it.
        below: the same log, with the true records below damaged frames in place of these; None without any.
    """

    log: FileQueue
    records: Rows = field(default_factory=lambda: np.empty(0, RECORD_ROW))
    elsewhere: Rows = field(default_factory=lambda: np.empty((0, 2), np.int64))
    units: Rows = field(default_factory=lambda: np.empty(0, UNIT_ROW))
    queues: list[tuple[str, int]] = field(default_factory=list)
    blanks: dict[int, int] = field(default_factory=dict)
    sound_crcs: int = 0
    unreadable: list[tuple[int, int]] = field(default_factory=list)
    batch_topics: frozenset[str] = frozenset()
    below: Survey | None = None

    @property
    def damaged(self) -> npt.NDArray[np.bool_]:
        """Return which records are not what their checksums say, ``(n,)``."""
        damaged: npt.NDArray[np.bool_] = (self.records["marks"] & int(DAMAGED)) != 0
        return damaged


class _Reader:
    """Reads one split."""

    def __init__(self, task: SurveyTask) -> None:
        self._task = task
        self.walk = GapWalk(task.split.segment, task.policy.release.records)
        self.dispatcher = Dispatcher(task.policy, passes_stalls=True)
        self.records: list[Rows] = []
        self.elsewhere: list[Rows] = []
        self.outcome, self.log_offset = Outcome.STOP, task.split.start
        rules = rules_of(task.policy.release.records)
        self._hidden = HiddenRecords(task.split.segment, rules, task.split.stop)
        self._ends_in_doubt = False
        self.covers = False
        self._hits = np.empty(_HITS, HIT_ROW)
        self._sums = np.zeros(len(Sum), np.int64)

    @property
    def sound_crcs(self) -> int:
        return int(self._sums[0])

    def run(self, first_log_offset: int) -> None:
        """Read from a record on; where a record lies hidden below a frame, go on from there."""
        due: int | None = first_log_offset
        while due is not None:
            due = self._read_from(due)
        if self.outcome is Outcome.STOP and self._ends_in_doubt:
            self.outcome, self.log_offset = Outcome.MISMATCH, self._task.split.stop

    def _read_from(self, due: int) -> int | None:
        self._ends_in_doubt = False
        for part in self.walk.parts(due, self._task.split.stop):
            if isinstance(part, Gap):
                self._ends_in_doubt = False
            elif len(part.rows) and (hidden := self._take(part)) is not None:
                return hidden
        self.outcome, self.log_offset = self.walk.outcome, self.walk.log_offset
        return None

    def _take(self, batch: MessageBatch) -> int | None:
        """Take the true records of a batch, up to the first that hides one; return where that one lies."""
        before = self._sums.copy()
        named = batch.rows["physical_offset"].copy()  # the check puts the place into it
        foreign = named != batch.rows["log_offset"]
        own = ~foreign
        marks = np.zeros(len(batch.rows), np.uint8)
        self._check(batch, marks)
        doubtful = own & (marks != 0)  # frames of another place are looked at by the walk
        self._ends_in_doubt = bool(doubtful[-1])
        doubtful[-1] = True
        doubtful[batch.gaps["row"][batch.gaps["row"] > 0] - 1] = True
        hidden = None
        body_stops = batch.base + batch.rows["body_start"] + np.maximum(batch.rows["body_length"], 0)
        for number in np.flatnonzero(doubtful):
            hidden = self._hidden_by(batch.rows[number], int(body_stops[number]), not marks[number] & _BODY)
            if hidden is not None:
                own[number:] = False
                break
        if not own.all():
            sound = foreign & (marks & _BODY == 0)
            self.elsewhere.append(np.stack([named[sound], batch.rows["total_size"][sound]], axis=1))
            batch = replace(batch, rows=batch.rows[own], values=batch.values[own])
            marks = np.zeros(len(batch.rows), np.uint8)
            self._sums[:] = before
            self._check(batch, marks)
        if len(batch.rows):
            self._add(batch, marks)
        return hidden

    def _hidden_by(self, row: Rows, body_stop: int, proven: bool) -> int | None:
        """Return where to read on in what a frame takes that lies where it says; None after it.

        What lies in a body that its checksum does not prove is the body's own, or the frame is false.
        """
        start, stop = int(row["log_offset"]), int(row["log_offset"] + row["total_size"])
        hidden = self._hidden.below(start, stop, body_stop, lambda: proven)
        if hidden is None or hidden >= body_stop or self._task.below:
            return hidden
        self.covers = True
        return None

    def _add(self, batch: MessageBatch, marks: Rows) -> None:
        records = np.zeros(len(batch.rows), RECORD_ROW)
        for name in ("log_offset", "store_timestamp_ms", "queue_offset", "total_size", "queue_id"):
            records[name] = batch.rows[name]
        kind = batch.rows["sys_flag"] & TRANSACTION_MASK
        plain = (kind != TRANSACTION_PREPARED) & (kind != TRANSACTION_ROLLBACK)
        records["marks"] = np.where(plain, Mark.PLAIN, 0) | marks
        if self._task.fingerprints:
            fingerprints(batch.buffer, batch.rows, batch.base, batch.cut, records["fingerprint"])
        row = self.dispatcher.dispatch(batch)
        while row is not None:
            records["marks"][row] |= _STALLS
            row = self.dispatcher.dispatch(batch, row + 1)
        self.records.append(records)

    def _check(self, batch: MessageBatch, marks: Rows) -> None:
        if batch.cut and len(batch.rows):  # longer than a window: read piece by piece
            findings = FindingLog(1)
            checker = RecordChecker(self._task.split.segment, findings)
            checker.check(batch)
            self._sums[0] += checker.sound_crcs
            marks[0] |= _BODY if CL_CRC.code in findings.counts else _NONE
            marks[0] |= _RECORD if CL_PROP_CRC.code in findings.counts else _NONE
            return
        row = 0
        while row < len(batch.rows):
            row, count = check_records(
                batch.buffer, batch.rows, row, batch.base, batch.cut, self._sums, self._hits
            )
            hits = self._hits[:count]
            marks[hits["row"][hits["check"] == Check.BODY_CRC]] |= _BODY
            marks[hits["row"][hits["check"] == Check.RECORD_CRC]] |= _RECORD


def survey_split(task: SurveyTask) -> SplitSurvey:
    """Read a split, and on over its holes.

    Raises:
        EnvironmentFailureError: the segment cannot be opened or read.
    """
    reader, split, first = _Reader(task), task.split, task.first_log_offset
    if first is None:
        first = reader.walk.guess(split.start, split.stop)
    if first is not None:
        reader.run(first)
    records = np.concatenate([np.empty(0, RECORD_ROW), *reader.records])
    dispatcher = reader.dispatcher
    return SplitSurvey(
        split=split,
        first_log_offset=first,
        records=records,
        elsewhere=np.concatenate([np.empty((0, 2), np.int64), *reader.elsewhere]),
        units=_units_of(dispatcher.taken().units),
        queues=[dispatcher.key(number) for number in range(len(dispatcher.queues))],
        outcome=reader.outcome,
        log_offset=reader.log_offset,
        sound_crcs=reader.sound_crcs,
        unreadable=reader.walk.unreadable,
        batch_topics=dispatcher.unknown_batch_topics(),
        covers=reader.covers,
    )


def _units_of(taken: Rows) -> Rows:
    """Return units of the dispatch as ours; the first of a record is that of its own queue."""
    units = np.empty(len(taken), UNIT_ROW)
    units["log_offset"], units["queue_offset"] = taken["physical_offset"], taken["queue_offset"]
    units["count"], units["queue"] = np.maximum(taken["batch_size"], 1), taken["queue"]
    units["light"] = np.concatenate([[False], units["log_offset"][1:] == units["log_offset"][:-1]])[
        : len(units)
    ]
    return units


def survey_log(
    log: FileQueue,
    policy: DispatchPolicy,
    engine: Engine,
    *,
    compared: bool = False,
    below: bool = False,
    progress: Callable[[int], None] | None = None,
) -> Survey:
    """Read a whole log.

    Args:
        log: its files; longer ones than they should be are cut before.
        policy: the broker's switches.
        engine: runs the tasks.
        compared: whether records are to be compared with those of another copy.
        below: whether true records below a damaged frame are read in its place.
        progress: told the bytes done.
    """
    policy = replace(policy, index_enabled=False)
    splits = plan_splits(log, log.stop, SPLIT_BYTES)
    tasks = [SurveyTask(split, policy, compared, below=below) for split in splits]
    done = np.cumsum([0, *(split.stop - split.start for split in splits)])
    tell = None if progress is None else lambda count: progress(int(done[count]))
    found = engine.map(survey_split, tasks, tell)
    if unknown := frozenset().union(*(one.batch_topics for one in found)):
        policy = policy.with_batch_topics(unknown)
        again = survey_log(log, policy, engine, compared=compared, below=below)
        return replace(again, batch_topics=unknown)

    def reread(result: SplitSurvey, due: int) -> SplitSurvey:
        task = SurveyTask(result.split, policy, compared, due, below)
        return engine.map(survey_split, [task])[0]

    survey = Survey(log)
    counted: list[SplitSurvey] = []
    for segment, of_segment in groupby(found, key=lambda one: one.split.segment):
        taken = list(stitch(of_segment, segment.start, reread))
        counted += taken
        if taken and taken[-1].ended:
            survey.blanks[segment.start] = taken[-1].log_offset
    survey = _joined(survey, counted)
    if any(one.covers for one in counted):
        survey.below = survey_log(log, policy, engine, compared=compared, below=True)
    return survey


def _joined(survey: Survey, found: Sequence[SplitSurvey]) -> Survey:
    numbers: dict[tuple[str, int], int] = {}
    units = []
    for one in found:
        turned = np.array([numbers.setdefault(key, len(numbers)) for key in one.queues], np.int32)
        if len(one.units):
            one.units["queue"] = turned[one.units["queue"]]
        units.append(one.units)
        survey.sound_crcs += one.sound_crcs
        start = one.split.segment.start
        survey.unreadable += [(start + bad.position, bad.length) for bad in one.unreadable]
    survey.records = np.concatenate([survey.records, *(one.records for one in found)])
    survey.elsewhere = np.concatenate([survey.elsewhere, *(one.elsewhere for one in found)])
    survey.units = np.concatenate([survey.units, *units])
    survey.queues = list(numbers)
    forgive_foreign_sums(survey)
    mark_torn(survey)
    return survey
