"""What `Store.topics` asks for, and how far readers are behind."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, TypeVar

from rmqtool.api.reading import check_log
from rmqtool.commands.offsets import progress_of
from rmqtool.commands.topics import TopicsRequest
from rmqtool.commands.topics.model import TopicOrder
from rmqtool.commands.topics.run import Lag
from rmqtool.errors import EnvironmentFailureError, UsageError
from rmqtool.store import PathKind
from rmqtool.topics import TopicKind

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rmqtool.progress import Progress
    from rmqtool.store import Store

_Word = TypeVar("_Word", bound=StrEnum)


def topics_request(
    files: Store,
    progress: Progress,
    *,
    by_queue: bool,
    topics: tuple[str, ...],
    kinds: Iterable[str],
    order: str,
    top: int | None,
) -> TopicsRequest:
    """Return the request; where offsets or queues cannot be read there is no backlog, and that is said.

    Raises:
        UsageError: No kind or order has that name.
        EnvironmentFailureError: No commit log is there.
    """
    chosen = frozenset(_word("kind", kind, TopicKind) for kind in kinds)
    sorted_by = _word("sort", order, TopicOrder)
    check_log(files)
    return TopicsRequest(files, by_queue, topics, chosen, sorted_by, top, _lags(files, progress))


def _word(name: str, value: str, words: type[_Word]) -> _Word:
    try:
        return words(value)
    except ValueError:
        raise UsageError(f"{name}={value!r}: give one of {', '.join(words)}") from None


def _lags(files: Store, progress: Progress) -> tuple[Lag, ...]:
    if files.kind is not PathKind.STORE:
        return ()
    try:
        rows = list(progress_of(files))
    except EnvironmentFailureError as failure:
        progress.warn(f"the backlog is left out: {failure}")
        return ()
    return tuple(Lag(one.topic, one.queue_id, one.reader, one.lag) for one in rows if one.lag is not None)
