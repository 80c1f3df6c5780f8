"""What only all records together tell of one: garbage where others have text, checksums that are foreign."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np

from rmqtool.check.log.record_checks import most_have_none
from rmqtool.formats.message import TOPIC_LENGTHS
from rmqtool.releases import NEWEST
from rmqtool.salvage.rows import Mark
from rmqtool.scan.records import check_record

if TYPE_CHECKING:
    from collections.abc import Iterator, Set

    import numpy.typing as npt

    from rmqtool.salvage.survey import Survey
    from rmqtool.scan.records import Record
    from rmqtool.store.segments import FileQueue

    Rows = npt.NDArray[Any]

_CONTROLS = re.compile("[\\x00\\x03-\\x08\\x0e-\\x1f]")  # but for separators, tabs and line ends
_SAMPLE = 256


def mark_torn(survey: Survey) -> None:
    """Mark records beside holes whose topic or properties are no text: damage seldom ends with a record."""
    records = survey.records
    stops = records["log_offset"] + records["total_size"]
    after = np.zeros(len(records), bool)
    after[:-1] = stops[:-1] != records["log_offset"][1:]
    before = np.concatenate([[False], after[:-1]])[: len(records)]
    odd = [number for number in np.flatnonzero(after | before) if not _is_text(survey, records[number])]
    away = np.flatnonzero(~(after | before))
    if odd and all(_is_text(survey, records[number]) for number in away[:: max(len(away) // _SAMPLE, 1)]):
        records["marks"][odd] |= np.uint8(Mark.TORN)


def _is_text(survey: Survey, row: Rows) -> bool:
    """Whether topic and properties of a record are text, as clients write it."""
    record = _read(survey.log, row)
    if record is None:
        return True
    width = TOPIC_LENGTHS[record.head.magic].size
    text = record.raw[record.body_start + record.body_length + width :]
    topic, properties = text[: len(record.topic_bytes)], text[len(record.topic_bytes) + 2 :]
    try:
        shown = topic.decode() + properties.decode()
    except UnicodeDecodeError:
        return False
    return not _CONTROLS.search(shown)


def _read(log: FileQueue, row: Rows) -> Record | None:
    at = int(row["log_offset"])
    segment = log.segment_at(at)
    if segment is None:
        return None
    return check_record(segment, at - segment.start, NEWEST.records, base=segment.start).record


def property_names(log: FileQueue, rows: Rows) -> frozenset[str]:
    """Return the names of the properties that some of these records have."""
    records = (_read(log, row) for row in rows[:: max(len(rows) // _SAMPLE, 1)])
    return frozenset(name for one in records if one is not None for name, _ in _pairs(one))


def oddities(log: FileQueue, row: Rows, known: Set[str]) -> tuple[int, int]:
    """Count what no client writes into properties, and the names that other records have.

    Odd are bytes that are no text, broken pairs, unknown names, and a batch whose head says otherwise.
    """
    record = _read(log, row)
    if record is None:
        return 0, 0
    shown = record.properties_bytes.decode("utf-8", "replace")
    odd = shown.count("\ufffd") + len(_CONTROLS.findall(shown))
    odd += sum("\1" in value or name not in known for name, value in _pairs(record))
    base = record.properties.get("INNER_BASE")
    odd += base is not None and base != str(record.head.queue_offset)
    return odd, len({name for name, _ in _pairs(record)} & known)


def _pairs(record: Record) -> Iterator[tuple[str, str]]:
    """Yield name and value of each property; nothing, where they end in a separator, is a pair of its own."""
    for piece in record.properties_bytes.decode("utf-8", "replace").split("\2"):
        name, _, value = piece.partition("\1")
        yield name, value


def forgive_foreign_sums(survey: Survey) -> None:
    """Drop the marks of wrong ``__CRC32#`` where most records have none: messages may bring one along."""
    marks = survey.records["marks"]
    wrong = (marks & Mark.RECORD_CRC) != 0
    if most_have_none(len(marks), survey.sound_crcs, int(wrong.sum())):
        marks &= ~np.uint8(Mark.RECORD_CRC)
