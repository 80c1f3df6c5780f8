"""Recovery of a DLedger log: where a start follows its entries from, where they end, and what is committed.

Origin: ``DLedgerMmapFileStore#recover``, ``#updateCommittedIndex`` (dledger 0.3.1.2 of 4.9.8 and 5.3.3,
0.3.3.4 of 5.5.1: the same rules). Only headers count, whatever lies in the messages. Units of the index of
entries that differ are written again, and refuse nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rmqtool.findings import FindingCode, codes
from rmqtool.formats.entry import ENTRIES, ENTRY_MAGIC, ENTRY_UNITS, Entry, EntryUnit
from rmqtool.kernels.rows import frame_stops
from rmqtool.recovery import Refusal
from rmqtool.scan.entries import entry_headers, fits_frame
from rmqtool.scan.walk import SegmentWalk
from rmqtool.store.ledger import CHECKPOINT, PROGRESS, property_in
from rmqtool.store.segments import Segment, Window

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rmqtool.arrays import Int64s
    from rmqtool.io import Location
    from rmqtool.kernels.rows import MessageBatch

_FILES_FOLLOWED = 3
_NONE = -1
_REMEDY = (
    "Restore the file from another member of the group; rmqtool salvage makes a plain store of every message"
    " that is read."
)


@dataclass
class FollowedEntries:
    """Entries that a start follows, up to the first that is none, or not the next one.

    Attributes:
        rules: see ``rmqtool.kernels.rows.Rules``.
        committed: index of the last entry that is committed, as far as the start knows; -1 without any.
        first: the file that it begins with, and why.
        reason: see ``first``.
        end: physical offset of the end of the log.
        index: index of the last entry; -1 without any.
        term: its term.
        last_stop: physical offset after the last entry.
        committed_stop: the same of the committed one.
        code: damage that ends the log; None at its own end.
        says: what lies there.
        refusals: why the process exits, or does not load the store.
    """

    rules: Int64s
    committed: int
    first: Segment
    reason: str
    end: int = 0
    index: int = _NONE
    term: int = _NONE
    last_stop: int = _NONE
    committed_stop: int = _NONE
    code: FindingCode | None = None
    says: str = ""
    refusals: tuple[Refusal, ...] = ()

    def follow(self, segment: Segment) -> bool:
        """Follow the entries of a file; return whether an end mark leads to the next."""
        self.end = segment.start
        walk = SegmentWalk(segment, self.rules, stops_at_mismatch=True)
        for batch in walk.batches(segment.start, segment.stop):
            if self._take(batch) < len(batch.rows):
                break
        window = Window(segment)
        while True:  # what is wrong with a message ends the walk, and not the log
            window.focus(self.end - segment.start)
            data = window.read_at(self.end - segment.start, ENTRIES.size)
            if segment.framing.end_size(data) is not None:
                self.end, self.says = segment.stop, "the end of the last file"
                return True
            header = ENTRIES.decode(data)
            self.code, self.says = self._judge(header, segment)
            if header is None or self.says:
                return False
            self._pass(header.index, header.term, self.end + header.size)

    def _take(self, batch: MessageBatch) -> int:
        """Pass the entries of a batch; return how many."""
        if not len(batch.rows):
            return 0
        headers, stops = entry_headers(batch), frame_stops(batch.rows)
        indexes = np.concatenate([[self.index], headers["index"]]).astype(np.int64)
        terms = np.concatenate([[self.term], headers["term"]]).astype(np.int64)
        is_next = np.diff(indexes) == 1
        if self.index == _NONE:
            is_next[0] = indexes[1] >= 0
        goes_on = fits_frame(headers, batch) & is_next & (terms[1:] >= terms[:-1])
        count = len(goes_on) if goes_on.all() else int(goes_on.argmin())
        if count:
            at = self.committed - int(indexes[1])
            if 0 <= at < count:
                self.committed_stop = int(stops[at])
            self._pass(int(indexes[count]), int(terms[count]), int(stops[count - 1]))
        return count

    def _pass(self, index: int, term: int, stop: int) -> None:
        self.index, self.term, self.end, self.last_stop = index, term, stop, stop
        if index == self.committed:
            self.committed_stop = stop

    def _judge(self, header: Entry | None, segment: Segment) -> tuple[FindingCode | None, str]:
        """Return the damage and the words if an entry ends the log; no words if it does not."""
        if header is None or header.size == 0:
            return (codes.DL_POS if header and any(header) else None), "no entry"
        is_own = (header.magic, header.pos) == (ENTRY_MAGIC, self.end)
        is_whole = ENTRIES.size <= header.size == ENTRIES.size + header.body_length
        if not (is_own and is_whole) or self.end + header.size > segment.stop:
            return codes.DL_POS, "an entry whose header contradicts its place"
        if header.index < 0 or self.index not in {_NONE, header.index - 1}:
            return codes.DL_INDEX, f"entry {header.index} after entry {self.index}"
        if header.term < self.term:
            return codes.DL_TERM, f"term {header.term} after term {self.term}"
        return None, ""


def follow_entries(entries: Sequence[Segment], units: Sequence[Segment], rules: Int64s) -> FollowedEntries:
    """Follow a member's entries as a start does; ``units`` are the files of their index."""
    number, reason = _first_file(entries, units)
    first, last = entries[number], entries[-1]
    member = last.path.parent.parent
    committed, refusals = _committed(member)
    followed = FollowedEntries(rules, committed, first, reason)
    for segment in entries[number:]:
        goes_on = followed.follow(segment)
        segment.close()
        if not goes_on:
            break
    if last.start - followed.end > last.size_bytes:
        at = next(segment for segment in entries if segment.start <= followed.end < segment.stop)
        reason = (
            f"has {followed.says} at position {followed.end - at.start}, more than a file before the last"
            " one: the process exits"
        )
        refusals = (Refusal(at.label, reason, _REMEDY),)
    elif followed.index != _NONE and not refusals:
        refusals = _committed_refusals(followed, entries[0], units)
    followed.refusals = refusals
    return followed


def _committed_refusals(
    followed: FollowedEntries, oldest: Segment, units: Sequence[Segment]
) -> tuple[Refusal, ...]:
    """Settle what is committed; return why that fails."""
    begin = ENTRIES.padded(oldest.read_at(0, ENTRIES.size, [])).index
    if begin > followed.index:
        reason = f"begins with entry {begin}, after the log's last: a broker takes no message any more"
        return (Refusal(oldest.label, reason, _REMEDY),)
    if followed.committed >= followed.index:
        followed.committed, followed.committed_stop = followed.index, followed.last_stop
    elif followed.committed < begin:
        followed.committed = _NONE
    elif followed.committed_stop == _NONE:
        unit = _unit(units, followed.committed)
        if unit is None:
            label = f"{oldest.path.parent.parent.name}/{CHECKPOINT}"
            return (Refusal(label, f"names entry {followed.committed}, which has no unit"),)
        followed.committed_stop = unit.pos + unit.size
    return ()


def _first_file(entries: Sequence[Segment], units: Sequence[Segment]) -> tuple[int, str]:
    newest = max(len(entries) - _FILES_FOLLOWED, 0)
    for number in range(newest, -1, -1):
        header = ENTRIES.padded(entries[number].read_at(0, ENTRIES.size, []))
        is_own = header.magic >= ENTRY_MAGIC and header.pos == entries[number].start
        if not (is_own and ENTRIES.size <= header.size == ENTRIES.size + header.body_length):
            continue
        if _unit(units, header.index) == (header.magic, header.pos, header.size, header.index, header.term):
            return number, "the third last file, or an older one, whose first entry has its unit"
    return 0, "no first entry has its unit: the first file"


def _unit(units: Sequence[Segment], index: int) -> EntryUnit | None:
    """Return the unit of an entry; None where no file has it."""
    place = index * ENTRY_UNITS.size
    file = next((file for file in units if file.start <= place < file.stop), None)
    return (
        None if file is None else ENTRY_UNITS.decode(file.read_at(place - file.start, ENTRY_UNITS.size, []))
    )


def _committed(member: Location) -> tuple[int, tuple[Refusal, ...]]:
    """Return the committed index of a member's checkpoint, -1 if it says none; and why it is not read."""
    name = PROGRESS[CHECKPOINT]
    said = property_in(member / CHECKPOINT, name)
    try:
        return int(said or _NONE), ()
    except ValueError:
        return _NONE, (Refusal(f"{member.name}/{CHECKPOINT}", f"has a {name} that is not a number"),)
