"""Every intact record of one copy of a log with its checksums, and checks of all together.

*Intact* is a record whose magic is right, whose lengths add up, and whose PHYSICALOFFSET is its place. A mark
of its row shows whether its body matches its checksum; ``rmqtool.genuine.plausibility`` decides whether its
unprotected fields are plausible. Everything between intact records is a hole.

Memory goes with the number of records: some 70 bytes for each.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import IntEnum, IntFlag, StrEnum
from functools import cache, cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from rmqtool.findings import FindingLog, codes
from rmqtool.formats import message
from rmqtool.javacompat import decode_utf8
from rmqtool.kernels.checks import HIT_ROW, MAX_HITS, Check, Sum, check_records, fingerprints
from rmqtool.kernels.rows import ENTRY_ROW, MessageBatch, frame_starts, frame_stops, rules_of
from rmqtool.kernels.transactions import Role, TransactionRows
from rmqtool.releases import NEWEST
from rmqtool.reput.dispatcher import Dispatcher, PolicyJob
from rmqtool.scan.gap_walk import GapWalk, HiddenRecords
from rmqtool.scan.log_pass import LogPass, Split, SplitRead, plan_splits, read_split, stitch
from rmqtool.scan.record_checks import RecordChecker, most_have_none
from rmqtool.scan.records import Gap, Record, check_record, is_file_end
from rmqtool.store.names import HIGHEST_QUEUE_ID, component_problem

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt

    from rmqtool.arrays import Bools, Int64s, Row, Rows
    from rmqtool.dispatch.policy import DispatchPolicy
    from rmqtool.engine import Engine
    from rmqtool.formats.framing import Framing
    from rmqtool.progress import Progress
    from rmqtool.store.segments import FileQueue, Segment


CONTROLS = re.compile("[\\x00\\x03-\\x08\\x0e-\\x1f]")  # but for separators, tabs and line ends
SAMPLE = 256
_SMALL = np.iinfo(np.int16)


class Mark(IntFlag):
    """Marks of a record."""

    BODY_CRC = 1  # the body fails BODYCRC
    RECORD_CRC = 2  # the record fails its property __CRC32#
    STALLS = 4  # a number of a multi dispatch is none: a broker gets no further
    PLAIN = 8  # of a type that is put into queues: neither prepared nor rolled back
    TORN = (
        16  # no text beside a hole, lengths that take in the file's end mark, or other properties than it was
    )
    # stored with: no checksum shows that
    FORM = 32  # pieces of its properties have no name or value
    ZEROS = 64  # zeros stand in its properties
    UNCOUNTED = 128  # an inner batch that does not say of how many messages
    NO_CRC = 256  # BODYCRC is 0: nothing shows whether the body is as stored


DAMAGED = Mark.BODY_CRC | Mark.RECORD_CRC | Mark.STALLS | Mark.TORN

RECORD_ROW = np.dtype(
    [
        ("log_offset", np.int64),
        ("store_timestamp_ms", np.int64),
        ("queue_offset", np.int64),
        ("total_size", np.int32),
        ("queue_id", np.int32),
        ("fingerprint", np.uint32),  # CRC-32 of all bytes; 0 where copies are not compared
        ("marks", np.uint16),  # of Mark
        ("source", np.uint8),  # number of the copy it was read from
        ("lead", np.uint8),  # bytes of its frame before it
    ]
)
"""An intact record."""

UNIT_ROW = np.dtype(
    [
        ("log_offset", np.int64),  # of its record
        ("queue_offset", np.int64),
        ("tags_code", np.int64),
        ("count", np.int32),  # queue offsets it takes: 1, of an inner batch more
        ("queue", np.int32),  # number in ``LogCopy.queues``
        ("light", np.bool_),  # by a multi dispatch: the record is in another queue, too
    ]
)
"""A record's place in a queue."""


class Cause(IntEnum):
    """Why an intact record is not recovered."""

    NONE = 0
    BODY = 1  # its body fails its checksum
    STALE = 2  # older bytes after a rewritten tail, or of another life of the file
    FIELDS = 3  # its queue fields are contradicted
    CHOICE = 4  # the user's choice: topic, time or offset
    ROOM = 5  # it leaves no room for what must lie beside it
    PROPERTIES = 6  # its properties are torn, or its own __CRC32# fails though the body holds


DAMAGED_CAUSES = (Cause.BODY, Cause.PROPERTIES)


def in_queue_order(units: Rows) -> Int64s:
    """Return numbers of units sorted by queue, those of a queue in log order, ``(m,)``."""
    queues = units["queue"]
    if len(queues) and queues.min() >= 0 and queues.max() <= _SMALL.max:
        queues = queues.astype(_SMALL.dtype)  # numpy sorts such by counting
    order: Int64s = np.argsort(queues, kind="stable")
    return order


def by_queue(units: Rows, queues: int, among: Bools | None = None) -> list[Int64s]:
    """Return the numbers of each queue's units, or of those ``among`` them, ``(m,)``, in log order."""
    order = in_queue_order(units)
    if among is not None:
        order = order[among[order]]
    bounds = np.searchsorted(units["queue"][order], np.arange(queues + 1))
    return [order[start:stop] for start, stop in pairwise(bounds.tolist())]


class Grounds(StrEnum):
    """Fields that decide between the records of two copies."""

    UNITS = "units"  # more of the copies' queues list the one
    TEXT = "text"  # the other's properties are no text, or have names that no record has
    NEIGHBOURS = "neighbours"  # queue offsets and store times around it go on with the one
    NOTHING = "nothing"  # the earlier copy's stays


class Aside(NamedTuple):
    """A record of one reading that gives way to those of another.

    Attributes:
        start: physical offset.
        length: bytes.
        source: number of the copy.
        chosen_by: the reason of the decision.
    """

    start: int
    length: int
    source: int
    chosen_by: Grounds


def mark_torn(copy: LogCopy) -> None:
    """Mark records beside holes whose topic or properties are no text: damage seldom ends with a record."""
    records = copy.records
    after = np.zeros(len(records), bool)
    after[:-1] = frame_stops(records)[:-1] != frame_starts(records)[1:]
    before = np.concatenate([[False], after[:-1]])[: len(records)]
    odd = [number for number in np.flatnonzero(after | before) if not _is_text(copy, records[number])]
    away = np.flatnonzero(~(after | before))
    if odd and all(_is_text(copy, records[number]) for number in away[:: max(len(away) // SAMPLE, 1)]):
        records["marks"][odd] |= np.uint16(Mark.TORN)


def _is_text(copy: LogCopy, row: Row) -> bool:
    """Whether topic and properties of a record are text, as clients write it."""
    record = read_record(copy.log, row)
    if record is None:
        return True
    width = message.TOPIC_LENGTHS[record.head.magic].size
    text = record.raw[record.body_start + record.body_length + width :]
    topic, properties = text[: len(record.topic_bytes)], text[len(record.topic_bytes) + 2 :]
    try:
        shown = topic.decode() + properties.decode()
    except UnicodeDecodeError:
        return False
    return not CONTROLS.search(shown)


def read_record(log: FileQueue, row: Row) -> Record | None:
    """Return the record of a row; None where none lies any more."""
    at = int(row["log_offset"])
    segment = log.segment_at(at)
    if segment is None:
        return None
    return check_record(segment, segment.frame_position(at), NEWEST.records, base=segment.start).record


def forgive_foreign_sums(copy: LogCopy) -> None:
    """Drop the marks of wrong ``__CRC32#`` where most records have none: messages may bring one along."""
    marks = copy.records["marks"]
    wrong = (marks & Mark.RECORD_CRC) != 0
    if most_have_none(len(marks), copy.sound_crcs, int(wrong.sum())):
        marks &= ~np.uint16(Mark.RECORD_CRC)


SPLIT_BYTES = 64 << 20
_HITS = 64 * MAX_HITS
_BODY, _STALLS, _TORN = (np.uint16(mark) for mark in (Mark.BODY_CRC, Mark.STALLS, Mark.TORN))
_UNPROVEN = np.uint16(Mark.BODY_CRC | Mark.NO_CRC)
_MARK_OF = {
    Check.BODY_CRC: Mark.BODY_CRC,
    Check.EMPTY_BODY_CRC: Mark.BODY_CRC,
    Check.NO_BODY_CRC: Mark.NO_CRC,
    Check.RECORD_CRC: Mark.RECORD_CRC,
    Check.PROPERTIES: Mark.FORM,
    Check.ZEROS: Mark.ZEROS,
    Check.INNER_FLAG: Mark.UNCOUNTED,
} | dict.fromkeys(
    (Check.BORN_PORT, Check.STORE_PORT, Check.QUEUE_OFFSET, Check.INNER_BASE, Check.BODY_LENGTH), Mark.TORN
)
_MARKS = np.array([_MARK_OF.get(check, 0) for check in Check], np.uint16)
"""Of each check, the mark of a record that fails it."""
_MARK_OF_CODE = {
    codes.CL_CRC.code: Mark.BODY_CRC,
    codes.CL_NO_CRC.code: Mark.NO_CRC,
    codes.CL_PROP_CRC.code: Mark.RECORD_CRC,
    codes.CL_PROPERTIES.code: Mark.FORM,
} | dict.fromkeys((codes.CL_PORT.code, codes.CL_QOFF_RANGE.code, codes.CL_EMPTY_BODY.code), Mark.TORN)
_BAD_ROLES = (Role.BAD_HALF, Role.BAD_TAG, Role.BAD_BODY)


@dataclass(kw_only=True)
class SplitRecords(SplitRead):
    """Rows of a split in log order, see ``LogCopy``."""

    records: Rows
    elsewhere: Int64s
    displaced: Int64s
    units: Rows
    entries: Rows
    queues: list[tuple[str, int]]
    sound_crcs: int
    batch_topics: frozenset[str]
    false: Int64s
    covers: bool


@dataclass
class LogCopy:
    """Content of one copy of a log.

    Attributes:
        log: its files.
        records: ``(n,)`` of ``RECORD_ROW`` in log order, damaged ones included.
        elsewhere: ``(k, 2)``, physical offset and size that sound records name which lie in another place.
        displaced: ``(s, 2)``, where any such record lies, and the physical offset that it names.
        entries: ``(e,)`` of ``ENTRY_ROW``, the index entries of the records, if these are wanted.
        units: ``(m,)`` of ``UNIT_ROW`` in log order.
        queues: topic and queue id by number.
        blanks: where each file's end mark lies, by the file's start.
        sound_crcs: records that carry a property ``__CRC32#`` that holds.
        unreadable: ranges that the disk did not deliver, as physical offset and length.
        batch_topics: topics that prove to have batch queues though the policy did not know it.
        false: ``(f,)`` physical offsets of false frames: intact records lie below them.
        aside: damaged frames that gave way to intact records below them.
        below: the same log, with the intact records below damaged frames in place of these; None without any.
    """

    log: FileQueue
    records: Rows = field(default_factory=lambda: np.empty(0, RECORD_ROW))
    elsewhere: Int64s = field(default_factory=lambda: np.empty((0, 2), np.int64))
    displaced: Int64s = field(default_factory=lambda: np.empty((0, 2), np.int64))
    units: Rows = field(default_factory=lambda: np.empty(0, UNIT_ROW))
    entries: Rows = field(default_factory=lambda: np.empty(0, ENTRY_ROW))
    queues: list[tuple[str, int]] = field(default_factory=list)
    blanks: dict[int, int] = field(default_factory=dict)
    sound_crcs: int = 0
    unreadable: list[tuple[int, int]] = field(default_factory=list)
    batch_topics: frozenset[str] = frozenset()
    false: Int64s = field(default_factory=lambda: np.empty(0, np.int64))
    aside: tuple[Aside, ...] = ()
    below: LogCopy | None = None

    @property
    def damaged(self) -> Bools:
        """Return which records fail their checksums, ``(n,)``."""
        damaged: Bools = (self.records["marks"] & int(DAMAGED)) != 0
        return damaged

    @cached_property
    def file_starts(self) -> Int64s:
        """Return where its files start, ``(files,)`` physical offsets."""
        return np.array([segment.start for segment in self.log], np.int64)

    def file_numbers(self, physical_offsets: Int64s) -> Int64s:
        """Return the number of the file that each of some places lies in, ``(n,)``; -1 before the first."""
        numbers: Int64s = np.searchsorted(self.file_starts, physical_offsets, "right") - 1
        return numbers

    def between(self) -> Iterator[tuple[int, int]]:
        """Yield where bytes between the records of this copy begin and end, by physical offset."""
        mine = self.records[self.records["source"] == 0]
        starts, stops = frame_starts(mine), frame_stops(mine)
        for segment in self.log:
            low, high = np.searchsorted(starts, [segment.start, segment.stop])
            stop = self.blanks.get(segment.start, segment.stop)
            before = np.concatenate([[segment.start], stops[low:high]])
            after = np.concatenate([starts[low:high], [max(stop, int(before[-1]))]])
            for number in np.flatnonzero(after > before):
                yield int(before[number]), int(after[number])


class _CopyWalk(GapWalk):
    """A walk that goes on at a record which lies hidden below a frame.

    Attributes:
        hidden_at: physical offset of such a record in the last batch; the sink sets it.
        ends_in_doubt: whether what came last is a record that may hide others; the sink sets it.
    """

    hidden_at: int | None = None
    ends_in_doubt = False

    def parts(self, start: int, stop: int, reach: int | None = None) -> Iterator[MessageBatch | Gap]:
        """Walk from ``start`` to ``stop``, see `GapWalk.parts`."""
        due: int | None = start
        while due is not None:
            self._forget()
            for part in super().parts(due, stop, reach):
                yield part
                if self.hidden_at is not None:
                    break
            due = self.hidden_at
        if self.outcome is message.Outcome.STOP and self.ends_in_doubt:
            self.outcome, self.log_offset = message.Outcome.MISMATCH, stop

    def _forget(self) -> None:
        self.hidden_at, self.ends_in_doubt = None, False


class _Reader:
    """Sink of a copy."""

    def __init__(self, job: _CopyJob, split: Split, walk: _CopyWalk) -> None:
        self._job = job
        self._segment = split.segment
        self._walk = walk
        self._dispatcher = Dispatcher(job.policy, passes_stalls=True)
        self._records: list[Rows] = []
        self._elsewhere: list[Int64s] = []
        self._displaced: list[Int64s] = []
        self._hidden = HiddenRecords(split.segment, rules_of(job.policy.release.records), split.stop)
        self._covers = False
        self._false: list[int] = []
        self._swallowed: list[int] = []
        self._hits = np.empty(_HITS, HIT_ROW)
        self._sums = np.zeros(len(Sum), np.int64)

    def gap(self, gap: Gap) -> None:
        """Pass a gap: no record before it is in doubt any more."""
        del gap
        self._walk.ends_in_doubt = False

    def batch(self, batch: MessageBatch) -> None:
        """Take the intact records of a batch, up to the first that hides one."""
        if not len(batch.rows):
            return
        before = self._sums.copy()
        named = batch.rows["physical_offset"].copy()  # the check puts the place into it
        foreign = named != batch.rows["log_offset"]
        own = ~foreign
        marks = np.zeros(len(batch.rows), np.uint16)
        self._check(batch, marks)
        doubtful = own & (marks & (DAMAGED | Mark.NO_CRC) != 0)  # the walk examines frames of another place
        self._walk.ends_in_doubt = bool(doubtful[-1])
        doubtful[-1] |= not _is_followed(batch, self._segment.framing)
        doubtful[batch.gaps["row"][batch.gaps["row"] > 0] - 1] = True
        hidden = None
        body_stops = batch.base + batch.rows["body_start"] + np.maximum(batch.rows["body_length"], 0)
        for number in np.flatnonzero(doubtful):
            is_proven = not marks[number] & _UNPROVEN
            hidden = self._hidden_by(batch.rows[number], int(body_stops[number]), is_proven)
            if hidden is not None:
                self._false.append(int(batch.rows["log_offset"][number]))
                own[number:] = False
                break
        if not own.all():
            met = foreign[:number] if hidden is not None else foreign
            places = batch.rows["log_offset"][: len(met)][met]
            self._displaced.append(np.stack([places, named[: len(met)][met]], axis=1))
            sound = foreign & (marks & _BODY == 0)
            self._elsewhere.append(np.stack([named[sound], batch.rows["total_size"][sound]], axis=1))
            batch = batch.only(own)
            marks = np.zeros(len(batch.rows), np.uint16)
            self._sums[:] = before
            self._check(batch, marks)
        if len(batch.rows):
            self._add(batch, marks)
        self._walk.hidden_at = hidden

    def _hidden_by(self, row: Row, body_stop: int, proven: bool) -> int | None:
        """Return where to read on inside a frame that lies where it says; None after it.

        A record in a body without a proven checksum is the body's own, or the frame is false. The
        end mark at a file's end is not a record: a frame that reaches over it has damaged lengths.
        """
        start, stop = int(frame_starts(row)), int(frame_stops(row))
        if proven:
            hidden = self._hidden.find(body_stop, stop)
        else:
            hidden = self._hidden.below(start, stop, body_stop, lambda: False)
        if hidden is not None and is_file_end(self._segment, hidden - self._segment.start):
            self._swallowed.append(start)
            return None
        if proven or hidden is None or hidden >= body_stop or self._job.below:
            return hidden
        self._covers = True
        return None

    def _add(self, batch: MessageBatch, marks: npt.NDArray[np.uint16]) -> None:
        records = np.zeros(len(batch.rows), RECORD_ROW)
        for name in ("log_offset", "store_timestamp_ms", "queue_offset", "total_size", "queue_id", "lead"):
            records[name] = batch.rows[name]
        kind = batch.rows["sys_flag"] & message.TRANSACTION_MASK
        plain = (kind != message.TRANSACTION_PREPARED) & (kind != message.TRANSACTION_ROLLBACK)
        records["marks"] = np.where(plain, Mark.PLAIN, 0) | marks
        records["marks"][np.isin(records["log_offset"], self._swallowed)] |= np.uint16(Mark.TORN)
        if self._job.fingerprints:
            fingerprints(batch, records["fingerprint"])
        row = self._dispatcher.dispatch(batch)
        while row is not None:
            records["marks"][row] |= _STALLS
            row = self._dispatcher.dispatch(batch, row + 1)
        impossible = {queue for queue in self._dispatcher.first_log_offsets if not _is_possible(*queue)}
        if impossible:
            queues = (
                (batch.buffer[one["topic_start"] : one["topic_stop"]].tobytes(), int(one["queue_id"]))
                for one in batch.rows
            )
            records["marks"][[queue in impossible for queue in queues]] |= _TORN
        self._records.append(records)

    def _check(self, batch: MessageBatch, marks: npt.NDArray[np.uint16]) -> None:
        if batch.cut and len(batch.rows):  # longer than a window: read piece by piece
            findings = FindingLog(1)
            checker = RecordChecker(self._segment, findings)
            checker.check(batch)
            self._sums[0] += checker.sound_crcs
            for code in findings.counts:
                marks[0] |= np.uint16(_MARK_OF_CODE.get(code, 0))
            return
        row = 0
        while row < len(batch.rows):
            row, count = check_records(batch, row, self._sums, self._hits)
            hits = self._hits[:count]
            np.bitwise_or.at(marks, hits["row"], _MARKS[hits["check"]])
        transactions = TransactionRows()
        transactions.collect(batch)
        bad = transactions.rows[np.isin(transactions.rows["role"], _BAD_ROLES)]["log_offset"]
        marks[np.isin(batch.rows["log_offset"], bad)] |= _TORN

    def result(self, read: SplitRead) -> SplitRecords:
        dispatcher = self._dispatcher
        return SplitRecords(
            **vars(read),
            records=np.concatenate([np.empty(0, RECORD_ROW), *self._records]),
            elsewhere=np.concatenate([np.empty((0, 2), np.int64), *self._elsewhere]),
            displaced=np.concatenate([np.empty((0, 2), np.int64), *self._displaced]),
            units=_units_of(dispatcher.taken().units),
            entries=dispatcher.taken().entries.copy(),
            queues=[dispatcher.key(number) for number in range(len(dispatcher.queues))],
            sound_crcs=int(self._sums[0]),
            batch_topics=dispatcher.unknown_batch_topics(),
            false=np.array(self._false, np.int64),
            covers=self._covers,
        )


@cache
def _is_possible(raw_topic: bytes, queue_id: int) -> bool:
    """Return whether there can be a queue of that topic and number."""
    return component_problem(decode_utf8(raw_topic)) is None and 0 <= queue_id <= HIGHEST_QUEUE_ID


def _is_followed(batch: MessageBatch, framing: Framing) -> bool:
    """Return whether the head of a record that claims this very place follows a batch, in its window."""
    stop = int(frame_stops(batch.rows[-1]))
    head = framing.head(batch.buffer[max(stop - batch.base, 0) :][: framing.head_size].tobytes())
    return head.magic in message.RECORD_MAGICS and head.physical_offset == framing.record_at(stop)


@dataclass(frozen=True, slots=True)
class _CopyJob(PolicyJob[SplitRecords]):
    policy: DispatchPolicy
    fingerprints: bool
    below: bool

    def walk(self, segment: Segment) -> _CopyWalk:
        return _CopyWalk(segment, self.policy.release.records)

    def sink(self, split: Split, walk: _CopyWalk) -> _Reader:
        return _Reader(self, split, walk)


def _units_of(taken: Rows) -> Rows:
    """Return units of the dispatch as ours; the first of a record is that of its own queue."""
    units = np.empty(len(taken), UNIT_ROW)
    units["log_offset"], units["queue_offset"] = taken["physical_offset"], taken["queue_offset"]
    units["tags_code"] = taken["tags_code"]
    units["count"], units["queue"] = np.maximum(taken["batch_size"], 1), taken["queue"]
    units["light"] = np.concatenate([[False], units["log_offset"][1:] == units["log_offset"][:-1]])[
        : len(units)
    ]
    return units


def read_copy(
    log: FileQueue,
    policy: DispatchPolicy,
    engine: Engine,
    *,
    compared: bool = False,
    below: bool = False,
    indexed: bool = False,
    progress: Progress | None = None,
) -> LogCopy:
    """Read a whole log, whose files are no longer than they should be.

    Records that are ``compared`` with those of another copy get fingerprints; with ``below``, intact records
    below a damaged frame are read in its place; with ``indexed``, index entries come with them.
    """
    job = _CopyJob(policy if indexed else policy._replace(index_enabled=False), compared, below)
    splits = plan_splits(log, log.stop, SPLIT_BYTES)
    reading: LogPass[_CopyJob, SplitRecords] = LogPass(engine, job, splits, read_split)
    reading.run(progress, "survey")
    copy = LogCopy(log, batch_topics=reading.job.policy.batch_topics - policy.batch_topics)
    counted: list[SplitRecords] = []
    for segment, results in reading.by_file():
        taken = list(stitch(results, segment.start, lambda split, due: reading.reread(split.split, due)))
        counted += taken
        if taken and taken[-1].ended:
            copy.blanks[segment.start] = taken[-1].log_offset
    copy = _joined(copy, counted)
    if any(split.covers for split in counted):
        copy.below = read_copy(
            log, reading.job.policy, engine, compared=compared, below=True, indexed=indexed
        )
    return copy


def _joined(copy: LogCopy, copies: Sequence[SplitRecords]) -> LogCopy:
    numbers: dict[tuple[str, int], int] = {}
    units = []
    for split in copies:
        turned = np.array([numbers.setdefault(key, len(numbers)) for key in split.queues], np.int32)
        if len(split.units):
            split.units["queue"] = turned[split.units["queue"]]
        units.append(split.units)
        copy.sound_crcs += split.sound_crcs
        start = split.split.segment.start
        copy.unreadable += [(start + bad.position, bad.length) for bad in split.unreadable]
    copy.records = np.concatenate([copy.records, *(split.records for split in copies)])
    for name in ("elsewhere", "displaced", "entries"):
        joined = np.concatenate([getattr(copy, name), *(getattr(split, name) for split in copies)])
        setattr(copy, name, joined)
    copy.units = np.concatenate([copy.units, *units])
    copy.false = np.concatenate([copy.false, *(split.false for split in copies)])
    copy.queues = list(numbers)
    forgive_foreign_sums(copy)
    mark_torn(copy)
    return copy
