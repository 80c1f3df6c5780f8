"""Findings about names of compaction and timer files, which a start or a delivery depends on."""

from __future__ import annotations

from contextlib import suppress
from itertools import pairwise
from typing import TYPE_CHECKING

from rmqtool.errors import EnvironmentFailureError
from rmqtool.findings import Finding, counted
from rmqtool.findings.codes import ST_COMPACTION_PAIRS, ST_TIMER_GAP
from rmqtool.formats.checkpoint import SLOT, TIMER_CHECKPOINTS, WHEEL_BYTES, TimerCheckpoint
from rmqtool.io import FileKind, Location
from rmqtool.javacompat import parse_long
from rmqtool.store.names import digits_of
from rmqtool.store.segments import NAME_DIGITS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.io.source import Status

COMPACTION_LOGS, COMPACTION_QUEUES = "compaction/compactionLog", "compaction/compactionCq"
_TIMER_LOG, _TIMER_CHECKPOINT, _TIMER_WHEEL = "timerlog", "config/timercheck", "timerwheel"
_NEVER = (1 << 63) - 1
_PAGE_BYTES = 1 << 16


def side_findings(root: Location, timer_precision_ms: int) -> Iterator[Finding]:
    """Yield the findings about names of compaction and timer files, as far as they may be listed."""
    for label, reason in _unpaired_compaction(root):
        yield Finding(code=ST_COMPACTION_PAIRS, file=label, message=f"{label} {reason}")
    yield from _timer_findings(root, timer_precision_ms)


def _unpaired_compaction(root: Location) -> Iterator[tuple[str, str]]:
    """Yield the files of compaction topics that lack their partner, relative to the root, and why.

    Each file of a log needs one of the same name in its queue, named by a number
    (``CompactionLog.TopicPartitionLog#sanityCheck``). Queues without a log are not examined.
    """
    for topic in names_in(root / COMPACTION_LOGS, FileKind.DIRECTORY):
        for queue in names_in(root / COMPACTION_LOGS / topic, FileKind.DIRECTORY):
            sides = [f"{side}/{topic}/{queue}" for side in (COMPACTION_LOGS, COMPACTION_QUEUES)]
            names = [names_in(root / side, FileKind.FILE) for side in sides]
            for side, own, others in ((sides[0], *names), (sides[1], *reversed(names))):
                for name in sorted(own):
                    if not name.isdecimal():
                        yield f"{side}/{name}", "is named by no number: a compaction left it that was stopped"
                    elif name not in others:
                        other = sides[side == sides[0]]
                        yield f"{side}/{name}", f"has no file of its name in {other}"


def _timer_findings(root: Location, precision_ms: int) -> Iterator[Finding]:
    """Yield the missing files of the timer log, by their neighbours, the checkpoint or the wheel."""
    directory = root / _TIMER_LOG
    files = sorted(
        name for name in names_in(directory, FileKind.FILE) if digits_of(name, NAME_DIGITS) is not None
    )
    sizes = {name: status.size_bytes for name, status in _entries(directory)}
    checkpoint = _timer_checkpoint(root / _TIMER_CHECKPOINT)
    start = int(files[0]) if files else _NEVER
    if start and (slots := _slots_before(root, start, checkpoint.last_read_time_ms // max(precision_ms, 1))):
        yield _first_files_gone(start, slots)
    for one, two in pairwise(files):
        if (missing := int(two) - int(one) - sizes[one]) > 0:
            yield _timer_gap(int(one) + sizes[one], missing, f"between {one} and {two}")
    end = int(files[-1]) + sizes[files[-1]] if files else 0
    if (flushed := checkpoint.last_timer_log_flush_pos) > end:
        yield _timer_gap(
            end, flushed - end, f"before {flushed}, to which {_TIMER_CHECKPOINT} says it was written"
        )


def _timer_gap(position: int, length: int, where: str) -> Finding:
    text = f"{_TIMER_LOG} lacks {counted(length, 'byte')} from {position} on, {where}"
    return Finding(code=ST_TIMER_GAP, file=_TIMER_LOG, length=length, expected=position, message=text)


def _first_files_gone(start: int, slots: list[tuple[int, int]]) -> Finding:
    """Return the finding about chains that begin before the first file, so their beginning is lost."""
    before = min(first for first, _ in slots)
    messages = sum(count for _, count in slots)
    text = (
        f"{counted(len(slots), 'slot')} of {_TIMER_WHEEL} with {counted(messages, 'message')} to come lead to"
        f" {before} and further on in {_TIMER_LOG}, which"
        f" {'has no file' if start == _NEVER else f'begins at {start}'}"
    )
    length = None if start == _NEVER else start - before
    return Finding(code=ST_TIMER_GAP, file=_TIMER_LOG, length=length, expected=before, message=text)


def _slots_before(root: Location, start: int, read: int) -> list[tuple[int, int]]:
    """Return first position and number of messages of future slots that begin before one in the timer log.

    With ``timerWheelSnapshotFlush`` (5.3.4+) the newest ``timerwheel.N`` is the wheel, ``timerwheel`` empty.
    """
    snapshots = [one for one in names_in(root, FileKind.FILE) if one.startswith(f"{_TIMER_WHEEL}.")]
    newest = sorted(
        (number, one) for one in snapshots if (number := parse_long(one[len(_TIMER_WHEEL) + 1 :]))
    )
    for name in (_TIMER_WHEEL, *(one for _, one in newest[-1:])):
        if slots := list(_slots(root / name)):
            return [one[1::2] for one in slots if one[0] >= read and 0 <= one[1] < start]
    return []


def _slots(wheel: Location) -> Iterator[tuple[int, int, int, int]]:
    data = b""
    if wheel.is_regular():
        with suppress(EnvironmentFailureError):
            data = wheel.read_head(WHEEL_BYTES, [])
    for at in range(0, len(data), _PAGE_BYTES):
        page = data[at : at + _PAGE_BYTES]
        if page.count(0) < len(page):  # most are empty
            whole = len(page) // SLOT.size * SLOT.size
            yield from (one[:4] for one in SLOT.iter_unpack(page[:whole]) if one[3] > 0)


def _timer_checkpoint(path: Location) -> TimerCheckpoint:
    if path.is_regular():
        with suppress(EnvironmentFailureError):
            found = TIMER_CHECKPOINTS.decode(path.read_head(TIMER_CHECKPOINTS.size, []))
            if found is not None:
                return found
    return TimerCheckpoint(0, 0, 0, 0)


def names_in(directory: Location, kind: FileKind) -> set[str]:
    """Return the names of one kind in a directory; none where it may not be listed."""
    return {name for name, status in _entries(directory) if status.kind is kind}


def _entries(directory: Location) -> list[tuple[str, Status]]:
    """Return the entries of a directory; nothing where it may not be listed: IO-DENIED reports that."""
    if directory.kind() is not FileKind.DIRECTORY:
        return []
    try:
        return list(directory.entries())
    except EnvironmentFailureError:
        return []
