"""Changes of ``repair``, by the findings of ``verify``: parts to rebuild, files to set aside."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqtool.doctor.diagnose import diagnose
from rmqtool.findings import Severity, Structure, codes
from rmqtool.io import FileKind
from rmqtool.recovery import Change
from rmqtool.store.layouts import Deed
from rmqtool.store.twins import own_records

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from rmqtool.findings import Findings
    from rmqtool.outcomes import Outcome
    from rmqtool.store import Store

CHECKPOINT_CODES = frozenset({codes.CP_AHEAD, codes.CP_MISSING, codes.CP_SIZE, codes.CP_STRAY})
QUEUE_DIRECTORIES = ("consumequeue", "consumequeue_ext", "batchconsumequeue")
DERIVED = {Structure.CONSUMEQUEUE: QUEUE_DIRECTORIES, Structure.INDEX: ("index",)}
_WITNESSES = {
    codes.CL_LOST: (
        "the present one names messages past the log's end, a rebuilt one would not: restore the log's"
        " missing files from a replica or a backup, or rmqtool salvage STORE --out DIR"
    ),
    codes.CL_FOREIGN: (
        "a rebuilt one would list messages of the file of another log (CL-FOREIGN): put the right one in its"
        " place, or rmqtool salvage STORE --out DIR"
    ),
}

PROOF_STAYS = "the log is damaged, and they prove what it lost"
_IN_THE_WAY = {
    codes.CL_QOFF_DUP: "a rebuild puts units in other places than the present ones",
    codes.CL_QOFF_RESET: "a rebuild puts units in other places than the present ones",
    codes.CQ_TYPE: "set queue.type in topics.json first, or move the queues away",
}


def is_log_damaged(store: Store, findings: Findings) -> bool:
    """Whether the log has errors beside files that do not belong to it."""
    strays = store.once(own_counts)
    return any(
        finding.structure is Structure.COMMITLOG
        and finding.severity is Severity.ERROR
        and strays.get(finding.file or "") != 0
        for finding in findings
    )


def own_counts(store: Store) -> dict[str, int | None]:
    """Return how many records that the log lacks each stray of it has, by label; None: it cannot be read."""
    log = store.commitlog
    return {stray.label: own_records(stray, store.base, log) for stray in log.strays}


def spares_proof(start: Outcome, repaired: Outcome, salvaged: Outcome, *, is_log_damaged: bool) -> bool:
    """Whether queues and index stay as they are: they prove what was lost, and salvage makes more of it."""
    return (is_log_damaged or start.lost > 0) and salvaged.harm < repaired.harm


def keeps_abort(findings: Findings) -> bool:
    """Whether the log ends in what a kill leaves, which is no damage as long as ``abort`` is there."""
    return any(
        finding.structure is Structure.COMMITLOG
        and finding.severity is Severity.WARNING
        and (finding.code.severity is Severity.ERROR or finding.code is codes.CL_TAIL_DIRTY)
        for finding in findings
    )


def is_unsettled(store: Store) -> bool:
    """Whether a file that is none of the log's holds records that the log lacks."""
    return any(own != 0 for own in store.once(own_counts).values())


def damaged_parts(store: Store, findings: Findings, *, takes_abort: bool = True) -> frozenset[Structure]:
    """Return the parts to rebuild: queues bring the index with them, as both are of one rebuild.

    A lag is no damage while ``abort`` makes the next start complete it; a repair that sets ``abort`` aside
    spares a broker the recovery that completes what a kill left undone.
    """
    spares = store.abort is not None and takes_abort
    least = {Severity.ERROR, Severity.WARNING} if spares else {Severity.ERROR}
    damaged = {
        finding.structure
        for finding in findings
        if finding.structure in DERIVED and finding.severity in least
    }
    if damaged and (store.abort is not None or Structure.CONSUMEQUEUE in damaged):
        return frozenset(DERIVED)
    return frozenset(damaged)


def why_not_swapped(store: Store, findings: Findings, parts: Collection[Structure]) -> str | None:
    """Return why rebuilt parts cannot take the place of the present ones; None if they can."""
    assert store.root is not None
    if not len(store.commitlog):
        return "there is no log to make them from: restore it from a replica or a backup"
    for code, why in _WITNESSES.items():
        if code.code in findings.counts:
            return why
    for finding in findings:
        is_open = finding.code is codes.CQ_TYPE and not (store.root / "config/topics.json").is_there()
        if finding.severity is Severity.ERROR and finding.code in _IN_THE_WAY and not is_open:
            return f"{finding.sentence}: {_IN_THE_WAY[finding.code]}"
    for feature in store.bars(Deed.INSTALL):
        return feature.refusal(Deed.INSTALL)
    for name in (name for part in parts for name in DERIVED[part]):
        place = store.root / name
        is_linked = place.real() != store.root.real() / name
        if is_linked or place.kind() not in {None, FileKind.DIRECTORY}:
            return f"{name} is not a directory of the store root itself: rebuild with --out, and install it"
    return doubt_of(store, parts) or _assumed(store, parts)


def _assumed(store: Store, parts: Collection[Structure]) -> str | None:
    for setting in store.settings.assumed_sizes(parts)[:1]:
        name, value = setting.name, setting.value
        return (
            f"no file shows {name}, and files of another size stop a broker: give its own with"
            f" -c broker.conf or -p {name}=N; the default, of brokers that name none, is {value}"
        )
    return None


def doubt_of(store: Store, parts: Collection[str]) -> str | None:
    """Return which settings have to be sure before parts are rebuilt and take the place of others."""
    return doubt_words(setting.name for setting in store.settings.doubtful_sizes(parts))


def doubt_words(names: Iterable[str]) -> str | None:
    """Return the sentence on settings that are not sure; None without any."""
    listed = " and ".join(names)
    return f"{listed} in doubt: give the broker's with -c broker.conf or -p NAME=VALUE" if listed else None


def repair_change(store: Store, findings: Findings) -> tuple[Change | None, str]:
    """Return the changes by a repair of all parts; None, and the reason, where there are none."""
    root = store.root
    if root is None or root.local_path() is None:
        return None, "only stores on a disk of this machine are repaired"
    if is_unsettled(store):
        return None, "a file beside the log's holds records that the log lacks: it is for you to choose"
    spare = (label for label, own in store.once(own_counts).items() if own == 0)
    aside = {label for label in spare if (root / label).kind() is not None}
    aside |= {
        diagnosis.file
        for diagnosis in diagnose(store)
        if not diagnosis.is_sound and diagnosis.choices and not diagnosis.denied
    }
    damaged, log_damaged = damaged_parts(store, findings), is_log_damaged(store, findings)
    refusal = why_not_swapped(store, findings, damaged) if damaged else None
    rebuilt = damaged if refusal is None else frozenset[Structure]()
    is_settled = refusal is None and not log_damaged
    change = Change(
        queues=Structure.CONSUMEQUEUE in rebuilt,
        index=Structure.INDEX in rebuilt,
        is_clean=store.abort is not None and is_settled and not keeps_abort(findings),
        checkpoint=is_settled
        and (bool(rebuilt) or any(finding.code in CHECKPOINT_CODES for finding in findings)),
        aside=frozenset(aside),
        keeps_expired=True,
    )
    if change == Change(keeps_expired=True):
        return None, refusal or "there is nothing that it repairs"
    return change, ""
