"""Findings, lost messages and a broker's next start, in words, which their writers make harmless."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rmqtool.findings import Finding, Severity
from rmqtool.report.output import capped, several, size_text
from rmqtool.times import utc_text
from rmqtool.topics import TopicKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from rmqtool.account import CountsBefore, LogLosses, MessageStates
    from rmqtool.account.lost import LostTopic, LostTotals
    from rmqtool.outcomes import Outcome
    from rmqtool.recovery import Dispatched, Prediction


_LISTED = 20
_REASONS = {
    "cut": "cut off by the next start",
    "no-unit": "without a unit in their queue",
    "skipped": "skipped because of damage",
    "unreachable": "after the last record that a broker reaches",
    "left-out": "in the present queues only",
    "damaged": "damaged; the queue entry survives",
    "missing": "missing between their neighbours in the queue, without record and unit",
    "gone": "only the queue entry survives",
    "consumed": "only a consumer's offset shows them",
    "indexed": "of an unknown queue, only index items survive",
    "before": "before the log's first byte, expired or removed",
}


_OBVIOUS = (None, "sound")
"""Expected or found values that a sentence need not name."""


def finding_line(finding: Finding) -> str:
    """Return place and sentence, for one line."""
    sentence = finding_sentence(finding)
    place = finding_place(finding, sentence)
    return f"{place}: {sentence}" if place else sentence


def finding_place(finding: Finding, sentence: str = "") -> str:
    """Return the place of a finding, as far as a sentence does not name it; may be empty."""
    parts = []
    if finding.file is not None:
        position = "" if finding.position is None else f" @{finding.position}"
        parts.append(finding.file + position)
    if finding.topic is not None:
        queue = finding.topic + ("" if finding.queue_id is None else f"/{finding.queue_id}")
        unit = "" if finding.queue_offset is None else f" #{finding.queue_offset}"
        if f"{unit.removeprefix(' #')} of {queue} " not in sentence:
            parts.append(queue + unit)
    if finding.physical_offset is not None and not _says(sentence, str(finding.physical_offset)):
        parts.append(f"physical offset {finding.physical_offset}")
    return ", ".join(parts)


def finding_sentence(finding: Finding) -> str:
    """Return the sentence, with those of the expected and found values that it does not name."""
    sentence = finding.message
    if finding.file is not None:
        sentence = sentence.removeprefix(f"{finding.file}: ").removeprefix(f"{finding.file} ")
    sentence = sentence.removeprefix(f"{finding.topic}/{finding.queue_id}: ") or finding.code.title
    values = {
        name: _value_texts(finding, value)
        for name, value in (("expected", finding.expected), ("found", finding.observed))
        if value not in _OBVIOUS
    }
    unsaid = {name: texts[0] for name, texts in values.items() if not _says(sentence, *texts)}
    if not unsaid or unsaid == {"found": "0"}:  # of what is missing nothing is there
        return sentence
    return f"{sentence} ({', '.join(f'{name} {text}' for name, text in unsaid.items())})"


def _value_texts(finding: Finding, value: int | str | bool) -> list[str]:
    """Return a value as sentences may write it, first as its code's type has it."""
    if not isinstance(value, int):
        return [str(value)]
    texts = [str(value), utc_text(value)]  # times are ISO 8601 for people, milliseconds in data
    return texts[::-1] if finding.code.values == "time" else texts


def _says(sentence: str, *values: str) -> bool:
    return any(re.search(rf"(?<!\w){re.escape(value)}(?!\w)", sentence) for value in values)


def grouped(findings: Iterable[Finding]) -> list[list[Finding]]:
    """Return the findings that share code, severity, effect and remedy, errors first, else in their order."""
    groups: dict[tuple[str, Severity, str, str], list[Finding]] = {}
    for finding in findings:
        key = finding.code.code, finding.severity, finding.broker_effect, finding.remedy
        groups.setdefault(key, []).append(finding)
    ranks = list(Severity)
    return sorted(groups.values(), key=lambda group: ranks.index(group[0].severity))


def log_loss_facts(losses: LogLosses | None) -> Iterator[tuple[str, str]]:
    """Yield names and values of a log's losses, by queue; nothing if there are none."""
    if losses is None:
        return
    yield from before_facts(losses)
    if losses.states is not None and (losses.messages or losses.states.readable):
        yield "messages", _states(losses.states)
    if not losses.messages:
        return
    witnesses = (
        (losses.listed, "that units point to"),
        (losses.unlisted, "known by the queue offsets before and after"),
        (losses.consumed, "that consumers have read"),
        (losses.indexed, "of unknown queues, known by index items"),
    )
    by = [f"{count:,} {words}" for count, words in witnesses if count]
    lost = several(losses.messages, "message")
    yield "log lost", f"{lost}: {', '.join(by)}" if by[1:] else f"{lost} {by[0].partition(' ')[2]}"
    ranked = sorted(losses.queues, key=lambda queue: -queue.messages)
    names = [f"{queue.topic}/{queue.queue_id} {queue.messages:,}" for queue in ranked]
    if names:
        yield "of queues", _first(names, _LISTED)


def unconfirmed_facts(losses: LogLosses | None) -> Iterator[tuple[str, str]]:
    """Yield name and value of the records that replicas have not confirmed; nothing if there are none."""
    if losses is not None and losses.states is not None and losses.states.unconfirmed:
        yield "not confirmed", f"{several(losses.states.unconfirmed, 'record')}: replicas may lack them"


def before_facts(counted: CountsBefore) -> Iterator[tuple[str, str]]:
    """Yield name and value of the messages before a log's first byte; nothing if there are none."""
    if counted.before:
        words = several(counted.before, "message")
        yield "before log", f"{words} before its first byte, to which units or index items still lead"


def _states(states: MessageStates) -> str:
    """Return how many messages are in which state."""
    counts = {
        "there": states.there,
        "not confirmed by replicas": states.unconfirmed,
        "cut off by the next start": states.cut,
        "damaged": states.damaged,
        "gone": states.gone,
        "open, only units lead to them": states.open,
        "before the log's first byte": states.before,
    }
    return ", ".join(f"{count:,} {words}" for words, count in counts.items() if count or words == "there")


def lost_facts(lost: LostTotals) -> Iterator[tuple[str, str]]:
    """Yield names and values: all, by reason, by topic, and offsets that are known only as gaps."""
    messages = several(lost.messages, "message")
    yield "lost", f"{messages} of {size_text(lost.bytes)}" if lost.messages else "no known message"
    for reason, count in lost.reasons.items():
        yield "of these", f"{count:,} {_REASONS[reason]}"
    ranked = sorted(lost.topics, key=lambda topic: -topic.messages)
    yield from capped("of topic", map(_topic_losses, ranked), "topic")
    if lost.unnamed:
        yield "not named", f"{several(lost.unnamed, 'place')} of units that point to nothing known"
    if lost.missing_queue_offsets:
        offsets = several(lost.missing_queue_offsets, "queue offset")
        queues = several(lost.queues_with_missing, "queue")
        yield "no message", f"{offsets} in {queues} have no message in the log"


def _topic_losses(topic: LostTopic) -> str:
    mark = "" if topic.kind is TopicKind.ORDINARY else f" ({topic.kind.value} topic)"
    return f"{topic.topic}{mark}: {several(topic.messages, 'message')} of {size_text(topic.bytes)}"


_NAMED = 5
"""Files, topics or queues that are named; json has them all."""


def prediction_title(prediction: Prediction) -> str:
    """Return the outcome in one line."""
    outcome = "refuses to start"
    if prediction.loads:
        outcome = "starts" if prediction.starts else "loads the store and never finishes its start"
    return f"Next start of a {prediction.release.name} broker: it {outcome}"


def prediction_facts(prediction: Prediction, *, has_losses: bool = True) -> Iterator[tuple[str, str]]:
    """Yield names and values of the start's steps, in their order, with the log's losses or without."""
    yield from _refused(prediction)
    recovery, cut = prediction.recovery, prediction.cut
    if recovery is not None:
        place = f"from {recovery.file}" if recovery.file else "of an empty log"
        yield "recovery", f"{recovery.kind}, {place}: {recovery.reason}"
    if cut is not None:
        code = f" ({cut.code})" if cut.code else ""
        place = f"physical offset {cut.physical_offset}, {cut.file} @{cut.position}"
        yield "log ends", f"at {place}: {cut.reason}{code}"
    if has_losses:
        yield from log_loss_facts(prediction.log_losses)
        yield from _lost(prediction)
    if prediction.deleted_files:
        names = _first(prediction.deleted_files)
        yield "deletes", f"{several(len(prediction.deleted_files), 'file')}: {names}"
    if prediction.dispatched_by_recovery.units or prediction.dispatched_by_recovery.index_entries:
        yield "recovers", _dispatched(prediction.dispatched_by_recovery)
    if prediction.reput is not None and prediction.reput.dispatched.messages:
        yield "dispatches", _dispatched(prediction.reput.dispatched)
    if prediction.reput is not None and prediction.reput.stalled_at is not None:
        yield "stalls", f"at physical offset {prediction.reput.stalled_at}, for ever"
    yield from _left_behind(prediction)
    for hazard in prediction.hazards:
        yield "beware", hazard


def _refused(prediction: Prediction) -> Iterator[tuple[str, str]]:
    for refusal in prediction.refusals[:_NAMED]:
        yield "refuses", f"{refusal.file} {refusal.reason}"
    for remedy in dict.fromkeys(one.remedy for one in prediction.refusals if one.remedy is not None):
        yield "remedy", remedy
    for forgotten in prediction.forgets:
        yield "forgets", f"{forgotten.loses} ({forgotten.file})"


def _lost(prediction: Prediction) -> Iterator[tuple[str, str]]:
    if prediction.lost_messages is not None:
        yield from lost_facts(prediction.lost_messages)
    elif prediction.lost:
        messages = sum(loss.messages for loss in prediction.lost)
        size = size_text(sum(loss.bytes for loss in prediction.lost))
        topics = _first(f"{loss.topic} {loss.messages:,}" for loss in prediction.lost)
        yield "loses", f"{several(messages, 'message')} of {size} after that: {topics}"


def _dispatched(what: Dispatched) -> str:
    return (
        f"{several(what.messages, 'message')} from physical offset {what.start} to {what.stop}:"
        f" {several(what.units, 'unit')}, {_entries(what.index_entries)}"
    )


def _left_behind(prediction: Prediction) -> Iterator[tuple[str, str]]:
    for name in ("missing", "misplaced", "dropped"):
        queues = {f"{queue.topic}/{queue.queue_id}": getattr(queue, name) for queue in prediction.queues}
        if total := sum(queues.values()):
            listed = _first(f"{queue} {count:,}" for queue, count in queues.items() if count)
            yield name, f"{several(total, 'unit')}: {listed}"
    if prediction.missing_index_entries:
        yield "missing", _entries(prediction.missing_index_entries)


def _entries(count: int) -> str:
    return several(count, "index entry", "index entries")


def _first(items: Iterable[str], named: int = _NAMED) -> str:
    listed = list(items)
    more = f" and {len(listed) - named:,} more" if len(listed) > named else ""
    return ", ".join(listed[:named]) + more


_OUTCOME_COLUMNS = ("served", "wrong", "unserved", "unindexed", "lost", "reused", "placeholders")


def outcome_rows(outcomes: Sequence[Outcome]) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Return the columns of a table of outcomes, and a row for each; the recommended one is marked."""
    rows = []
    for outcome in outcomes:
        if outcome.refused is None:
            harm = "" if outcome.starts else ", no start"
            mark = " *" if outcome.recommended else harm or ", forgets" * bool(outcome.forgets)
            counts = (getattr(outcome, name) for name in _OUTCOME_COLUMNS)
            cells = ("-" if count is None else f"{count:,}" for count in counts)
            rows.append(((outcome.setting or outcome.action.value) + mark, *cells))
    return ("action", *_OUTCOME_COLUMNS), rows
