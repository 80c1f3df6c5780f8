"""The timer's place in its topic after a start: by the last unit of the timer log, else by ``timercheck``.

Java: ``TimerMessageStore#recover``, ``#recoverAndRevise``, ``#reviseQueueOffset``, ``#enqueue`` (5.3.3 to
5.5.1).
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from rmqtool.errors import EnvironmentFailureError
from rmqtool.findings import counted
from rmqtool.formats.checkpoint import TIMER_CHECKPOINTS, TIMER_UNIT, TIMER_UNIT_MAGICS
from rmqtool.io import FileKind
from rmqtool.scan.records import record_at
from rmqtool.store.names import digits_of
from rmqtool.store.places import TIMER_LOG, TIMER_PROGRESS, names_in
from rmqtool.store.segments import NAME_DIGITS
from rmqtool.topics import TIMER_TOPIC

if TYPE_CHECKING:
    from rmqtool.io import Location
    from rmqtool.store import Store

_PAGE_BYTES = TIMER_UNIT.size * 4096


def timer_ahead(store: Store, low: int, end: int | None) -> str | None:
    """Return what a start makes of a timer that is ahead of its queue, a clause; None if it loses nothing.

    ``low`` and ``end`` are the queue's bounds once the log is dispatched; ``end`` is None without a queue.
    """
    place = _by_checkpoint(store)
    if place is None or place <= (end or 0) or (end is not None and _by_log(store) is not None):
        return None
    stands = f"the timer stands at {place} in {TIMER_TOPIC}/0"
    if end is None:
        return f"{stands}, which does not exist: none of the next {place:,} timed messages is ever delivered"
    messages = counted(end - low, "message", spec=",")
    return (
        f"{stands}, beyond the queue's end, and {TIMER_LOG}/ leads to no message: a start goes on at {end},"
        f" and never delivers what was still to come of the {messages} before it"
    )


def _by_checkpoint(store: Store) -> int | None:
    """Return the lesser of the timer's offset and its master's, by which a broker goes; None without."""
    path = None if store.root is None else store.root / TIMER_PROGRESS
    if path is None or not path.is_regular():
        return None
    with suppress(EnvironmentFailureError):
        checkpoint = TIMER_CHECKPOINTS.decode(path.read_head(TIMER_CHECKPOINTS.size, []))
        if checkpoint is not None:
            return min(checkpoint.last_timer_queue_offset, checkpoint.master_timer_queue_offset)
    return None


def _by_log(store: Store) -> int | None:
    """Return the queue offset after the message of the timer log's last unit; None if it leads to none."""
    place = None if store.root is None else _last_unit(store.root / TIMER_LOG)
    record = None if place is None else record_at(store.commitlog, place)
    return None if record is None else record.head.queue_offset + 1


def _last_unit(directory: Location) -> int | None:
    """Return the physical offset in the timer log's last unit; None without one."""
    names = (name for name in names_in(directory, FileKind.FILE) if digits_of(name, NAME_DIGITS) is not None)
    places = (_last_in(directory / name) for name in sorted(names, reverse=True))
    return next((place for place in places if place is not None), None)


def _last_in(path: Location) -> int | None:
    last, position = None, 0
    with suppress(EnvironmentFailureError), path.reader() as file:
        while data := file.read_at(position, _PAGE_BYTES, []):
            whole = len(data) // TIMER_UNIT.size * TIMER_UNIT.size
            for size, magic, log_offset in TIMER_UNIT.iter_unpack(data[:whole]):
                if size != TIMER_UNIT.size or magic | TIMER_UNIT_MAGICS != TIMER_UNIT_MAGICS:
                    return last
                last = log_offset
            position += len(data)
    return last
