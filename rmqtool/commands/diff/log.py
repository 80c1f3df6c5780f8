"""Commit logs by physical offset: bounds, and the records of the range that both hold."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from rmqtool.commands.diff.align import LogBounds
from rmqtool.commands.diff.chain import Chain
from rmqtool.commands.diff.model import Change, Difference, DifferenceLimiter
from rmqtool.commands.diff.records import record_difference
from rmqtool.findings.commitlog import CL_STRAY
from rmqtool.scan.classify import Defect
from rmqtool.scan.log_edge import FoundEdge
from rmqtool.scan.log_end import find_log_end

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.arrays import Bools, Int64s
    from rmqtool.commands.diff.chain import Starts
    from rmqtool.commands.diff.model import Comparison
    from rmqtool.io.reading import UnreadableRange
    from rmqtool.scan.log_end import LogEnd
    from rmqtool.store import FileQueue, Store
    from rmqtool.store.segments import Segment


_STRETCH_BYTES = 8 << 20
_STRUCTURE = "commitlog"
_BEHIND_BLANK = "bytes after the BLANK of a full file differ; no broker reads them"


def log_reaches(a: Store, b: Store) -> tuple[LogBounds, tuple[LogEnd, LogEnd]]:
    """Return the bounds of two logs, and how they end."""
    one, two = (find_log_end(FoundEdge.of(store)) for store in (a, b))
    starts = a.commitlog.start, b.commitlog.start
    return LogBounds(starts, (one.end, two.end)), (one, two)


def diff_logs(
    stores: tuple[Store, Store], reaches: LogBounds, ends: tuple[LogEnd, LogEnd], comparison: Comparison
) -> Iterator[Difference]:
    """Yield the differences of two logs.

    Every record's lengths are followed in both; checksums are compared where bytes differ.
    """
    told = DifferenceLimiter(comparison, _STRUCTURE)
    chains = _chain(stores[0], reaches.ends[0]), _chain(stores[1], reaches.ends[1])
    yield from told.tell_all(_bounds(reaches))
    yield from told.tell_all(_gaps(chains))
    for name, store, end in zip("AB", stores, ends, strict=True):
        yield from told.tell_all(_tail(name, store, end, comparison))
    low, high = max(reaches.starts), min(reaches.ends)
    for side, chain in enumerate(chains):
        yield from told.tell_all(_walk_alone(chain, reaches.starts[side], min(low, chain.end), "ab"[side]))
    yield from _common(chains[0], chains[1], (low, high), told, comparison)
    for side, chain in enumerate(chains):
        yield from told.tell_all(_walk_alone(chain, max(low, high), chain.end, "ab"[side]))
    yield from told.tell_all(_bad_records(chains, comparison))
    yield from told.finish()


def _chain(store: Store, end: int) -> Chain:
    return Chain(store.commitlog, end, FoundEdge.of(store))


def _bounds(reaches: LogBounds) -> Iterator[Difference]:
    """Say how far the logs reach; that is no damage."""
    (a, b), (a_end, b_end) = reaches.starts, reaches.ends
    if a != b:
        later = "B" if a < b else "A"
        sentence = f"the logs start at {a} and {b}: {later} has deleted {abs(a - b)} bytes that have expired"
        yield _bound(Change.STARTS, sentence, "start", a, b)
    if a_end != b_end:
        shorter = "B" if b_end < a_end else "A"
        sentence = (
            f"the logs end at {a_end} and {b_end}: {shorter} is {abs(a_end - b_end)} bytes behind,"
            " as a slave that lags, or an older copy"
        )
        yield _bound(Change.ENDS, sentence, "end", a_end, b_end)


def _bound(change: Change, sentence: str, name: str, a: int, b: int) -> Difference:
    return Difference(
        _STRUCTURE, change, sentence, physical_offset=min(a, b), a={name: a}, b={name: b}, normal=True
    )


def _gaps(chains: tuple[Chain, Chain]) -> Iterator[Difference]:
    for side, chain in zip("ab", chains, strict=True):
        for number, segment in enumerate(chain.files):
            gap = chain.edge.missing_before(number) or _wrong_size(segment, chain.edge.file_size)
            if gap is not None:
                yield _damage(gap, side)


def _wrong_size(segment: Segment, file_size: int | None) -> Defect | None:
    """Return what is wrong with a file that is shorter than the others: no broker loads it."""
    if file_size is None or segment.size_bytes >= file_size:
        return None
    text = f"{segment.label} has {segment.size_bytes} bytes instead of {file_size}"
    return Defect(CL_STRAY, segment.stop, file_size - segment.size_bytes, text)


def _tail(side: str, store: Store, end: LogEnd, comparison: Comparison) -> Iterator[Difference]:
    """Say what lies after the last record, if that is not zeros: after a crash that is a torn write."""
    if end.tail is None:
        return
    sentence = f"{side}: after the last record, at {end.end}: {end.tail.message}"
    if end.ends_cleanly:
        comparison.note(sentence)
        return
    if store.abort is not None:
        comparison.note(f"{sentence}; the store was not stopped cleanly, and recovery cuts it off")
        return
    yield Difference(
        _STRUCTURE,
        Change.DAMAGED,
        sentence,
        physical_offset=end.tail.physical_offset,
        damaged=side.lower(),
        code=end.tail.code.code,
    )


def _walk_alone(chain: Chain, start: int, stop: int, side: str) -> Iterator[Difference]:
    """Follow what only one log holds."""
    for low, high in _stretches((chain.files,), start, stop):
        chain.starts(low, high, check=False)
        yield from _breaks(chain, side)


def _breaks(chain: Chain, side: str) -> Iterator[Difference]:
    for defect in chain.breaks:
        yield _damage(defect, side)
    chain.breaks.clear()


def _damage(defect: Defect, side: str) -> Difference:
    who = "both" if side == "both" else side.upper()
    return Difference(
        _STRUCTURE,
        Change.DAMAGED,
        f"{who}: {defect.message or defect.code.title}",
        physical_offset=defect.physical_offset,
        code=defect.code.code,
        damaged=side,
    )


def _bad_records(chains: tuple[Chain, Chain], comparison: Comparison) -> Iterator[Difference]:
    """Remember damage of records that were counted and not told."""
    for side, chain in zip("ab", chains, strict=True):
        if chain.has_bad_records and not comparison.is_damaged:
            finding = next(iter(chain.findings))
            yield Difference(
                _STRUCTURE,
                Change.DAMAGED,
                f"{side.upper()}: {finding.message}",
                physical_offset=finding.physical_offset,
                damaged=side,
                code=finding.code.code,
            )


def _common(
    one: Chain, other: Chain, bounds: tuple[int, int], told: DifferenceLimiter, comparison: Comparison
) -> Iterator[Difference]:
    """Compare the range that both logs hold, record by record."""
    carried = bounds[0]  # where the record began that reaches into the stretch
    for low, high in _stretches((one.files, other.files), *bounds):
        ours, theirs = (_read(chain.files, low, high, comparison) for chain in (one, other))
        comparison.compared["bytes"] += high - low
        is_in_step = one.log_offset == other.log_offset or low == bounds[0]
        if ours == theirs and is_in_step and _file_stop(one, low) == _file_stop(other, low):
            mine = yours = one.starts(low, high, check=False)
            other.log_offset = one.log_offset
            yield from told.tell_all(_breaks(one, "both"))
        else:
            mine, yours = (chain.starts(low, high, check=True) for chain in (one, other))
            unequal = _unequal_bytes(ours, theirs, low, (mine.blank, yours.blank), comparison)
            log_offsets = _unequal_log_offsets(
                unequal, np.union1d(mine.log_offsets, yours.log_offsets), low, carried
            )
            yield from _tell_unequal((one, other), (mine, yours), log_offsets, told)
        comparison.compared["records"] += len(mine.log_offsets) - (mine.blank is not None)
        carried = max(
            carried, *(int(starts.log_offsets[-1]) for starts in (mine, yours) if len(starts.log_offsets)), 0
        )


def _file_stop(chain: Chain, log_offset: int) -> int | None:
    """Return where a file ends: a BLANK is judged by it."""
    segment = chain.files.segment_at(log_offset)
    return None if segment is None else segment.stop


def _unequal_bytes(
    ours: bytes, theirs: bytes, low: int, blanks: tuple[int | None, int | None], comparison: Comparison
) -> Bools:
    """Return which bytes of a stretch differ, but for those after a BLANK that both have."""
    unequal: Bools = np.frombuffer(ours, np.uint8) != np.frombuffer(theirs, np.uint8)
    if blanks[0] is not None and blanks[0] == blanks[1]:
        after = unequal[max(blanks[0] - low, 0) :]
        if after.any():
            comparison.note(_BEHIND_BLANK)
            after[:] = False
    return unequal


def _unequal_log_offsets(unequal: Bools, starts: Int64s, low: int, carried: int) -> Int64s:
    """Return where the records begin that differ.

    Args:
        unequal: Which bytes of the stretch differ.
        starts: Where records begin in one of the logs.
        low: Where the stretch begins.
        carried: Where the record begins that reaches into it.
    """
    first = low if low in starts else carried
    log_offsets: Int64s = np.concatenate([[first], starts[starts > low]]).astype(np.int64)
    differs: Bools = np.logical_or.reduceat(unequal, np.maximum(log_offsets, low) - low)
    return log_offsets[differs]


def _tell_unequal(
    chains: tuple[Chain, Chain], starts: tuple[Starts, Starts], log_offsets: Int64s, told: DifferenceLimiter
) -> Iterator[Difference]:
    shown = log_offsets[: max(told.room, 0)]
    files = chains[0].files, chains[1].files
    codes = {one.physical_offset: one.code.code for chain in chains for one in chain.breaks}
    for log_offset in shown.tolist():
        begins = starts[0].has(log_offset), starts[1].has(log_offset)
        found = record_difference(*files, log_offset, begins)
        yield from told.tell(replace(found, code=codes.get(log_offset, found.code)))
    told.pass_over(len(log_offsets) - len(shown))
    for side, chain in zip("ab", chains, strict=True):
        chain.breaks = [one for one in chain.breaks if one.physical_offset not in shown]  # those are told
        yield from told.tell_all(_breaks(chain, side))


def _stretches(queues: tuple[FileQueue, ...], start: int, stop: int) -> Iterator[tuple[int, int]]:
    """Cut what logs hold into pieces within files; an absurd gap between files costs nothing."""
    position = start
    edges = sorted((segment.start, segment.stop) for files in queues for segment in files)
    for low, high in edges:
        position = max(position, low)
        while position < min(high, stop):
            end = min(position + _STRETCH_BYTES, high, stop)
            yield position, end
            position = end


def _read(files: FileQueue, start: int, stop: int, comparison: Comparison) -> bytes:
    """Read by address over the files; gaps and what the disk does not deliver are zeros."""
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
