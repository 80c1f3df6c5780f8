"""Walk of the log for answers: in plain Python where it is small, else with kernels on all cores."""

from __future__ import annotations

from collections import deque
from contextlib import ExitStack
from itertools import chain
from typing import TYPE_CHECKING

from rmqtool.scan.classify import Defect
from rmqtool.scan.log_edge import FoundEdge
from rmqtool.scan.record_at import record_at
from rmqtool.scan.record_walk import ChainWalk
from rmqtool.scan.records import Record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from rmqtool.engine import Engine, LocalEngine
    from rmqtool.progress import Progress
    from rmqtool.scan.prefilter import Prefilter
    from rmqtool.store import FileQueue

SMALL_LOG_BYTES = 16 << 20
"""Up to this size plain Python is done before the kernels are loaded."""

_SPLIT_BYTES = 64 << 20


class LogScan:
    """A walk over the whole log for the records that answer a question.

    Without ``edge``, facts about the log as a whole, its files alone count.
    """

    def __init__(
        self,
        log: FileQueue,
        progress: Progress,
        note_defect: Callable[[Defect], None],
        small_log_bytes: int = SMALL_LOG_BYTES,
        split_bytes: int = _SPLIT_BYTES,
        *,
        edge: FoundEdge | None = None,
    ) -> None:
        self._log = log
        self._edge = edge or FoundEdge(log.segments)
        self._progress = progress
        self._note_defect = note_defect
        self._split_bytes = split_bytes
        self._is_small = log.size_bytes <= small_log_bytes

    def records(self, prefilter: Prefilter, answers: Callable[[Record], bool]) -> Iterator[Record]:
        """Yield all answers among the records that the prefilter keeps, in the order of the log."""
        return chain.from_iterable(self._by_file(range(len(self._log)), prefilter, answers))

    def newest(self, prefilter: Prefilter, answers: Callable[[Record], bool], wanted: int) -> list[Record]:
        """Return the newest answers, in the order of the log; files older than those are not read."""
        found: list[Record] = []
        for records in self._by_file(reversed(range(len(self._log))), prefilter, answers):
            found = [*deque(records, maxlen=wanted - len(found)), *found]
            if len(found) == wanted:
                break
        return found

    def _by_file(
        self, numbers: Iterable[int], prefilter: Prefilter, answers: Callable[[Record], bool]
    ) -> Iterator[Iterator[Record]]:
        """Yield the answers of one file after the other; each must be used up before the next."""
        self._progress.stage("walking the log", self._log.size_bytes)
        segments, done = self._log.segments, 0
        with ExitStack() as stack:
            engine = None if self._is_small else stack.enter_context(_local_engine())
            for number in numbers:
                gap = self._edge.missing_before(number)
                if gap is not None:
                    self._note_defect(gap)
                if engine is None:
                    yield self._plain(number, answers)
                else:
                    yield self._sifted(number, engine, prefilter, answers)
                done += segments[number].size_bytes
                self._progress.advance(done)

    def _plain(self, number: int, answers: Callable[[Record], bool]) -> Iterator[Record]:
        for event in ChainWalk(number, self._edge).run(self._log.segments[number].start, None):
            if isinstance(event, Defect):
                if event.ends_chain:
                    self._note_defect(event)
            elif isinstance(event, Record) and answers(event):
                yield event

    def _sifted(
        self, number: int, engine: Engine, prefilter: Prefilter, answers: Callable[[Record], bool]
    ) -> Iterator[Record]:
        from rmqtool.scan.candidates import CandidateJob
        from rmqtool.scan.file_pass import FilePass

        job = CandidateJob(self._edge.stale_from, prefilter)
        found = FilePass(number, self._edge, engine, job, self._split_bytes)
        for defect in found.defects():
            if defect.ends_chain:
                self._note_defect(defect)
        if found.more_gaps:
            label = found.segment.label
            self._progress.warn(f"{label}: {found.more_gaps} more damaged places are not listed")
        for part in found.parts:
            yield from self._answers_at(part.found, answers)

    def _answers_at(self, log_offsets: Iterable[int], answers: Callable[[Record], bool]) -> Iterator[Record]:
        for log_offset in log_offsets:
            record = record_at(self._log, log_offset)
            if record is not None and answers(record):
                yield record


def _local_engine() -> LocalEngine:
    from rmqtool.engine import LocalEngine

    return LocalEngine()
