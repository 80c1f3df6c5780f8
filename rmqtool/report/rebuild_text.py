"""The outcome of a rebuild, for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqtool.findings.wording import counted
from rmqtool.report.escaping import escape_text
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
    yield f"{'store':<14} {escape_text(report.store)}"
    if report.out is not None:
        yield f"{'result':<14} {escape_text(report.out)}"
    yield f"{'records':<14} {report.records:,} in {size_text(report.bytes)} of log"
    yield f"{'units':<14} {report.units:,} in {counted(report.queues, 'queue', spec=',')}"
    yield f"{'index entries':<14} {report.index_entries:,}"
    if report.tag_items is not None:
        yield f"{'tag items':<14} {report.tag_items.value}"
    files = ", ".join(f"{count} {name}" for name, count in sorted(report.files.items()))
    yield f"{'files':<14} {files or 'none'}"
    stages = ", ".join(f"{name} {seconds:.2f}" for name, seconds in report.seconds.items())
    yield f"{'seconds':<14} {stages}"
    yield from _skipped(report)
    for finding in report.findings:
        sentence = escape_text(finding.sentence)
        yield f"{finding.code.code} ({finding.severity}): {sentence}"
    if report.compared:
        yield from _differences(report)


def _skipped(report: RebuildReport) -> Iterator[str]:
    for one in report.skipped[:_LISTED]:
        where = f"{one.skip.length} bytes at {one.skip.log_offset}"
        yield f"{'skipped':<14} {where}: {escape_text(one.reason)}"
    unlisted = max(len(report.skipped) - _LISTED, 0) + report.more_skipped.ranges
    if unlisted:
        yield f"{'skipped':<14} and {counted(unlisted, 'range')} more, see --format json"
    if report.skipped:
        lost = report.salvage_would_add
        yield f"{'in them':<14} {counted(lost.records, 'good record')}, {size_text(lost.bytes)}"


def _differences(report: RebuildReport) -> Iterator[str]:
    if not report.differences:
        yield f"{'compared':<14} the present files are the same"
    for one in report.differences:
        yield f"{'differs':<14} {escape_text(one.file)}: {escape_text(one.message.removeprefix('differs '))}"
