"""Positions that a broker keeps: the checkpoint, and offsets of groups, delay levels and the timer."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from rmqtool.derived.index_files import index_headers
from rmqtool.derived.queues import queues_of
from rmqtool.derived.timer import TIMER_PROGRESS, timer_checkpoint
from rmqtool.errors import DeniedError
from rmqtool.formats.checkpoint import CHECKPOINTS, CheckpointFields
from rmqtool.store.broker_json import DELAYS, OFFSET_TABLES, ConfigFileError, ConfigSource, offsets_of
from rmqtool.store.kinds import UNIT_QUEUE_KINDS
from rmqtool.topics import HALF_TOPIC, TIMER_TOPIC

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


_CHECKER_GROUP = "CID_RMQ_SYS_TRANS"  # MixAll.CID_SYS_RMQ_TRANS
DELAY_FILE = f"config/{DELAYS}"
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
    for name in OFFSET_TABLES:
        with suppress(ConfigFileError):
            yield from offsets_in(f"config/{name}", ConfigSource(store.root).document(name))
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
    """Yield the offsets of groups, or delay levels, in the document of a file or its ``.bak``."""
    name = file.removeprefix("config/").removesuffix(".bak")
    for place, offset in offsets_of(name, document).items():
        if (reader := place.reader(name)) is not None:
            who, topic, queue_id = reader
            yield Consumed(file, topic, queue_id, who, offset)
