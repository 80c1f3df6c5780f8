"""Run one question over many stores, the largest first, on one engine.

A small store has nothing to share out: one thread examines it, which is less work than several. Where the
question can be pickled, worker processes examine small stores once that pays, as most of it is Python, at
which threads would take turns: the first few run here, which shows what one takes, and keeps kernels on disk
before several processes need them. A larger store gets the whole engine, one after the other.
"""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import accumulate
from statistics import median
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from rmqtool.commands.fleet.model import Closable, FleetMember, FleetReport, StoreOutcome
from rmqtool.engine import Engine, LocalEngine, MapInterruptedError, usable_cpus
from rmqtool.errors import ExitStatus, RmqtoolError
from rmqtool.progress import LimitedProgress, NullProgress, Progress, RecordingProgress

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


S = TypeVar("S", bound=Closable)
S_contra = TypeVar("S_contra", contravariant=True)
R = TypeVar("R")
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
    """Run a question over all stores; each is closed after it.

    Args:
        members: The stores.
        ask: The question.
        engine: Serves all of them, and stays open.
        progress: Receives stages, and warnings with the name of their store.
        travels: Whether the question can be pickled, so that worker processes may run it.

    Raises:
        EnvironmentFailureError: The engine does not come up.
    """
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
