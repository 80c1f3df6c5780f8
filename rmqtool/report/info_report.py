"""The summary of a store as JSON objects."""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING

from rmqtool.commands.info import QueueSummary
from rmqtool.projection import columns_of, json_object, json_value
from rmqtool.report.formats import csv_cell

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any, TextIO

    from rmqtool.commands.info import StoreSummary
    from rmqtool.errors import ExitStatus

SCHEMA = "rmqtool.info/1"


def info_document(summary: StoreSummary, status: ExitStatus) -> dict[str, Any]:
    """Return the JSON document."""
    return {
        "schema": SCHEMA,
        "path": summary.path,
        "kind": summary.kind,
        "settings": dict(_settings(summary)),
        "commitlog": json_value(summary.log),
        "queues": json_value(summary.queues),
        "index": json_value(summary.index),
        "indexCoverage": json_value(summary.index_coverage),
        "otherParts": json_value(summary.other_parts),
        "checkpoint": json_value(summary.checkpoint),
        "abort": summary.abort,
        "abortProcess": summary.abort_process,
        "lockHolder": summary.lock_holder,
        "logLosses": json_value(summary.log_losses),
        "findings": json_value(summary.findings),
        "counts": summary.findings.counts,
        "exitStatus": int(status),
    }


def info_objects(summary: StoreSummary) -> Iterable[dict[str, Any]]:
    """Yield the same as objects of one line each, distinguished by ``type``."""
    yield {"type": "store", "schema": SCHEMA, "path": summary.path, "kind": summary.kind} | {
        "abort": summary.abort,
        "abortProcess": summary.abort_process,
        "lockHolder": summary.lock_holder,
    }
    for name, setting in _settings(summary):
        yield {"type": "setting", "name": name} | setting
    if summary.log is not None:
        yield {"type": "commitlog"} | json_object(summary.log)
    for queue in summary.queues:
        yield {"type": "queue"} | json_object(queue)
    for file in summary.index:
        yield {"type": "index"} | json_object(file)
    if summary.index_coverage is not None:
        yield {"type": "index-coverage"} | json_object(summary.index_coverage)
    for part in summary.other_parts:
        yield {"type": "part"} | json_object(part)
    if summary.checkpoint is not None:
        yield json_object(summary.checkpoint)
    if summary.log_losses is not None:
        yield {"type": "log-losses"} | json_object(summary.log_losses)
    for finding in summary.findings:
        yield json_object(finding)


def write_info_csv(summary: StoreSummary, stream: TextIO) -> None:
    """Write the queues as csv."""
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(["type", *columns_of(QueueSummary)])
    for queue in summary.queues:
        writer.writerow(["queue", *map(csv_cell, json_object(queue).values())])


def _settings(summary: StoreSummary) -> Iterable[tuple[str, dict[str, Any]]]:
    for setting in summary.settings:
        yield setting.name, json_object(setting) | {"note": setting.note or None}
