"""FLEET: one function over many stores; a bad one stops nothing, and all share one engine.

A question is any command's function of a store, an engine and a progress (`Ask`). The outcomes are one
report, in the order in which the stores were named; its exit status is the worst.

One store comes after the other, the largest first, so that memory is that of one. A small store has nothing
to share out: one thread examines it, which is less work than several; a larger one gets the whole engine.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, Protocol, TypeVar

from rmqtool.engine import Engine, LocalEngine
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
        return max((outcome.status for outcome in self.outcomes), default=ExitStatus.CLEAN)

    @property
    def worst_first(self) -> list[StoreOutcome[R]]:
        """Return the outcomes by falling status; among equals the order stays."""
        return sorted(self.outcomes, key=lambda outcome: -outcome.status)

    @property
    def summary(self) -> FleetSummary:
        """Return all of it in a few numbers."""
        counts = Counter(outcome.status for outcome in self.outcomes)
        return FleetSummary(
            stores=len(self.outcomes),
            failed=sum(outcome.report is None for outcome in self.outcomes),
            by_status={str(int(status)): counts[status] for status in sorted(counts, reverse=True)},
            log_bytes=sum(outcome.log_bytes for outcome in self.outcomes),
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


S = TypeVar("S", bound=Closable)


@dataclass(frozen=True)
class FleetMember(Generic[S]):
    """A store that was named.

    ``path`` is as given, if that is a glob that nothing fits; ``failure`` is why ``opening`` gave no store.
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
    for member, value in wanted.items():
        if document.get(member) != value:
            raise RefusedError(f"{out}: {_difference(member, document.get(member), value)}; {_WAY_OUT}")
    return document


def _difference(name: str, then: object, now: object) -> str:
    """Return how a result differs from the request: by its first member that does."""
    if isinstance(then, list) and isinstance(now, list) and len(then) == len(now):
        then, now = next(pair for pair in zip(then, now, strict=True) if pair[0] != pair[1])
    if isinstance(then, dict) and isinstance(now, dict):
        names = (one for one in (*now, *then) if then.get(one) != now.get(one))
        inner = next(names)
        return _difference(f"{name}.{inner}", then.get(inner), now.get(inner))
    words = (json.dumps(options, ensure_ascii=False) for options in (then, now))
    return "an earlier run made it with {} {}, now it is {}".format(name, *words)


def earlier_status(document: Mapping[str, Any], fail_on: FailOn) -> ExitStatus:
    """Return the exit status of such a report: that of its findings, or its own negative one."""
    weights = [
        (Severity(entry["severity"]), CATALOG[entry["code"]].structure) for entry in document["findings"]
    ]
    status = status_of(weights, fail_on)
    is_negative = document["exitStatus"] == ExitStatus.NEGATIVE and fail_on is not FailOn.NEVER
    return max(status, ExitStatus.NEGATIVE) if is_negative else status


S_contra = TypeVar("S_contra", contravariant=True)
R_co = TypeVar("R_co", covariant=True)

_NOT_REACHED = "interrupted before it was examined"


class Ask(Protocol[S_contra, R_co]):
    """A question to a store; an error is the outcome of that store alone."""

    def __call__(self, store: S_contra, engine: Engine, progress: Progress, /) -> tuple[R_co, ExitStatus]:
        """Return the report, and the exit status that the store would have alone."""


def ask_members(
    members: Sequence[FleetMember[S]], ask: Ask[S, R], engine: Engine, progress: Progress
) -> FleetReport[R]:
    """Run a question over all stores; each is closed after it."""
    start = time.perf_counter()
    asking = _Asking(members, ask, engine, LimitedProgress(progress))
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
    """Run the question over a store, opened for it, that its caches go with it; any error is its outcome."""
    start, stages = time.perf_counter(), _Stages(shown)
    outcome: StoreOutcome[R]
    try:
        with closing(member.opening()) as store:
            report, status = ask(store, engine, stages)
        outcome = StoreOutcome(member.path, status, report)
    except (Exception, KeyboardInterrupt) as failure:
        outcome = member.failed(failure)
    seconds = round(time.perf_counter() - start, 3)
    return replace(outcome, warnings=tuple(stages.warnings), log_bytes=member.log_bytes, seconds=seconds)


class _Asking(Generic[S, R]):
    """A run over all stores; outcomes have the numbers of the members."""

    def __init__(
        self, members: Sequence[FleetMember[S]], ask: Ask[S, R], engine: Engine, progress: LimitedProgress
    ) -> None:
        self._members, self._ask = members, ask
        self._engine, self._progress = engine, progress
        self._done_bytes = 0
        self.outcomes: dict[int, StoreOutcome[R]] = {}

    def run(self) -> None:
        """Examine all that are open."""
        opened = [number for number, member in enumerate(self._members) if member.store is not None]
        opened.sort(key=lambda number: -self._members[number].log_bytes)
        if opened and self._engine.name != "local":
            self._engine.map(abs, [0])  # one that does not come up is no fault of the stores
        self._stage()
        try:
            with suppress(KeyboardInterrupt):  # between two stores; those that are left have no outcome yet
                self._ask_all(opened)
        finally:
            for member in self._members:
                if member.store is not None:
                    member.store.close()
        self._progress.finish()
        for number, member in enumerate(self._members):
            if number not in self.outcomes:
                self.outcomes[number] = member.failed(member.failure or KeyboardInterrupt(_NOT_REACHED))

    def _stage(self) -> None:
        self._progress.stage("stores", sum(member.log_bytes for member in self._members))
        self._progress.advance(self._done_bytes)

    def _ask_all(self, numbers: Iterable[int]) -> None:
        """Examine one store after the other; KeyboardInterrupt after the outcome of the one that it met."""
        with LocalEngine(1) as single:
            for number in numbers:
                member = self._members[number]
                engine = single if member.is_small else self._engine
                shown = NullProgress() if member.is_small else self._progress
                outcome = _examined(member, self._ask, engine, shown)
                self._take(number, outcome)
                if member.is_small:
                    self._progress.advance(self._done_bytes)
                else:
                    self._stage()
                if outcome.status is ExitStatus.INTERRUPTED:
                    raise KeyboardInterrupt

    def _take(self, number: int, outcome: StoreOutcome[R]) -> None:
        self.outcomes[number] = outcome
        for sentence in outcome.warnings:
            self._progress.warn(sentence if outcome.store in sentence else f"{outcome.store}: {sentence}")
        self._done_bytes += self._members[number].log_bytes
