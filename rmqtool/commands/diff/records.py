"""Records of two logs in the same place: their difference, and the place from which two logs have parted."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, auto
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from rmqtool.commands.diff import Change, Difference, Value
from rmqtool.findings import FindingCode, codes
from rmqtool.formats import layout
from rmqtool.formats.entry import ENTRIES, ENTRY_MAGIC
from rmqtool.formats.framing import PLAIN
from rmqtool.formats.message import HEAD
from rmqtool.releases import LENIENT
from rmqtool.scan.records import Record, check_record
from rmqtool.store.segments import Window

if TYPE_CHECKING:
    from rmqtool.arrays import Int64s
    from rmqtool.store import FileQueue, Segment


_SHOWN_BYTES = 20
_WINDOW_BYTES = 4096
_LENGTH_BYTES = 2
_NAMES = [field.name for field in layout(HEAD, sysFlag=0)]
_DAMAGED = {(True, True): "both", (True, False): "a", (False, True): "b", (False, False): None}


class _LogSide(NamedTuple):
    record: Record | None
    damage: str | None = None
    code: FindingCode | None = None
    entry: dict[str, Value] | None = None


@dataclass(frozen=True)
class Starts:
    """Places where records, the mark that ends a file, and damage begin in a stretch.

    Attributes:
        log_offsets: ``(n,)`` physical offsets, ascending.
        blank: Physical offset after the header of that mark, from where nothing is read; None without one.
        gaps: ``(n,)`` those of them where damage begins.
        marks: ``(n,)`` those of them where no record begins.
    """

    log_offsets: Int64s
    blank: int | None = None
    gaps: Int64s = field(default_factory=lambda: np.empty(0, np.int64))
    marks: Int64s = field(default_factory=lambda: np.empty(0, np.int64))

    def has(self, log_offset: int) -> bool:
        """Return whether something begins at a place."""
        at = int(np.searchsorted(self.log_offsets, log_offset))
        return at < len(self.log_offsets) and int(self.log_offsets[at]) == log_offset

    @property
    def records(self) -> Int64s:
        """Return where records begin, ``(n,)``."""
        offsets, marks = self.log_offsets, self.marks
        return np.setdiff1d(offsets, marks, assume_unique=True) if len(marks) else offsets

    def is_gap(self, log_offset: int, before: bool) -> bool:
        """Return whether a place lies in damage; ``before`` is whether the stretch begins in some."""
        at = int(np.searchsorted(self.log_offsets, log_offset, "right")) - 1
        return before if at < 0 else bool(np.isin(self.log_offsets[at], self.gaps))


def record_difference(a: FileQueue, b: FileQueue, log_offset: int, begins: tuple[bool, bool]) -> Difference:
    """Return the difference between the records at a physical offset.

    ``begins`` is whether A, and whether B, should have a record there.
    """
    ours, theirs = (
        _look(files, log_offset) if is_start else _LogSide(None)
        for files, is_start in zip((a, b), begins, strict=True)
    )
    left, right = _texts(ours, theirs)
    reason = "; ".join(f"{name}: {side.damage}" for name, side in (("A", ours), ("B", theirs)) if side.damage)
    known = ours.record or theirs.record
    of = "" if known is None else f", {known.topic}/{known.head.queue_id} #{known.head.queue_offset},"
    return Difference(
        "commitlog",
        Change.CHANGED,
        f"the records at {log_offset}{of} differ: {reason or ', '.join(left)}",
        topic=None if known is None else known.topic,
        queue_id=None if known is None else known.head.queue_id,
        queue_offset=None if known is None else known.head.queue_offset,
        physical_offset=log_offset,
        a=left,
        b=right,
        damaged=_DAMAGED[ours.damage is not None, theirs.damage is not None],
        code=next((side.code.code for side in (ours, theirs) if side.code), None),
    )


def _look(files: FileQueue, log_offset: int) -> _LogSide:
    segment = files.segment_at(log_offset)
    if segment is None:
        return _LogSide(None, "no file of the log exists")
    window, position = Window(segment, _WINDOW_BYTES), segment.frame_position(log_offset)
    window.focus(position)
    checked = check_record(window, position, LENIENT, base=segment.start)
    record = checked.record
    if record is None:
        return _LogSide(None, None if checked.success else checked.reason)
    if not record.body_crc_holds:
        return _LogSide(record, "the body's CRC-32 is not BODYCRC", codes.CL_CRC)
    if b"\0" in record.topic_bytes or b"\0" in _properties(record):
        return _LogSide(record, "its topic or properties hold zeros", codes.CL_PROPERTIES)
    if record.head.physical_offset != log_offset:
        return _LogSide(record, f"PHYSICALOFFSET is {record.head.physical_offset}", codes.CL_PHY_MISMATCH)
    return _LogSide(record) if segment.framing == PLAIN else _in_entry(record, segment, position)


def _properties(record: Record) -> bytes:
    """Return the text of the properties: what follows the topic and two bytes of length."""
    after_body = record.raw[record.body_start + record.body_length :]
    return after_body.partition(record.topic_bytes or b"\0")[2][_LENGTH_BYTES:]


def _in_entry(record: Record, segment: Segment, position: int) -> _LogSide:
    """Return a record with the header of its entry."""
    entry = ENTRIES.padded(segment.read_at(position, ENTRIES.size, []))
    if entry[:2] != (ENTRY_MAGIC, ENTRIES.size + len(record.raw)) or entry.pos != segment.start + position:
        return _LogSide(record, "the header of its entry contradicts the frame", codes.DL_POS)
    return _LogSide(record, entry={f"entry {name}": value for name, value in entry._asdict().items()})


def _texts(ours: _LogSide, theirs: _LogSide) -> tuple[dict[str, Value], dict[str, Value]]:
    mine, yours = ours.record, theirs.record
    if mine is None or yours is None:
        sizes = ("none" if record is None else f"{record.head.total_size} bytes" for record in (mine, yours))
        return {"record": next(sizes)}, {"record": next(sizes)}
    left, right = _fields(mine), _fields(yours)
    if ours.entry is not None and theirs.entry is not None:
        left, right = ours.entry | left, theirs.entry | right
    return _unequal(left, right, mine, yours), _unequal(right, left, yours, mine)


def _fields(record: Record) -> dict[str, Value]:
    values = (value.hex() if isinstance(value, bytes) else value for value in record.head)
    return {**dict(zip(_NAMES, values, strict=True)), "topic": record.topic}


def _unequal(
    left: dict[str, Value], right: dict[str, Value], mine: Record, yours: Record
) -> dict[str, Value]:
    unequal = {name: value for name, value in left.items() if value != right[name]}
    if mine.properties != yours.properties:
        unequal["properties"] = {
            name: value for name, value in mine.properties.items() if yours.properties.get(name) != value
        }
    if mine.body != yours.body:
        pairs = enumerate(zip(mine.body, yours.body, strict=False))
        shorter = min(len(mine.body), len(yours.body))
        at = next((number for number, (own, other) in pairs if own != other), shorter)
        unequal[f"body from {at}"] = mine.body[at : at + _SHOWN_BYTES].hex()
    return unequal


_RUN = 2
_MOST_EXAMINED = 10_000


class _Pair(Enum):
    EQUAL = auto()
    DAMAGED = auto()
    ALTERED = auto()  # one field differs, and no checksum protects it
    OTHER = auto()


@dataclass
class Parting:
    """The place from which on two logs have records of their own; filled stretch by stretch.

    Damage is no parting, nor is one record with another value in a field that no checksum protects, if equal
    records follow: a copy of a log has its bytes.

    Attributes:
        log_offset: Physical offset of the first of them; None if there is none.
        common: That of the last record that both have before it; None without one.
        joint: That of the first record after which all are equal again: a slave has gone on from its end with
            the master's bytes (``HAService``).
        own: Records since the parting that the other log does not have in the same place, by side.
        older: Records before the other log's start, by side.
        beyond: Records from the other log's end on, by side.
        is_open: Whether too many records were damaged to examine each.
    """

    files: tuple[FileQueue, FileQueue]
    log_offset: int | None = None
    common: int | None = None
    joint: int | None = None
    own: list[int] = field(default_factory=lambda: [0, 0])
    older: list[int] = field(default_factory=lambda: [0, 0])
    beyond: list[int] = field(default_factory=lambda: [0, 0])
    is_open: bool = False
    _altered: int | None = None  # the first since the last equal record
    _run: int = 0
    _examined: int = 0
    _last_equal: int | None = None
    _before: int | None = None
    _in_gap: list[bool] = field(default_factory=lambda: [False, False])

    def take(self, sides: tuple[Starts, Starts], differing: Int64s) -> None:
        """Take a stretch of both logs; ``differing`` is where records begin whose bytes differ."""
        records = sides[0].records, sides[1].records
        equal = records[0]
        if sides[0] is not sides[1]:
            equal = np.setdiff1d(np.intersect1d(*records, assume_unique=True), differing, assume_unique=True)
        if self.log_offset is None:
            self._search(sides, differing, equal)
        since = self._altered if self.log_offset is None else self.log_offset
        shared = equal if since is None else equal[equal < since]
        for log_offset in shared[-2:].tolist():
            self._before, self.common = self.common, log_offset
        if since is not None and self.common is not None and self.common >= since:
            self.common = self._before  # its first bytes are equal, in the stretch before
        if since is not None:
            reaches_in = len(differing) and differing[0] == self._last_equal  # differs in this stretch only
            for side, own in enumerate(records):
                alone = np.setdiff1d(own[own >= since], equal, assume_unique=True)
                self.own[side] += len(alone) + bool(reaches_in)
            after = equal[equal > max(since, differing[-1] if len(differing) else since)]
            if len(differing) or self.joint is None:
                self.joint = int(after[0]) if len(after) else None
        self._last_equal = int(equal[-1]) if len(equal) else None
        for side, starts in enumerate(sides):
            if len(starts.log_offsets):
                self._in_gap[side] = starts.is_gap(int(starts.log_offsets[-1]), before=False)

    def end(self) -> None:
        """Take what differed last for a parting, after the last stretch."""
        if self.log_offset is None:
            self.log_offset = self._altered

    def _search(self, sides: tuple[Starts, Starts], differing: Int64s, equal: Int64s) -> None:
        for log_offset in differing.tolist():
            self._drop_altered(equal[equal < log_offset])
            self._examined += 1
            if self._examined > _MOST_EXAMINED:
                self.is_open = True
                return
            pair = self._pair(sides, log_offset)
            if pair is _Pair.ALTERED:
                self._altered = log_offset if self._altered is None else self._altered
                self._run += 1
            if pair is _Pair.OTHER or self._run >= _RUN:
                self.log_offset = log_offset if self._altered is None else self._altered
                return
        self._drop_altered(equal)

    def _drop_altered(self, equal: Int64s) -> None:
        if self._altered is not None and len(equal) and equal[-1] > self._altered:
            self._altered, self._run, self.own = None, 0, [0, 0]

    def _pair(self, sides: tuple[Starts, Starts], log_offset: int) -> _Pair:
        begins = [side.has(log_offset) for side in sides]
        if not any(begins):  # begun in the stretch before
            begins = [True, True]
        looks = [
            _look(files, log_offset) if is_start else None
            for files, is_start in zip(self.files, begins, strict=True)
        ]
        for side, (look, files) in enumerate(zip(looks, self.files, strict=True)):
            is_lost = files.segment_at(log_offset) is None or (
                look is None and sides[side].is_gap(log_offset, self._in_gap[side])
            )
            if is_lost or (look is not None and look.damage is not None):
                return _Pair.DAMAGED
        ours, theirs = looks
        if ours is None or theirs is None or ours.record is None or theirs.record is None:
            return _Pair.EQUAL if ours == theirs else _Pair.OTHER
        changed, _ = _texts(ours, theirs)
        return _Pair.OTHER if len(changed) > 1 else _Pair.ALTERED if changed else _Pair.EQUAL
