"""Text report of a replay."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqtool.findings.wording import counted
from rmqtool.report.escaping import escape_text

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import TextIO

    from rmqtool.commands.replay.model import ReplayReport

_LISTED = 10


def write_replay_text(report: ReplayReport, stream: TextIO) -> None:
    """Write the report."""
    for line in _lines(report):
        stream.write(escape_text(line) + "\n")


def _lines(report: ReplayReport) -> Iterator[str]:
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
