"""Records whose properties changed since their dispatch: unit and index item still have the old ones.

Then the log is damaged, not its derived files (``Record.change``).
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from rmqtool.check.index import LEFT_OVER, NO_KEYS, OTHER_KEY
from rmqtool.check.queue_fields import OTHER_TAGS
from rmqtool.findings import Finding, FindingLog, Severity, codes
from rmqtool.scan.records import PropertyWitness, Record, record_at
from rmqtool.store.segments import FileQueue, finding_at
from rmqtool.topics import SCHEDULE_TOPIC

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping


def tell_contradicted(
    log: FileQueue,
    findings: FindingLog,
    known: Mapping[int, Collection[PropertyWitness]] = MappingProxyType({}),
) -> None:
    """Add an error of the log for each of those records.

    ``findings`` are those of queues, index and records; ``known`` are further witnesses by physical offset.
    """
    odd = {one.physical_offset: one for one in findings if one.code is codes.CL_PROPERTIES}
    witnesses = defaultdict(set, {place: set(against) for place, against in known.items()})
    for finding in findings:
        witness = _witness(finding)
        if witness is not None and finding.physical_offset is not None:
            witnesses[finding.physical_offset].add(witness)
    for place, against in sorted(witnesses.items()):
        record = record_at(log, place)
        if record is None:
            continue
        reason = record.change(against)
        if not reason:
            continue
        message = f"the record's properties changed after it was stored: {reason}"
        told = odd.get(place)
        if told is not None:
            error = replace(told, message=message, severity_override=Severity.ERROR, remedy_override=_REMEDY)
            findings.exchange(told, error)
        else:
            findings.add(_error(log, record, message))
        for item in [one for one in findings if one.physical_offset == place]:
            if item.message.endswith(LEFT_OVER):  # it is the same record, changed
                findings.exchange(item, replace(item, message=item.message.removesuffix(LEFT_OVER)))


_REMEDY = (
    "Compare with a replica. Keep the present queue and index: only they still show the record's tags and "
    "keys, and a rebuild would use the damaged properties."
)


def _witness(finding: Finding) -> PropertyWitness | None:
    if finding.code is codes.CL_PROPERTIES:
        return PropertyWitness.FORM
    if finding.code is codes.IX_WRONG and OTHER_KEY in finding.message:
        return PropertyWitness.ITEM
    if finding.code is codes.IX_DANGLING and NO_KEYS in finding.message:
        return PropertyWitness.ITEM  # a record may lie there all the same, without a key
    if (
        finding.code is codes.CQ_SIZE_TAG
        and OTHER_TAGS in finding.message
        and finding.topic != SCHEDULE_TOPIC
    ):
        return PropertyWitness.UNIT
    return None


def _error(log: FileQueue, record: Record, message: str) -> Finding:
    return finding_at(
        log.segment_at(record.physical_offset),
        codes.CL_PROPERTIES,
        record.physical_offset,
        message,
        length=len(record.raw),
        topic=record.topic,
        queue_id=record.head.queue_id,
        queue_offset=record.head.queue_offset,
        severity_override=Severity.ERROR,
        remedy_override=_REMEDY,
    )
