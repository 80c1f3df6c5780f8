"""Text of a prediction of a broker's next start."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqtool.findings.wording import counted
from rmqtool.report.escaping import escape_text
from rmqtool.report.lost_text import log_loss_facts, lost_facts
from rmqtool.report.times import size_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from rmqtool.recovery.model import Dispatched, Prediction

_LISTED = 5
"""Files, topics or queues that are named; json has them all."""


def prediction_title(prediction: Prediction) -> str:
    """Return the outcome in one line."""
    outcome = "refuses to start"
    if prediction.loads:
        outcome = "starts" if prediction.starts else "loads the store and never finishes its start"
    return f"Next start of a {prediction.release.name} broker: it {outcome}"


def prediction_facts(prediction: Prediction) -> Iterator[tuple[str, str]]:
    """Yield names and values of the start's steps, in their order."""
    yield from _refused(prediction)
    recovery, cut = prediction.recovery, prediction.cut
    if recovery is not None:
        place = f"from {escape_text(recovery.file)}" if recovery.file else "of an empty log"
        yield "recovery", f"{recovery.kind}, {place}: {escape_text(recovery.reason)}"
    if cut is not None:
        code = f" ({cut.code})" if cut.code else ""
        place = f"physical offset {cut.physical_offset}, {escape_text(cut.file)} @{cut.position}"
        yield "log ends", f"at {place}: {escape_text(cut.reason)}{code}"
    yield from _lost(prediction)
    if prediction.deleted_files:
        names = _first(escape_text(name) for name in prediction.deleted_files)
        yield "deletes", f"{_several(len(prediction.deleted_files), 'file')}: {names}"
    if prediction.dispatched_by_recovery.messages:
        yield "recovers", _dispatched(prediction.dispatched_by_recovery)
    if prediction.reput is not None and prediction.reput.dispatched.messages:
        yield "dispatches", _dispatched(prediction.reput.dispatched)
    if prediction.reput is not None and prediction.reput.stalled_at is not None:
        yield "stalls", f"at physical offset {prediction.reput.stalled_at}, for ever"
    yield from _left_behind(prediction)
    for hazard in prediction.hazards:
        yield "beware", escape_text(hazard)


def _refused(prediction: Prediction) -> Iterator[tuple[str, str]]:
    for refusal in prediction.refusals[:_LISTED]:
        yield "refuses", escape_text(f"{refusal.file} {refusal.reason}")
    for remedy in dict.fromkeys(one.remedy for one in prediction.refusals if one.remedy is not None):
        yield "remedy", escape_text(remedy)
    for one in prediction.forgets:
        yield "forgets", escape_text(f"{one.loses} ({one.file})")


def _lost(prediction: Prediction) -> Iterator[tuple[str, str]]:
    yield from log_loss_facts(prediction.log_losses)
    if prediction.lost_messages is not None:
        yield from lost_facts(prediction.lost_messages)
    elif prediction.lost:
        messages = sum(loss.messages for loss in prediction.lost)
        size = size_text(sum(loss.bytes for loss in prediction.lost))
        topics = _first(f"{escape_text(loss.topic)} {loss.messages:,}" for loss in prediction.lost)
        yield "loses", f"{_several(messages, 'message')} of {size} after that: {topics}"


def _dispatched(what: Dispatched) -> str:
    return (
        f"{_several(what.messages, 'message')} from physical offset {what.start} to {what.stop}:"
        f" {_several(what.units, 'unit')}, {_entries(what.index_entries)}"
    )


def _left_behind(prediction: Prediction) -> Iterator[tuple[str, str]]:
    for name, attribute in (("missing", "missing"), ("misplaced", "misplaced"), ("dropped", "dropped")):
        queues = [queue for queue in prediction.queues if getattr(queue, attribute)]
        if queues:
            listed = _first(
                f"{escape_text(queue.topic)}/{queue.queue_id} {getattr(queue, attribute):,}"
                for queue in queues
            )
            total = sum(getattr(queue, attribute) for queue in queues)
            yield name, f"{_several(total, 'unit')}: {listed}"
    if prediction.missing_index_entries:
        yield "missing", _entries(prediction.missing_index_entries)


def _several(count: int, noun: str) -> str:
    return counted(count, noun, spec=",")


def _entries(count: int) -> str:
    return counted(count, "index entry", "index entries", spec=",")


def _first(items: Iterable[str]) -> str:
    listed: Sequence[str] = list(items)
    more = f" and {len(listed) - _LISTED:,} more" if len(listed) > _LISTED else ""
    return ", ".join(listed[:_LISTED]) + more
