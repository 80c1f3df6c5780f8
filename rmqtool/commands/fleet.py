"""FLEET: one function over many stores; a bad one stops nothing, and all share one engine.

A question is any command's function of a store, an engine and a progress (`Ask`). The outcomes are one
report, in the order in which the stores were named; its exit status is the worst.

The largest store comes first. A small store has nothing to share out: one thread examines it, which is less
work than several. Where the question can be pickled, worker processes examine small stores once that pays, as
most of it is Python, at which threads would take turns: the first few run here, which shows what one takes,
and keeps kernels on disk before several processes need them. A larger store gets the whole engine.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate
from statistics import median
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, Protocol, TypeVar

from rmqtool.engine import Engine, LocalEngine, MapInterruptedError, usable_cpus
from rmqtool.errors import ExitStatus, RefusedError, RmqtoolError, UsageError
from rmqtool.findings import CATALOG, FailOn, Severity, status_of
from rmqtool.io import Location, location_of, nothing_fits, places_of
from rmqtool.progress import LimitedProgress, NullProgress, Progress, RecordingProgress
from rmqtool.store.results import Target, read_result

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from os import PathLike


R = TypeVar("R")


@dataclass(frozen=True)
class StoreOutcome(Generic[R]):
    """Outcome of one store.

    Attributes:
        store: its path; as it was given, where nothing could be opened.
        status: the exit status that it would have alone.
        report: the function's result; None where it failed.
        failure: the reason, one sentence; None where it did not fail.
        warnings: sentences of the run that nobody should miss.
        log_bytes: size of the files of its log.
        seconds: wall time.
    """

    store: str
    status: ExitStatus
    report: R | None = None
    failure: str | None = None
    warnings: tuple[str, ...] = ()
    log_bytes: int = 0
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class FleetSummary:
    """All stores in a few numbers.

    Attributes:
        stores: how many were named.
        failed: how many of them have no report.
        by_status: how many have each exit status; those that none has are left out.
        log_bytes: size of all files of their logs.
        seconds: wall time of the whole run.
    """

    stores: int
    failed: int
    by_status: Mapping[str, int]
    log_bytes: int
    seconds: float


@dataclass(frozen=True)
class FleetReport(Generic[R]):
    """The outcomes of all stores, in the order in which they were named; iteration yields them.

    Attributes:
        outcomes: one for each store.
        seconds: wall time of the whole run.
    """

    schema: ClassVar = "rmqtool.fleet/1"
    outcomes: tuple[StoreOutcome[R], ...]
    seconds: float

    @property
    def exit_status(self) -> ExitStatus:
        """Return the worst status of a store."""
        return max((one.status for one in self.outcomes), default=ExitStatus.CLEAN)

    @property
    def worst_first(self) -> list[StoreOutcome[R]]:
        """Return the outcomes by falling status; among equals the order stays."""
        return sorted(self.outcomes, key=lambda one: -one.status)

    @property
    def summary(self) -> FleetSummary:
        """Return all of it in a few numbers."""
        counts = Counter(one.status for one in self.outcomes)
        return FleetSummary(
            stores=len(self.outcomes),
            failed=sum(one.report is None for one in self.outcomes),
            by_status={str(int(status)): counts[status] for status in sorted(counts, reverse=True)},
            log_bytes=sum(one.log_bytes for one in self.outcomes),
            seconds=self.seconds,
        )

    def __iter__(self) -> Iterator[StoreOutcome[R]]:
        return iter(self.outcomes)

    def __len__(self) -> int:
        return len(self.outcomes)


_SMALL_BYTES = 16 << 20
"""A log of this size is read in less time than threads take to be set to work."""

_AMID = "interrupted during it"


class Closable(Protocol):
    """An opened store, as a fleet needs it."""

    def close(self) -> None:
        """Close the files."""
        ...


S = TypeVar("S", bound=Closable)


@dataclass(frozen=True)
class FleetMember(Generic[S]):
    """A store that was named.

    Attributes:
        path: its path; as given, if that is a glob that nothing fits.
        opening: opens it, here or where a task runs; picklable if questions are to travel.
        store: the store; None if it could not be opened.
        failure: why not.
        log_bytes: size of the files of its log.
    """

    path: str
    opening: Callable[[], S]
    store: S | None = None
    failure: Exception | None = None
    log_bytes: int = 0

    @property
    def is_small(self) -> bool:
        """Whether it has nothing to be shared out."""
        return self.log_bytes <= _SMALL_BYTES

    def failed(self, failure: BaseException) -> StoreOutcome[R]:
        """Return the outcome of a store that has no report, and why."""
        if (interrupt := _interrupt_in(failure)) is not None:
            return StoreOutcome(self.path, ExitStatus.INTERRUPTED, failure=str(interrupt) or _AMID)
        if isinstance(failure, RmqtoolError):
            return StoreOutcome(self.path, failure.status, failure=str(failure))
        if isinstance(failure, OSError):
            return StoreOutcome(
                self.path, ExitStatus.FAILED, failure=f"{failure.filename}: {failure.strerror}"
            )
        sentence = (
            f"internal error: {type(failure).__name__}: {failure} (run it alone with --debug for details)"
        )
        return StoreOutcome(self.path, ExitStatus.FAILED, failure=sentence)


def _interrupt_in(failure: BaseException | None) -> KeyboardInterrupt | None:
    """Return the interrupt inside a failure: within ``__fspath__``, Python makes a SystemError of it."""
    while failure is not None and not isinstance(failure, KeyboardInterrupt):
        failure = failure.__cause__ or failure.__context__
    return failure


def gathered(
    paths: Iterable[str | PathLike[str] | Location],
    opening: Callable[[str], S],
    log_bytes: Callable[[S], int],
) -> list[FleetMember[S]]:
    """Open the stores that paths and globs name, each once, in their order; those of a glob by name."""
    members: dict[str, FleetMember[S]] = {}
    for path in paths:
        places = places_of(path)
        for place in places:
            if str(place) not in members:
                members[str(place)] = _opened(place, partial(opening, str(place)), log_bytes)
        if not places:
            place = location_of(path)
            members[str(place)] = _opened(place, partial(nothing_fits, str(path)), log_bytes)
    return list(members.values())


def _opened(place: Location, opening: Callable[[], S], log_bytes: Callable[[S], int]) -> FleetMember[S]:
    try:
        store = opening()
        return FleetMember(str(place), opening, store, None, log_bytes(store))
    except UsageError:
        raise
    except (RmqtoolError, OSError) as failure:
        return FleetMember(str(place), opening, failure=failure)


_WAY_OUT = "delete it to have it made again, or give another --out"


class ResumedReport(NamedTuple, Generic[R]):
    """JSON document of one store's report, and the report itself; None if an earlier run made it."""

    document: dict[str, Any]
    report: R | None


def earlier_report(out: Target, name: str, wanted: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the report of a result that is there; None if there is none."""
    data = read_result(out, name)
    try:
        document = None if data is None else json.loads(data)
    except ValueError:
        return None
    if not isinstance(document, dict):
        return None
    for member, one in wanted.items():
        if document.get(member) != one:
            raise RefusedError(f"{out}: {_difference(member, document.get(member), one)}; {_WAY_OUT}")
    return document


def _difference(name: str, then: object, now: object) -> str:
    """Return how a result differs from the request: by its first member that does."""
    if isinstance(then, list) and isinstance(now, list) and len(then) == len(now):
        then, now = next(pair for pair in zip(then, now, strict=True) if pair[0] != pair[1])
    if isinstance(then, dict) and isinstance(now, dict):
        names = (one for one in (*now, *then) if then.get(one) != now.get(one))
        inner = next(names)
        return _difference(f"{name}.{inner}", then.get(inner), now.get(inner))
    words = (json.dumps(one, ensure_ascii=False) for one in (then, now))
    return "an earlier run made it with {} {}, now it is {}".format(name, *words)


def earlier_status(document: Mapping[str, Any], fail_on: FailOn) -> ExitStatus:
    """Return the exit status of such a report: that of its findings, or its own negative one."""
    weights = [(Severity(one["severity"]), CATALOG[one["code"]].structure) for one in document["findings"]]
    status = status_of(weights, fail_on)
    is_negative = document["exitStatus"] == ExitStatus.NEGATIVE and fail_on is not FailOn.NEVER
    return max(status, ExitStatus.NEGATIVE) if is_negative else status


S_contra = TypeVar("S_contra", contravariant=True)
R_co = TypeVar("R_co", covariant=True)

_NOT_REACHED = "interrupted before it was examined"
_SAMPLE = 3
"""Number of small stores that show what one takes."""

_WORKER_START_S = 1.2
"""Until a worker process has loaded numpy, numba and the kernels of a command; of one core."""


class Ask(Protocol[S_contra, R_co]):
    """A question to a store; an error is the outcome of that store alone."""

    def __call__(self, store: S_contra, engine: Engine, progress: Progress, /) -> tuple[R_co, ExitStatus]:
        """Return the report, and the exit status that the store would have alone."""
        ...


def ask_members(
    members: Sequence[FleetMember[S]],
    ask: Ask[S, R],
    engine: Engine,
    progress: Progress,
    *,
    travels: bool = False,
) -> FleetReport[R]:
    """Run a question over all stores, in worker processes if it ``travels``; each is closed after it."""
    start = time.perf_counter()
    asking = _Asking(members, ask, engine, LimitedProgress(progress), travels=travels)
    asking.run()
    outcomes = tuple(asking.outcomes[number] for number in range(len(members)))
    return FleetReport(outcomes, round(time.perf_counter() - start, 3))


class _Stages(RecordingProgress):
    """Shows stages, and records remarks, to which the name of the store is added later."""

    def __init__(self, shown: Progress) -> None:
        super().__init__()
        self._shown = shown

    def stage(self, name: str, total_bytes: int | None) -> None:
        self._shown.stage(name, total_bytes)

    def advance(self, done_bytes: int) -> None:
        self._shown.advance(done_bytes)


def _examined(member: FleetMember[S], ask: Ask[S, R], engine: Engine, shown: Progress) -> StoreOutcome[R]:
    """Run the question over an open store, and close it; any error is its outcome."""
    start, stages = time.perf_counter(), _Stages(shown)
    outcome: StoreOutcome[R]
    if member.store is None:
        raise ValueError(f"{member.path}: is not open")
    try:
        report, status = ask(member.store, engine, stages)
        outcome = StoreOutcome(member.path, status, report)
    except (Exception, KeyboardInterrupt) as failure:
        outcome = member.failed(failure)
    finally:
        member.store.close()
    seconds = round(time.perf_counter() - start, 3)
    return replace(outcome, warnings=tuple(stages.warnings), log_bytes=member.log_bytes, seconds=seconds)


def _examined_by_worker(ask: Ask[S, R], member: FleetMember[S]) -> StoreOutcome[R]:
    try:
        store = member.opening()
    except (RmqtoolError, OSError) as failure:  # it was there a moment ago
        return member.failed(failure)
    with LocalEngine(1) as engine:
        return _examined(replace(member, store=store), ask, engine, NullProgress())


def _lost(member: FleetMember[S], reason: str) -> StoreOutcome[R]:
    """Return the outcome of a store whose worker process died."""
    failure = f"{reason} (run it alone for details)"
    return StoreOutcome(member.path, ExitStatus.FAILED, failure=failure, log_bytes=member.log_bytes)


class _Asking(Generic[S, R]):
    """A run over all stores; outcomes have the numbers of the members."""

    def __init__(
        self,
        members: Sequence[FleetMember[S]],
        ask: Ask[S, R],
        engine: Engine,
        progress: LimitedProgress,
        *,
        travels: bool = False,
    ) -> None:
        self._members, self._ask = members, ask
        self._engine, self._progress = engine, progress
        self._travels = travels
        self._done_bytes = 0
        self.outcomes: dict[int, StoreOutcome[R]] = {}

    def run(self) -> None:
        """Examine all that are open."""
        opened = [number for number, one in enumerate(self._members) if one.store is not None]
        opened.sort(key=lambda number: -self._members[number].log_bytes)
        if opened and self._engine.name != "local":
            self._engine.map(abs, [0])  # one that does not come up is no fault of the stores
        self._stage()
        try:
            with suppress(KeyboardInterrupt):  # between two stores; those that are left have no outcome yet
                small = [one for one in opened if self._travels and self._members[one].is_small]
                self._ask_here(number for number in opened if number not in small)
                self._ask_small(small)
        finally:
            for one in self._members:
                if one.store is not None:
                    one.store.close()
        self._progress.finish()
        for number, one in enumerate(self._members):
            if number not in self.outcomes:
                self.outcomes[number] = one.failed(one.failure or KeyboardInterrupt(_NOT_REACHED))

    def _stage(self) -> None:
        self._progress.stage("stores", sum(one.log_bytes for one in self._members))
        self._progress.advance(self._done_bytes)

    def _ask_here(self, numbers: Iterable[int]) -> None:
        """Examine one store after the other; KeyboardInterrupt after the outcome of the one that it met."""
        with LocalEngine(1) as single:
            for number in numbers:
                member = self._members[number]
                alone = member.is_small and (self._travels or self._engine.name == "local")
                shown = NullProgress() if member.is_small else self._progress
                outcome = _examined(member, self._ask, single if alone else self._engine, shown)
                self._take(number, outcome)
                if member.is_small:
                    self._progress.advance(self._done_bytes)
                else:
                    self._stage()
                if outcome.status is ExitStatus.INTERRUPTED:
                    raise KeyboardInterrupt

    def _ask_small(self, numbers: Sequence[int]) -> None:
        """Examine small stores here, until worker processes pay, and in these from there on."""
        for place, number in enumerate(numbers):
            count = self._workers_for(numbers[max(place - _SAMPLE, 0) : place], len(numbers) - place)
            if count > 1:
                self._ask_workers(numbers[place:], count)
                break
            self._ask_here([number])
        # where no process could be started, there are no outcomes either
        self._ask_here(number for number in numbers if number not in self.outcomes)

    def _workers_for(self, answered: Sequence[int], left: int) -> int:
        """Return how many workers have to do for twice the time of their start, by the last examined."""
        if len(answered) < _SAMPLE:
            return 0
        seconds = median(self.outcomes[number].seconds for number in answered) * left
        return min(self._engine.options.jobs or usable_cpus(), left, int(seconds / 2 / _WORKER_START_S))

    def _ask_workers(self, numbers: Sequence[int], count: int) -> None:
        """Examine small stores in worker processes; after KeyboardInterrupt, finished ones have outcomes."""
        from rmqtool.engine.workers import map_in_workers  # few runs are over many stores

        tasks = [replace(self._members[number], store=None) for number in numbers]
        done = [*accumulate((one.log_bytes for one in tasks), initial=self._done_bytes)]
        found: dict[int, StoreOutcome[R]]
        is_interrupted = False
        try:
            found = map_in_workers(
                partial(_examined_by_worker, self._ask),
                tasks,
                _lost,
                count,
                lambda number: self._progress.advance(done[number]),
            )
        except MapInterruptedError as stop:
            found, is_interrupted = stop.results, True
        for place in sorted(found):
            self._take(numbers[place], found[place])
        self._progress.advance(self._done_bytes)
        if is_interrupted:
            raise KeyboardInterrupt

    def _take(self, number: int, outcome: StoreOutcome[R]) -> None:
        self.outcomes[number] = outcome
        for sentence in outcome.warnings:
            self._progress.warn(sentence if outcome.store in sentence else f"{outcome.store}: {sentence}")
        self._done_bytes += self._members[number].log_bytes
