"""The timer's files against each other: what its log lacks."""

from __future__ import annotations

from contextlib import suppress
from itertools import pairwise
from typing import TYPE_CHECKING

from rmqtool.derived.timer import (
    TIMER_LOG,
    TIMER_PROGRESS,
    TIMER_WHEEL,
    timer_checkpoint,
    timer_log,
    timer_slots,
)
from rmqtool.errors import EnvironmentFailureError
from rmqtool.findings import Finding, codes, counted
from rmqtool.formats.checkpoint import TimerCheckpoint
from rmqtool.store.segments import ENDLESS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.store import Store


def timer_findings(store: Store) -> Iterator[Finding]:
    """Yield the missing files of the timer log, by their neighbours, the checkpoint or the wheel."""
    root = store.root
    if root is None:
        return
    files, checkpoint = timer_log(root), None
    with suppress(EnvironmentFailureError):
        checkpoint = timer_checkpoint(root / "config")
    checkpoint = checkpoint or TimerCheckpoint(0, 0, 0, 0)
    start, precision_ms = min(files, default=ENDLESS), store.settings["timerPrecisionMs"].value
    if start:
        read = checkpoint.last_read_time_ms // max(precision_ms if isinstance(precision_ms, int) else 1, 1)
        slots = [slot for slot in timer_slots(root) if slot[0] >= read and 0 <= slot[1] < start]
        yield from _first_files_gone(start, slots)
    for begin, following in pairwise(files):
        if (missing := following - begin - files[begin]) > 0:
            between = f"between {begin:020} and {following:020}"
            yield _gap(begin + files[begin], missing, between)
    end = max(files) + files[max(files)] if files else 0
    if (flushed := checkpoint.last_timer_log_flush_pos) > end:
        yield _gap(end, flushed - end, f"before {flushed}, to which {TIMER_PROGRESS} says it was written")


def _gap(position: int, length: int, where: str) -> Finding:
    text = f"{TIMER_LOG} lacks {counted(length, 'byte')} from {position} on, {where}"
    return Finding(code=codes.ST_TIMER_GAP, file=TIMER_LOG, length=length, expected=position, message=text)


def _first_files_gone(start: int, slots: list[tuple[int, int, int]]) -> Iterator[Finding]:
    """Yield the finding about chains that begin before the first file, so their beginning is lost."""
    if not slots:
        return
    before = min(first for _, first, _ in slots)
    messages = sum(count for _, _, count in slots)
    text = (
        f"{counted(len(slots), 'slot')} of {TIMER_WHEEL} with {counted(messages, 'message')} to come lead to"
        f" {before} and further on in {TIMER_LOG}, which"
        f" {'has no file' if start == ENDLESS else f'begins at {start}'}"
    )
    length = None if start == ENDLESS else start - before
    yield Finding(code=codes.ST_TIMER_GAP, file=TIMER_LOG, length=length, expected=before, message=text)
