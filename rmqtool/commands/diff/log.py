"""Commit logs by physical offset: bounds, the records of the range that both hold, and their differences."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from rmqtool.commands.diff import Change, Difference, DifferenceLimiter, StoreComparison, Value
from rmqtool.commands.diff.entries import LogBounds
from rmqtool.findings import Finding, FindingCode, FindingLog, Severity, codes
from rmqtool.formats import layout
from rmqtool.formats.message import HEAD, Outcome
from rmqtool.releases import LENIENT
from rmqtool.scan.classify import FoundEdge, classified
from rmqtool.scan.gap_walk import GapWalk, gap_of
from rmqtool.scan.record_checks import RecordChecker
from rmqtool.scan.record_walk import LogEnd, find_log_end
from rmqtool.scan.records import Gap, Record, check_record
from rmqtool.store.segments import Segment, Window, finding_at

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.arrays import Bools, Int64s
    from rmqtool.io.location import UnreadableRange
    from rmqtool.store import FileQueue, Store


_SHOWN_BYTES = 20
_WINDOW_BYTES = 4096
_NAMES = [field.name for field in layout(HEAD, sysFlag=0)]
_DAMAGED = {(True, True): "both", (True, False): "a", (False, True): "b", (False, False): None}


class _LogSide(NamedTuple):
    record: Record | None
    damage: str | None = None
    code: FindingCode | None = None


def record_difference(a: FileQueue, b: FileQueue, log_offset: int, begins: tuple[bool, bool]) -> Difference:
    """Return the difference between the records at a physical offset.

    ``begins`` is whether A, and whether B, should have a record there.
    """
    ours, theirs = (
        _look(files, log_offset) if is_start else _LogSide(None)
        for files, is_start in zip((a, b), begins, strict=True)
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


def _reason(ours: _LogSide, theirs: _LogSide) -> str:
    return "; ".join(f"{name}: {side.damage}" for name, side in (("A", ours), ("B", theirs)) if side.damage)


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
    if record.head.physical_offset != log_offset:
        return _LogSide(record, f"PHYSICALOFFSET is {record.head.physical_offset}", codes.CL_PHY_MISMATCH)
    return _LogSide(record)


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
    unequal = {name: value for name, value in left.items() if value != right[name]}
    if mine.properties != yours.properties:
        unequal["properties"] = {
            name: value for name, value in mine.properties.items() if yours.properties.get(name) != value
        }
    if mine.body != yours.body:
        pairs = enumerate(zip(mine.body, yours.body, strict=False))
        at = next(
            (number for number, (one, other) in pairs if one != other), min(len(mine.body), len(yours.body))
        )
        unequal[f"body from {at}"] = mine.body[at : at + _SHOWN_BYTES].hex()
    return unequal


_STRETCH_BYTES = 8 << 20
_BLANK_BYTES = 8


@dataclass(frozen=True)
class Starts:
    """Places where records, BLANKs and damage begin in a stretch.

    Attributes:
        log_offsets: ``(n,)`` physical offsets, ascending.
        blank: Physical offset after the header of a BLANK, from where nothing is read; None without one.
    """

    log_offsets: Int64s
    blank: int | None = None

    def has(self, log_offset: int) -> bool:
        """Return whether something begins at a place."""
        at = int(np.searchsorted(self.log_offsets, log_offset))
        return at < len(self.log_offsets) and int(self.log_offsets[at]) == log_offset


@dataclass
class RecordChain:
    """Follows the records of a log; after damage at the next intact record.

    Attributes:
        end: Physical offset after its last record, from where on nothing is damage.
        breaks: Breaks of the chain that were not taken yet.
    """

    files: FileQueue
    end: int
    edge: FoundEdge
    log_offset: int = 0
    breaks: list[Finding] = field(default_factory=list)
    findings: FindingLog = field(default_factory=lambda: FindingLog(1))

    def __post_init__(self) -> None:
        self._walk: GapWalk | None = None
        self._blank: int | None = None  # of the open segment

    @property
    def has_bad_records(self) -> bool:
        """Return whether a checked record is damaged."""
        return any(finding.severity is Severity.ERROR for finding in self.findings)

    def starts(self, low: int, high: int, *, check: bool) -> Starts:
        """Return where records begin between two physical offsets of one file.

        ``check`` compares every record with its checksums.
        """
        segment = self.files.segment_at(low)
        places: list[Int64s] = [np.empty(0, np.int64)]
        if segment is None:
            return Starts(places[0])
        walk = self._open(segment)
        checker = RecordChecker(segment, self.findings) if check else None
        reach = min(self.end, segment.stop)
        high = min(high, reach)
        if self.log_offset < high:
            for part in walk.parts(self.log_offset, high, reach):
                if isinstance(part, Gap):
                    places.append(np.array([part.start], np.int64))
                    self._note(part)
                    continue
                places.append(np.sort(np.concatenate([part.rows["log_offset"], part.gaps["start"]])))
                for row in part.gaps:
                    self._note(gap_of(row))
                if checker is not None:
                    checker.check(part)
            self.log_offset = walk.log_offset
            if walk.outcome is Outcome.FILE_END:
                places.append(np.array([walk.log_offset], np.int64))
                self.log_offset = segment.stop
                self._blank = walk.log_offset + _BLANK_BYTES
        blank = self._blank if self._blank is not None and self.log_offset >= segment.stop else None
        return Starts(np.concatenate(places), blank)

    def _open(self, segment: Segment) -> GapWalk:
        if self._walk is None or segment is not self._walk.segment:
            if self._walk is not None:
                self._walk.segment.close()
            self._blank = None
            self._walk = GapWalk(segment, LENIENT, self.edge.stale_from)
            self.log_offset = max(self.log_offset, segment.start)
        return self._walk

    def _note(self, gap: Gap) -> None:
        segment = self.files.segment_at(gap.start)
        if segment is not None:
            number = self.files.segments.index(segment)
            self.breaks += classified(gap, segment, number, self.edge)


_STRUCTURE = "commitlog"
_AFTER_BLANK = "bytes after the BLANK of a full file differ; no broker reads them"


def log_reaches(a: Store, b: Store) -> tuple[LogBounds, tuple[LogEnd, LogEnd]]:
    """Return the bounds of two logs, and how they end."""
    end, two = (find_log_end(FoundEdge.of(store)) for store in (a, b))
    starts = a.commitlog.start, b.commitlog.start
    return LogBounds(starts, (end.end, two.end)), (end, two)


def diff_logs(
    stores: tuple[Store, Store], reaches: LogBounds, ends: tuple[LogEnd, LogEnd], comparison: StoreComparison
) -> Iterator[Difference]:
    """Yield the differences of two logs.

    Every record's lengths are followed in both; checksums are compared where bytes differ.
    """
    limiter = DifferenceLimiter(comparison, _STRUCTURE)
    chains = _chain(stores[0], reaches.ends[0]), _chain(stores[1], reaches.ends[1])
    yield from limiter.add_all(_bounds(reaches))
    yield from limiter.add_all(_gaps(chains))
    for name, store, end in zip("ab", stores, ends, strict=True):
        yield from limiter.add_all(_tail(name, store, end, comparison))
    low, high = max(reaches.starts), min(reaches.ends)
    for side, chain in enumerate(chains):
        yield from limiter.add_all(_walk_alone(chain, reaches.starts[side], min(low, chain.end), "ab"[side]))
    yield from _common(chains[0], chains[1], (low, high), limiter, comparison)
    for side, chain in enumerate(chains):
        yield from limiter.add_all(_walk_alone(chain, max(low, high), chain.end, "ab"[side]))
    yield from limiter.add_all(_bad_records(chains, comparison))
    yield from limiter.finish()


def _chain(store: Store, end: int) -> RecordChain:
    return RecordChain(store.commitlog, end, FoundEdge.of(store))


def _bounds(reaches: LogBounds) -> Iterator[Difference]:
    """Yield how far the logs reach, which is no damage."""
    (a, b), (a_end, b_end) = reaches.starts, reaches.ends
    if a < a_end and b < b_end and (a_end <= b or b_end <= a):
        yield _apart(reaches)
        return
    if a != b:
        later = "B" if a < b else "A"
        sentence = (
            f"the logs start at {a} and {b}: {abs(a - b)} bytes have expired in {later}, or are missing"
        )
        yield _bound(Change.STARTS, sentence, "start", a, b)
    if a_end != b_end:
        shorter = "B" if b_end < a_end else "A"
        sentence = (
            f"the logs end at {a_end} and {b_end}: {shorter} is {abs(a_end - b_end)} bytes shorter, as a "
            "slave that lags, an older copy, or a log that has lost its end"
        )
        yield _bound(Change.ENDS, sentence, "end", a_end, b_end)


def _apart(reaches: LogBounds) -> Difference:
    """Return that two logs share no byte: one is no slave of the other that merely lags."""
    (a, b), (a_end, b_end) = reaches.starts, reaches.ends
    early, late, end, start = ("A", "B", a_end, b) if a_end <= b else ("B", "A", b_end, a)
    between = f"{start - end} bytes between are in neither" if end < start else "no byte is in both"
    sentence = f"the logs do not touch: {early} ends at {end}, before {late} begins at {start}; {between}"
    sides: list[dict[str, Value]] = [{"start": a, "end": a_end}, {"start": b, "end": b_end}]
    return Difference(_STRUCTURE, Change.STARTS, sentence, physical_offset=end, a=sides[0], b=sides[1])


def _bound(change: Change, sentence: str, name: str, a: int, b: int) -> Difference:
    return Difference(
        _STRUCTURE, change, sentence, physical_offset=min(a, b), a={name: a}, b={name: b}, normal=True
    )


def _gaps(chains: tuple[RecordChain, RecordChain]) -> Iterator[Difference]:
    for side, chain in zip("ab", chains, strict=True):
        for number, segment in enumerate(chain.files):
            gap = chain.edge.missing_before(number) or _wrong_size(segment, chain.edge.file_size)
            if gap is not None:
                yield _damage(gap, side)


def _wrong_size(segment: Segment, file_size: int | None) -> Finding | None:
    """Return the finding about a file that is shorter than the others: no broker loads it."""
    if file_size is None or segment.size_bytes >= file_size:
        return None
    text = f"{segment.label} has {segment.size_bytes} bytes instead of {file_size}"
    return finding_at(segment, codes.CL_STRAY, segment.stop, text, length=file_size - segment.size_bytes)


def _tail(side: str, store: Store, end: LogEnd, comparison: StoreComparison) -> Iterator[Difference]:
    """Yield the bytes after the last record, unless they are zeros: after a crash that is a torn write."""
    if end.tail is None:
        return
    sentence = f"{side.upper()}: after the last record, at {end.end}: {end.tail.message}"
    if end.ends_cleanly:
        comparison.note(sentence)
        return
    if store.abort is not None:
        comparison.note(f"{sentence}; the store was not stopped cleanly, and recovery cuts it off")
        return
    yield _damage(end.tail, side, sentence)


def _walk_alone(chain: RecordChain, start: int, stop: int, side: str) -> Iterator[Difference]:
    for low, high in _stretches((chain.files,), start, stop):
        chain.starts(low, high, check=False)
        yield from _breaks(chain, side)


def _breaks(chain: RecordChain, side: str) -> Iterator[Difference]:
    for defect in chain.breaks:
        yield _damage(defect, side)
    chain.breaks.clear()


def _damage(defect: Finding, side: str, sentence: str = "") -> Difference:
    who = "both" if side == "both" else side.upper()
    return Difference(
        _STRUCTURE,
        Change.DAMAGED,
        sentence or f"{who}: {defect.sentence}",
        physical_offset=defect.physical_offset,
        code=defect.code.code,
        damaged=side,
    )


def _bad_records(
    chains: tuple[RecordChain, RecordChain], comparison: StoreComparison
) -> Iterator[Difference]:
    """Keep damage of records that were counted and not shown."""
    for side, chain in zip("ab", chains, strict=True):
        if chain.has_bad_records and not comparison.is_damaged:
            yield _damage(next(iter(chain.findings)), side)


def _common(
    own: RecordChain,
    other: RecordChain,
    bounds: tuple[int, int],
    limiter: DifferenceLimiter,
    comparison: StoreComparison,
) -> Iterator[Difference]:
    carried = bounds[0]  # start of a record that reaches into the stretch
    for low, high in _stretches((own.files, other.files), *bounds):
        ours, theirs = (_read(chain.files, low, high, comparison) for chain in (own, other))
        comparison.compared["bytes"] += high - low
        is_in_step = own.log_offset == other.log_offset or low == bounds[0]
        if ours == theirs and is_in_step and _file_stop(own, low) == _file_stop(other, low):
            mine = yours = own.starts(low, high, check=False)
            other.log_offset = own.log_offset
            yield from limiter.add_all(_breaks(own, "both"))
        else:
            mine, yours = (chain.starts(low, high, check=True) for chain in (own, other))
            unequal = _unequal_bytes(ours, theirs, low, (mine.blank, yours.blank), comparison)
            log_offsets = _unequal_log_offsets(
                unequal, np.union1d(mine.log_offsets, yours.log_offsets), low, carried
            )
            yield from _tell_unequal((own, other), (mine, yours), log_offsets, limiter)
        comparison.compared["records"] += len(mine.log_offsets) - (mine.blank is not None)
        carried = max(
            carried, *(int(starts.log_offsets[-1]) for starts in (mine, yours) if len(starts.log_offsets)), 0
        )


def _file_stop(chain: RecordChain, log_offset: int) -> int | None:
    """Return where a file ends, which decides whether a BLANK fits."""
    segment = chain.files.segment_at(log_offset)
    return None if segment is None else segment.stop


def _unequal_bytes(
    ours: bytes, theirs: bytes, low: int, blanks: tuple[int | None, int | None], comparison: StoreComparison
) -> Bools:
    """Return which bytes of a stretch differ, but for those after a BLANK that both have."""
    unequal: Bools = np.frombuffer(ours, np.uint8) != np.frombuffer(theirs, np.uint8)
    if blanks[0] is not None and blanks[0] == blanks[1]:
        after = unequal[max(blanks[0] - low, 0) :]
        if after.any():
            comparison.note(_AFTER_BLANK)
            after[:] = False
    return unequal


def _unequal_log_offsets(unequal: Bools, starts: Int64s, low: int, carried: int) -> Int64s:
    """Return where the records begin that differ.

    ``starts`` are those of one log; ``carried`` is where a record begins that reaches into the stretch.
    """
    first = low if low in starts else carried
    log_offsets: Int64s = np.concatenate([[first], starts[starts > low]]).astype(np.int64)
    differs: Bools = np.logical_or.reduceat(unequal, np.maximum(log_offsets, low) - low)
    return log_offsets[differs]


def _tell_unequal(
    chains: tuple[RecordChain, RecordChain],
    starts: tuple[Starts, Starts],
    log_offsets: Int64s,
    limiter: DifferenceLimiter,
) -> Iterator[Difference]:
    shown = log_offsets[: max(limiter.room, 0)]
    files = chains[0].files, chains[1].files
    broken = {fault.physical_offset: fault.code.code for chain in chains for fault in chain.breaks}
    for log_offset in shown.tolist():
        begins = starts[0].has(log_offset), starts[1].has(log_offset)
        difference = record_difference(*files, log_offset, begins)
        yield from limiter.add(replace(difference, code=broken.get(log_offset, difference.code)))
    limiter.pass_over(len(log_offsets) - len(shown))
    for side, chain in zip("ab", chains, strict=True):
        chain.breaks = [
            fault for fault in chain.breaks if fault.physical_offset not in shown
        ]  # those are shown
        yield from limiter.add_all(_breaks(chain, side))


def _stretches(queues: tuple[FileQueue, ...], start: int, stop: int) -> Iterator[tuple[int, int]]:
    """Cut logs into pieces within files; an absurd gap between files costs nothing."""
    position = start
    edges = sorted((segment.start, segment.stop) for files in queues for segment in files)
    for low, high in edges:
        position = max(position, low)
        while position < min(high, stop):
            end = min(position + _STRETCH_BYTES, high, stop)
            yield position, end
            position = end


def _read(files: FileQueue, start: int, stop: int, comparison: StoreComparison) -> bytes:
    """Read by address over the files; gaps and unreadable ranges are zeros."""
    pieces = bytearray(stop - start)
    for segment in files:
        low, high = max(start, segment.start), min(stop, segment.stop)
        if low < high:
            bad: list[UnreadableRange] = []
            data = segment.read_at(low - segment.start, high - low, bad)
            comparison.is_damaged |= bool(bad)
            comparison.note_unreadable([(segment, bad)])
            pieces[low - start : low - start + len(data)] = data
    return bytes(pieces)
