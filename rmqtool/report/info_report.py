"""The summary of a store as JSON objects."""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING

from rmqtool.commands.info import QueueSummary
from rmqtool.report.objects import BodyMode, camel_case, row_object
from rmqtool.report.sinks import csv_cell

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any, TextIO

    from rmqtool.commands.info import StoreSummary
    from rmqtool.errors import ExitStatus

SCHEMA = "rmqtool.info/1"


def info_document(summary: StoreSummary, status: ExitStatus) -> dict[str, Any]:
    """Return the JSON document."""
    checkpoint = summary.checkpoint
    return {
        "schema": SCHEMA,
        "path": summary.path,
        "kind": summary.kind,
        "settings": {
            setting.name: setting.to_json() | {"note": setting.note or None} for setting in summary.settings
        },
        "commitlog": None if summary.log is None else _object(summary.log),
        "queues": [_object(queue) for queue in summary.queues],
        "index": [_object(file) for file in summary.index],
        "indexCoverage": None if summary.index_coverage is None else _object(summary.index_coverage),
        "otherParts": [_object(part) for part in summary.other_parts],
        "checkpoint": None if checkpoint is None else row_object(checkpoint, BodyMode.NONE),
        "abort": summary.abort,
        "abortProcess": summary.abort_process,
        "lockHolder": summary.lock_holder,
        "findings": [finding.to_json() for finding in summary.findings],
        "counts": summary.findings.counts,
        "exitStatus": int(status),
    }


def info_objects(summary: StoreSummary) -> Iterable[dict[str, Any]]:
    """Yield the same as objects of one line each, told apart by ``type``."""
    yield {"type": "store", "path": summary.path, "kind": summary.kind} | {
        "abort": summary.abort,
        "abortProcess": summary.abort_process,
        "lockHolder": summary.lock_holder,
    }
    for setting in summary.settings:
        yield {"type": "setting", "name": setting.name} | setting.to_json() | {"note": setting.note or None}
    if summary.log is not None:
        yield {"type": "commitlog"} | _object(summary.log)
    for queue in summary.queues:
        yield {"type": "queue"} | _object(queue)
    for file in summary.index:
        yield {"type": "index"} | _object(file)
    if summary.index_coverage is not None:
        yield {"type": "index-coverage"} | _object(summary.index_coverage)
    for part in summary.other_parts:
        yield {"type": "part"} | _object(part)
    if summary.checkpoint is not None:
        yield dict(row_object(summary.checkpoint, BodyMode.NONE))
    for finding in summary.findings:
        yield dict(finding.to_json())


def write_info_csv(summary: StoreSummary, stream: TextIO) -> None:
    """Write the queues as csv."""
    writer = csv.writer(stream, lineterminator="\n")
    names = QueueSummary.__slots__
    writer.writerow(["type", *map(camel_case, names)])
    for queue in summary.queues:
        writer.writerow(["queue", *(csv_cell(getattr(queue, name)) for name in names)])


def _object(summary: object) -> dict[str, Any]:
    names = getattr(summary, "__slots__", ())
    return {camel_case(name): getattr(summary, name) for name in names}
