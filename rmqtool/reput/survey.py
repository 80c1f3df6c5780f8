"""What lies in bytes that the broker skips: zeros, rubbish, or good records that a salvage would keep."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rmqtool.scan.rows import Outcome, rules_of
from rmqtool.scan.walk import SegmentWalk

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rmqtool.releases import RecordRules
    from rmqtool.store.segments import Segment

_FIRST_CHUNK_BYTES = 1 << 8  # grows: most damage is short, and a torn log asks at each of its records
_CHUNK_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class SurveyTask:
    """A range of one segment to look at; picklable.

    Attributes:
        segment: the file.
        start: physical offset.
        stop: physical offset.
        records: how records are read.
    """

    segment: Segment
    start: int
    stop: int
    records: RecordRules


@dataclass(frozen=True, slots=True)
class Survey:
    """What a range holds.

    Attributes:
        start: physical offset of the range.
        zero: whether all of its bytes are zero.
        zero_start: whether its first bytes are.
        records: true records in it.
        record_bytes: their size.
        first_record: physical offset of the first of them, None if there is none.
    """

    start: int
    zero: bool
    zero_start: bool
    records: int
    record_bytes: int
    first_record: int | None


def survey_ranges(tasks: Sequence[SurveyTask]) -> list[Survey]:
    """Look for true records in ranges, and whether there is anything at all.

    Raises:
        EnvironmentFailureError: a segment cannot be opened or read.
    """
    surveys = []
    walk: SegmentWalk | None = None
    for task in tasks:
        if walk is None or walk.segment is not task.segment:  # kept, for ranges lie close together
            walk = SegmentWalk(task.segment, rules_of(task.records))
        surveys.append(_survey_range(task, walk))
    return surveys


def _survey_range(task: SurveyTask, walk: SegmentWalk) -> Survey:
    first_data = first_nonzero(task.segment, task.start, task.stop)
    if first_data >= task.stop:
        return Survey(task.start, zero=True, zero_start=True, records=0, record_bytes=0, first_record=None)
    # A record's first bytes, of TOTALSIZE, can be zeros.
    place, records, record_bytes, first_record = max(task.start, first_data - 3), 0, 0, None
    while place < task.stop and walk.find(place, task.stop) == Outcome.RECORD:
        first_record = walk.place if first_record is None else first_record
        for batch in walk.batches(walk.place, task.stop):
            true = batch.rows["place"] == batch.rows["physical_offset"]
            records += int(true.sum())
            record_bytes += int(batch.rows["total_size"][true].sum())
        if walk.outcome == Outcome.BLANK:
            break
        place = walk.place + 1
    return Survey(
        task.start,
        zero=False,
        zero_start=first_data >= min(task.start + 8, task.stop),
        records=records,
        record_bytes=record_bytes,
        first_record=first_record,
    )


def first_nonzero(segment: Segment, start: int, stop: int) -> int:
    """Return the physical offset of the first byte that is not zero, ``stop`` if there is none."""
    size = _FIRST_CHUNK_BYTES
    place = segment.start + segment.next_data(start - segment.start)
    while place < stop:
        chunk = np.empty(min(size, stop - place), np.uint8)
        count = segment.read_into(place - segment.start, chunk.data, [])
        if chunk[:count].any():
            return place + int(np.argmax(chunk[:count] != 0))
        if count == 0:
            break
        place = segment.start + segment.next_data(place + count - segment.start)
        size = min(2 * size, _CHUNK_BYTES)
    return stop
