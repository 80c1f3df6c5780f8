"""Text of one finding."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rmqtool.findings import Finding, Severity
from rmqtool.findings.codes import CL_TIME, CL_TS_BACK, CP_AHEAD
from rmqtool.report.terminal import escape_text
from rmqtool.times import utc_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


_OF_TIMES = {CL_TIME, CL_TS_BACK, CP_AHEAD}


def finding_line(finding: Finding) -> str:
    """Return place and sentence on one line; hostile characters are escaped."""
    sentence = finding_sentence(finding)
    place = finding_place(finding, sentence)
    return f"{place}: {sentence}" if place else sentence


def finding_place(finding: Finding, sentence: str = "") -> str:
    """Return the place of a finding, as far as a sentence does not name it; may be empty."""
    parts = []
    if finding.file is not None:
        position = "" if finding.position is None else f" @{finding.position}"
        parts.append(escape_text(finding.file) + position)
    if finding.topic is not None:
        queue = escape_text(finding.topic) + ("" if finding.queue_id is None else f"/{finding.queue_id}")
        unit = "" if finding.queue_offset is None else f" #{finding.queue_offset}"
        if f"{unit.removeprefix(' #')} of {queue} " not in sentence:
            parts.append(queue + unit)
    if finding.physical_offset is not None and not _says(sentence, str(finding.physical_offset)):
        parts.append(f"physical offset {finding.physical_offset}")
    return ", ".join(parts)


def finding_sentence(finding: Finding) -> str:
    """Return the sentence, with the expected and found values if it does not name them."""
    sentence = finding.message
    if finding.file is not None:
        sentence = sentence.removeprefix(f"{finding.file}: ").removeprefix(f"{finding.file} ")
    sentence = sentence.removeprefix(f"{finding.topic}/{finding.queue_id}: ") or finding.code.title
    values = [
        f"{name} {said}"
        for name, value in (("expected", finding.expected), ("found", finding.observed))
        if value is not None and not _says(sentence, said := _value_text(finding, value))
    ]
    return escape_text(f"{sentence} ({', '.join(values)})" if values else sentence)


def _value_text(finding: Finding, value: int | str | bool) -> str:
    """Return a value as sentences write it: times are ISO 8601 for people, milliseconds in data."""
    is_time = finding.code in _OF_TIMES or "Timestamp is" in finding.message
    return utc_text(value) if is_time and isinstance(value, int) else str(value)


def _says(sentence: str, value: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(value)}(?!\w)", sentence) is not None


def grouped(findings: Iterable[Finding]) -> list[list[Finding]]:
    """Return the findings of each code, errors first, else in their order."""
    groups: dict[str, list[Finding]] = {}
    for finding in findings:
        groups.setdefault(finding.code.code, []).append(finding)
    ranks = list(Severity)
    return sorted(groups.values(), key=lambda group: ranks.index(worst_of(group)))


def worst_of(group: Sequence[Finding]) -> Severity:
    """Return the gravest severity in a group."""
    return min((finding.severity for finding in group), key=list(Severity).index)
