"""Text of totals of lost messages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqtool.findings.wording import counted
from rmqtool.report.escaping import escape_text
from rmqtool.report.times import size_text
from rmqtool.topics import TopicKind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.account.model import LogLosses, MessageStates
    from rmqtool.recovery import LostTotals

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
