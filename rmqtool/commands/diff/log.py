"""Commit logs by physical offset: bounds, the records of the range that both hold, and their differences."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from rmqtool.commands.diff import Change, Difference, DifferenceLimiter, StoreComparison, Value
from rmqtool.commands.diff.entries import LogBounds
from rmqtool.commands.diff.records import Parting, Starts, record_difference
from rmqtool.findings import Finding, FindingLog, Severity, codes
from rmqtool.formats.message import Outcome
from rmqtool.releases import LENIENT
from rmqtool.scan.classify import FoundEdge, classified
from rmqtool.scan.gap_walk import GapWalk, gap_of
from rmqtool.scan.record_checks import RecordChecker
from rmqtool.scan.record_walk import LogEnd, find_log_end
from rmqtool.scan.records import Gap
from rmqtool.store.segments import Segment, finding_at

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.arrays import Bools, Int64s
    from rmqtool.io.location import UnreadableRange
    from rmqtool.store import FileQueue, Store


_STRETCH_BYTES = 8 << 20
_BLANK_BYTES = 8


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
        gaps, ends = [places[0]], [places[0]]
        if segment is None:
            return Starts(places[0])
        walk = self._open(segment)
        checker = RecordChecker(segment, self.findings) if check else None
        reach = min(self.end, segment.stop)
        high = min(high, reach)
        if self.log_offset < high:
            for part in walk.parts(self.log_offset, high, reach):
                if isinstance(part, Gap):
                    gaps.append(np.array([part.start], np.int64))
                    places.append(gaps[-1])
                    self._note(part)
                    continue
                gaps.append(part.gaps["start"])
                places.append(np.sort(np.concatenate([part.rows["log_offset"], gaps[-1]])))
                for row in part.gaps:
                    self._note(gap_of(row))
                if checker is not None:
                    checker.check(part)
            self.log_offset = walk.log_offset
            if walk.outcome is Outcome.FILE_END:
                ends.append(np.array([walk.log_offset], np.int64))
                places.append(ends[-1])
                self.log_offset = segment.stop
                self._blank = walk.log_offset + _BLANK_BYTES
        blank = self._blank if self._blank is not None and self.log_offset >= segment.stop else None
        damage = np.concatenate(gaps)
        return Starts(np.concatenate(places), blank, damage, np.concatenate([damage, *ends]))

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
    stores: tuple[Store, Store],
    reaches: LogBounds,
    ends: tuple[LogEnd, LogEnd],
    comparison: StoreComparison,
    parting: Parting,
) -> Iterator[Difference]:
    """Yield the differences of two logs, and fill ``parting``.

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
        older = _walk_alone(chain, (reaches.starts[side], min(low, chain.end)), side, parting.older)
        yield from limiter.add_all(older)
    yield from _common(chains, (low, high), limiter, comparison, parting)
    parting.end()
    for side, chain in enumerate(chains):
        beyond = _walk_alone(chain, (max(low, high), chain.end), side, parting.beyond)
        yield from limiter.add_all(beyond)
    yield from limiter.add_all(_bad_records(chains, comparison))
    yield from limiter.finish()


def count_records(store: Store, side: int, reaches: LogBounds, parting: Parting) -> None:
    """Count the records of a log whose other copy has no file."""
    chain = _chain(store, reaches.ends[side])
    for _ in _walk_alone(chain, (reaches.starts[side], chain.end), side, parting.beyond):
        pass  # damage of one log is for verify
    store.commitlog.close()


def _chain(store: Store, end: int) -> RecordChain:
    return RecordChain(store.own_log, end, FoundEdge.of(store))


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


def _walk_alone(
    chain: RecordChain, bounds: tuple[int, int], side: int, records: list[int]
) -> Iterator[Difference]:
    for low, high in _stretches((chain.files,), *bounds):
        records[side] += len(chain.starts(low, high, check=False).records)
        yield from _breaks(chain, "ab"[side])


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
    chains: tuple[RecordChain, RecordChain],
    bounds: tuple[int, int],
    limiter: DifferenceLimiter,
    comparison: StoreComparison,
    parting: Parting,
) -> Iterator[Difference]:
    own, other = chains
    carried = bounds[0]  # start of a record that reaches into the stretch
    for low, high in _stretches((own.files, other.files), *bounds):
        ours, theirs = (_read(chain.files, low, high, comparison) for chain in chains)
        comparison.compared["bytes"] += high - low
        is_in_step = own.log_offset == other.log_offset or low == bounds[0]
        if ours == theirs and is_in_step and _file_stop(own, low) == _file_stop(other, low):
            mine = yours = own.starts(low, high, check=False)
            other.log_offset = own.log_offset
            yield from limiter.add_all(_breaks(own, "both"))
            parting.take((mine, yours), mine.log_offsets[:0])
        else:
            mine, yours = (chain.starts(low, high, check=True) for chain in chains)
            unequal = _unequal_bytes(ours, theirs, low, (mine.blank, yours.blank), comparison)
            starts = np.union1d(mine.log_offsets, yours.log_offsets)
            segment = own.files.segment_at(low)
            lead = 0 if segment is None else segment.framing.lead
            leads = lead * ~np.isin(starts, np.union1d(mine.marks, yours.marks))
            log_offsets = _unequal_log_offsets(unequal, starts, leads, low, carried)
            parting.take((mine, yours), log_offsets)
            yield from _tell_unequal(chains, (mine, yours), log_offsets, limiter)
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


def _unequal_log_offsets(unequal: Bools, starts: Int64s, leads: Int64s, low: int, carried: int) -> Int64s:
    """Return where the records begin that differ, or whose leads do.

    ``starts`` are those of one log; ``carried`` is where a record begins that reaches into the stretch.
    """
    begins = starts - leads
    first = [] if low in begins else [carried]
    frames = np.concatenate([first, begins[begins >= low]]).astype(np.int64)
    log_offsets: Int64s = np.concatenate([first, starts[begins >= low]]).astype(np.int64)
    differs: Bools = np.logical_or.reduceat(unequal, np.maximum(frames, low) - low)
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
        if not any(begins):  # in the stretch before
            begins = True, True
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
