"""Old records behind the end of the log: what a truncation leaves on disk.

Recovery cuts a log by moving a position; the bytes behind it stay until they are overwritten. New records
then end somewhere among the old ones, and old ones that begin there, or further on, are true in every field.
Two things give them away: they were all stored before the last record of the log, and either bytes that are
no record lie before them (the middle of an old record), or queue offsets come again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rmqtool.check.log.record_runs import Damage, Stretch
from rmqtool.scan.rows import Outcome

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.check.log.segment_scan import SegmentTrail


@dataclass(frozen=True, slots=True)
class StaleTail:
    """Old records behind the log's end.

    Attributes:
        start: physical offset of the log's end.
        stop: physical offset behind the last old record.
        records: old records.
        behind_damage: whether bytes that are no record lie between the end and the first of them.
    """

    start: int
    stop: int
    records: int
    behind_damage: bool


def stale_candidates(trail: SegmentTrail) -> Iterator[StaleTail]:
    """Yield what could be a stale tail in the last file of the log, the longest first.

    Everything in one was stored before the record in front of it.
    """
    latest_behind = _latest_behind(trail)
    before: Stretch | None = None
    damage: Damage | None = None
    for number, part in enumerate(trail.parts):
        if isinstance(part, Damage):
            damage = part
            continue
        if before is not None and latest_behind[number] < before.last_ms:
            old = [one for one in trail.parts[number:] if isinstance(one, Stretch)]
            start = part.start if damage is None else damage.start
            yield StaleTail(start, old[-1].stop, sum(one.records for one in old), damage is not None)
        before, damage = part, None


def without_tail(trail: SegmentTrail, start: int) -> SegmentTrail:
    """Return the parts of a file that lie before ``start``; its reports are left as they are."""
    parts = [replace(part, stop=min(part.stop, start)) for part in trail.parts if part.start < start]
    return replace(trail, parts=parts, end=Outcome.STOP, place=start)


def _latest_behind(trail: SegmentTrail) -> list[int]:
    """Return for every part the latest store time in it and behind it."""
    latest_ms = -(1 << 63)
    found = []
    for part in reversed(trail.parts):
        if isinstance(part, Stretch):
            latest_ms = max(latest_ms, part.last_ms)
        found.append(latest_ms)
    return found[::-1]
