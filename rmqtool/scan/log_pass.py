"""One pass over a log: cut into splits, which an engine reads side by side into sinks, and put together.

The walk of a job decides what follows damage: `GapWalk` reads on at the next intact record, as an examiner
does; a running broker gives the file up. The files may lie anywhere: a walk reads them by their `Segment`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate, groupby, islice, takewhile
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, Self, TypeVar

from rmqtool.engine import Engine, MapInterruptedError, together
from rmqtool.formats.message import Outcome
from rmqtool.scan.records import Gap

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
    from concurrent.futures import Executor

    from rmqtool.io.location import UnreadableRange
    from rmqtool.kernels.rows import MessageBatch
    from rmqtool.progress import Progress
    from rmqtool.store.segments import Segment

SPLIT_BYTES = 256 << 20


class Split(NamedTuple):
    """A range of one segment, physical offsets.

    A split owns the records whose first byte lies in ``[start, stop)`` and may read on after ``stop`` to
    finish the last of them. Where its first record begins is a guess, unless the split begins with the
    segment: the first position whose bytes are an intact record. The chain of the split before decides
    whether the guess was right (``stitch``); a wrong one costs a second walk, never a wrong result.
    """

    segment: Segment
    start: int
    stop: int

    @property
    def size_bytes(self) -> int:
        """Return its length."""
        return self.stop - self.start


def plan_splits(segments: Iterable[Segment], until: int, split_bytes: int = SPLIT_BYTES) -> list[Split]:
    """Cut segments into splits of at most ``split_bytes``, up to the physical offset ``until``."""
    splits: list[Split] = []
    for segment in segments:
        stop = min(segment.stop, until)
        splits.extend(
            Split(segment, start, min(start + split_bytes, stop))
            for start in range(segment.start, stop, split_bytes)
        )
    return splits


@dataclass
class SplitRead:
    """A split that was read by an examiner; results of sinks extend it.

    Attributes:
        split: the range read.
        first_log_offset: physical offset of the first record; None if no true one begins in the split.
        outcome: end of the walk, see `GapWalk`.
        log_offset: physical offset of that end.
        unreadable: ranges of the file that the disk did not deliver.
    """

    split: Split
    first_log_offset: int | None
    outcome: Outcome = Outcome.STOP
    log_offset: int = 0
    unreadable: list[UnreadableRange] = field(default_factory=list)

    @property
    def split_stop(self) -> int:
        """Return the physical offset after the split."""
        return self.split.stop

    @property
    def next_log_offset(self) -> int | None:
        """Return the physical offset at which the next record is due; None if a gap goes on there."""
        return self.log_offset if self.outcome is Outcome.STOP and self.first_log_offset is not None else None

    @property
    def ended(self) -> bool:
        """Whether an end mark ended the file."""
        return self.outcome is Outcome.FILE_END


class Walk(Protocol):
    """The records of one file, in order."""

    outcome: Outcome
    log_offset: int

    @property
    def unreadable(self) -> list[UnreadableRange]:
        """Return ranges of the file that the disk did not deliver so far."""

    def guess(self, start: int, stop: int) -> int | None:
        """Return where the first record of a range begins; None if it has none."""

    def parts(self, start: int, stop: int) -> Iterator[MessageBatch | Gap]:
        """Yield the records that begin in a range, the first at ``start``, and the gaps between them."""


R = TypeVar("R")
S = TypeVar("S")
J = TypeVar("J", bound="ReadJob[Any]")
R_co = TypeVar("R_co", covariant=True)


class Sink(Protocol[R_co]):
    """Takes the contents of one split, in order."""

    def batch(self, batch: MessageBatch) -> None:
        """Take records, and the gaps among them."""

    def gap(self, gap: Gap) -> None:
        """Take a gap between two batches."""

    def result(self, read: SplitRead) -> R_co:
        """Return the results, once the walk is at its end."""


class ReadJob(ABC, Generic[R]):
    """Work on every split of a log; picklable."""

    __slots__ = ()

    @abstractmethod
    def walk(self, segment: Segment) -> Any:  # noqa: ANN401 - a `Walk`, and more where the sink needs it
        """Return a new walk over a file."""

    @abstractmethod
    def sink(self, split: Split, walk: Any) -> Sink[R]:  # noqa: ANN401 - what `walk` returned
        """Return a new sink for a split."""

    def revised(self, results: Sequence[object]) -> Self | None:
        """Return the job that the results of all splits call for, if that is another."""
        del results
        return None


@dataclass(frozen=True, slots=True)
class SplitTask(Generic[R]):
    """A split to read, from a physical offset on where its first record is known; picklable."""

    job: ReadJob[R]
    split: Split
    first_log_offset: int | None = None


def read_split(task: SplitTask[R]) -> R:
    """Walk over a split into a sink."""
    split, first = task.split, task.first_log_offset
    walk: Walk = task.job.walk(split.segment)
    sink = task.job.sink(split, walk)
    read = SplitRead(split, walk.guess(split.start, split.stop) if first is None else first)
    for part in () if read.first_log_offset is None else walk.parts(read.first_log_offset, split.stop):
        if isinstance(part, Gap):
            sink.gap(part)
        else:
            sink.batch(part)
    read.outcome, read.log_offset, read.unreadable = walk.outcome, walk.log_offset, walk.unreadable
    return sink.result(read)


def read_ahead(
    tasks: Sequence[SplitTask[R]], pool: Executor, ahead: int, advance: Callable[[int], None]
) -> Generator[R, None, None]:
    """Yield the result of each task, in order, with at most ``ahead`` of them under way."""
    from rmqtool.engine.threads import cancel, result_of  # and logging, which only threads need

    waiting = deque(pool.submit(read_split, task) for task in tasks[:ahead])
    following = iter(tasks[ahead:])
    try:
        for task in tasks:
            result = result_of(waiting.popleft())
            waiting.extend(pool.submit(read_split, later) for later in islice(following, 1))
            yield result
            advance(task.split.stop)
    finally:
        cancel(waiting)


def _read_all(reader: Callable[[SplitTask[R]], S], tasks: Sequence[SplitTask[R]]) -> list[S]:
    return list(map(reader, tasks))


class LogPass(Generic[J, S]):
    """Reads the splits of a log on an engine, and again those whose first record was guessed wrongly.

    ``reader`` is `read_split`, or what guards it; a task reads at least ``task_bytes``, where there is so
    much. ``results`` are those of the first splits, in their order: of all, unless reading was interrupted.
    """

    def __init__(
        self,
        engine: Engine,
        job: J,
        splits: Sequence[Split],
        reader: Callable[[SplitTask[Any]], S],
        task_bytes: int = 0,
    ) -> None:
        self._engine = engine
        self.job = job
        self._splits = splits
        self._read = partial(_read_all, reader)
        self._task_bytes = task_bytes
        self.results: list[S] = []

    @property
    def bytes_read(self) -> int:
        """Return the size of the splits that were read."""
        return sum(split.size_bytes for split in self._splits[: len(self.results)])

    def run(self, progress: Progress | None = None, stage: str = "") -> None:
        """Read all splits, and again where their results revise the job."""
        groups = list(together(self._splits, lambda split: split.size_bytes, self._task_bytes))
        done = list(accumulate((sum(split.size_bytes for split in group) for group in groups), initial=0))
        advance = None if progress is None else lambda count: progress.advance(done[count])
        for is_last in (False, True):  # hostile records could have the job revised after each reading
            if progress is not None:
                progress.stage(stage, done[-1])
            tasks = [[SplitTask(self.job, split) for split in group] for group in groups]
            self.results = []
            try:
                found = self._engine.map(self._read, tasks, advance)
            except MapInterruptedError as stop:
                for number in takewhile(stop.results.__contains__, range(len(tasks))):
                    self.results += stop.results[number]
                raise
            self.results = [result for group in found for result in group]
            revised = None if is_last else self.job.revised(self.results)
            if revised is None:
                return
            self.job = revised

    def reread(self, split: Split, log_offset: int, job: J | None = None) -> S:
        """Read a split, or a part of one, from a record on."""
        task = SplitTask(job or self.job, split, log_offset)
        return self._engine.map(self._read, [[task]])[0][0]

    def by_file(self) -> Iterator[tuple[Segment, list[S]]]:
        """Yield the results of each file, in log order."""
        pairs = zip(self._splits, self.results, strict=False)
        for _, group in groupby(pairs, key=lambda pair: pair[0].segment.start):
            of_file = list(group)
            yield of_file[0][0].segment, [result for _, result in of_file]


class SplitResult(Protocol):
    """End of a split, as the next one needs it; see `SplitRead`.

    A broker's reput ends at a gap. An examiner reads on at the next intact record: where a gap reaches the
    split's end, that is what the next split guesses.
    """

    @property
    def split_stop(self) -> int:
        """Return the physical offset after the split."""

    @property
    def first_log_offset(self) -> int | None:
        """Return the physical offset of the first record; None if no record begins in the split."""

    @property
    def next_log_offset(self) -> int | None:
        """Return the physical offset at which the next record is due; None if a gap goes on there."""

    @property
    def ended(self) -> bool:
        """Whether nothing of the file is read after this."""


_Result = TypeVar("_Result", bound=SplitResult)


def stitch(
    results: Iterable[_Result], log_offset: int, reread: Callable[[_Result, int], _Result]
) -> Iterator[_Result]:
    """Yield the results of one file's splits that count, each beginning where the one before it ended.

    A result is taken if its first record is the one that is due, or if everything up to it is a gap. Else
    its split is read again; splits that a long record or the end jumped over are left out. So what comes out
    is the same however the log was cut.
    """
    due: int | None = log_offset
    for result in results:
        if due is not None and due >= result.split_stop:
            continue
        taken = result if due is None or due == result.first_log_offset else reread(result, due)
        yield taken
        if taken.ended:
            return
        due = taken.next_log_offset
