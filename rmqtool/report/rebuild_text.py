"""The outcome of a rebuild, for people."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rmqtool.findings.wording import counted
from rmqtool.report.escaping import escape_text
from rmqtool.report.finding_text import finding_line
from rmqtool.report.times import size_text

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import TextIO

    from rmqtool.commands.rebuild.report import RebuildReport

_LISTED = 20


def write_rebuild_text(report: RebuildReport, stream: TextIO) -> None:
    """Write the summary."""
    for line in _lines(report):
        stream.write(line + "\n")


def _lines(report: RebuildReport) -> Iterator[str]:
    document = report.to_json()
    yield escape_text(report.verdict)
    yield f"{'store':<14} {escape_text(report.store)}"
    if report.out is not None:
        yield f"{'result':<14} {escape_text(report.out)}"
    yield f"{'records':<14} {document['records']:,} in {size_text(report.bytes_read)} of log"
    yield from _account(report)
    yield f"{'units':<14} {document['units']:,} in {counted(document['queues'], 'queue', spec=',')}"
    yield f"{'index entries':<14} {document['indexEntries']:,}"
    yield from _now(report)
    if report.tags is not None:
        yield f"{'tag items':<14} {report.tags.value}"
    files = ", ".join(f"{count} {name}" for name, count in sorted(document["files"].items()))
    yield f"{'files':<14} {files or 'none'}"
    stages = ", ".join(f"{name} {seconds:.2f}" for name, seconds in report.seconds.items())
    yield f"{'seconds':<14} {stages}"
    yield from _skipped(document["skipped"], document["moreSkipped"])
    yield from _unreachable(document["unreachable"])
    yield from _without_unit(report)
    for finding in report.findings:
        yield f"{finding.code.code} ({finding.severity}): {finding_line(finding)}"
    if report.compared:
        yield from _differences(report)


def _account(report: RebuildReport) -> Iterator[str]:
    """Say where all records of the log went, where that is not one place."""
    account = report.account
    words = (
        ("dispatched", "dispatched"),
        ("notAskedFor", "not asked for"),
        ("skipped", "skipped"),
        ("unreachable", "unreachable"),
    )
    parts = [f"{account[key]:,} {word}" for key, word in words if account[key]]
    if len(parts) > 1:
        yield f"{'of these':<14} {counted(account['records'], 'record', spec=',')}: {', '.join(parts)}"


def _now(report: RebuildReport) -> Iterator[str]:
    """Say what is there, where it is not what was made."""
    present = report.present
    if present is None:
        return
    if present.fewer or present.more:
        entries = "" if present.entries is None else f", {present.entries:,} index entries"
        yield f"{'now there':<14} {counted(present.messages, 'message', spec=',')}{entries}"
    ranked = sorted(present.fewer_by_queue.items(), key=lambda item: -item[1])
    yield from _queues("fewer", dict(ranked), "fewer than now")
    for reason in present.unread[:_LISTED]:
        yield f"{'not compared':<14} {escape_text(reason)}"


def _queues(word: str, counts: dict[tuple[str, int], int], what: str) -> Iterator[str]:
    for (topic, queue_id), count in list(counts.items())[:_LISTED]:
        yield f"{word:<14} {escape_text(topic)}/{queue_id}: {count:,} {what}"
    if len(counts) > _LISTED:
        yield f"{word:<14} and {counted(len(counts) - _LISTED, 'queue')} more, see --format json"


def _skipped(ranges: list[dict[str, Any]], more: dict[str, int]) -> Iterator[str]:
    for one in ranges[:_LISTED]:
        within = counted(one["records"], "good record")
        yield f"{'skipped':<14} {one['length']} bytes at {one['physicalOffset']}: {one['reason']}; {within}"
    unlisted = max(len(ranges) - _LISTED, 0) + more["ranges"]
    if unlisted:
        yield f"{'skipped':<14} and {counted(unlisted, 'range')} more, see --format json"


def _unreachable(ranges: list[dict[str, Any]]) -> Iterator[str]:
    for one in ranges[:_LISTED]:
        within = counted(one["records"], "good record")
        yield f"{'unreachable':<14} {escape_text(one['file'])}: {one['reason']}; {within}"
    if len(ranges) > _LISTED:
        yield f"{'unreachable':<14} and {counted(len(ranges) - _LISTED, 'file')} more, see --format json"


def _without_unit(report: RebuildReport) -> Iterator[str]:
    """Say which messages are dispatched and yet in no queue, or not in the index."""
    for one in report.generations[:_LISTED]:
        older = counted(one.units, "message", spec=",")
        yield (
            f"{'left out':<14} {escape_text(one.topic)}/{one.queue_id}: {older} from before the topic was"
            f" deleted and created again; {one.kept:,} since, at {one.since} and after"
        )
    if len(report.generations) > _LISTED:
        more = counted(len(report.generations) - _LISTED, "queue")
        yield f"{'left out':<14} and {more} more, see --format json"
    yield from _queues(
        "without unit", report.result.skipped_units, "messages: the queue holds later ones already"
    )
    if report.result.unindexed:
        count = counted(report.result.unindexed, "message", spec=",")
        yield f"{'not indexed':<14} {count}: the index holds later ones already"


def _differences(report: RebuildReport) -> Iterator[str]:
    if not report.differences:
        yield f"{'compared':<14} the present files are the same"
    for one in report.differences:
        yield f"{'differs':<14} {escape_text(one.file)}: {escape_text(one.message.removeprefix('differs '))}"
