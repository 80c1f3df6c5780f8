"""Headers of DLedger's entries, which a walk passes as the leads of its records, and what contradicts them.

A header is compared with its frame, with those before it, and with its unit in the index of entries, which a
start derives from the headers (``DLedgerMmapFileStore#recover``, dledger 0.3.1.2).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from rmqtool.findings import Finding, codes
from rmqtool.formats.entry import ENTRIES, ENTRY_MAGIC, ENTRY_UNITS, Entry
from rmqtool.formats.framing import DLEDGER
from rmqtool.kernels.rows import frame_starts, frame_stops
from rmqtool.store.ledger import unit_files
from rmqtool.store.segments import finding_at

if TYPE_CHECKING:
    from rmqtool.arrays import Bools, Int64s, Rows
    from rmqtool.findings import FindingCode, FindingLog
    from rmqtool.kernels.rows import MessageBatch
    from rmqtool.store.segments import FileQueue, Segment

_OF_UNIT = ("magic", "pos", "size", "term")


def entry_headers(batch: MessageBatch) -> Rows:
    """Return the headers before a batch's records, ``(n,)`` of ``ENTRIES.dtype``."""
    windows = np.lib.stride_tricks.sliding_window_view(batch.buffer, ENTRIES.size)
    headers: Rows = windows[frame_starts(batch.rows) - batch.base].view(ENTRIES.dtype)[:, 0]
    return headers


def frame_fields(batch: MessageBatch) -> dict[str, Int64s]:
    """Return what the headers of a batch must have, by field."""
    sizes = batch.rows["total_size"].astype(np.int64)
    return {
        "magic": np.full(len(sizes), ENTRY_MAGIC),
        "pos": frame_starts(batch.rows),
        "size": frame_stops(batch.rows) - frame_starts(batch.rows),
        "bodyLength": sizes,
    }


def fits_frame(headers: Rows, batch: MessageBatch) -> Bools:
    """Whether place, magic and lengths of each entry are those of its frame, ``(n,)``."""
    fits: Bools = np.logical_and.reduce(
        [headers[name] == wanted for name, wanted in frame_fields(batch).items()]
    )
    return fits


def first_entry(segment: Segment) -> Entry | None:
    """Return the header with which a file of entries begins; None if it begins with none."""
    header = ENTRIES.padded(segment.read_at(0, ENTRIES.size, []))
    return header if (header.magic, header.pos) == (ENTRY_MAGIC, segment.start) else None


def entry_of(log: FileQueue, physical_offset: int) -> Entry | None:
    """Return the header of the entry whose message lies at a place; None if there is none."""
    segment = log.segment_at(physical_offset)
    if segment is None or segment.framing != DLEDGER:
        return None
    position = max(segment.frame_position(physical_offset), 0)
    entry = ENTRIES.padded(segment.read_at(position, ENTRIES.size, []))
    return entry if entry.pos == segment.start + position else None


class EntrySpan(NamedTuple):
    """Entries that a walk has passed, with damage between them or not.

    ``start`` and ``stop`` are physical offsets of frames; ``first`` and ``last`` are index and term of an
    entry.
    """

    start: int
    stop: int
    first: tuple[int, int]
    last: tuple[int, int]


class EntryChecker:
    """Checks of the entries of one file, in the order of the log; ``findings`` receives the damage.

    ``with_units`` is whether the index of entries is compared, too; ``span`` are the entries so far.
    """

    def __init__(self, segment: Segment, findings: FindingLog, *, with_units: bool = False) -> None:
        self._segment, self._findings = segment, findings
        self._units = unit_files(segment.path.parent.parent) if with_units else {}
        self.span: EntrySpan | None = None
        self._indexes = self._terms = np.zeros(0, np.int64)  # of the two entries before

    def check(self, batch: MessageBatch) -> None:
        """Check the entries of a batch."""
        if not len(batch.rows):
            return
        headers, starts, stops = entry_headers(batch), frame_starts(batch.rows), frame_stops(batch.rows)
        if self.span is None:
            self._begin(headers, int(starts[0]))
        sound = np.ones(len(headers), bool)
        for name, wanted in frame_fields(batch).items():
            text = name + " {1}, its frame says {0}"
            misfit = partial(self._wrong, batch, codes.DL_POS, text, wanted, headers[name])
            sound &= self._report(headers[name] != wanted, misfit)
        indexes = np.concatenate([self._indexes, headers["index"]]).astype(np.int64)
        terms = np.concatenate([self._terms, headers["term"]]).astype(np.int64)
        follows = np.concatenate([[self.span.stop if self.span else -1], stops[:-1]]) == starts
        goes_on = indexes[2:] == indexes[1:-1] + 1
        goes_on |= indexes[2:] == indexes[:-2] + 2  # after an index that is wrong itself
        goes_on |= ~follows & (indexes[2:] > indexes[1:-1])  # after damage
        jump = codes.DL_INDEX, "entry {1}, {0} comes here", indexes[1:-1] + 1, indexes[2:]
        sound &= self._report(~goes_on, partial(self._wrong, batch, *jump))
        fall = codes.DL_TERM, "term {1} after term {0}", terms[1:-1], terms[2:]
        sound &= self._report(terms[2:] < terms[1:-1], partial(self._wrong, batch, *fall))
        if self._units:
            self._check_units(batch, headers, sound)
        self._indexes, self._terms = indexes[-2:], terms[-2:]
        if self.span is not None:
            last = int(headers["index"][-1]), int(headers["term"][-1])
            self.span = self.span._replace(stop=int(stops[-1]), last=last)

    def _begin(self, headers: Rows, start: int) -> None:
        """Take the first entry's index from those after it, where they agree against it."""
        index = headers["index"].astype(np.int64)
        is_odd = len(index) > 2 and index[2] == index[1] + 1 != index[0] + 2
        first = int(index[1]) - 1 if is_odd else int(index[0])
        self._indexes, self._terms = np.array([first - 2, first - 1]), headers["term"][[0, 0]]
        span = first, int(headers["term"][0])
        self.span = EntrySpan(start, start, span, span)

    def _report(self, wrong: Bools, finding: partial[Finding]) -> Bools:
        """Add a finding for each wrong entry; return which ones are not."""
        self._findings.add_rows(np.flatnonzero(wrong), finding)
        return ~wrong

    def _wrong(
        self, batch: MessageBatch, code: FindingCode, text: str, expected: Int64s, observed: Int64s, row: int
    ) -> Finding:
        """Return the finding about an entry; ``text`` has places for both values."""
        start, wanted, there = int(frame_starts(batch.rows)[row]), int(expected[row]), int(observed[row])
        fields = {"length": ENTRIES.size, "expected": wanted, "observed": there}
        return finding_at(self._segment, code, start, text.format(wanted, there), **fields)

    def _check_units(self, batch: MessageBatch, headers: Rows, sound: Bools) -> None:
        """Compare the units of the entries that are in order with the first sound one."""
        if not sound.any():
            return
        numbers = headers["index"] - np.arange(len(headers))
        first = int(numbers[int(np.argmax(sound))])
        units = self._read_units(first, len(headers))
        same = np.logical_and.reduce([units[name] == headers[name] for name in (*_OF_UNIT, "index")])
        self._report(sound & (numbers == first) & ~same, partial(self._wrong_unit, batch, headers, units))

    def _read_units(self, first: int, count: int) -> Rows:
        data, position = b"", first * ENTRY_UNITS.size
        for start, file in self._units.items():
            at = position + len(data) - start
            if 0 <= at < file.size_bytes and len(data) < count * ENTRY_UNITS.size:
                data += file.read_at(at, min(count * ENTRY_UNITS.size - len(data), file.size_bytes - at), [])
        return np.frombuffer(data.ljust(count * ENTRY_UNITS.size, b"\0"), ENTRY_UNITS.dtype)

    def _wrong_unit(self, batch: MessageBatch, headers: Rows, units: Rows, row: int) -> Finding:
        entry, unit = headers[row], units[row]
        words = ", ".join(f"{name} {int(unit[name])}" for name in (*_OF_UNIT, "index"))
        said = "has no unit" if unit["magic"] == 0 else f"has a unit with {words}"
        return finding_at(
            self._segment,
            codes.DL_UNIT,
            int(frame_starts(batch.rows)[row]),
            f"entry {int(entry['index'])} {said}",
            length=int(entry["size"]),
            expected=int(entry["pos"]),
            observed=int(unit["pos"]),
        )
