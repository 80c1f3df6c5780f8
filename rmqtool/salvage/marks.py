"""What only all records together tell of one: garbage where others have text, checksums that are foreign."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np

from rmqtool.check.log.record_crcs import most_have_none
from rmqtool.formats.message import TOPIC_LENGTHS
from rmqtool.releases import NEWEST
from rmqtool.salvage.rows import Mark
from rmqtool.scan.records import check_record

if TYPE_CHECKING:
    import numpy.typing as npt

    from rmqtool.salvage.survey import Survey

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
    segment = survey.log.segment_at(int(row["log_offset"]))
    if segment is None:
        return True
    record = check_record(
        segment, int(row["log_offset"]) - segment.start, NEWEST.records, base=segment.start
    ).record
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


def forgive_foreign_sums(survey: Survey) -> None:
    """Drop the marks of wrong ``__CRC32#`` where most records have none: messages may bring one along."""
    marks = survey.records["marks"]
    wrong = (marks & Mark.RECORD_CRC) != 0
    if most_have_none(len(marks), survey.sound_crcs, int(wrong.sum())):
        marks &= ~np.uint8(Mark.RECORD_CRC)
