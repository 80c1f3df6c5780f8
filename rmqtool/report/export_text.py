"""Outcomes of an export, and of messages that are sent again, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING, TextIO

from rmqtool.commands.export.model import ExportReport, StoreFinding
from rmqtool.findings.model import counted
from rmqtool.report.finding_text import finding_line
from rmqtool.report.formats import size_text
from rmqtool.report.terminal import escape_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.commands.replay.model import ReplayReport


def write_export_text(report: ExportReport, stream: TextIO) -> None:
    """Write the summary."""
    for line in _lines(report):
        stream.write(line + "\n")


def _lines(report: ExportReport) -> Iterator[str]:
    for store in report.stores:
        yield f"{'store':<10} {escape_text(store)}"
    for one in report.left_out:
        yield f"{'left out':<10} {escape_text(one.reason)}"
    yield f"{'result':<10} {escape_text(report.out)}"
    yield f"{'messages':<10} {report.messages:,} of {size_text(report.log_bytes)} of log"
    size = size_text(sum(file.bytes for file in report.files))
    yield f"{'files':<10} {counted(len(report.files), report.format + ' file', spec=',')}, {size}"
    yield f"{'seconds':<10} {report.seconds:.2f}"
    for finding in report.findings:
        store = f"{escape_text(finding.store)}: " if isinstance(finding, StoreFinding) else ""
        yield f"{finding.code.code} ({finding.severity}): {store}{finding_line(finding)}"
    for code in report.findings.counts:
        more = report.findings.suppressed(code)
        if more:
            yield f"{code}: {more:,} more"


_LISTED = 10


def write_replay_text(report: ReplayReport, stream: TextIO) -> None:
    """Write the report."""
    for line in _replay_lines(report):
        stream.write(escape_text(line) + "\n")


def _replay_lines(report: ReplayReport) -> Iterator[str]:
    waiting = sum(one.messages for one in report.topics)
    if report.dry_run:
        yield f"{report.file}: {counted(waiting, 'message', spec=',')} would be sent to {report.proxy}"
    else:
        yield f"{report.file}: {counted(report.sent, 'message', spec=',')} sent to {report.proxy}"
    for topic in report.topics:
        target = "" if topic.target == topic.topic else f" -> {topic.target}"
        yield f"  {topic.topic}{target}: {topic.messages:,} of {topic.bytes:,} bytes"
    if report.already:
        yield f"  in the ledger already: {report.already:,} ({report.ledger})"
    for reason, count in report.left_out.items():
        yield f"  left out: {count:,} of {reason}"
    for one in report.refused[:_LISTED]:
        yield f"  not taken: line {one.line}, {one.topic}: {one.reason}"
    more = len(report.refused[_LISTED:]) + report.more_refused
    if more:
        yield f"  not taken: {more:,} more"
    if report.dry_run and waiting:
        yield "nothing was sent; --send does it"
