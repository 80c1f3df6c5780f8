"""What `Store.topics` asks for, and how far readers are behind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqtool.api.arguments import word_of
from rmqtool.commands.offsets import progress_of
from rmqtool.commands.topics import TopicsRequest
from rmqtool.commands.topics.model import TopicOrder
from rmqtool.commands.topics.run import Lag
from rmqtool.errors import EnvironmentFailureError
from rmqtool.store import PathKind
from rmqtool.topics import TopicKind

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rmqtool.progress import Progress
    from rmqtool.store import Store


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
    chosen = frozenset(word_of("kind", kind, TopicKind) for kind in kinds)
    sorted_by = word_of("sort", order, TopicOrder)
    files.require_log("read messages from")
    return TopicsRequest(files, by_queue, topics, chosen, sorted_by, top, _lags(files, progress))


def _lags(files: Store, progress: Progress) -> tuple[Lag, ...]:
    if files.kind is not PathKind.STORE:
        return ()
    try:
        rows = list(progress_of(files))
    except EnvironmentFailureError as failure:
        progress.warn(f"the backlog is left out: {failure}")
        return ()
    return tuple(Lag(one.topic, one.queue_id, one.reader, one.lag) for one in rows if one.lag is not None)
