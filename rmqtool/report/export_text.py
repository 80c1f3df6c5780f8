"""Text report of an export."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqtool.commands.export.model import StoreFinding
from rmqtool.findings.wording import counted
from rmqtool.report.escaping import escape_text
from rmqtool.report.finding_text import finding_line
from rmqtool.report.times import size_text

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import TextIO

    from rmqtool.commands.export.model import ExportReport


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
