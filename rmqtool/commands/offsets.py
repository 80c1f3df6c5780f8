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
from rmqtool.derived.queues import Bounds, bounds_of, queue_ids_of
from rmqtool.doctor import CONFIG_KINDS, CopyState, read_copy
from rmqtool.findings import Finding, codes
from rmqtool.lookup.delivery import SoundIndex, count_passed, record_in
from rmqtool.store.broker_json import DELAYS, OFFSET_TABLES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from rmqtool.store import Store

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
    index = SoundIndex(store)
    wanted = (
        offset for offset in sorted(consumed_offsets(store), key=_order) if _is_wanted(offset, topics, group)
    )
    for (file, topic_name, reader), offsets in groupby(wanted, key=lambda one: _order(one)[:3]):
        begun = {consumed.queue_id: consumed for consumed in offsets}
        others = queue_ids_of(store, topic_name) if reader.startswith(_GROUP) else ()
        for queue_id in sorted({*begun, *others}):
            bounds = store.once(bounds_of, topic_name, queue_id)
            if queue_id in begun:
                yield _progress(begun[queue_id], bounds, index)
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
    consumers = [name for name in OFFSET_TABLES if name != DELAYS]
    if store.config is None or not all((store.config / name).is_regular() for name in consumers):
        return None
    ordinary, light = consumers
    return (
        f"{store.config}: with enableLmq a broker reads the offsets of {light} only, else of {ordinary} only"
    )


def undecodable_files(store: Store) -> Iterator[str]:
    """Yield a sentence for every file of offsets that exists and that cannot be decoded."""
    config = store.config
    for path in () if config is None else (config / name for name in OFFSET_TABLES):
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


def _progress(consumed: Consumed, bounds: Bounds | None, index: SoundIndex) -> Progress:
    store, offset = index.store, consumed.offset
    place = consumed.file, consumed.topic, consumed.queue_id, consumed.reader, offset
    if bounds is None:
        return Progress(*place, None, None, None, "not-read" if store.queue_databases else "no-queue")
    low, high = bounds
    state = "ahead" if offset > high else "behind" if offset < low else "ok"
    last = record_in(store, consumed.topic, consumed.queue_id, offset - 1) if low < offset <= high else None
    last_ms = None if last is None else last.head.store_timestamp_ms
    passed = count_passed(index, consumed.queue_id, offset) if consumed.file == DELAY_FILE else None
    return Progress(*place, low, high, max(0, high - max(low, offset)), state, last_ms, passed)
