"""``offsets``: how far every group and delay level has come, against what its queue holds."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, ClassVar

from rmqtool.commands.queue_bounds import queue_bounds
from rmqtool.commands.verify.offsets_checks import consumed_offsets
from rmqtool.findings import Finding
from rmqtool.findings.places import OF_AHEAD, OF_BEHIND
from rmqtool.store import PathKind
from rmqtool.store.broker_json import ConfigFileError, load_broker_json

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.commands.queue_bounds import Bounds
    from rmqtool.commands.verify.offsets_checks import Consumed
    from rmqtool.store import Store

CONFIG_FILES = ("consumerOffset.json", "lmqConsumerOffset.json", "delayOffset.json")
_KINDS = (PathKind.CONSUMEQUEUE, PathKind.BATCHCONSUMEQUEUE)
_CODES = {"ahead": OF_AHEAD, "behind": OF_BEHIND}


@dataclass(frozen=True, slots=True)
class Progress:
    """How far one reader has come in one queue.

    Attributes:
        file: That says so, relative to the store.
        topic: Of the queue.
        queue_id: Of the queue.
        reader: ``group G`` or ``delay level N``.
        offset: Next queue offset to be read.
        min_offset: Of the queue; None without one.
        max_offset: Of the queue; None without one.
        lag: Units still to be read; None without a queue, 0 for a reader that is ahead of it.
        state: ``ok``, ``ahead`` of the queue's end, ``behind`` its start, or ``no-queue``.
    """

    type: ClassVar = "offset"
    file: str
    topic: str
    queue_id: int
    reader: str
    offset: int
    min_offset: int | None
    max_offset: int | None
    lag: int | None
    state: str

    def finding(self) -> Finding | None:
        """Return what is wrong with it, which decides the exit status."""
        code = _CODES.get(self.state)
        if code is None:
            return None
        return Finding(code=code, file=self.file, topic=self.topic, queue_id=self.queue_id)


def progress_of(store: Store, topic: str | None = None, group: str | None = None) -> Iterator[Progress]:
    """Yield all offsets in ``config/``, by file, topic, reader and queue.

    Args:
        store: The store root.
        topic: A glob over the topic.
        group: A glob over the group; delay levels have none.

    Raises:
        EnvironmentFailureError: A queue's directory or file cannot be read.
    """
    bounds: dict[tuple[str, int], Bounds | None] = {}
    for consumed in sorted(consumed_offsets(store), key=_order):
        if not _is_wanted(consumed, topic, group):
            continue
        key = consumed.topic, consumed.queue_id
        if key not in bounds:
            bounds[key] = _bounds(store, *key)
        yield _progress(consumed, bounds[key])


def undecodable_files(store: Store) -> Iterator[str]:
    """Yield a sentence for every file of offsets that is there and cannot be decoded."""
    for name in CONFIG_FILES:
        try:
            if store.config is not None:
                load_broker_json(store.config / name)
        except ConfigFileError as failure:
            yield str(failure)


def _order(consumed: Consumed) -> tuple[str, str, str, int]:
    return consumed.file, consumed.topic, consumed.reader, consumed.queue_id


def _is_wanted(consumed: Consumed, topic: str | None, group: str | None) -> bool:
    return (topic is None or fnmatchcase(consumed.topic, topic)) and (
        group is None or fnmatchcase(consumed.reader, f"group {group}")
    )


def _bounds(store: Store, topic: str, queue_id: int) -> Bounds | None:
    for kind in _KINDS:
        queue = store.queue(topic, queue_id, kind)
        if queue is not None and len(queue.files):
            try:
                return queue_bounds(queue, store.commitlog.start)
            finally:
                queue.files.close()
    return None


def _progress(consumed: Consumed, bounds: Bounds | None) -> Progress:
    place = consumed.file, consumed.topic, consumed.queue_id, consumed.reader, consumed.offset
    if bounds is None:
        return Progress(*place, None, None, None, "no-queue")
    low, high = bounds
    state = "ahead" if consumed.offset > high else "behind" if consumed.offset < low else "ok"
    return Progress(*place, low, high, max(0, high - max(low, consumed.offset)), state)
