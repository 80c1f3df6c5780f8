"""Changes of ``repair``, by the findings of ``verify``: parts to rebuild, files to set aside."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqtool.doctor.diagnose import diagnose
from rmqtool.findings import Severity, Structure, codes
from rmqtool.recovery import Change

if TYPE_CHECKING:
    from rmqtool.findings import Findings
    from rmqtool.store import Store

_CHECKPOINT = frozenset({codes.CP_AHEAD, codes.CP_MISSING, codes.CP_SIZE, codes.CP_STRAY})


def is_log_damaged(store: Store, findings: Findings) -> bool:
    """Whether the log has errors beside files that do not belong to it."""
    strays = {stray.label for stray in store.commitlog.strays}
    return any(
        one.structure is Structure.COMMITLOG and one.severity is Severity.ERROR and one.file not in strays
        for one in findings
    )


def damaged_parts(store: Store, findings: Findings, *, takes_abort: bool = True) -> frozenset[Structure]:
    """Return the parts that are rebuilt: queues bring the index with them, as both are of one rebuild.

    A lag is no damage while ``abort`` makes the next start complete it, unless ``abort`` is set aside.
    """
    spares = store.abort is not None and takes_abort
    least = {Severity.ERROR, Severity.WARNING} if spares else {Severity.ERROR}
    parts = {Structure.CONSUMEQUEUE, Structure.INDEX}
    damaged = {one.structure for one in findings if one.structure in parts and one.severity in least}
    if damaged and (store.abort is not None or Structure.CONSUMEQUEUE in damaged):
        damaged = parts
    return frozenset(damaged)


def repair_change(store: Store, findings: Findings) -> tuple[Change | None, str]:
    """Return what a repair of all parts changes; None, and the reason, where it does nothing."""
    root = store.root
    if root is None or root.local_path() is None:
        return None, "only stores on a disk of this machine are repaired"
    for feature in (*store.unread, *store.queue_databases):
        return None, f"{feature.sentence}, which is not repaired"
    aside = {stray.label for stray in store.commitlog.strays if (root / stray.label).kind() is not None}
    aside |= {one.file for one in diagnose(store) if not one.is_sound and one.obvious}
    damaged, log_damaged = damaged_parts(store, findings), is_log_damaged(store, findings)
    swapped = Structure.INDEX in damaged
    change = Change(
        queues=Structure.CONSUMEQUEUE in damaged,
        index=swapped,
        is_clean=store.abort is not None and not log_damaged,
        checkpoint=not log_damaged and (swapped or any(one.code in _CHECKPOINT for one in findings)),
        aside=frozenset(aside),
        keeps_expired=True,
    )
    if change == Change(keeps_expired=True):
        return None, "there is nothing that it repairs"
    return change, ""
