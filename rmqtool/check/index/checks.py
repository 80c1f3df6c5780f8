"""Checks of the index: every file on its own, and all of them as one stream against the log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqtool.check.expected import ExpectedEntries, IndexCheckTask
from rmqtool.check.index.match import IndexMatch
from rmqtool.check.index.shape import FileReport, IndexShape
from rmqtool.check.lag import Lag
from rmqtool.check.model import Examined
from rmqtool.derived.index_files import IndexFile, open_index_file
from rmqtool.findings import FindingLog, Severity, Structure
from rmqtool.findings.codes import IX_NAME_ORDER
from rmqtool.store.unread import unreadable_findings

if TYPE_CHECKING:
    from rmqtool.formats.index import HeaderFields
    from rmqtool.store.segments import StoreFile


_UNKNOWN = Lag()


def check_index(task: IndexCheckTask, *, lag: Lag = _UNKNOWN) -> tuple[FindingLog, Examined]:
    """Check the index.

    An index that is switched off (``messageIndexEnable=false``) requires nothing; older files are still
    checked on their own.
    """
    log = FindingLog(task.max_findings)
    if any(not _is_readable(task, file) for file in task.files):
        return log, Examined(index_files=len(task.files))  # IX-GEOMETRY of level 0 says so
    match = None
    if task.expected is not None and task.index_enabled:
        match = IndexMatch(task, ExpectedEntries(task.expected), log, lag)
    files = [open_index_file(file, task.geometry) for file in task.files]
    last_used = max((number for number, file in enumerate(files) if file.used), default=-1)
    examined, previous = Examined(), -1
    before: HeaderFields | None = None
    for number, index in enumerate(files):
        report = FileReport(index, log)
        torn = _torn(task) if number >= last_used else None
        first_offset = _check_file(index, report, IndexShape(report, torn), match, before)
        if first_offset is not None:
            if first_offset < previous:
                sentence = (
                    f"its first item belongs to a record before {previous}, the start of the previous file"
                )
                report.add(IX_NAME_ORDER, sentence, expected=previous, observed=first_offset)
            previous = first_offset
        before = index.header if index.used else None
        examined += Examined(index_files=1, items=index.used)
    if match is not None:
        match.finish()
    return log, examined


def _is_readable(task: IndexCheckTask, file: StoreFile) -> bool:
    return task.geometry_known or file.size_bytes == task.geometry.size_bytes


def _torn(task: IndexCheckTask) -> Severity | None:
    """Return how grave it is that the last file has a put half done: its broker runs, or died in it."""
    if task.live:
        return Severity.INFO
    return Severity.WARNING if task.unclean else None


def _check_file(
    index: IndexFile,
    report: FileReport,
    shape: IndexShape,
    match: IndexMatch | None,
    before: HeaderFields | None,
) -> int | None:
    if match is not None:
        match.open(report)
    for items in index.item_columns():
        shape.feed(items)
        if match is not None:
            match.feed(items)
    times_known = match.close(shape.torn) if match is not None else False
    shape.finish(before, times_known=times_known)
    report.log.extend(unreadable_findings(index.file, index.unreadable, Structure.INDEX))
    index.file.close()
    return shape.first_offset
