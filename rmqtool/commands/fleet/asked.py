"""One store is asked: here, or, by the same words, in a task of Spark or in a worker process."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Generic, Protocol, TypeAlias, TypeVar

from rmqtool.commands.fleet.member import Closable
from rmqtool.commands.fleet.model import StoreOutcome
from rmqtool.engine import LocalEngine
from rmqtool.errors import ExitStatus, RmqtoolError
from rmqtool.io.planned import unseen
from rmqtool.progress import NullProgress, RecordingProgress

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from rmqtool.commands.fleet.member import Member
    from rmqtool.engine import Engine
    from rmqtool.io import Location
    from rmqtool.progress import Progress

S = TypeVar("S", bound=Closable)
S_contra = TypeVar("S_contra", contravariant=True)
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


class Ask(Protocol[S_contra, R_co]):
    """A question to a store; what one store cannot answer, it raises, and the next store is asked."""

    def __call__(self, store: S_contra, engine: Engine, progress: Progress, /) -> tuple[R_co, ExitStatus]:
        """Return the report, and the exit status that the store would have alone."""
        ...


Evidence: TypeAlias = "Callable[[S], Iterable[Location] | None]"
"""Names all files of a store; None if it is not to be asked on another machine."""


class _Stages(RecordingProgress):
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


def asked_apart(ask: Ask[S, R], member: Member[S]) -> StoreOutcome[R]:
    """Open a store where a task runs, and ask it there."""
    try:
        store = member.opening()
    except (RmqtoolError, OSError) as failure:  # it was there a moment ago
        return member.failed(failure)
    with LocalEngine(1) as engine:
        return asked(replace(member, store=store), ask, engine, NullProgress())


@dataclass(frozen=True)
class Sent(Generic[S]):
    """A store on its way to an executor of a cluster.

    Attributes:
        member: which one.
        store: as it was opened here; it can be pickled.
        files: all that it has; proofs of them travel with the task, see `rmqtool.io.planned`.
    """

    member: Member[S]
    store: S
    files: frozenset[Location]

    def is_below(self, service: str) -> bool:
        """Tell whether all of it lies in an object store."""
        return bool(self.files) and all(str(one).startswith(f"{service}/") for one in self.files)


def sent_to_a_cluster(member: Member[S], evidence: Evidence[S]) -> Sent[S] | None:
    """Return what is sent of a store that is open; None if it is to be asked from here."""
    files: Iterable[Location] | None = None
    with suppress(RmqtoolError):  # which is told of when it is asked
        files = None if member.store is None else evidence(member.store)
    if member.store is None or files is None:
        return None
    return Sent(replace(member, store=None), member.store, frozenset(files))


def asked_elsewhere(ask: Ask[S, R], evidence: Evidence[S], sent: Sent[S]) -> StoreOutcome[R]:
    """Ask a store on an executor that sees it as whoever sent it.

    Raises:
        FileNotSharedError: It does not.
        SourceUnreachableError: Nor does it reach what holds the store.
        RmqtoolError: Something was in the way, perhaps of this executor alone.
    """
    odd = min(sent.files ^ {*(evidence(sent.store) or ())}, key=str, default=None)
    if odd is not None:
        raise unseen(str(odd), "not as the machine of this command does")
    with LocalEngine(1) as engine:
        return asked(replace(sent.member, store=sent.store), ask, engine, NullProgress(), passed=RmqtoolError)


def asked(
    member: Member[S],
    ask: Ask[S, R],
    engine: Engine,
    shown: Progress,
    *,
    passed: type[Exception] | tuple[()] = (),
) -> StoreOutcome[R]:
    """Ask an open store, and close it; whatever happens is its outcome, unless it is to be passed on."""
    start, told = time.perf_counter(), _Stages(shown)
    outcome: StoreOutcome[R]
    if member.store is None:
        raise ValueError(f"{member.path}: is not open")
    try:
        report, status = ask(member.store, engine, told)
        outcome = StoreOutcome(member.path, status, report)
    except passed:
        raise
    except (Exception, KeyboardInterrupt) as failure:
        outcome = member.failed(failure)
    finally:
        member.store.close()
    seconds = round(time.perf_counter() - start, 3)
    return replace(outcome, warnings=tuple(told.warnings), log_bytes=member.log_bytes, seconds=seconds)


def lost(member: Member[S], reason: str) -> StoreOutcome[R]:
    """Return the outcome of a store that the process which asked it did not survive."""
    failure = f"{reason} (run it alone for details)"
    return StoreOutcome(member.path, ExitStatus.FAILED, failure=failure, log_bytes=member.log_bytes)
