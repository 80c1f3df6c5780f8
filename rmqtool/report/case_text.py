"""Text report of a case."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, TextIO

from rmqtool.commands.case.check import CaseCheck, CaseResult, FileLine, FileState, RecordLine
from rmqtool.findings.model import counted
from rmqtool.report.terminal import escape_text

if TYPE_CHECKING:
    from collections.abc import Iterator


_HEADLINES = {
    CaseResult.INTACT: "unchanged",
    CaseResult.FILES_DIFFER: "unchanged; files have changed",
    CaseResult.ALTERED: "ALTERED",
}


def write_case_text(check: CaseCheck, stream: TextIO) -> None:
    """Write the report."""
    for line in _lines(check):
        stream.write(escape_text(line) + "\n")


def _lines(check: CaseCheck) -> Iterator[str]:
    yield f"{check.case}: {counted(len(check.records), 'record')}, {_HEADLINES[check.result]}"
    for record in check.records:
        yield from _record(record)
    for digest in check.missing:
        yield f"ERROR {digest}: no record has this digest"
    if check.files is not None:
        yield f"files  {', '.join(f'{count:,} {state}' for state, count in check.files.items()) or 'none'}"
    for file in check.differing:
        yield f"  {_file(file)}"
    if check.head is not None:
        yield f"last   {check.head}"


def _record(record: RecordLine) -> Iterator[str]:
    if record.command:
        status = "" if record.exit_status is None else f", exit status {record.exit_status}"
        yield f"{record.number:04d}  {record.started}  {record.operator}  {record.outcome}{status}"
        yield f"      {shlex.join(record.command)}"
    if record.problem is not None:
        yield f"ERROR {record.number:04d}.json: {record.problem}"


def _file(file: FileLine) -> str:
    if file.state is FileState.CHANGED:
        return f"{file.path}: SHA-256 is {file.observed}, in record {file.record} {file.expected}"
    if file.state is FileState.GONE:
        return f"{file.path}: is missing; record {file.record} has it"
    return f"{file.path}: unknown: {file.reason}"
