"""Text report of the log's topics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqtool.account.model import lost_words
from rmqtool.errors import ExitStatus
from rmqtool.findings import FailOn, Severity
from rmqtool.findings.wording import counted
from rmqtool.report.escaping import escape_text
from rmqtool.report.lost_text import log_loss_facts
from rmqtool.report.tables import Tables
from rmqtool.report.times import size_text
from rmqtool.times import time_text

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import tzinfo
    from typing import TextIO

    from rmqtool.commands.topics import LogParts, TopicsReport, TopicTotals

_COLUMNS = (
    *("topic", "messages", "size", "share", "oldest", "newest", "rate", "largest", "at"),
    *("backlog", "slowest"),
)
_SPARE = ("at", "rate", "oldest", "largest", "slowest", "share", "backlog")
_LISTED = 20
_HOUR_S = 3600


def write_topics_text(
    report: TopicsReport, stream: TextIO, zone: tzinfo | None, *, color: bool | None, all_command: str
) -> None:
    """Write verdict, parts of the log, and a row per topic or queue; ``all_command`` shows all rows."""
    tables = Tables(stream, color=color)
    tables.pairs(topics_verdict(report), [*_facts(report.log), *log_loss_facts(report.log_losses)])
    by_queue = any(row.queue_id is not None for row in report)
    columns = (_COLUMNS[0], "queue", *_COLUMNS[1:]) if by_queue else _COLUMNS
    lines = [_cells(row, zone, by_queue=by_queue) for row in report]
    tables.table("Queues" if by_queue else "Topics", columns, lines, spare=_SPARE)
    if report.truncated:
        rows = counted(report.more, "row", spec=",")
        stream.write(f"… {rows} more, all of them: {escape_text(all_command)}\n")
    findings = [(one.severity.value, one.code.code, escape_text(one.sentence)) for one in report.findings]
    tables.table("Findings", ("severity", "code", "what"), findings[:_LISTED])
    if len(findings) > _LISTED:
        stream.write(f"… {len(findings) - _LISTED} more, see --format json\n")


def topics_verdict(report: TopicsReport) -> str:
    """Return the log's content in one line, and whether it is damaged."""
    log = report.log
    damage = ""
    if report.findings.exit_status(FailOn.ERROR) is ExitStatus.LOG_DAMAGED:
        errors = sum(one.severity is Severity.ERROR for one in report.findings)
        damage = f"The commit log is damaged ({counted(errors, 'error')}): "
    topics = counted(report.topics, "topic", spec=",")
    messages = report.log_losses.messages if report.log_losses is not None else 0
    lost = f"; {lost_words(messages)}" if messages else ""
    there = counted(log.messages, "message", spec=",")
    return f"{damage}{topics}, {there} in {size_text(log.message_bytes)}{lost}"


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
        escape_text(row.topic),
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
        "-" if row.slowest_reader is None else escape_text(row.slowest_reader),
    )


def _rate(per_second: float | None) -> str:
    """Return a rate in the unit that gives it a digit before the point."""
    if per_second is None:
        return "-"
    return f"{per_second:,.1f}/s" if per_second >= 1 else f"{per_second * _HOUR_S:,.1f}/h"
