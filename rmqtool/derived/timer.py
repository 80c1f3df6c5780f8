"""Files of the timer: its progress, its log and its wheel.

The progress is ``timercheck``; a unit of the log leads to a message, a slot of the wheel to units of a time.
Java: ``TimerMessageStore``, ``TimerCheckpoint``, ``TimerLog``, ``TimerWheel`` (5.0.0+).
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from rmqtool.errors import EnvironmentFailureError
from rmqtool.formats.checkpoint import (
    SLOT,
    TIMER_CHECKPOINTS,
    TIMER_UNIT,
    TIMER_UNIT_MAGICS,
    WHEEL_BYTES,
    TimerCheckpoint,
)
from rmqtool.io import FileKind
from rmqtool.javacompat import parse_long
from rmqtool.store.names import digits_of
from rmqtool.store.places import entries_in, names_in
from rmqtool.store.segments import NAME_DIGITS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.io import Location


TIMER_CHECKPOINT, TIMER_LOG, TIMER_WHEEL = "timercheck", "timerlog", "timerwheel"
TIMER_PROGRESS = f"config/{TIMER_CHECKPOINT}"
_UNITS_BYTES = TIMER_UNIT.size * 4096
_PAGE_BYTES = 1 << 16


def timer_checkpoint(config: Location | None) -> TimerCheckpoint | None:
    """Return the timer's progress in a directory of settings; None without one that is whole.

    Raises:
        EnvironmentFailureError: It cannot be read.
    """
    path = None if config is None else config / TIMER_CHECKPOINT
    if path is None or not path.is_regular():
        return None
    return TIMER_CHECKPOINTS.decode(path.read_head(TIMER_CHECKPOINTS.size, []))


def timer_log(root: Location) -> dict[int, int]:
    """Return the sizes of the timer log's files, by the position at which each begins, ascending."""
    return {
        int(name): status.size_bytes
        for name, status in sorted(entries_in(root / TIMER_LOG))
        if status.kind is FileKind.FILE and digits_of(name, NAME_DIGITS) is not None
    }


def last_timed(root: Location) -> int | None:
    """Return the physical offset of the message of the timer log's last unit; None without one."""
    paths = (root / TIMER_LOG / f"{start:0{NAME_DIGITS}}" for start in reversed(timer_log(root)))
    return next((place for place in map(_last_in, paths) if place is not None), None)


def _last_in(path: Location) -> int | None:
    last, position = None, 0
    with suppress(EnvironmentFailureError), path.reader() as file:
        while data := file.read_at(position, _UNITS_BYTES, []):
            whole = len(data) // TIMER_UNIT.size * TIMER_UNIT.size
            for size, magic, log_offset in TIMER_UNIT.iter_unpack(data[:whole]):
                if size != TIMER_UNIT.size or magic | TIMER_UNIT_MAGICS != TIMER_UNIT_MAGICS:
                    return last
                last = log_offset
            position += len(data)
    return last


def timer_slots(root: Location) -> list[tuple[int, int, int]]:
    """Return of each used slot of the wheel its time, in units of the precision, first position and messages.

    With ``timerWheelSnapshotFlush`` (5.3.4+) the newest ``timerwheel.N`` is the wheel, ``timerwheel`` empty.
    """
    snapshots = sorted(
        (number, name)
        for name in names_in(root, FileKind.FILE)
        if name.startswith(f"{TIMER_WHEEL}.") and (number := parse_long(name[len(TIMER_WHEEL) + 1 :]))
    )
    wheels = (TIMER_WHEEL, *(name for _, name in snapshots[-1:]))
    return next((slots for name in wheels if (slots := list(_slots(root / name)))), [])


def _slots(wheel: Location) -> Iterator[tuple[int, int, int]]:
    data = b""
    if wheel.is_regular():
        with suppress(EnvironmentFailureError):
            data = wheel.read_head(WHEEL_BYTES, [])
    for at in range(0, len(data), _PAGE_BYTES):
        page = data[at : at + _PAGE_BYTES]
        if page.count(0) < len(page):  # most are empty
            whole = len(page) // SLOT.size * SLOT.size
            yield from ((slot[0], slot[1], slot[3]) for slot in SLOT.iter_unpack(page[:whole]) if slot[3] > 0)
