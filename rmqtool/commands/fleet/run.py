"""Ask many stores, the largest first, on one engine.

A small store has nothing to share out: one thread asks it, which is less work than several. Where the
question can travel, all small stores are one job, a task each: of Spark, or of worker processes, as what asks
about a small store is mostly Python, at which threads would take turns. The first few are asked here: that
tells whether workers pay, and kernels are on disk before several processes need them. A larger store gets the
whole engine, one after the other. To the executors of a cluster a small store travels with proofs of all its
files, so that they can show that they see the same, unless the question writes files of this machine's; where
one ends the job, each is a job of its own.
"""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import accumulate
from statistics import median
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from rmqtool.commands.fleet.asked import asked, asked_apart, asked_elsewhere, lost, sent_to_a_cluster
from rmqtool.commands.fleet.member import Closable, Member
from rmqtool.commands.fleet.model import FleetReport, StoreOutcome
from rmqtool.engine import LocalEngine, MapInterruptedError, runs_elsewhere, usable_cpus
from rmqtool.errors import ExecutorCannotReachError, ExitStatus, RmqtoolError
from rmqtool.progress import LimitedProgress, NullProgress

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from rmqtool.commands.fleet.asked import Ask, Evidence, Sent
    from rmqtool.engine import Engine
    from rmqtool.progress import Progress

S = TypeVar("S", bound=Closable)
R = TypeVar("R")

_NOT_REACHED = "interrupted before it was examined"
_SAMPLE = 3
"""So many small stores tell what one takes."""

_WORKER_START_S = 1.2
"""Until a worker process has loaded numpy, numba and the kernels of a command; of one core."""


def ask_members(
    members: Sequence[Member[S]],
    ask: Ask[S, R],
    engine: Engine,
    progress: Progress,
    *,
    travels: bool = False,
    evidence: Evidence[S] | None = None,
) -> FleetReport[R]:
    """Ask all stores; each is closed when it has answered.

    Args:
        members: What was named.
        ask: The question.
        engine: Serves all of them, and stays open.
        progress: Told of stages, and of warnings with the store that they are of.
        travels: Whether the question can be pickled and be asked twice, so that other processes may ask it.
        evidence: Names all files of a store; for a question that only reads, which executors of a cluster
            may ask, too.

    Raises:
        EnvironmentFailureError: The engine does not come up.
    """
    start = time.perf_counter()
    elsewhere = runs_elsewhere(engine.options)
    by_workers = engine.name == "local" or (travels and elsewhere and evidence is None)
    evidence = evidence if elsewhere else None
    asking = _Asking(members, ask, engine, LimitedProgress(progress), evidence, by_workers=by_workers)
    asking.run(apart=travels)
    outcomes = tuple(asking.outcomes[number] for number in range(len(members)))
    return FleetReport(outcomes, round(time.perf_counter() - start, 3))


class _Asking(Generic[S, R]):
    """A round of all stores; outcomes are kept by the number of the member."""

    def __init__(
        self,
        members: Sequence[Member[S]],
        ask: Ask[S, R],
        engine: Engine,
        progress: LimitedProgress,
        evidence: Evidence[S] | None = None,
        *,
        by_workers: bool = True,
    ) -> None:
        self._members, self._ask = members, ask
        self._engine, self._progress = engine, progress
        self._evidence, self._by_workers = evidence, by_workers
        self._done_bytes = 0
        self.outcomes: dict[int, StoreOutcome[R]] = {}

    def run(self, *, apart: bool) -> None:
        """Ask all that are open; ``apart`` lets other processes ask the small ones."""
        opened = [number for number, one in enumerate(self._members) if one.store is not None]
        opened.sort(key=lambda number: -self._members[number].log_bytes)
        if opened and self._engine.name != "local":
            self._engine.map(abs, [0])  # one that does not come up is no fault of the stores
        self._stage()
        try:
            with suppress(KeyboardInterrupt):  # between two stores; those that are left have no outcome yet
                small = self._sendable(opened) if apart else {}
                self._ask_here([number for number in opened if number not in small])
                if self._by_workers:
                    self._ask_with_workers(small)
                elif small:
                    self._ask_apart(small)
        finally:
            for one in self._members:
                if one.store is not None:
                    one.store.close()
        self._progress.finish()
        for number, one in enumerate(self._members):
            if number not in self.outcomes:
                self.outcomes[number] = one.failed(one.failure or KeyboardInterrupt(_NOT_REACHED))

    def _sendable(self, numbers: Iterable[int]) -> dict[int, Any]:
        """Return what is sent of the small stores that other processes may ask, by number."""
        small = [number for number in numbers if self._members[number].is_small]
        if self._evidence is None:
            return {number: replace(self._members[number], store=None) for number in small}
        found = ((number, sent_to_a_cluster(self._members[number], self._evidence)) for number in small)
        return {number: sent for number, sent in found if sent is not None}

    def _stage(self) -> None:
        self._progress.stage("stores", sum(one.log_bytes for one in self._members))
        self._progress.advance(self._done_bytes)

    def _ask_here(self, numbers: Iterable[int]) -> None:
        """Ask one store after the other.

        Raises:
            KeyboardInterrupt: Ctrl-C; the store that it met has its outcome.
        """
        with LocalEngine(1) as single:
            for number in numbers:
                member = self._members[number]
                alone = member.is_small and self._by_workers
                shown = NullProgress() if member.is_small else self._progress
                outcome = asked(member, self._ask, single if alone else self._engine, shown)
                self._take(number, outcome)
                if member.is_small:
                    self._progress.advance(self._done_bytes)
                else:
                    self._stage()
                if outcome.status is ExitStatus.INTERRUPTED:
                    raise KeyboardInterrupt

    def _ask_with_workers(self, small: Mapping[int, Any]) -> None:
        """Ask small stores here, until worker processes pay, and by these from there on.

        Raises:
            KeyboardInterrupt: Ctrl-C.
        """
        numbers = [*small]
        for place, number in enumerate(numbers):
            count = self._workers_for(numbers[max(place - _SAMPLE, 0) : place], len(numbers) - place)
            if count > 1:
                self._ask_apart({number: small[number] for number in numbers[place:]}, count)
                break
            self._ask_here([number])
        # where no process could be started, there are no outcomes either
        self._ask_here(number for number in numbers if number not in self.outcomes)

    def _workers_for(self, answered: Sequence[int], left: int) -> int:
        """Return how many workers have to do for twice the time of their start, by the last asked."""
        if len(answered) < _SAMPLE:
            return 0
        seconds = median(self.outcomes[number].seconds for number in answered) * left
        return min(self._engine.options.jobs or usable_cpus(), left, int(seconds / 2 / _WORKER_START_S))

    def _ask_apart(self, small: Mapping[int, Any], workers: int = 0) -> None:
        """Ask small stores as one job, a task each: of the engine, or of so many worker processes.

        Args:
            small: What is sent of each.
            workers: How many; 0 for the engine.

        Raises:
            KeyboardInterrupt: Ctrl-C; stores that have answered have their outcomes.
        """
        numbers, tasks = [*small], [*small.values()]
        sizes = (self._members[number].log_bytes for number in numbers)
        done = [*accumulate(sizes, initial=self._done_bytes)]
        found: dict[int, StoreOutcome[R]]
        is_interrupted = False

        def advance(count: int) -> None:
            self._progress.advance(done[count])

        try:
            if workers:
                from rmqtool.engine.workers import map_in_workers  # few runs are over many stores

                found = map_in_workers(self._task, tasks, lost, workers, advance)
            else:
                found = dict(enumerate(self._engine.map(self._task, tasks, advance)))
        except MapInterruptedError as stop:
            found, is_interrupted = stop.results, True
        except RmqtoolError as failure:
            if self._evidence is None:
                raise
            self._ask_one_by_one(small, failure)
            return
        for place in sorted(found):
            self._take(numbers[place], found[place])
        self._progress.advance(self._done_bytes)
        if is_interrupted:
            raise KeyboardInterrupt

    def _ask_one_by_one(self, small: Mapping[int, Sent[S]], before: RmqtoolError) -> None:
        """Ask small stores by a job each, after one of them has ended the job of all.

        What no executor reaches in two jobs in a row is not tried for the other stores there: each would
        wait for all attempts of all executors, which take a minute.

        Args:
            small: What is sent of each.
            before: What ended the job of all.

        Raises:
            KeyboardInterrupt: Ctrl-C.
        """
        last, given_up = _service_of(before), dict[str, RmqtoolError]()
        for number, sent in small.items():
            member = self._members[number]
            known = next((one for service, one in given_up.items() if sent.is_below(service)), None)
            try:
                if known is not None:
                    raise known
                (outcome,) = self._engine.map(self._task, [sent])
                last = None
            except RmqtoolError as failure:
                outcome = replace(member.failed(failure), log_bytes=member.log_bytes)
                service = _service_of(failure)
                if service is not None and service == last and known is None:
                    told = f"{failure} (tried twice for other stores, and not for this one)"
                    given_up[service] = ExecutorCannotReachError(service, told)
                last = service
            self._take(number, outcome)
            self._progress.advance(self._done_bytes)

    @property
    def _task(self) -> Callable[[Any], StoreOutcome[R]]:
        """Return what asks a store in another process."""
        if self._evidence is None:
            return partial(asked_apart, self._ask)
        return partial(asked_elsewhere, self._ask, self._evidence)

    def _take(self, number: int, outcome: StoreOutcome[R]) -> None:
        self.outcomes[number] = outcome
        for sentence in outcome.warnings:
            self._progress.warn(sentence if outcome.store in sentence else f"{outcome.store}: {sentence}")
        self._done_bytes += self._members[number].log_bytes


def _service_of(failure: RmqtoolError) -> str | None:
    """Return which object store executors could not reach, if that was it."""
    return failure.service if isinstance(failure, ExecutorCannotReachError) else None
