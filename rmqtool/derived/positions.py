"""Positions that a broker keeps: the checkpoint, and offsets of groups, delay levels and the timer."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from rmqtool.derived.index_files import index_headers
from rmqtool.derived.queues import queues_of
from rmqtool.derived.timer import TIMER_PROGRESS, timer_checkpoint
from rmqtool.errors import DeniedError
from rmqtool.formats.checkpoint import CHECKPOINTS, CheckpointFields
from rmqtool.store.broker_json import ConfigFileError, ConfigSource
from rmqtool.store.kinds import UNIT_QUEUE_KINDS
from rmqtool.topics import HALF_TOPIC, SCHEDULE_TOPIC, TIMER_TOPIC

if TYPE_CHECKING:
    from collections.abc import Iterator, MutableSequence

    from rmqtool.io.location import ReadOnlyFile, UnreadableRange
    from rmqtool.store import Store
    from rmqtool.store.files import StoreFiles


def read_checkpoint(
    file: ReadOnlyFile | None, unreadable: MutableSequence[UnreadableRange] | None = None
) -> CheckpointFields | None:
    """Return the fields of a checkpoint, which is then closed; None if it is missing or too short."""
    return None if file is None else CHECKPOINTS.decode(_head(file, unreadable))


def loaded_checkpoint(file: ReadOnlyFile | None) -> CheckpointFields:
    """Return a broker's values, zeros past the file's end (Java: ``StoreCheckpoint``, 4.9.8, 5.3.3)."""
    return CheckpointFields() if file is None else CHECKPOINTS.padded(_head(file, []))


def _head(file: ReadOnlyFile, unreadable: MutableSequence[UnreadableRange] | None) -> bytes:
    try:
        return file.read_at(0, CHECKPOINTS.size, unreadable)
    finally:
        file.close()


_SEPARATOR = "@"
_ID_DIGITS = 10  # of an int
_TABLES = ("offsetTable", "lmqOffsetTable")
_CONSUMERS = ("consumerOffset.json", "lmqConsumerOffset.json")
_DELAYS = "delayOffset.json"
_CHECKER_GROUP = "CID_RMQ_SYS_TRANS"  # MixAll.CID_SYS_RMQ_TRANS
DELAY_FILE = f"config/{_DELAYS}"
TIMER = "timer"


def last_dispatched(store: StoreFiles) -> Iterator[int]:
    """Yield the physical offset that each queue and each file of the index knows last."""
    headers = index_headers(store.index_files)
    yield from (header.end_phy_offset for header in headers if header.index_count > 1)
    for kind in UNIT_QUEUE_KINDS:
        for queue in queues_of(store, kind):
            unit = queue.last_unit()
            queue.close()
            if unit is not None:
                yield unit.physical_offset


class Consumed(NamedTuple):
    """Progress of a reader in a queue.

    ``file`` is relative to the store; ``reader`` is a group or delay level, as the start of a sentence;
    ``offset`` is the next queue offset to read.
    """

    file: str
    topic: str
    queue_id: int
    reader: str
    offset: int


def consumed_offsets(store: Store) -> Iterator[Consumed]:
    """Yield the offsets of groups, delay levels and the timer.

    Skip entries of another form, and negative ones.
    """
    for name in _CONSUMERS:
        yield from offsets_in(f"config/{name}", _document(store, name))
    for table in _tables(_document(store, _DELAYS)):
        for level, offset in table.items():
            if _is_id(level) and int(level) > 0 and isinstance(offset, int) and offset >= 0:
                place = DELAY_FILE, SCHEDULE_TOPIC, int(level) - 1
                yield Consumed(*place, f"delay level {level}", offset)
    yield from _of_timer(store)


def _of_timer(store: Store) -> Iterator[Consumed]:
    """Yield the timer's progress in its topic (``TimerMessageStore#enqueue``, 5.0.0+)."""
    checkpoint = None
    with suppress(DeniedError):  # IO-DENIED reports it
        checkpoint = timer_checkpoint(store.config)
    if checkpoint is not None and checkpoint.last_timer_queue_offset >= 0:
        yield Consumed(TIMER_PROGRESS, TIMER_TOPIC, 0, TIMER, checkpoint.last_timer_queue_offset)


def checked_half_offsets(store: Store) -> dict[int, int]:
    """Return the progress of ``TransactionalMessageServiceImpl#check`` by half queue (4.9.8, 5.3.3)."""
    reader = f"group {_CHECKER_GROUP}"
    consumed = (
        offset for offset in consumed_offsets(store) if offset.topic == HALF_TOPIC and offset.reader == reader
    )
    return {one.queue_id: one.offset for one in consumed}


def delay_offsets(store: Store) -> dict[int, int]:
    """Return the offsets of delay levels by queue id."""
    return {one.queue_id: one.offset for one in consumed_offsets(store) if one.file == DELAY_FILE}


def passed_delays(store: Store) -> tuple[int, ...]:
    """Return the offsets of delay levels by queue id, 0 without one; empty if no level has passed a message.

    Those of a slave are its master's, which may be ahead of the slave's log.
    """
    if store.settings["brokerRole"].value == "SLAVE":
        return ()
    delays = delay_offsets(store)
    offsets = tuple(delays.get(level - 1, 0) for level in store.settings.delay_levels.delay_ms)
    return offsets if any(offsets) else ()


def offsets_in(file: str, document: object) -> Iterator[Consumed]:
    """Yield the offsets of groups in a document of them, by ``topic@group`` and queue."""
    for table in _tables(document):
        for key, value in table.items():
            topic, separator, group = key.rpartition(_SEPARATOR)
            offsets = value if isinstance(value, dict) else {"0": value}  # one number: a light queue's only
            for queue_id, offset in offsets.items() if separator else ():
                if _is_id(queue_id) and isinstance(offset, int) and offset >= 0:
                    yield Consumed(file, topic, int(queue_id), f"group {group}", offset)


def _document(store: Store, name: str) -> object:
    with suppress(ConfigFileError):
        return ConfigSource(store.root).document(name)
    return None


def _tables(document: object) -> Iterator[dict[str, object]]:
    for table in _TABLES:
        content = document.get(table) if isinstance(document, dict) else None
        if isinstance(content, dict):
            yield content


def _is_id(text: str) -> bool:
    return text.isdecimal() and len(text) <= _ID_DIGITS
