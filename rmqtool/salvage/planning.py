"""Plan of a new log, from the records read of the damaged one."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from rmqtool.dispatch.policy import NEVER
from rmqtool.errors import EnvironmentFailureError
from rmqtool.findings import counted
from rmqtool.genuine.plausibility import JudgedRecords
from rmqtool.genuine.records import Cause, Grounds, LogCopy, Mark
from rmqtool.kernels.rows import frame_starts, frame_stops
from rmqtool.salvage import Choices, Found, Holes, Lost, Part, PartKind, SalvagePlan
from rmqtool.salvage.kept_ranges import FreeRange, KeptRanges
from rmqtool.salvage.layout import HoleFiller, in_batches
from rmqtool.salvage.losses import LossFinder, salvaged_queues
from rmqtool.salvage.making import smallest_filler

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from rmqtool.account.lost import Absent
    from rmqtool.arrays import Rows
    from rmqtool.genuine.evidence import QueueEvidence


_ELSEWHERE = (
    "{} in another place than named, and nothing else lies there: put files back under the names that their"
    " records tell and salvage again, or rmqtool carve the files, which puts each record into its place"
)


_NO_SUM = (
    "{} BODYCRC 0, and stay as they are: start the broker with checkCRCOnRecover=false, or a recovery cuts"
    " the log at the first that it checks"
)


_UNDECIDED = (
    "the record at {} is damaged, and its body has whole records of the log: nothing decides whether they are"
    " its own bytes, or it is a false frame over them; they are recovered, and it is in lost+found/"
)


@dataclass
class Planner:
    """Makes the plan.

    Attributes:
        copy: the records read of all copies.
        evidence: the lists of queues.
        choices: the user's.
        takes: whether a topic is wanted.
        draft: the plan as far as it is known: bytes that are put aside already are among those found.
        batch_topics: topics whose queues count inner batches.
        consumed: lost messages that only consumers' offsets prove, by topic and queue id.
    """

    copy: LogCopy
    evidence: QueueEvidence
    choices: Choices
    takes: Callable[[str], bool]
    draft: SalvagePlan
    batch_topics: frozenset[str]
    consumed: Mapping[tuple[str, int], Absent]

    def plan(self) -> SalvagePlan:
        """Return the plan, its account proven."""
        draft, copy, choices = self.draft, self.copy, self.choices
        self.judged = judged = JudgedRecords(
            copy,
            self.evidence,
            from_zero=copy.log.start == 0,
            include_stale=choices.include_stale,
            keep_damaged=choices.keep_damaged,
        )
        self._choose()
        ranges = self._kept_ranges()
        if not len(ranges.records):
            raise EnvironmentFailureError(f"{draft.stores[0]}: no record of its log can be recovered")
        lost = self._lost(ranges)
        if choices.holes is Holes.CUT and self._cut(ranges):
            ranges = self._kept_ranges()
            lost = []
        made, reported, end = HoleFiller(ranges, self.batch_topics).fill(lost)
        parts = sorted([*made, *self._records(ranges), *self._blanks(ranges)], key=lambda part: part.start)
        all_lost = tuple(self._timed(reported, end))
        plan = replace(
            draft,
            end=end,
            parts=tuple(parts),
            kept_blanks=tuple(sorted(ranges.blanks)),
            lost=all_lost,
            found=tuple(self._found()),
            queues=tuple(salvaged_queues(judged, all_lost, made, self.batch_topics)),
            kept_damaged=int((copy.damaged & judged.kept).sum()),
            odd_times=int((judged.odd_times & judged.kept).sum()),
            notes=(
                *(*draft.notes, *self.evidence.unread, *self._elsewhere(ranges), *self._undecided()),
                *self._without_sum(),
            ),
        )
        plan.check()
        return plan

    # -- kept ranges

    def _choose(self) -> None:
        judged, choices, copy = self.judged, self.choices, self.copy
        records = copy.records
        stops = frame_stops(records)
        if choices.until_offset is not None:
            judged.leave_out(stops > choices.until_offset, Cause.CHOICE)
        if choices.until_timestamp_ms is not None:
            judged.leave_out(judged.times > choices.until_timestamp_ms, Cause.CHOICE)
        if choices.topics or choices.exclude_topics:
            unwanted = np.array([not self.takes(topic) for topic, _ in copy.queues], bool)
            units = copy.units[~copy.units["light"]]
            out = np.zeros(len(records), bool)
            out[np.searchsorted(records["log_offset"], units["log_offset"])] = unwanted[units["queue"]]
            judged.leave_out(out, Cause.CHOICE)

    def _kept_ranges(self) -> KeptRanges:
        """Return the kept ranges, without records that leave too little room beside them."""
        copy, judged = self.copy, self.judged
        start = copy.log.start
        sizes = {segment.start: segment.size_bytes for segment in copy.log}
        kept = copy.records[judged.kept]
        starts = np.ascontiguousarray(kept["log_offset"])
        blanks = {
            at for file, at in copy.blanks.items()
            if sizes.get(file, 0) >= self.draft.file_size and not self._taken(at, kept, starts)
        }  # fmt: skip
        while True:
            kept = copy.records[judged.kept]
            stops = frame_stops(kept)
            last = int(stops[-1]) if len(stops) else start
            ends = {start, *stops[np.isin(stops, [*blanks])].tolist()}  # an end mark after a hole is rebuilt
            stay = {
                at for at in blanks
                if (at in ends or self._file_stop(at) - self.draft.file_size == at)
                and (at < last or not (self.choices.limited or self._is_cut))
            }  # fmt: skip
            end = max([last, *(self._file_stop(at) for at in stay)])
            ranges = KeptRanges(start, end, self.draft.file_size, self.draft.form, kept, frozenset(stay))
            crowded = self._crowded(ranges)
            if not crowded:
                return ranges
            numbers = np.searchsorted(judged.places, crowded)
            judged.cause[numbers] = Cause.ROOM

    _is_cut = False

    def _taken(self, log_offset: int, kept: Rows, starts: Rows) -> bool:
        """Whether a record that stays lies over a place: another copy has one where this has an end mark."""
        after = int(np.searchsorted(starts, log_offset, "right"))
        follows = after < len(starts) and int(starts[after]) < self._file_stop(log_offset)
        return follows or bool(after and frame_stops(kept[after - 1]) > log_offset)

    def _file_stop(self, log_offset: int) -> int:
        start = self.copy.log.start
        return start + ((log_offset - start) // self.draft.file_size + 1) * self.draft.file_size

    def _crowded(self, ranges: KeptRanges) -> list[int]:
        """Return a record beside each hole too short for anything, and those that cross a file's end."""
        least, crowded = smallest_filler(self.draft.form), []
        rows = ranges.records
        first, last = frame_starts(rows) - ranges.start, frame_stops(rows) - 1 - ranges.start
        crossing = first // self.draft.file_size != last // self.draft.file_size
        crowded += [int(at) for at in rows["log_offset"][crossing]]
        for piece in ranges.pieces(ranges.end):
            short = piece.stop - piece.start
            if not piece.to_end and short < least:
                crowded.append(self._belied(ranges, piece))
            elif piece.to_end and short < 8 and piece.stop < ranges.end:
                crowded.append(int(rows["log_offset"][np.searchsorted(rows["log_offset"], piece.start) - 1]))
        return crowded

    def _belied(self, ranges: KeptRanges, piece: FreeRange) -> int:
        """Return the record after such a hole, or that before it if a unit proves the other alone."""
        number = int(np.searchsorted(ranges.starts, piece.stop)) - 1
        before, after = (int(ranges.records["log_offset"][place]) for place in (number, number + 1))
        proven = self.copy.units["log_offset"][self.judged.confirmed]
        is_met = number >= 0 and frame_stops(ranges.records[number]) == piece.start
        return before if is_met and after in proven and before not in proven else after

    def _cut(self, ranges: KeptRanges) -> bool:
        """End the log at its first hole; return whether there is one."""
        pieces = [piece for piece in ranges.pieces(ranges.end) if piece.start < ranges.end]
        if not pieces:
            return False
        self._is_cut = True
        self.judged.leave_out(self.copy.records["log_offset"] >= pieces[0].start, Cause.CHOICE)
        return True

    def _records(self, ranges: KeptRanges) -> Iterator[Part]:
        """Yield the records that stay, put together where they join and come from one copy."""
        rows = ranges.records
        stops = frame_stops(rows)
        joined = (frame_starts(rows)[1:] == stops[:-1]) & (rows["source"][1:] == rows["source"][:-1])
        cuts = np.concatenate([[0], np.flatnonzero(~joined) + 1, [len(rows)]])
        for begin, end in itertools.pairwise(cuts):
            at = int(ranges.starts[begin])
            length, source = int(stops[end - 1]) - at, int(rows["source"][begin])
            yield Part(PartKind.RECORDS, at, length, source=source, records=int(end - begin))

    def _blanks(self, ranges: KeptRanges) -> Iterator[Part]:
        for at in ranges.blanks:
            yield Part(PartKind.FILE_END, at, ranges.file_stop(at) - at)

    # -- lost messages

    def _lost(self, ranges: KeptRanges) -> list[Lost]:
        choices = self.choices
        horizon = ranges.end if choices.limited else NEVER
        finder = LossFinder(self.judged, self.evidence, self.takes, horizon, self.consumed)
        placed = choices.holes in (Holes.TOMBSTONE, Holes.REPEAT)
        return [replace(batch, placed=placed) for batch in in_batches(finder.lost(), self.batch_topics)]

    def _elsewhere(self, ranges: KeptRanges) -> Iterator[str]:
        """Say that records can be read which name places where the new log has none of the old ones."""
        starts, sizes = np.unique(self.copy.elsewhere, axis=0).T
        after = np.searchsorted(frame_stops(ranges.records), starts, "right")
        nexts = np.append(ranges.starts, NEVER)[after]
        count = int(((starts >= ranges.start) & (starts + sizes <= nexts)).sum())
        if count:
            yield _ELSEWHERE.format(counted(count, "sound record lies", "sound records lie", spec=","))

    def _without_sum(self) -> Iterator[str]:
        """Say that a broker must not check what has no checksum."""
        if count := int(((self.copy.records["marks"] & Mark.NO_CRC != 0) & self.judged.kept).sum()):
            yield _NO_SUM.format(counted(count, "record has", "records have", spec=","))

    def _undecided(self) -> Iterator[str]:
        """Yield a sentence for each damaged frame that nothing shows to be intact or false."""
        for aside in self.copy.aside:
            if aside.chosen_by is Grounds.NOTHING:
                yield _UNDECIDED.format(aside.start)

    def _timed(self, lost: list[Lost], end: int) -> Iterator[Lost]:
        """Say of each loss between which times it lies."""
        kept = self.copy.records[self.judged.kept]
        starts, times = np.ascontiguousarray(kept["log_offset"]), kept["store_timestamp_ms"]
        for loss in lost:
            before = int(np.searchsorted(starts, loss.start)) - 1
            after = int(np.searchsorted(starts, loss.stop))
            yield replace(
                loss,
                stop=min(loss.stop, end),
                after_ms=int(times[before]) if before >= 0 else None,
                before_ms=int(times[after]) if after < len(times) else None,
            )

    def _found(self) -> Iterator[Found]:
        """Yield the bytes of the first copy, and of others that differ, that the new log does not have."""
        copy, judged = self.copy, self.judged
        records = copy.records
        queue_of, unknown = np.full(len(records), -1), judged.open
        own = ~copy.units["light"]
        queue_of[judged.record_of[own]] = copy.units["queue"][own]
        for number in np.flatnonzero(~judged.kept & (judged.cause != Cause.CHOICE)):
            row, queue = records[number], queue_of[number]
            topic, queue_id = (None, int(row["queue_id"])) if queue < 0 else copy.queues[queue]
            yield Found(
                int(row["log_offset"]), int(row["total_size"]), int(row["source"]),
                Cause(judged.cause[number]).name.lower(), topic, queue_id, int(row["queue_offset"]),
                bool(unknown[number]),
            )  # fmt: skip
        yield from self.draft.found
        for aside in copy.aside:
            undecided = aside.chosen_by is Grounds.NOTHING
            yield Found(aside.start, aside.length, aside.source, "frame", is_open=undecided)
        for start, stop in copy.between():  # zeros are left out when they are written
            yield Found(start, stop - start, 0, "torn")
