"""What breaks the chain of records, by name: damage inside the log, and what is just its end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rmqtool.check.log.record_runs import Damage
from rmqtool.findings import Finding, Severity
from rmqtool.findings.commitlog import (
    CL_BAD_MAGIC,
    CL_BLANK_LEN,
    CL_GHOST,
    CL_HALF_RECORD,
    CL_HOLE,
    CL_NO_BLANK,
    CL_PREALLOC,
    CL_TAIL_DIRTY,
    CL_TAIL_ZERO,
    CL_TRANSIENT,
)
from rmqtool.findings.records import CL_NUMBER
from rmqtool.findings.wording import counted
from rmqtool.formats.message import BLANK_MAGIC, END_FILE_MIN_BLANK_LENGTH, MAGIC_V1, MAGIC_V2
from rmqtool.scan.records import size_code
from rmqtool.scan.rows import Outcome

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rmqtool.check.log.segment_scan import SegmentTrail
    from rmqtool.check.log.stale_tail import StaleTail
    from rmqtool.findings import FindingCode

_REASONS = {
    Outcome.BAD_MAGIC: "0x{magic:08X} is no magic of a record",
    Outcome.BAD_LENGTH: "TOTALSIZE {total_size}: a part runs past the end of the file or of the record",
    Outcome.MISMATCH: "the lengths do not add up to TOTALSIZE {total_size}",
    Outcome.BAD_NUMBER: "a property that must be a number is not one",
    Outcome.STOP: "the file has become shorter",
}


@dataclass(frozen=True, slots=True)
class LogEnd:
    """Where the log ends, and how sure that is.

    Attributes:
        segment: number of the last file with records; -1 if there is none.
        stale: old records behind the end, which are in no trail; None if there are none.
        forgiven: whether a torn record at the end is what the next start expects: ``abort`` is there.
    """

    segment: int
    stale: StaleTail | None
    forgiven: bool


def damage_findings(trails: Sequence[SegmentTrail], end: LogEnd) -> Iterator[Finding]:
    """Yield what is wrong with the framing of the log, in log order."""
    for number, trail in enumerate(trails):
        if number > end.segment:
            is_next = number == end.segment + 1
            yield from _unused_file(trail, end if is_next else None)
            continue
        for damage in trail.damages:
            is_tail = number == end.segment and damage.stop == trail.segment.stop
            yield _tail(trail, damage, end) if is_tail else _inside(trail, damage)
        yield from _file_end(trail, is_last=number == end.segment)
    if end.stale is not None:
        yield _stale(trails[end.segment], end.stale)


def _unused_file(trail: SegmentTrail, end: LogEnd | None) -> Iterator[Finding]:
    """Yield what there is to say of a file behind the last record of the log.

    Args:
        trail: of the file.
        end: of the log, if this is where the next record belonged.
    """
    for damage in trail.damages:
        if damage.zero:
            yield _finding(CL_PREALLOC, trail, damage, "only zeros in this file")
        elif end is not None and end.forgiven and damage.start == trail.segment.start:
            yield _tail(trail, damage, end)
        else:
            yield _inside(trail, damage)


def _inside(trail: SegmentTrail, damage: Damage) -> Finding:
    """Name damage that records follow, in this file or a later one."""
    to_end = damage.stop == trail.segment.stop
    length = counted(damage.stop - damage.start, "byte")
    if damage.magic == BLANK_MAGIC and not to_end:
        message = f"BLANK of TOTALSIZE {damage.total_size}, but records go on {length} further"
        return _finding(CL_BLANK_LEN, trail, damage, message, Severity.ERROR)
    if damage.magic == BLANK_MAGIC:
        return _blank_length(trail, damage)
    if damage.zero and to_end and damage.start > trail.segment.start:
        message = f"zeros up to the end of the file ({length}), though the log goes on behind it"
        return _finding(CL_TRANSIENT, trail, damage, message, Severity.ERROR)
    if damage.begins_with_zeros:
        return _finding(CL_HOLE, trail, damage, f"zeros where a record should begin: {length} lost")
    return _finding(_code(trail, damage), trail, damage, f"{_reason(damage)}: {length} lost")


def _tail(trail: SegmentTrail, damage: Damage, end: LogEnd) -> Finding:
    """Name what lies behind the last record of the log."""
    if damage.zero:
        return _finding(CL_TAIL_ZERO, trail, damage, "")
    if damage.magic == BLANK_MAGIC:
        return _blank_length(trail, damage)
    if damage.begins_with_zeros or not (damage.own or _is_short(damage)):
        message = f"bytes that are no record behind the log's end: {_reason(damage)}"
        return _finding(CL_TAIL_DIRTY, trail, damage, message)
    severity = Severity.WARNING if end.forgiven else Severity.ERROR
    message = f"the log's last record is torn or damaged: {_reason(damage)}"
    return _finding(_code(trail, damage), trail, damage, message, severity)


def _is_short(damage: Damage) -> bool:
    """Whether there is no room for a record, nor for a BLANK."""
    return damage.stop - damage.start < END_FILE_MIN_BLANK_LENGTH


def _blank_length(trail: SegmentTrail, damage: Damage) -> Finding:
    left = trail.segment.stop - damage.start
    rest = counted(left, "byte is", "bytes are")
    return Finding(
        code=CL_BLANK_LEN,
        file=trail.segment.label,
        position=damage.start - trail.segment.start,
        length=left,
        physical_offset=damage.start,
        expected=left,
        observed=damage.total_size,
        message=f"BLANK of TOTALSIZE {damage.total_size} where {rest} left in the file",
    )


def _stale(trail: SegmentTrail, stale: StaleTail) -> Finding:
    return Finding(
        code=CL_TAIL_DIRTY,
        file=trail.segment.label,
        position=stale.start - trail.segment.start,
        length=stale.stop - stale.start,
        physical_offset=stale.start,
        message=(
            f"{counted(stale.records, 'record')} behind the log's end, older than its last one: left by a"
            " truncation, and accepted again by a start that reaches them"
        ),
    )


def _file_end(trail: SegmentTrail, *, is_last: bool) -> Iterator[Finding]:
    segment = trail.segment
    if trail.ghosts:
        yield Finding(code=CL_GHOST, file=segment.label, position=trail.place - segment.start)
    full = trail.end == Outcome.STOP and trail.place == segment.stop and trail.parts
    last = trail.parts[-1] if trail.parts else None
    torn = (
        not is_last
        and isinstance(last, Damage)
        and last.stop == segment.stop
        and not last.zero
        and last.magic != BLANK_MAGIC
    )
    if full or torn:
        yield Finding(
            code=CL_NO_BLANK,
            file=segment.label,
            position=segment.size_bytes,
            physical_offset=segment.stop,
            message=f"{segment.label} ends without BLANK",
        )


def _code(trail: SegmentTrail, damage: Damage) -> FindingCode:
    if damage.reason in {Outcome.BAD_LENGTH, Outcome.MISMATCH, Outcome.STOP}:
        if _is_short(damage):
            return CL_NO_BLANK
        if _is_foreign(damage):
            return CL_BAD_MAGIC
        left = trail.segment.stop - damage.start
        return CL_HALF_RECORD if damage.reason == Outcome.STOP else size_code(damage.total_size, left)
    return CL_NUMBER if damage.reason == Outcome.BAD_NUMBER else CL_BAD_MAGIC


def _is_foreign(damage: Damage) -> bool:
    """Whether it has no record's magic: 5.3.2+ looks at TOTALSIZE before it."""
    is_none = damage.magic not in {MAGIC_V1, MAGIC_V2, BLANK_MAGIC}
    return damage.reason == Outcome.BAD_LENGTH and is_none and not _is_short(damage)


def _reason(damage: Damage) -> str:
    reason = Outcome.BAD_MAGIC if _is_foreign(damage) else damage.reason
    return _REASONS[reason].format(magic=damage.magic & 0xFFFFFFFF, total_size=damage.total_size)


def _finding(
    code: FindingCode,
    trail: SegmentTrail,
    damage: Damage,
    message: str,
    severity: Severity | None = None,
) -> Finding:
    return Finding(
        code=code,
        file=trail.segment.label,
        position=damage.start - trail.segment.start,
        length=damage.stop - damage.start,
        physical_offset=damage.start,
        message=message,
        severity_override=severity,
    )
