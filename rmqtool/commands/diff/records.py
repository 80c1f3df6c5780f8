"""One place of two logs: what the records there say differently, and which of them is damaged."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rmqtool.commands.diff.model import Change, Difference
from rmqtool.findings.commitlog import CL_CRC, CL_PHY_MISMATCH
from rmqtool.formats import layout
from rmqtool.formats.message import HEAD
from rmqtool.releases import LENIENT
from rmqtool.scan.records import Record, check_record
from rmqtool.scan.window import Window

if TYPE_CHECKING:
    from rmqtool.commands.diff.model import Value
    from rmqtool.findings import FindingCode
    from rmqtool.store import FileQueue

_SHOWN_BYTES = 20
_WINDOW_BYTES = 4096
_NAMES = [field.name for field in layout(HEAD, sysFlag=0)]
_DAMAGED = {(True, True): "both", (True, False): "a", (False, True): "b", (False, False): None}


class _Side(NamedTuple):
    record: Record | None
    damage: str | None = None
    code: FindingCode | None = None


def record_difference(a: FileQueue, b: FileQueue, log_offset: int, begins: tuple[bool, bool]) -> Difference:
    """Return what differs between the records, or whatever lies there, at a physical offset.

    Args:
        a: The log of A.
        b: The log of B.
        log_offset: Physical offset.
        begins: Whether A, and whether B, should have a record there.
    """
    ours, theirs = (
        _look(files, log_offset) if one else _Side(None) for files, one in zip((a, b), begins, strict=True)
    )
    left, right = _texts(ours.record, theirs.record)
    known = ours.record or theirs.record
    return Difference(
        "commitlog",
        Change.CHANGED,
        f"the records at {log_offset} differ: {_reason(ours, theirs) or ', '.join(left)}",
        topic=None if known is None else known.topic,
        queue_id=None if known is None else known.head.queue_id,
        queue_offset=None if known is None else known.head.queue_offset,
        physical_offset=log_offset,
        a=left,
        b=right,
        damaged=_DAMAGED[ours.damage is not None, theirs.damage is not None],
        code=next((side.code.code for side in (ours, theirs) if side.code), None),
    )


def _reason(ours: _Side, theirs: _Side) -> str:
    return "; ".join(f"{name}: {side.damage}" for name, side in (("A", ours), ("B", theirs)) if side.damage)


def _look(files: FileQueue, log_offset: int) -> _Side:
    """Return the record at a place, and what is wrong with it."""
    segment = files.segment_at(log_offset)
    if segment is None:
        return _Side(None, "no file of the log is there")
    window, position = Window(segment, _WINDOW_BYTES), log_offset - segment.start
    window.focus(position)
    checked = check_record(window, position, LENIENT, base=segment.start)
    record = checked.record
    if record is None:
        return _Side(None, None if checked.success else checked.reason)
    if not record.body_crc_holds:
        return _Side(record, "the body's CRC-32 is not BODYCRC", CL_CRC)
    if record.head.physical_offset != log_offset:
        return _Side(record, f"PHYSICALOFFSET is {record.head.physical_offset}", CL_PHY_MISMATCH)
    return _Side(record)


def _texts(ours: Record | None, theirs: Record | None) -> tuple[dict[str, Value], dict[str, Value]]:
    if ours is None or theirs is None:
        return _what(ours), _what(theirs)
    left, right = _fields(ours), _fields(theirs)
    return _unequal(left, right, ours, theirs), _unequal(right, left, theirs, ours)


def _what(record: Record | None) -> dict[str, Value]:
    return {"record": "none" if record is None else f"{record.head.total_size} bytes"}


def _fields(record: Record) -> dict[str, Value]:
    values = (value.hex() if isinstance(value, bytes) else value for value in record.head)
    return {**dict(zip(_NAMES, values, strict=True)), "topic": record.topic}


def _unequal(
    left: dict[str, Value], right: dict[str, Value], mine: Record, yours: Record
) -> dict[str, Value]:
    found = {name: value for name, value in left.items() if value != right[name]}
    if mine.properties != yours.properties:
        found["properties"] = {
            name: value for name, value in mine.properties.items() if yours.properties.get(name) != value
        }
    if mine.body != yours.body:
        pairs = enumerate(zip(mine.body, yours.body, strict=False))
        at = next(
            (number for number, (one, other) in pairs if one != other), min(len(mine.body), len(yours.body))
        )
        found[f"body from {at}"] = mine.body[at : at + _SHOWN_BYTES].hex()
    return found
