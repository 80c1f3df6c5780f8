"""Ask many stores, the largest first, on one engine.

A small store has nothing to share out: one thread asks it, which is less work than several. On a Spark of
this machine all small stores are one job, a task each, where the question can travel. A larger store gets the
whole engine, one after the other. On a cluster, every store gets it: there the driver plans all that is read,
so that executors can prove that they see the same files.
"""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from rmqtool.commands.fleet.model import FleetReport, StoreOutcome
from rmqtool.engine import LocalEngine, MapInterruptedError, runs_elsewhere
from rmqtool.errors import ExitStatus, RmqtoolError, UsageError
from rmqtool.io import location_of, nothing_fits, places_of
from rmqtool.progress import KeptRemarks, LimitedProgress, NullProgress

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from os import PathLike

    from rmqtool.engine import Engine
    from rmqtool.io import Location
    from rmqtool.progress import Progress

_SMALL_BYTES = 16 << 20
"""A log of this size is read in less time than threads take to be set to work."""

_AMID, _NOT_REACHED = "interrupted amid it", "interrupted before it was looked at"


class Closable(Protocol):
    """What an opened store is to a fleet."""

    def close(self) -> None:
        """Give files back."""
        ...


S = TypeVar("S", bound=Closable)
S_contra = TypeVar("S_contra", contravariant=True)
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


class Ask(Protocol[S_contra, R_co]):
    """A question to a store; what one store cannot answer, it raises, and the next store is asked."""

    def __call__(self, store: S_contra, engine: Engine, progress: Progress, /) -> tuple[R_co, ExitStatus]:
        """Return the report, and the exit status that the store would have alone."""
        ...


@dataclass(frozen=True)
class Member(Generic[S]):
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
        """Whether there is nothing in it to be shared out."""
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
        told = f"internal error: {type(failure).__name__}: {failure} (ask it alone with --debug for details)"
        return StoreOutcome(self.path, ExitStatus.FAILED, failure=told)


def _interrupt_in(failure: BaseException | None) -> KeyboardInterrupt | None:
    """Return the interrupt that a failure is of: amid ``__fspath__``, Python makes a SystemError of it."""
    while failure is not None and not isinstance(failure, KeyboardInterrupt):
        failure = failure.__cause__ or failure.__context__
    return failure


def gathered(
    paths: Iterable[str | PathLike[str] | Location],
    opening: Callable[[str], S],
    log_bytes: Callable[[S], int],
) -> list[Member[S]]:
    """Open the stores that paths and globs name, each once, in their order; those of a glob by name.

    Args:
        paths: Of stores, and globs.
        opening: Opens the store of a path; picklable if questions are to travel.
        log_bytes: Tells how large its log is.

    Raises:
        UsageError: Something that is said of all of them makes no sense.
    """
    members: dict[str, Member[S]] = {}
    for path in paths:
        places = places_of(path)
        for place in places:
            if str(place) not in members:
                members[str(place)] = _opened(place, partial(opening, str(place)), log_bytes)
        if not places:
            place = location_of(path)
            members[str(place)] = _opened(place, partial(nothing_fits, str(path)), log_bytes)
    return list(members.values())


def _opened(place: Location, opening: Callable[[], S], log_bytes: Callable[[S], int]) -> Member[S]:
    try:
        store = opening()
        return Member(str(place), opening, store, None, log_bytes(store))
    except UsageError:
        raise
    except (RmqtoolError, OSError) as failure:
        return Member(str(place), opening, failure=failure)


def ask_members(
    members: Sequence[Member[S]],
    ask: Ask[S, R],
    engine: Engine,
    progress: Progress,
    *,
    travels: bool = False,
) -> FleetReport[R]:
    """Ask all stores; each is closed when it has answered.

    Args:
        members: What was named.
        ask: The question.
        engine: Serves all of them, and stays open.
        progress: Told of stages, and of warnings with the store that they are of.
        travels: Whether the question can be pickled and be asked twice, so that tasks of Spark may ask it.

    Raises:
        EnvironmentFailureError: The engine does not come up.
    """
    start = time.perf_counter()
    asking = _Asking(members, ask, engine, LimitedProgress(progress))
    asking.run(apart=travels and engine.name != "local" and not runs_elsewhere(engine.options))
    outcomes = tuple(asking.outcomes[number] for number in range(len(members)))
    return FleetReport(outcomes, round(time.perf_counter() - start, 3))


class _Asking(Generic[S, R]):
    """A round of all stores; outcomes are kept by the number of the member."""

    def __init__(
        self, members: Sequence[Member[S]], ask: Ask[S, R], engine: Engine, progress: LimitedProgress
    ) -> None:
        self._members, self._ask = members, ask
        self._engine, self._progress = engine, progress
        self._done_bytes = 0
        self.outcomes: dict[int, StoreOutcome[R]] = {}

    def run(self, *, apart: bool) -> None:
        """Ask all that are open; ``apart`` sends the small ones to tasks of the engine."""
        opened = [number for number, one in enumerate(self._members) if one.store is not None]
        opened.sort(key=lambda number: -self._members[number].log_bytes)
        sent = [number for number in opened if apart and self._members[number].is_small]
        if opened and self._engine.name != "local":
            self._engine.map(abs, [0])  # one that does not come up is no fault of the stores
        self._stage()
        try:
            with suppress(KeyboardInterrupt):  # between two stores; those that are left have no outcome yet
                if self._ask_here([number for number in opened if number not in {*sent}]) and sent:
                    self._ask_apart(sent)
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

    def _ask_here(self, numbers: Iterable[int]) -> bool:
        """Ask one store after the other; return whether all were."""
        with LocalEngine(1) as single:
            for number in numbers:
                member = self._members[number]
                alone = member.is_small and self._engine.name == "local"
                shown = NullProgress() if member.is_small else self._progress
                outcome = _asked(member, self._ask, single if alone else self._engine, shown)
                self._take(number, outcome)
                if not member.is_small:
                    self._stage()
                if outcome.status is ExitStatus.INTERRUPTED:
                    return False
        return True

    def _ask_apart(self, numbers: Sequence[int]) -> None:
        """Ask small stores as one job, a task each."""
        members = [self._members[number] for number in numbers]
        done = [self._done_bytes, *(one.log_bytes for one in members)]
        for place in range(1, len(done)):
            done[place] += done[place - 1]
        task = partial(_asked_apart, self._ask)
        tasks = [replace(one, store=None) for one in members]
        try:
            found = dict(enumerate(self._engine.map(task, tasks, lambda n: self._progress.advance(done[n]))))
        except MapInterruptedError as stop:
            found = stop.results
        for place, outcome in found.items():
            self._take(numbers[place], outcome)

    def _take(self, number: int, outcome: StoreOutcome[R]) -> None:
        self.outcomes[number] = outcome
        for sentence in outcome.warnings:
            self._progress.warn(sentence if outcome.store in sentence else f"{outcome.store}: {sentence}")
        self._done_bytes += outcome.log_bytes
        self._progress.advance(self._done_bytes)


class _Stages(KeptRemarks):
    """Shows stages, and keeps remarks: they are told with the name of their store."""

    def __init__(self, shown: Progress) -> None:
        super().__init__()
        self._shown = shown

    def stage(self, name: str, total_bytes: int | None) -> None:
        """Pass it on."""
        self._shown.stage(name, total_bytes)

    def advance(self, done_bytes: int) -> None:
        """Pass it on."""
        self._shown.advance(done_bytes)


def _asked_apart(ask: Ask[S, R], member: Member[S]) -> StoreOutcome[R]:
    """Open a store where a task runs, and ask it there."""
    try:
        store = member.opening()
    except (RmqtoolError, OSError) as failure:  # it was there a moment ago
        return member.failed(failure)
    with LocalEngine(1) as engine:
        return _asked(replace(member, store=store), ask, engine, NullProgress())


def _asked(member: Member[S], ask: Ask[S, R], engine: Engine, shown: Progress) -> StoreOutcome[R]:
    """Ask an open store, and close it; whatever happens is its outcome."""
    start, told = time.perf_counter(), _Stages(shown)
    outcome: StoreOutcome[R]
    if member.store is None:
        raise ValueError(f"{member.path}: is not open")
    try:
        report, status = ask(member.store, engine, told)
        outcome = StoreOutcome(member.path, status, report)
    except (Exception, KeyboardInterrupt) as failure:
        outcome = member.failed(failure)
    finally:
        member.store.close()
    seconds = round(time.perf_counter() - start, 3)
    return replace(outcome, warnings=tuple(told.warnings), log_bytes=member.log_bytes, seconds=seconds)
