"""The stores that were named, open or not."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from rmqtool.commands.fleet.model import StoreOutcome
from rmqtool.errors import ExitStatus, RmqtoolError, UsageError
from rmqtool.io import location_of, nothing_fits, places_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from os import PathLike

    from rmqtool.io import Location

_SMALL_BYTES = 16 << 20
"""A log of this size is read in less time than threads take to be set to work."""

_AMID = "interrupted during it"


class Closable(Protocol):
    """What an opened store is to a fleet."""

    def close(self) -> None:
        """Give files back."""
        ...


S = TypeVar("S", bound=Closable)
R = TypeVar("R")


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
        told = f"internal error: {type(failure).__name__}: {failure} (run it alone with --debug for details)"
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
