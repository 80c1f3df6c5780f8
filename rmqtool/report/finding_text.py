"""One finding in words, for people."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rmqtool.report.escaping import escape_text

if TYPE_CHECKING:
    from rmqtool.findings import Finding


def finding_line(finding: Finding) -> str:
    """Return place and sentence on one line; hostile characters are escaped."""
    place, sentence = finding_place(finding), finding_sentence(finding)
    return f"{place}: {sentence}" if place else sentence


def finding_place(finding: Finding) -> str:
    """Return where a finding is; empty if it concerns the store as a whole."""
    parts = []
    if finding.file is not None:
        position = "" if finding.position is None else f" @{finding.position}"
        parts.append(escape_text(finding.file) + position)
    if finding.topic is not None:
        queue = "" if finding.queue_id is None else f"/{finding.queue_id}"
        unit = "" if finding.queue_offset is None else f" #{finding.queue_offset}"
        parts.append(escape_text(finding.topic) + queue + unit)
    if finding.physical_offset is not None:
        parts.append(f"physical offset {finding.physical_offset}")
    return ", ".join(parts)


def finding_sentence(finding: Finding) -> str:
    """Return what is wrong, with what was expected and found if the sentence does not say it."""
    sentence = finding.sentence
    if finding.file is not None:
        sentence = sentence.removeprefix(f"{finding.file}: ")
    values = [
        f"{name} {value}"
        for name, value in (("expected", finding.expected), ("found", finding.observed))
        if value is not None and not _says(sentence, str(value))
    ]
    return escape_text(f"{sentence} ({', '.join(values)})" if values else sentence)


def _says(sentence: str, value: str) -> bool:
    """Tell whether a sentence names a value as a word of its own."""
    return re.search(rf"(?<!\w){re.escape(value)}(?!\w)", sentence) is not None
