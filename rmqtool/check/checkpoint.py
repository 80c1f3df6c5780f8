"""Check of the checkpoint against the log: times of records that the log does not have."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqtool.derived.checkpoint import loaded_checkpoint
from rmqtool.errors import DeniedError
from rmqtool.findings import Finding
from rmqtool.findings.places import CP_AHEAD
from rmqtool.formats.checkpoint import CHECKPOINT
from rmqtool.formats.fields import offsets
from rmqtool.times import utc_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.store import Store

_FIELDS = offsets(CHECKPOINT)
_OF_THE_LOG = ("physicMsgTimestamp", "logicsMsgTimestamp")
_TIMES = (*_OF_THE_LOG, "indexMsgTimestamp")


def check_checkpoint(store: Store, latest_ms: int) -> list[Finding]:
    """Return the times of the checkpoint that are later than ``latest_ms``, the log's highest STORETIMESTAMP.

    They are store times of records, so the log has lost its end, or the checkpoint is another store's
    (``StoreCheckpoint``, ``CommitLog#recoverAbnormally``, 4.9.8 and 5.3.3).
    """
    file = store.checkpoint
    if file is None:
        return []
    try:
        times = dict(zip(_FIELDS, loaded_checkpoint(file), strict=True))
    except DeniedError:
        return []  # IO-DENIED of level 0 says so
    return list(_ahead(file.label, {name: times[name] for name in _TIMES}, latest_ms))


def is_log_cut(findings: list[Finding]) -> bool:
    """Whether the log itself was longer once: the times of both its ends in the checkpoint are ahead."""
    return {finding.position for finding in findings} >= {_FIELDS[name] for name in _OF_THE_LOG}


def _ahead(label: str, times_ms: dict[str, int], latest_ms: int) -> Iterator[Finding]:
    for name, time_ms in times_ms.items():
        if time_ms > latest_ms:
            ahead = f"{time_ms - latest_ms} ms after the log's last record"
            yield Finding(
                code=CP_AHEAD,
                file=label,
                position=_FIELDS[name],
                length=8,
                expected=latest_ms,
                observed=time_ms,
                message=f"{name} is {utc_text(time_ms)}, {ahead}",
            )
