"""Stores of a run over many: opened or not, their outcomes, and results of an earlier run."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, Protocol, TypeVar

from rmqtool.errors import ExitStatus, RefusedError, RmqtoolError, UsageError
from rmqtool.findings import CATALOG, FailOn, Severity
from rmqtool.findings.log import status_of
from rmqtool.io import Location, location_of, nothing_fits, places_of
from rmqtool.store.results import read_result

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from os import PathLike

    from rmqtool.store.results import Target


R = TypeVar("R")


@dataclass(frozen=True)
class StoreOutcome(Generic[R]):
    """What became of one store.

    Attributes:
        store: its path; as it was given, where nothing could be opened.
        status: the exit status that it would have alone.
        report: what was found; None where that could not be asked.
        failure: why not, one sentence; None where it could.
        warnings: what was said on the way that nobody should miss.
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
    """What an opened store is to a fleet."""

    def close(self) -> None:
        """Give files back."""
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
        sentence = (
            f"internal error: {type(failure).__name__}: {failure} (run it alone with --debug for details)"
        )
        return StoreOutcome(self.path, ExitStatus.FAILED, failure=sentence)


def _interrupt_in(failure: BaseException | None) -> KeyboardInterrupt | None:
    """Return the interrupt that a failure is of: amid ``__fspath__``, Python makes a SystemError of it."""
    while failure is not None and not isinstance(failure, KeyboardInterrupt):
        failure = failure.__cause__ or failure.__context__
    return failure


def gathered(
    paths: Iterable[str | PathLike[str] | Location],
    opening: Callable[[str], S],
    log_bytes: Callable[[S], int],
) -> list[FleetMember[S]]:
    """Open the stores that paths and globs name, each once, in their order; those of a glob by name.

    Args:
        paths: Of stores, and globs.
        opening: Opens the store of a path; picklable if questions are to travel.
        log_bytes: Tells how large its log is.

    Raises:
        UsageError: Something that is said of all of them makes no sense.
    """
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
    """Return the report of a result that is there; None if there is none.

    Args:
        out: The result.
        name: Of the report in it.
        wanted: Members that it must have, with these values.

    Raises:
        RefusedError: The result was made otherwise, or of another log; or it is not what it was.
        DeniedError: It may not be read.
        SourceFailureError: The object store does not answer.
    """
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
    """Say in what a result differs from what is asked for; of members, name the first that does."""
    if isinstance(then, list) and isinstance(now, list) and len(then) == len(now):
        then, now = next(pair for pair in zip(then, now, strict=True) if pair[0] != pair[1])
    if isinstance(then, dict) and isinstance(now, dict):
        names = (one for one in (*now, *then) if then.get(one) != now.get(one))
        inner = next(names)
        return _difference(f"{name}.{inner}", then.get(inner), now.get(inner))
    words = (json.dumps(one, ensure_ascii=False) for one in (then, now))
    return "an earlier run made it with {} {}, now it is {}".format(name, *words)


def earlier_status(document: Mapping[str, Any], fail_on: FailOn) -> ExitStatus:
    """Return the exit status that such a report stands for: that of its findings, or its own negative one."""
    weights = [(Severity(one["severity"]), CATALOG[one["code"]].structure) for one in document["findings"]]
    status = status_of(weights, fail_on)
    is_negative = document["exitStatus"] == ExitStatus.NEGATIVE and fail_on is not FailOn.NEVER
    return max(status, ExitStatus.NEGATIVE) if is_negative else status
