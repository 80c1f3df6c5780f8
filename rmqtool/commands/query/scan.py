"""The log itself, walked for answers: in plain Python where it is small, else with kernels on all cores."""

from __future__ import annotations

from collections import deque
from contextlib import ExitStack
from dataclasses import replace
from itertools import chain, islice, pairwise
from typing import TYPE_CHECKING

from rmqtool.findings.places import IO_UNREADABLE
from rmqtool.scan.record_at import record_at
from rmqtool.scan.record_walk import ChainWalk, Defect, gap_between, missing_blank, unreadable_part
from rmqtool.scan.records import Record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from rmqtool.engine import Engine, LocalEngine
    from rmqtool.progress import Progress
    from rmqtool.scan.sieve import Sieve
    from rmqtool.scan.sift import Sifted
    from rmqtool.store import FileQueue, Segment

SMALL_LOG_BYTES = 16 << 20
"""Up to here plain Python is done before the kernels are loaded."""

_SPLIT_BYTES = 64 << 20
_START_BYTES = 8


class LogScan:
    """A walk over the whole log for the records that answer a question.

    Args:
        log: The log.
        progress: Told how far it is.
        note_defect: Told what is damaged.
        small_log_bytes: Up to here the log is walked in plain Python.
        split_bytes: What one core walks at a time.
    """

    def __init__(
        self,
        log: FileQueue,
        progress: Progress,
        note_defect: Callable[[Defect], None],
        small_log_bytes: int = SMALL_LOG_BYTES,
        split_bytes: int = _SPLIT_BYTES,
    ) -> None:
        self._log = log
        self._progress = progress
        self._note_defect = note_defect
        self._split_bytes = split_bytes
        self._is_small = log.size_bytes <= small_log_bytes

    def records(self, sieve: Sieve, answers: Callable[[Record], bool]) -> Iterator[Record]:
        """Yield all answers, in the order of the log.

        Args:
            sieve: Keeps all that may be an answer.
            answers: Decides.
        """
        return chain.from_iterable(self._by_file(range(len(self._log)), sieve, answers))

    def newest(self, sieve: Sieve, answers: Callable[[Record], bool], wanted: int | None) -> Iterable[Record]:
        """Return the newest answers, in the order of the log; files older than those are not read.

        None wants all, one after the other.
        """
        if wanted is None:
            return self.records(sieve, answers)
        found: list[Record] = []
        for records in self._by_file(reversed(range(len(self._log))), sieve, answers):
            found = [*deque(records, maxlen=wanted - len(found)), *found]
            if len(found) == wanted:
                break
        return found

    def first(self, sieve: Sieve, answers: Callable[[Record], bool], wanted: int | None) -> Iterator[Record]:
        """Yield the first answers; what lies behind them is not read."""
        return islice(self.records(sieve, answers), wanted)

    def _by_file(
        self, numbers: Iterable[int], sieve: Sieve, answers: Callable[[Record], bool]
    ) -> Iterator[Iterator[Record]]:
        """Yield the answers of one file after the other; each must be used up before the next."""
        self._progress.stage("walking the log", self._log.size_bytes)
        segments, done = self._log.segments, 0
        with ExitStack() as stack:
            engine = None if self._is_small else stack.enter_context(_local_engine())
            for number in numbers:
                if number:
                    self._note_gap(segments[number - 1], segments[number])
                later = segments[number + 1 :]
                if engine is None:
                    yield self._plain(segments[number], later, answers)
                else:
                    yield self._sifted(segments[number], later, engine, sieve, answers)
                done += segments[number].size_bytes
                self._progress.advance(done)

    def _plain(
        self, segment: Segment, later: tuple[Segment, ...], answers: Callable[[Record], bool]
    ) -> Iterator[Record]:
        for event in ChainWalk(segment, later).run(segment.start, None):
            if isinstance(event, Defect):
                if event.ends_chain:
                    self._note_defect(event)
            elif isinstance(event, Record) and answers(event):
                yield event

    def _sifted(
        self,
        segment: Segment,
        later: tuple[Segment, ...],
        engine: Engine,
        sieve: Sieve,
        answers: Callable[[Record], bool],
    ) -> Iterator[Record]:
        sift = _SegmentSift(segment, later, engine, self._split_bytes)
        places = sift.places(sieve)
        for defect in sift.defects():
            self._note_defect(defect)
        if sift.more_damage:
            self._progress.warn(f"{segment.label}: {sift.more_damage} more damaged places are not listed")
        yield from self._answers_at(places, answers)

    def _answers_at(self, places: Iterable[int], answers: Callable[[Record], bool]) -> Iterator[Record]:
        for place in places:
            record = record_at(self._log, place)
            if record is not None and answers(record):
                yield record

    def _note_gap(self, one: Segment, two: Segment) -> None:
        gap = gap_between(one, two)
        if gap is not None:
            self._note_defect(gap)


def _local_engine() -> LocalEngine:
    from rmqtool.engine import LocalEngine

    return LocalEngine()


class _SegmentSift:
    """One segment, its splits side by side; each must begin where the one before it ended."""

    def __init__(
        self, segment: Segment, later: tuple[Segment, ...], engine: Engine, split_bytes: int
    ) -> None:
        self._segment = segment
        self._later = later
        self._engine = engine
        self._split_bytes = split_bytes
        self._taken: list[Sifted] = []
        self._end: int | None = segment.start
        self.more_damage = 0

    def places(self, sieve: Sieve) -> list[int]:
        """Return the physical offsets of what the sieve keeps, ascending."""
        from rmqtool.scan.sift import SiftTask, sift_split

        segment = self._segment
        starts = [*range(segment.start, segment.stop, self._split_bytes), segment.stop]
        tasks = [SiftTask(segment, start, stop, sieve) for start, stop in pairwise(starts)]
        for task, guess in zip(tasks, self._engine.map(sift_split, tasks), strict=True):
            if self._end is not None and self._end >= task.stop:
                continue  # a long record reaches over the whole split
            sifted = guess
            if self._end not in {None, guess.first_place}:
                sifted = sift_split(replace(task, first_place=self._end))
            self._taken.append(sifted)
            self._end = sifted.end
            if sifted.blank:
                break
        self.more_damage = sum(sifted.more_damage for sifted in self._taken)
        return [place for sifted in self._taken for place in sifted.places]

    def defects(self) -> Iterator[Defect]:
        """Yield what is wrong, in the words of the plain walk."""
        for sifted in self._taken:
            for bad in sifted.unreadable:
                yield unreadable_part(self._segment, bad)
            for place in sifted.damage:
                yield from self._describe(place)
        is_blank = bool(self._taken) and self._taken[-1].blank
        if self._end == self._segment.stop and not is_blank and self._goes_on():
            yield missing_blank(self._segment)

    def _describe(self, place: int) -> Iterator[Defect]:
        for event in ChainWalk(self._segment, self._later).events(place, place + 1):
            if isinstance(event, Defect) and event.ends_chain and event.code is not IO_UNREADABLE:
                yield event

    def _goes_on(self) -> bool:
        return any(any(segment.read_at(0, _START_BYTES)) for segment in self._later)
