"""What is told of many stores: an outcome for each, and one for all."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Generic, TypeVar

from rmqtool.errors import ExitStatus

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

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
