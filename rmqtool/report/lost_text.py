"""Lost messages, and a broker's next start, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqtool.findings.model import counted
from rmqtool.report.formats import size_text
from rmqtool.report.terminal import escape_text
from rmqtool.topics import TopicKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from rmqtool.account.model import LogLosses, MessageStates
    from rmqtool.recovery import LostTotals
    from rmqtool.recovery.model import Dispatched, Prediction


_LISTED = 20
_REASONS = {
    "cut": "cut off by the next start",
    "no-unit": "without a unit in their queue",
    "skipped": "skipped because of damage",
    "unreachable": "after the last record that a broker reaches",
    "left-out": "in the present queues only",
    "damaged": "with a damaged record, a unit points to it",
    "missing": "missing between their neighbours in the queue, without record and unit",
    "gone": "only the queue entry survives",
    "consumed": "only a consumer's offset shows them",
    "indexed": "of an unknown queue, only index items survive",
}


def log_loss_facts(losses: LogLosses | None) -> Iterator[tuple[str, str]]:
    """Yield names and values of a log's losses, by queue; nothing if there are none."""
    if losses is None or not losses.messages:
        return
    if losses.states is not None:
        yield "messages", _states(losses.states)
    by = [f"{losses.listed:,} that units point to"] if losses.listed else []
    by += [f"{losses.unlisted:,} by the queue offsets on both sides"] if losses.unlisted else []
    by += [f"{losses.consumed:,} that consumers have read"] if losses.consumed else []
    by += [f"{losses.indexed:,} of unknown queues, by index items"] if losses.indexed else []
    yield "log lost", f"{counted(losses.messages, 'message', spec=',')}: {', '.join(by)}"
    ranked = sorted(losses.queues, key=lambda one: -one.messages)
    names = [f"{escape_text(one.topic)}/{one.queue_id} {one.messages:,}" for one in ranked[:_LISTED]]
    more = f", and {len(ranked) - _LISTED:,} more queues" if len(ranked) > _LISTED else ""
    if names:
        yield "of queues", ", ".join(names) + more


def _states(states: MessageStates) -> str:
    """Return how many messages are in which state."""
    counts = {
        "there": states.there,
        "not confirmed by replicas": states.unconfirmed,
        "cut off by the next start": states.cut,
        "damaged": states.damaged,
        "gone": states.gone,
        "open, only units lead to them": states.open,
    }
    return ", ".join(f"{count:,} {words}" for words, count in counts.items() if count or words == "there")


def lost_facts(lost: LostTotals) -> Iterator[tuple[str, str]]:
    """Yield names and values: all, by reason, by topic, and offsets that are known only as gaps."""
    messages = counted(lost.messages, "message", spec=",")
    yield "lost", f"{messages} of {size_text(lost.bytes)}" if lost.messages else "no known message"
    for reason, count in lost.reasons.items():
        yield "of these", f"{count:,} {_REASONS[reason]}"
    ranked = sorted(lost.topics, key=lambda one: -one.messages)
    for topic in ranked[:_LISTED]:
        mark = "" if topic.kind is TopicKind.ORDINARY else f" ({topic.kind.value} topic)"
        text = f"{counted(topic.messages, 'message', spec=',')} of {size_text(topic.bytes)}"
        yield "of topic", f"{escape_text(topic.topic)}{mark}: {text}"
    if len(ranked) > _LISTED:
        yield "of topic", f"and {len(ranked) - _LISTED:,} more, see --format json"
    if lost.unnamed:
        yield "not named", f"{counted(lost.unnamed, 'place', spec=',')} of units that point to nothing known"
    if lost.missing_queue_offsets:
        offsets = counted(lost.missing_queue_offsets, "queue offset", spec=",")
        queues = counted(lost.queues_with_missing, "queue", spec=",")
        yield "nowhere", f"{offsets} missing in {queues}: in no record of the log"


_NAMED = 5

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
    for refusal in prediction.refusals[:_NAMED]:
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
    more = f" and {len(listed) - _NAMED:,} more" if len(listed) > _NAMED else ""
    return ", ".join(listed[:_NAMED]) + more
