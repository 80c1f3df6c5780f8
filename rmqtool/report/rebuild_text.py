"""Text report of a rebuild."""

from __future__ import annotations

from typing import TYPE_CHECKING, TextIO

from rmqtool.findings.model import counted
from rmqtool.report.finding_text import finding_line
from rmqtool.report.formats import size_text
from rmqtool.report.lost_text import log_loss_facts, lost_facts
from rmqtool.report.terminal import escape_text
from rmqtool.times import time_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rmqtool.commands.rebuild.report import RebuildReport

_LISTED = 20


def write_rebuild_text(report: RebuildReport, stream: TextIO) -> None:
    """Write the summary."""
    for line in _lines(report):
        stream.write(line + "\n")


def _lines(report: RebuildReport) -> Iterator[str]:
    yield escape_text(report.verdict)
    yield f"{'store':<14} {escape_text(report.store)}"
    if report.out is not None:
        yield f"{'result':<14} {escape_text(report.out)}"
    yield from _asked(report)
    yield f"{'records':<14} {report.records:,} in {size_text(report.bytes)} of log"
    yield from _account(report)
    yield f"{'units':<14} {report.units:,} in {counted(report.queues, 'queue', spec=',')}"
    yield f"{'index entries':<14} {report.index_entries:,}"
    yield from _now(report)
    if report.tag_items is not None:
        yield f"{'tag items':<14} {report.tag_items.value}"
    files = ", ".join(f"{count} {name}" for name, count in sorted(report.files.items()))
    yield f"{'files':<14} {files or 'none'}"
    stages = ", ".join(f"{name} {seconds:.2f}" for name, seconds in report.seconds.items())
    yield f"{'seconds':<14} {stages}"
    for what in report.not_looked_at:
        yield f"{'not examined':<14} {what}"
    yield from _skipped(report)
    yield from _unreachable(report)
    yield from _without_unit(report)
    for name, text in log_loss_facts(report.log_losses):
        yield f"{name:<14} {text}"
    if report.lost_messages is not None:
        for name, text in lost_facts(report.lost_messages):
            yield f"{name:<14} {text}"
    for finding in report.findings:
        yield f"{finding.code.code} ({finding.severity}): {finding_line(finding)}"
    if report.compared:
        yield from _differences(report)


def _asked(report: RebuildReport) -> Iterator[str]:
    asked = report.asked
    if asked.topics:
        yield f"{'topics':<14} {escape_text(', '.join(asked.topics))}"
    if asked.exclude_topics:
        yield f"{'without topics':<14} {escape_text(', '.join(asked.exclude_topics))}"
    if asked.until_timestamp_ms is not None:
        yield f"{'until':<14} {time_text(asked.until_timestamp_ms)}"
    if asked.until_offset is not None:
        yield f"{'until offset':<14} {asked.until_offset}"


def _account(report: RebuildReport) -> Iterator[str]:
    account = report.account
    words = (
        (account.dispatched, "dispatched"),
        (account.not_asked_for, "not selected"),
        (account.skipped, "skipped"),
        (account.unreachable, "unreachable"),
    )
    parts = [f"{count:,} {word}" for count, word in words if count]
    if len(parts) > 1:
        yield f"{'of these':<14} {counted(account.records, 'record', spec=',')}: {', '.join(parts)}"


def _now(report: RebuildReport) -> Iterator[str]:
    present = report.present
    if present is None:
        return
    if present.fewer_messages or present.more_messages:
        entries = "" if present.index_entries is None else f", {present.index_entries:,} index entries"
        yield f"{'now there':<14} {counted(present.messages, 'message', spec=',')}{entries}"
    ranked = sorted(present.fewer_by_queue, key=lambda one: -one.messages)
    counts = [(one.topic, one.queue_id, one.messages) for one in ranked]
    yield from _queues("fewer", counts, "fewer than now")
    for reason in present.unread[:_LISTED]:
        yield f"{'not compared':<14} {escape_text(reason)}"


def _queues(word: str, counts: Sequence[tuple[str, int, int]], what: str) -> Iterator[str]:
    for topic, queue_id, count in counts[:_LISTED]:
        yield f"{word:<14} {escape_text(topic)}/{queue_id}: {count:,} {what}"
    if len(counts) > _LISTED:
        yield f"{word:<14} and {counted(len(counts) - _LISTED, 'queue')} more, see --format json"


def _skipped(report: RebuildReport) -> Iterator[str]:
    for one in report.skipped[:_LISTED]:
        where = f"{one.skip.length} bytes at {one.skip.log_offset}"
        yield f"{'skipped':<14} {where}: {escape_text(one.reason)}; {counted(one.records, 'good record')}"
    unlisted = max(len(report.skipped) - _LISTED, 0) + report.more_skipped.ranges
    if unlisted:
        yield f"{'skipped':<14} and {counted(unlisted, 'range')} more, see --format json"


def _unreachable(report: RebuildReport) -> Iterator[str]:
    for one in report.unreachable[:_LISTED]:
        where = escape_text(one.segment.label)
        yield f"{'unreachable':<14} {where}: {one.reason}; {counted(one.records, 'good record')}"
    if len(report.unreachable) > _LISTED:
        more = counted(len(report.unreachable) - _LISTED, "file")
        yield f"{'unreachable':<14} and {more} more, see --format json"


def _without_unit(report: RebuildReport) -> Iterator[str]:
    for one in report.older_generations[:_LISTED]:
        older = counted(one.units, "message", spec=",")
        yield (
            f"{'left out':<14} {escape_text(one.topic)}/{one.queue_id}: {older} from before the topic was"
            f" deleted and created again; {one.kept:,} since, at {one.physical_offset} and after"
        )
    if len(report.older_generations) > _LISTED:
        more = counted(len(report.older_generations) - _LISTED, "queue")
        yield f"{'left out':<14} and {more} more, see --format json"
    skipped = [(one.topic, one.queue_id, one.units) for one in report.skipped_units_by_queue]
    yield from _queues("without unit", skipped, "messages: the queue holds later ones already")
    if report.unindexed:
        count = counted(report.unindexed, "message", spec=",")
        yield f"{'not indexed':<14} {count}: the index holds later ones already"


def _differences(report: RebuildReport) -> Iterator[str]:
    if not report.differences:
        yield f"{'compared':<14} the present files are the same"
    for one in report.differences:
        yield f"{'differs':<14} {escape_text(one.file)}: {escape_text(one.message.removeprefix('differs '))}"
