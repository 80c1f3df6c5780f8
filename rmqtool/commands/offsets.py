"""``offsets``: progress of every group, delay level and the timer, compared with its queue.

As ``mqadmin consumerProgress`` shows it, without a broker: a queue that a group has not begun counts in full.
Two things differ: expired messages below a queue's start are no lag, and clients are not known.
"""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import groupby
from typing import TYPE_CHECKING, ClassVar

from rmqtool.derived.positions import DELAY_FILE, Consumed, consumed_offsets
from rmqtool.derived.queues import Bounds, bounds_of, unit_of
from rmqtool.doctor import CONFIG_KINDS, OFFSET_DATABASES, CopyState, read_copy
from rmqtool.findings import Finding, codes
from rmqtool.lookup.delivery import SoundIndex, count_passed
from rmqtool.scan.records import record_at
from rmqtool.store.kinds import UNIT_QUEUE_KINDS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from rmqtool.store import Store

CONFIG_FILES = ("consumerOffset.json", "lmqConsumerOffset.json", "delayOffset.json")
_GROUP = "group "
_CODES = {"ahead": codes.OF_AHEAD, "behind": codes.OF_BEHIND}


@dataclass(frozen=True, slots=True)
class Progress:
    """Progress of one reader in one queue.

    Attributes:
        file: Its source, relative to the store.
        topic: Of the queue.
        queue_id: Of the queue.
        reader: ``group G``, ``delay level N`` or ``timer``.
        offset: Next queue offset to be read; None in a queue of its topic that a group has not begun.
        min_offset: Of the queue; None without one.
        max_offset: Of the queue; None without one.
        lag: Units still to be read; None without a queue, 0 for a reader that is ahead of it.
        state: ``ok``, ``ahead`` of the queue's end, ``behind`` its start, ``no-offset``, ``no-queue``, or
            ``not-read`` where a database may hold the queue.
        last_timestamp_ms: Store time of the message that was read last; None if that is missing.
        passed_over: Delayed messages below the level's offset that were never delivered, and never are; of a
            long queue, among the newest. None for other readers, and where the index does not show it.
    """

    type: ClassVar = "offset"
    file: str
    topic: str
    queue_id: int
    reader: str
    offset: int | None
    min_offset: int | None
    max_offset: int | None
    lag: int | None
    state: str
    last_timestamp_ms: int | None = None
    passed_over: int | None = None

    def findings(self) -> Iterator[Finding]:
        """Yield its findings, which decide the exit status."""
        for code in (_CODES.get(self.state), codes.OF_PASSED if self.passed_over else None):
            if code is not None:
                yield Finding(code=code, file=self.file, topic=self.topic, queue_id=self.queue_id)


def progress_of(store: Store, topics: Sequence[str] = (), group: str | None = None) -> Iterator[Progress]:
    """Yield all offsets in ``config/``, by file, topic, reader and queue.

    ``topics`` and ``group`` are globs; delay levels and the timer have no group.
    """
    queues = _Queues(store)
    wanted = (
        offset for offset in sorted(consumed_offsets(store), key=_order) if _is_wanted(offset, topics, group)
    )
    for (file, topic_name, reader), offsets in groupby(wanted, key=lambda one: _order(one)[:3]):
        begun = {consumed.queue_id: consumed for consumed in offsets}
        others = queues.queue_ids(topic_name) if reader.startswith(_GROUP) else ()
        for queue_id in sorted({*begun, *others}):
            bounds = queues.bounds(topic_name, queue_id)
            if queue_id in begun:
                yield _progress(begun[queue_id], bounds, queues)
            elif bounds is not None:
                place = file, topic_name, queue_id, reader
                yield Progress(*place, None, *bounds, bounds.max_offset - bounds.min_offset, "no-offset")


def reader_totals(rows: Iterable[Progress]) -> dict[str, dict[str, int | None]]:
    """Return queues, lag and offsets out of range of each reader, and what delay levels passed over.

    The lag is None where that of no queue is known.
    """
    of_readers: dict[str, list[Progress]] = {}
    for row in rows:
        of_readers.setdefault(row.reader, []).append(row)
    return {reader: _totals(own) for reader, own in of_readers.items()}


def _totals(rows: Sequence[Progress]) -> dict[str, int | None]:
    out = sum(row.state in _CODES for row in rows)
    totals = {"queues": len(rows), "lag": known_lag(rows), "outOfRange": out}
    passed = [row.passed_over for row in rows if row.passed_over is not None]
    return totals | ({"passedOver": passed[-1]} if passed else {})


def known_lag(rows: Iterable[Progress]) -> int | None:
    """Return the sum of the lags; None where that of no queue is known."""
    lags = [row.lag for row in rows if row.lag is not None]
    return sum(lags) if lags else None


def unused_tables(store: Store) -> str | None:
    """Return which file of offsets a broker does not read, where there are two (``enableLmq``)."""
    consumers = CONFIG_FILES[:2]
    if store.config is None or not all((store.config / name).is_regular() for name in consumers):
        return None
    ordinary, light = consumers
    return (
        f"{store.config}: with enableLmq a broker reads the offsets of {light} only, else of {ordinary} only"
    )


def database_of_offsets(store: Store) -> str | None:
    """Return the directory of a database in which a broker keeps offsets; None if there is none."""
    config = store.config
    there = (name for name in OFFSET_DATABASES if config is not None and (config / name).is_directory())
    return next((f"config/{name}" for name in there), None)


def undecodable_files(store: Store) -> Iterator[str]:
    """Yield a sentence for every file of offsets that exists and that cannot be decoded."""
    config = store.config
    for path in () if config is None else (config / name for name in CONFIG_FILES):
        copy = read_copy(path, str(path), CONFIG_KINDS[path.name])
        backup = read_copy(path.with_name(f"{path.name}.bak"), "", CONFIG_KINDS[path.name])
        if copy.state is CopyState.DENIED:
            yield f"{path}: {copy.reason}"
        elif copy.state not in {CopyState.MISSING, CopyState.SOUND} and not backup.is_sound:
            yield f"{copy}: to see its effect and what is left of it: rmqtool repair STORE --plan"


def _order(consumed: Consumed) -> tuple[str, str, str, int]:
    return consumed.file, consumed.topic, consumed.reader, consumed.queue_id


def _is_wanted(consumed: Consumed, topics: Sequence[str], group: str | None) -> bool:
    return (not topics or any(fnmatchcase(consumed.topic, topic) for topic in topics)) and (
        group is None or fnmatchcase(consumed.reader, f"{_GROUP}{group}")
    )


def _progress(consumed: Consumed, bounds: Bounds | None, queues: _Queues) -> Progress:
    place = consumed.file, consumed.topic, consumed.queue_id, consumed.reader, consumed.offset
    if bounds is None:
        return Progress(*place, None, None, None, "not-read" if queues.in_database else "no-queue")
    low, high = bounds
    state = "ahead" if consumed.offset > high else "behind" if consumed.offset < low else "ok"
    lag = max(0, high - max(low, consumed.offset))
    last_ms = None
    if low < consumed.offset <= high:
        last_ms = queues.store_time(consumed.topic, consumed.queue_id, consumed.offset - 1)
    return Progress(*place, low, high, lag, state, last_ms, queues.passed_over(consumed))


class _Queues:
    """Reads the queues that offsets name, each once."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._bounds: dict[tuple[str, int], Bounds | None] = {}
        self.in_database = bool(store.queue_databases)
        self._index = SoundIndex(store)

    def queue_ids(self, topic: str) -> Iterator[int]:
        """Yield the numbers of a topic's queues."""
        for kind in UNIT_QUEUE_KINDS:
            for queue in self._store.queues(kind, topic):
                if queue.queue_id is not None:
                    yield queue.queue_id

    def bounds(self, topic: str, queue_id: int) -> Bounds | None:
        """Return the bounds of a queue; None where there is none."""
        key = topic, queue_id
        if key not in self._bounds:
            self._bounds[key] = bounds_of(self._store, *key)
        return self._bounds[key]

    def passed_over(self, consumed: Consumed) -> int | None:
        """Return how many messages a delay level has passed for ever; None if that is unknown."""
        if consumed.file != DELAY_FILE:
            return None
        return count_passed(self._index, consumed.queue_id, consumed.offset)

    def store_time(self, topic: str, queue_id: int, queue_offset: int) -> int | None:
        """Return when the message at a queue offset was stored; None where the log does not have it."""
        unit = unit_of(self._store, topic, queue_id, queue_offset)
        record = None if unit is None else record_at(self._store.commitlog, unit.physical_offset)
        return None if record is None else record.head.store_timestamp_ms
