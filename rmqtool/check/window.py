"""Check of the newest files of the log that a start of 5.4.0+ reads, against the end of the queues."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqtool.findings import Finding, Severity
from rmqtool.findings.consumequeue import CQ_LAG
from rmqtool.findings.places import ST_WINDOW
from rmqtool.recovery.window import NO_UNITS, StartWindow, window_of
from rmqtool.store.kinds import DIRECTORY_NAMES, PathKind

if TYPE_CHECKING:
    from rmqtool.store import Store

_QUEUES = DIRECTORY_NAMES[PathKind.CONSUMEQUEUE]


def check_window(store: Store, *, damaged: bool) -> list[Finding]:
    """Return the records that the next start leaves without units, or would if the queues were deleted.

    ``damaged`` is whether the queues have errors, for which people delete them.
    """
    if store.kind is not PathKind.STORE or store.unread:
        return []
    window = window_of(store)
    if window is None or window.reach <= window.log_start:
        return []
    limits = f"the newest {window.files} of the log's {window.log_files} files (commitLogRecoverMaxNum)"
    starts = f"a start of {window.release.name} reads only {limits}"
    if window.queue_end == NO_UNITS:
        return [_gone(window, starts)]
    if window.queue_end is not None:
        return [_lag(window, window.queue_end, starts)]
    if not damaged:
        return []
    sentence = (
        f"do not delete {_QUEUES}/ and let a start rebuild it: {starts}, so records before {window.reach}"
        " would get no unit, nor an index entry if index/ is deleted, too"
    )
    return [Finding(code=ST_WINDOW, file=_QUEUES, physical_offset=window.reach, message=sentence)]


def _gone(window: StartWindow, starts: str) -> Finding:
    sentence = f"the queues are missing, and {starts}: records before {window.reach} would get no unit"
    return Finding(
        code=ST_WINDOW,
        file=_QUEUES,
        physical_offset=window.reach,
        message=sentence,
        severity_override=Severity.ERROR,
    )


def _lag(window: StartWindow, queue_end: int, starts: str) -> Finding:
    sentence = (
        f"the queues end at {queue_end}, and {starts}: it reads on at {window.reach}; records between get no"
        " unit, and later ones of their queues land in wrong slots"
    )
    return Finding(
        code=CQ_LAG,
        file=_QUEUES,
        physical_offset=max(queue_end, window.log_start),
        expected=window.reach,
        observed=queue_end,
        message=sentence,
    )
