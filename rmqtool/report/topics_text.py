"""Messages of the log by topic, and offsets of groups and delay levels, in words."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from rmqtool.account import before_words, losses_words
from rmqtool.commands.offsets import Progress, known_lag, reader_totals
from rmqtool.errors import ExitStatus
from rmqtool.findings import FailOn, Severity, counted
from rmqtool.report.output import several, size_text
from rmqtool.report.sentences import log_loss_facts
from rmqtool.times import time_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import tzinfo

    from rmqtool.commands.topics import LogParts, TopicsReport, TopicTotals
    from rmqtool.lookup.delayed import DelayedMessages
    from rmqtool.report.text_report import TextReport


_COLUMNS = (
    *("topic", "messages", "size", "share", "oldest", "newest", "rate", "largest", "at"),
    *("backlog", "slowest"),
)
_SPARE = ("at", "rate", "oldest", "largest", "newest", "slowest", "backlog", "share")
_HOUR_S = 3600


def topics_text(report: TopicsReport, zone: tzinfo | None, all_command: str, text: TextReport) -> None:
    """Write verdict, parts of the log, and a row per topic or queue; ``all_command`` shows all rows."""
    text.verdict(topics_verdict(report), [*_facts(report.log), *log_loss_facts(report.log_losses)])
    by_queue = any(row.queue_id is not None for row in report)
    columns = (_COLUMNS[0], "queue", *_COLUMNS[1:]) if by_queue else _COLUMNS
    lines = [_cells(row, zone, by_queue=by_queue) for row in report]
    text.table("Queues" if by_queue else "Topics", columns, lines, spare=_SPARE)
    if report.truncated:
        text.line(f"… {several(report.more, 'row')} more, all of them: {all_command}")
    text.findings(report.findings)


def topics_verdict(report: TopicsReport) -> str:
    """Return the topics' content in one line, whether the log is damaged, and what it has lost."""
    log = report.log
    damage = ""
    if report.findings.exit_status(FailOn.ERROR) is ExitStatus.LOG_DAMAGED:
        errors = sum(finding.severity is Severity.ERROR for finding in report.findings)
        damage = f"The commit log is damaged ({counted(errors, 'error')}): "
    topics = several(report.topics, "topic")
    losses = report.log_losses
    lost = f"; {said}" if (said := losses_words(losses)) else ""
    there = f"{several(report.messages, 'message')} in {size_text(report.bytes)}"
    if report.messages < log.messages:
        there += f", of the log's {several(log.messages, 'message')}"
    return f"{damage}{topics}, {there}{lost}{before_words(losses)}"


def _facts(log: LogParts) -> Iterator[tuple[str, str]]:
    parts = (
        (log.message_bytes, "messages"),
        (log.blank_bytes, "BLANK"),
        (log.damaged_bytes, "damaged"),
        (log.stale_bytes, "stale after the end"),
        (log.zero_bytes, "zeros at the end"),
    )
    text = ", ".join(f"{size_text(size)} {word}" for size, word in parts if size)
    yield "log files", f"{size_text(log.size_bytes)}: {text}" if text else size_text(log.size_bytes)


def _cells(row: TopicTotals, zone: tzinfo | None, *, by_queue: bool) -> tuple[str, ...]:
    return (
        row.topic,
        *([str(row.queue_id)] if by_queue else []),
        f"{row.messages:,}",
        size_text(row.bytes),
        f"{row.share:.1%}",
        time_text(row.oldest_timestamp_ms, zone),
        time_text(row.newest_timestamp_ms, zone),
        _rate(row.messages_per_second),
        size_text(row.largest_bytes),
        str(row.largest_physical_offset),
        "-" if row.backlog is None else f"{row.backlog:,}",
        "-" if row.slowest_reader is None else row.slowest_reader,
    )


def _rate(per_second: float | None) -> str:
    """Return a rate in the unit that gives it a digit before the point."""
    if per_second is None:
        return "-"
    return f"{per_second:,.1f}/s" if per_second >= 1 else f"{per_second * _HOUR_S:,.1f}/h"


_READERS_LISTED = 200
_OFFSET_COLUMNS = ("consumer", "topic", "queue", "offset", "min", "max", "lag", "last consumed", "")
_WORDS = {
    "ok": "",
    "ahead": "beyond the end",
    "behind": "below the start",
    "no-offset": "not begun",
    "no-queue": "without a queue",
    "not-read": "in RocksDB, not read",
}


def offsets_text(rows: Sequence[Progress], zone: tzinfo | None, text: TextReport) -> None:
    """Write a line of totals, a line per reader and per offset, those with the largest lag first."""
    states = Counter(row.state for row in rows)
    parts = [f"{states[state]} {words}" for state, words in _WORDS.items() if words and states[state]]
    if passed := sum(row.passed_over or 0 for row in rows):
        parts.append(f"{counted(passed, 'delayed message')} passed over")
    lag = known_lag(rows)
    known = "not known" if lag is None else lag
    text.verdict(", ".join([f"{counted(len(rows), 'offset')}, lag {known}", *parts]))
    totals = sorted(reader_totals(rows).items(), key=lambda entry: -(entry[1]["lag"] or 0))
    if len(totals) > 1:
        readers = [
            (name, str(total["queues"]), _text(total["lag"]), str(total["outOfRange"]))
            for name, total in totals
        ]
        columns = ("consumer", "queues", "lag", "out of range")
        text.table("Consumers", columns, readers, listed=_READERS_LISTED)
    ordered = sorted(rows, key=lambda row: -(row.lag or 0))
    cells = [_offset_cells(row, zone) for row in ordered]
    text.table("Offsets", _OFFSET_COLUMNS, cells, spare=("min", "last consumed"), listed=_READERS_LISTED)


def _text(number: int | None) -> str:
    return "-" if number is None else str(number)


def _offset_cells(row: Progress, zone: tzinfo | None) -> tuple[str, ...]:
    texts = map(_text, (row.queue_id, row.offset, row.min_offset, row.max_offset, row.lag))
    last = "-" if row.last_timestamp_ms is None else time_text(row.last_timestamp_ms, zone)
    words = [_WORDS[row.state]] if _WORDS[row.state] else []
    if row.passed_over:
        words.append(f"{row.passed_over} passed over")
    return row.reader, row.topic, *texts, last, ", ".join(words)


_DELAYED_COLUMNS = (
    *("level", "offset", "max", "waiting", "overdue", "overdue since", "next due"),
    *("passed over", "twice"),
)


def delayed_text(rows: Sequence[DelayedMessages], zone: tzinfo | None, text: TextReport) -> None:
    """Write a line of totals, a line per delay level, and the messages that are due first."""
    waiting, overdue = sum(row.waiting for row in rows), sum(row.overdue for row in rows)
    parts = [f"{counted(waiting, 'delayed message waits', 'delayed messages wait')}, {overdue} overdue"]
    for count, words in (
        (sum(row.passed_over or 0 for row in rows), "passed over"),
        (sum(row.twice or 0 for row in rows), "delivered more than once"),
    ):
        parts += [f"{count} {words}"] if count else []
    text.verdict(", ".join(parts))
    cells = [
        (
            row.reader.removeprefix("delay level "),
            *map(str, (row.offset, row.max_offset, row.waiting, row.overdue)),
            *(
                "-" if time_ms is None else time_text(time_ms, zone)
                for time_ms in (row.since_ms, row.next_ms)
            ),
            *("-" if count is None else str(count) for count in (row.passed_over, row.twice)),
        )
        for row in rows
    ]
    text.table("Levels", _DELAYED_COLUMNS, cells, spare=("max", "next due"))
    oldest = sorted(
        ((message, row.reader) for row in rows for message in row.oldest), key=lambda pair: pair[0].due_ms
    )
    lines = [
        (
            time_text(message.due_ms, zone),
            reader.removeprefix("delay level "),
            str(message.queue_offset),
            str(message.physical_offset),
            message.topic or "-",
            message.uniq_key or "-",
        )
        for message, reader in oldest[:10]
    ]
    columns = ("due", "level", "queue offset", "physical offset", "topic", "unique key")
    text.table("Due first", columns, lines, spare=("physical offset",))
