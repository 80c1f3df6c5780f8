"""Text report of a broker's deletions."""

from __future__ import annotations

from typing import TYPE_CHECKING, TextIO

from rmqtool.projection import columns_of, json_object
from rmqtool.report.output import Format, several, size_text, write_document
from rmqtool.retention.deletion import HOUR_MS, FileFate
from rmqtool.store.broker_conf import conf_text
from rmqtool.times import time_text

if TYPE_CHECKING:
    from datetime import tzinfo

    from rmqtool.commands.retention import RetentionReport
    from rmqtool.report.text_report import TextReport

_LISTED = 200
_LOG = "commitlog/"


def retention_text(report: RetentionReport, zone: tzinfo | None, text: TextReport) -> None:
    """Write what a broker deletes, the files of the log, and of other files those that go."""
    logs = [file for file in report.files if file.written_ms is not None]
    others = [file for file in report.files if file.written_ms is None]
    deleted = sum(file.deleted for file in logs)
    title = "a broker deletes " + (f"{deleted:,} of {several(len(logs), 'file')}" if deleted else "nothing")
    text.verdict(
        f"At {time_text(report.at_ms, zone)} {title} of the log: {report.store}",
        [
            ("disk", "below every limit" if report.disk_ratio is None else f"{report.disk_ratio:g} % full"),
            ("settings", ", ".join(f"{name}={conf_text(value)}" for name, value in report.settings.items())),
            ("next", report.next),
            ("log begins at", str(report.min_offset)),
            ("also deleted", several(sum(file.deleted for file in others), *_OTHERS)),
            ("freed", size_text(report.bytes)),
            ("messages", f"{sum(report.messages.values()):,}"),
            ("not consumed", f"{max(report.unread.values(), default=0):,} by the slowest consumer"),
        ],
    )
    columns = ("file", "written", "age", "deleted", "due by age", "why")
    lines = [_row(file, report.at_ms, zone) for file in logs]
    text.table("Files of the log", columns, lines, spare=("age", "written"), listed=_LISTED)
    rows = [(topic, f"{count:,}") for topic, count in report.messages.items()]
    text.table("Messages that are deleted", ("topic", "messages"), rows, listed=_LISTED)
    rows = [(reader, f"{count:,}") for reader, count in report.unread.items()]
    text.table("Of these not consumed", ("consumer", "messages"), rows, listed=_LISTED)


_OTHERS = "file of queues or index", "files of queues or index"


def _row(file: FileFate, at_ms: int, zone: tzinfo | None) -> tuple[str, ...]:
    written_ms = file.written_ms or 0
    due = "never" if file.due_ms is None else time_text(file.due_ms, zone)
    age = f"{(at_ms - written_ms) / HOUR_MS:,.0f} h"
    deleted = "yes" if file.deleted else "no"
    return file.file, time_text(written_ms, zone), age, deleted, due, file.reason


def write_retention(report: RetentionReport, chosen: Format, stream: TextIO) -> None:
    """Write the same for programs; ndjson and csv have the files."""
    rows = [json_object(file) for file in report.files]
    columns = columns_of(FileFate)
    write_document(chosen, stream, lambda: json_object(report), lambda: rows, columns, lambda: rows)
