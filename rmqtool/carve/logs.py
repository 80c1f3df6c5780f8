"""Pieces of logs as they lie in an image, joined to logs.

Records of one store host are of one log unless they contradict each other: two of them claim one place, or
store times go back where offsets go on. Then the host had several: its store was created again, or copies of
it diverged.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from rmqtool.kernels.rows import frame_stops

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.arrays import Bools, Int64s, Rows


CLOCK_SLACK_MS = 60_000
"""Milliseconds that the clock of a broker may go back from one piece to the next."""

_IDENTITY = ["log_offset", "total_size", "store_timestamp_ms", "host", "crc"]


class FoundLog(NamedTuple):
    """The records of one log.

    Attributes:
        rows: one for each place, ``(n,)`` of ``FOUND_ROW`` by offset; none overlaps another.
        duplicates: number of further copies of these.
        conflicts: records that claim a place that another has, likewise.
        copies: ``rows`` and all their copies: the part of the images that is of use.
    """

    rows: Rows
    duplicates: int
    conflicts: Rows
    copies: Rows


def find_logs(pieces: Pieces) -> list[FoundLog]:
    """Join pieces to logs, the one with most records first."""
    logs = [
        _resolved(pieces, numbers)
        for family in range(int(pieces.family.max(initial=-1)) + 1)
        for numbers in _lives(pieces, np.flatnonzero(pieces.family == family))
    ]
    return sorted(logs, key=lambda log: (-len(log.rows), int(log.rows["log_offset"][0])))


def _lives(pieces: Pieces, numbers: Int64s) -> Iterator[Int64s]:
    if _is_one(pieces, numbers):
        yield numbers
        return
    times = np.array([pieces.of(number)["store_timestamp_ms"].min() for number in numbers])
    lives: list[_Life] = []
    for place in np.lexsort((pieces.starts[numbers], times)):
        number = int(numbers[place])
        ranked = [(life.relation(pieces, number), life) for life in lives]
        fitting = [(relation.same, life) for relation, life in ranked if relation.fits]
        if fitting:
            max(fitting, key=lambda one: one[0])[1].add(pieces, number)
        else:
            lives.append(_Life(pieces, number))
    for life in lives:
        yield np.array(life.numbers)


def _is_one(pieces: Pieces, numbers: Int64s) -> bool:
    rows = np.concatenate([pieces.of(number) for number in numbers])
    rows = rows[_order(rows)]
    rows = rows[~_repeats(rows)]
    times = rows["store_timestamp_ms"]
    stops = frame_stops(rows)
    back = times[1:] < np.maximum.accumulate(times)[:-1] - CLOCK_SLACK_MS
    return not (back | (stops[:-1] > rows["log_offset"][1:])).any()


class _Relation(NamedTuple):
    """Counts of a piece's records that a log has, too, and of those for whose place it has another.

    ``ordered`` is whether store times rise with offsets across both.
    """

    same: int
    differing: int
    ordered: bool

    @property
    def fits(self) -> bool:
        """Whether it may be of that log: nothing contradicts it, or it is mostly a copy."""
        return self.same > self.differing or (self.ordered and not self.differing)


class _Life:
    def __init__(self, pieces: Pieces, number: int) -> None:
        self.numbers = [number]
        self._starts, self._stops = pieces.starts[[number]], pieces.stops[[number]]

    def add(self, pieces: Pieces, number: int) -> None:
        """Add a piece."""
        self.numbers.append(number)
        self._starts = np.append(self._starts, pieces.starts[number])
        self._stops = np.append(self._stops, pieces.stops[number])

    def relation(self, pieces: Pieces, number: int) -> _Relation:
        """Compare a piece with those that it overlaps, and those next to it."""
        start, stop = pieces.starts[number], pieces.stops[number]
        met = (self._starts < stop) & (self._stops > start)
        before, after = self._stops <= start, self._starts >= stop
        places = [*np.flatnonzero(met)]
        places += [int(np.argmax(np.where(before, self._stops, -1)))] if before.any() else []
        far = np.iinfo(np.int64).max
        places += [int(np.argmin(np.where(after, self._starts, far)))] if after.any() else []
        rows = pieces.of(number)
        compared = [_compared(rows, pieces.of(self.numbers[place])) for place in places]
        return _Relation(
            sum(relation.same for relation in compared),
            sum(relation.differing for relation in compared),
            all(relation.ordered for relation in compared),
        )


def _compared(rows: Rows, others: Rows) -> _Relation:
    starts, times = others["log_offset"], others["store_timestamp_ms"]
    place = np.searchsorted(frame_stops(others), rows["log_offset"], "right")
    here = np.minimum(place, len(others) - 1)
    met = (place < len(others)) & (starts[here] < frame_stops(rows))
    same = met & np.logical_and.reduce([others[name][here] == rows[name] for name in _IDENTITY])
    own = rows["store_timestamp_ms"]
    late = (place > 0) & (times[np.maximum(place - 1, 0)] > own + CLOCK_SLACK_MS)
    early = (place < len(others)) & ~met & (times[here] < own - CLOCK_SLACK_MS)
    return _Relation(int(same.sum()), int((met & ~same).sum()), not (late | early).any())


def _resolved(pieces: Pieces, numbers: Int64s) -> FoundLog:
    """Choose one record for each place of a log: of two that differ, that of the larger piece."""
    rows = np.concatenate([pieces.of(number) for number in numbers])
    sizes = np.repeat(pieces.sizes[numbers], pieces.sizes[numbers])
    order = _order(rows)
    rows, sizes = rows[order], sizes[order]
    repeats = _repeats(rows)
    original = np.cumsum(~repeats) - 1
    unique, weights = rows[~repeats], sizes[~repeats]
    kept = np.ones(len(unique), bool)
    while True:
        here = np.flatnonzero(kept)
        stops = frame_stops(unique[here])
        clash = np.flatnonzero(stops[:-1] > unique["log_offset"][here][1:])
        if not len(clash):
            break
        loser = np.where(weights[here[clash]] < weights[here[clash + 1]], here[clash], here[clash + 1])
        kept[loser] = False
    return FoundLog(unique[kept], int((repeats & kept[original]).sum()), unique[~kept], rows[kept[original]])


def _order(rows: Rows) -> Int64s:
    """Return the order of records by offset; equal ones stand together, first come first."""
    if (np.diff(rows["log_offset"]) > 0).all():
        return np.arange(len(rows))
    names = ["position", "image", "crc", "host", "store_timestamp_ms", "total_size", "log_offset"]
    order: Int64s = np.lexsort([rows[name] for name in names])
    return order


def _repeats(rows: Rows) -> Bools:
    """Return which of ordered records equal the one before, ``(n,)``."""
    repeats = np.zeros(len(rows), bool)
    repeats[1:] = np.logical_and.reduce([rows[name][1:] == rows[name][:-1] for name in _IDENTITY])
    return repeats


@dataclass(frozen=True)
class Pieces:
    """Maximal stretches of records of one image that lie there as in their log, with or without holes.

    Attributes:
        rows: proven records, ``(n,)`` of ``FOUND_ROW`` by image and position; in a piece, by offset as well.
        first: of each piece its first row, ``(k,)``.
        last: its last row.
        family: number of the broker that the store hosts belong to, from 0.
    """

    rows: Rows
    first: Int64s
    last: Int64s
    family: Int64s

    def __len__(self) -> int:
        return len(self.first)

    def of(self, number: int) -> Rows:
        """Return the records of a piece, by offset."""
        return self.rows[self.first[number] : self.last[number] + 1]

    @property
    def starts(self) -> Int64s:
        """Return the physical offset where each begins."""
        starts: Int64s = self.rows["log_offset"][self.first]
        return starts

    @property
    def stops(self) -> Int64s:
        """Return the physical offset where each ends."""
        return frame_stops(self.rows[self.last])

    @property
    def sizes(self) -> Int64s:
        """Return how many records each has."""
        return self.last - self.first + 1


def find_pieces(rows: Rows, *, one_log: bool = False) -> Pieces:
    """Join proven records, ``(n,)`` of ``FOUND_ROW`` by image and position, that were written side by side.

    Records are of one piece if position and own offset grow alike. Where another store host begins, they must
    follow each other without a hole, for two brokers' files of one size may lie side by side, too; with
    ``one_log`` all hosts are of one broker.
    """
    moved = np.diff(rows["log_offset"] - rows["position"]) != 0
    moved |= np.diff(rows["image"].astype(np.int64)) != 0
    renamed = np.diff(rows["host"]) != 0
    apart = frame_stops(rows, "position")[:-1] != rows["position"][1:]
    breaks = np.flatnonzero(moved | (renamed & apart)) + 1
    first = np.concatenate([[0], breaks]) if len(rows) else np.empty(0, np.int64)
    last = np.concatenate([breaks - 1, [len(rows) - 1]]) if len(rows) else first
    same = np.flatnonzero(renamed & ~(moved | (renamed & apart)))
    family = _families(rows["host"], same)[first]
    return Pieces(rows, first, last, np.zeros_like(family) if one_log else family)


def _families(hosts: Int64s, same: Int64s) -> Int64s:
    """Return the family of each row; ``same`` has the rows whose next host is another of the same broker."""
    names, number = np.unique(hosts, return_inverse=True)
    family: Int64s = np.arange(len(names))
    for one, other in np.unique(np.stack([number[same], number[same + 1]], axis=1), axis=0):
        family[family == family[other]] = family[one]
    families: Int64s = np.unique(family, return_inverse=True)[1]
    return families[number].astype(np.int64)
