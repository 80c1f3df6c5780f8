"""Meaning of a prediction for the operator who decides about the start: one word, and findings."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

from rmqtool.findings import Finding
from rmqtool.findings.codes import NS_FORGETS, NS_LOSES, NS_REBUILDS, NS_REFUSED, NS_SKIPPED
from rmqtool.findings.model import counted
from rmqtool.store.kinds import DIRECTORY_NAMES, PathKind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.recovery.model import Prediction

_DERIVED = tuple(f"{name}/" for kind, name in DIRECTORY_NAMES.items() if kind is not PathKind.COMMITLOG)


class StartOutcome(IntEnum):
    """Effects of a start, from harmless to grave."""

    WHOLE = 0  # all is kept as it is
    REBUILDS = 1  # derived files are deleted or built again
    FORGETS = 2  # settings: topics and their queues, or offsets
    LOSES = 3  # intact records are cut off
    HANGS = 4
    REFUSED = 5


def outcome_of(prediction: Prediction) -> StartOutcome:
    """Return the gravest effect of a start."""
    if not prediction.loads:
        return StartOutcome.REFUSED
    if not prediction.starts:
        return StartOutcome.HANGS
    if prediction.lost:
        return StartOutcome.LOSES
    if prediction.forgets:
        return StartOutcome.FORGETS
    return StartOutcome.REBUILDS if _changes(prediction) else StartOutcome.WHOLE


def lost_messages(prediction: Prediction) -> int:
    """Return how many intact records a start cuts off."""
    return sum(loss.messages for loss in prediction.lost)


def start_findings(prediction: Prediction) -> Iterator[Finding]:
    """Yield the findings of a start; none for one that keeps everything as it is."""
    broker = f"a {prediction.release.name} broker"
    for refusal in prediction.refusals:
        message = f"{broker} does not start: {refusal.file} {refusal.reason}"
        yield Finding(code=NS_REFUSED, file=refusal.file, message=message, remedy_override=refusal.remedy)
    outcome = outcome_of(prediction)
    if outcome is StartOutcome.HANGS and prediction.reput is not None:
        place = prediction.reput.stalled_at
        message = f"{broker} never finishes its start: it repeats the record at {place} for ever"
        yield Finding(code=NS_REFUSED, physical_offset=place, message=message)
    if prediction.lost and prediction.cut is not None:
        lost, cut = lost_messages(prediction), prediction.cut
        yield Finding(
            code=NS_LOSES,
            file=cut.file,
            position=cut.position,
            physical_offset=cut.physical_offset,
            expected=0,
            observed=lost,
            message=f"{broker} ends the log here and loses {counted(lost, 'message')} after it",
        )
    for one in prediction.forgets if prediction.starts else ():
        message = f"{broker} reads nothing from {one.file} and forgets {one.loses}"
        yield Finding(code=NS_FORGETS, file=one.file, message=message)
    if outcome is StartOutcome.REBUILDS:
        losses = prediction.log_losses
        none = "no more messages" if losses is not None and losses.messages else "no message"
        message = f"{broker} starts, loses {none}, and {' and '.join(_changes(prediction))}"
        yield Finding(code=NS_REBUILDS, message=message)


def skipped(reason: str) -> Finding:
    """Return the finding that there is no prediction."""
    return Finding(code=NS_SKIPPED, message=f"prediction skipped: {reason}")


def _changes(prediction: Prediction) -> list[str]:
    """Return what happens to derived files; ends of the log that hold no record do not matter."""
    deleted = sum(name.startswith(_DERIVED) for name in prediction.deleted_files)
    dispatched = [
        prediction.dispatched_by_recovery,
        *([prediction.reput.dispatched] if prediction.reput else ()),
    ]
    messages = sum(one.messages for one in dispatched if one.units or one.index_entries)
    found = []
    if deleted:
        found.append(f"deletes {counted(deleted, 'file')} of queues and index")
    if messages:
        found.append(f"puts {counted(messages, 'message')} into queues and index again")
    return found
