"""Places where two readings of a log differ: copies of it, or records below a damaged frame.

The units of present queues decide, then text, then the neighbours in queue and log.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from rmqtool.formats.message import SMALLEST_RECORD
from rmqtool.genuine.evidence import QueueEvidence, confirmed_units
from rmqtool.genuine.records import CONTROLS, SAMPLE, Aside, Grounds, LogCopy, by_queue, read_record
from rmqtool.kernels.rows import frame_sizes, frame_starts, frame_stops
from rmqtool.topics import LMQ_PREFIX

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence, Set

    from rmqtool.arrays import Bools, Int64s, Rows
    from rmqtool.scan.records import Record
    from rmqtool.store.segments import FileQueue


_JUDGED_AGAIN = 1 << 12  # places side by side that are judged once more, each by itself
_BY_UNITS, _BY_TEXT, _BY_NEIGHBOURS, _BY_NOTHING = range(4)
_GROUNDS = (Grounds.UNITS, Grounds.TEXT, Grounds.NEIGHBOURS, Grounds.NOTHING)


class _CopySide(NamedTuple):
    """Records in log order, and where they stand in their queues, which are numbered for both copies."""

    records: Rows
    units: Rows

    def where(self, keep: Bools) -> _CopySide:
        records = self.records[keep]
        return _CopySide(records, self.units[np.isin(self.units["log_offset"], records["log_offset"])])

    def within(self, start: int, stop: int) -> _CopySide:
        """Return those that begin between two places."""
        bounds = [np.searchsorted(rows["log_offset"], [start, stop]) for rows in (self.records, self.units)]
        return _CopySide(self.records[slice(*bounds[0])], self.units[slice(*bounds[1])])

    def without(self, start: int, stop: int) -> _CopySide:
        """Return those that do not begin between two places."""
        parts = [(rows, rows["log_offset"]) for rows in (self.records, self.units)]
        return _CopySide(*(rows[(places < start) | (places >= stop)] for rows, places in parts))

    def joined(self, other: _CopySide) -> _CopySide:
        both = [(self.records, other.records), (self.units, other.units)]
        rows = [np.concatenate(pair) for pair in both]
        return _CopySide(*(part[np.argsort(part["log_offset"], kind="stable")] for part in rows))


class Disputes:
    """Settles where two copies differ.

    Args:
        first: whole records of the earlier copies.
        other: trusted records of the later one.
        differing: which of these lie over others of the earlier, ``(n,)``.
        taken: which of these fill holes of the earlier, ``(n,)``.
        evidence: what the queues of each copy list.
        logs: of all copies, by the number that records name as their source.
    """

    def __init__(
        self,
        first: LogCopy,
        other: LogCopy,
        differing: Bools,
        taken: Bools,
        evidence: Sequence[QueueEvidence],
        logs: Sequence[FileQueue],
    ) -> None:
        self._copies, self._evidence, self._logs = (first, other), evidence, logs
        self._from_zero = first.log.start == 0
        met, _ = overlaps(first.records, other.records[differing])
        self._differs = met, differing
        numbers = {key: number for number, key in enumerate(first.queues)}
        turned = np.array([numbers.setdefault(key, len(numbers)) for key in other.queues], np.int32)
        units = other.units.copy()
        if len(units):
            units["queue"] = turned[units["queue"]]
        self._sides = _CopySide(first.records, first.units), _CopySide(other.records, units)
        self._differing = tuple(
            side.where(differs) for side, differs in zip(self._sides, self._differs, strict=True)
        )
        self._unheard_of = np.array([self._is_unheard_of(*key) for key in numbers], bool)
        self._agreed = other.records["log_offset"][~differing & ~taken]
        self._around = self._sides[0].where(~met).joined(self._sides[1].where(taken))

    def settle(self) -> tuple[Bools, list[Aside]]:
        """Return which records of the later copy stay, ``(n,)``, and those put aside of both."""
        places = self._places()
        votes = self._votes(places)
        grounds = np.where(votes != 0, _BY_UNITS, _BY_NOTHING)
        votes[votes == 0] = self._odder(places[votes == 0])
        grounds[(grounds == _BY_NOTHING) & (votes != 0)] = _BY_TEXT
        wins, undecided = votes > 0, np.flatnonzero(votes == 0)
        self._settle_around(places, wins, votes != 0)
        # Between two places side by side there is no record that both copies have.
        ahead = np.searchsorted(self._agreed, places[undecided, 0])
        for numbers in np.split(undecided, np.flatnonzero(np.diff(ahead)) + 1) if len(undecided) else ():
            wins[numbers], grounds[numbers] = self._judged(places[numbers])
        of_record = np.searchsorted(places[:, 0], self._copies[1].records["log_offset"], "right") - 1
        won: Bools = self._differs[1] & wins[np.maximum(of_record, 0)]
        return won, list(self._aside(places, wins, grounds))

    def _places(self) -> Int64s:
        """Return start and stop of each place where records of both lie over each other, ``(k, 2)``."""
        rows = np.concatenate([side.records for side in self._differing])
        rows = rows[np.argsort(rows["log_offset"], kind="stable")]
        starts, stops = frame_starts(rows), np.maximum.accumulate(frame_stops(rows))
        heads = np.flatnonzero(np.concatenate([[True], starts[1:] >= stops[:-1]]))
        return np.stack([starts[heads], stops[np.append(heads[1:], len(rows)) - 1]], axis=1)

    def _votes(self, places: Int64s) -> Int64s:
        """Return how many more copies' queues list the later record of a place than the earlier, ``(k,)``."""
        votes = np.zeros(len(places), np.int64)
        for evidence in self._evidence:
            first, other = (self._listed_bytes(copy, evidence, places) for copy in self._copies)
            votes += np.sign(other - first)
        return votes

    def _odder(self, places: Int64s) -> Int64s:
        """Return how much odder the properties of the earlier records of a place are, ``(k,)``.

        Where two records differ in nothing else, the one with fewer names that others have is the odder.
        """
        counts = np.zeros((2, len(places), 2), np.int64)
        if not len(places):
            return counts[0, :, 0]
        agreed = np.isin(self._copies[1].records["log_offset"], self._agreed)
        known = property_names(self._copies[1].log, self._copies[1].records[agreed])
        for number, side in enumerate(self._differing):
            of_record = np.searchsorted(places[:, 0], side.records["log_offset"], "right") - 1
            within = (of_record >= 0) & (side.records["log_offset"] < places[of_record, 1])
            for row, place in zip(side.records[within], of_record[within], strict=True):
                counts[number, place] += oddities(self._logs[int(row["source"])], row, known)
        odder, more = (counts[0] - counts[1]).T
        result: Int64s = np.where(odder != 0, odder, np.where(self._has_same_heads(places), -more, 0))
        return result if known else result * 0

    def _has_same_heads(self, places: Int64s) -> Bools:
        """Return at which places one record of each copy lies, and both say the same of queue and time."""
        names = ["log_offset", "store_timestamp_ms", "queue_offset", "total_size", "queue_id", "lead"]
        own, others = (
            side.records[names][np.searchsorted(side.records["log_offset"], places[:, 0]) % len(side.records)]
            for side in self._differing
        )
        same: Bools = (own == others) & (frame_stops(own) == places[:, 1])
        same &= frame_starts(own) == places[:, 0]
        return same

    @staticmethod
    def _listed_bytes(copy: LogCopy, evidence: QueueEvidence, places: Int64s) -> Int64s:
        """Return the bytes of records at each place that queues list right there, ``(k,)``."""
        own = confirmed_units(copy, evidence) & ~copy.units["light"]
        starts = np.ascontiguousarray(copy.records["log_offset"])
        numbers = np.searchsorted(starts, copy.units["log_offset"][own])
        sizes = np.zeros(len(starts) + 1, np.int64)
        sizes[numbers + 1] = copy.records["total_size"][numbers]
        before, after = np.cumsum(sizes)[np.searchsorted(starts, places)].T
        listed: Int64s = after - before
        return listed

    def _settle_around(self, places: Int64s, wins: Bools, decided: Bools) -> None:
        """Take what the units decided to what stays without a doubt."""
        for number, side in enumerate(self._differing):
            of_record = np.searchsorted(places[:, 0], side.records["log_offset"], "right") - 1
            stays = decided[of_record] & (wins[of_record] == bool(number))
            self._around = self._around.joined(side.where(stays))
        self._of_queue = by_queue(self._around.units, len(self._unheard_of))

    def _judged(self, places: Int64s) -> tuple[Bools, int]:
        """Return which of some places side by side go to the later copy, ``(k,)``, and the grounds."""
        start, stop = int(places[0, 0]), int(places[-1, 1])
        sides = [side.within(start, stop) for side in self._differing]
        near = self._near(start, stop, np.unique(np.concatenate([side.units["queue"] for side in sides])))
        costs = [self._contradictions(near.joined(side)) for side in sides]
        wins = np.full(len(places), self._goes_to_later(*costs))
        changed = 1 < len(places) <= _JUDGED_AGAIN and self._judge_each(places, wins, near, sides)
        is_decided = changed or self._is_decided(*costs)
        return wins, _BY_NEIGHBOURS if is_decided else _BY_NOTHING

    @staticmethod
    def _goes_to_later(contradictions: int, of_later: int) -> bool:
        """Whether places side by side go to the later copy, by what each side contradicts."""
        return of_later < contradictions

    @staticmethod
    def _is_decided(contradictions: int, of_later: int) -> bool:
        """Whether that decides the dispute."""
        return contradictions != of_later

    def _judge_each(self, places: Int64s, wins: Bools, near: _CopySide, sides: list[_CopySide]) -> bool:
        """Let a place by itself go to the other copy where that contradicts less; return whether any does."""
        stays = near.joined(sides[int(wins[0])])
        least, changed = self._contradictions(stays), False
        for number, place in enumerate(places.tolist()):
            start, stop = place
            turned = stays.without(start, stop).joined(sides[1 - int(wins[number])].within(start, stop))
            if (cost := self._contradictions(turned)) < least:
                stays, least, changed = turned, cost, True
                wins[number] = not wins[number]
        return changed

    def _near(self, start: int, stop: int, queues: Int64s) -> _CopySide:
        """Return the records surely kept between two places, and their neighbours in each queue."""
        records, units = self._around.records, self._around.units
        low, high = np.searchsorted(records["log_offset"], [start, stop])
        nearby = [units[:0]]
        for queue in queues:
            rows = self._of_queue[queue]
            first, last = np.searchsorted(units["log_offset"][rows], [start, stop])
            nearby.append(units[rows[max(first - 1, 0) : last + 1]])
        return _CopySide(records[max(low - 1, 0) : high + 1], np.concatenate(nearby))

    def _contradictions(self, side: _CopySide) -> int:
        """Count jumps of queue offsets and store times back, and the messages of queues nobody knows."""
        times, units, (due, _) = side.records["store_timestamp_ms"], *self._dues(side)
        jumps = int((units["queue_offset"] != due).sum())
        return jumps + int((times[1:] < times[:-1]).sum()) + int(self._unheard_of[units["queue"]].sum())

    def _dues(self, side: _CopySide) -> tuple[Rows, tuple[Int64s, Int64s]]:
        """Return units by queue, the queue offset due at each, and where in the log the one before lies."""
        units = side.units[np.lexsort((side.units["log_offset"], side.units["queue"]))]
        heads = np.concatenate([[True], units["queue"][1:] != units["queue"][:-1]])[: len(units)]
        due = np.concatenate([[0], units["queue_offset"] + units["count"]])[: len(units)]
        due[heads] = 0 if self._from_zero else units["queue_offset"][heads]
        before = np.concatenate([[0], units["log_offset"]])[: len(units)]
        before[heads] = self._copies[0].log.start
        return units, (due, before)

    def _is_unheard_of(self, topic: str, queue_id: int) -> bool:
        """Whether no copy's queues or ``topics.json`` know a queue, though some do know topics.

        Light queues are listed nowhere.
        """
        if topic.startswith(LMQ_PREFIX) or any(
            (topic, queue_id) in evidence.units or topic in evidence.declared for evidence in self._evidence
        ):
            return False
        return any(evidence.declared for evidence in self._evidence)

    def _aside(self, places: Int64s, wins: Bools, grounds: Int64s) -> Iterator[Aside]:
        for number, side in enumerate(self._differing):
            of_record = np.searchsorted(places[:, 0], side.records["log_offset"], "right") - 1
            loses = wins[of_record] != bool(number)
            for row, place in zip(side.records[loses], of_record[loses], strict=True):
                start, length, source = (int(row[name]) for name in ("log_offset", "total_size", "source"))
                yield Aside(start, length, source, _GROUNDS[grounds[place]])


class FrameDisputes(Disputes):
    """Decides whether damaged frames or the intact records below them stay, as if they were two copies.

    Units decide, and then the neighbours. Where these contradict both alike, the one whose checksum holds
    stays; where nothing contradicts a frame, records in its body are its own. Two records with fewer bytes
    between them than any record takes are both contradicted. A jump of queue offsets over a hole with room
    for the missing ones contradicts nothing: it decides only where nothing else does, and then the frame may
    be the intact one.
    """

    _WEIGHT = 1 << 20  # of a contradiction, in jumps that a hole explains

    def _contradictions(self, side: _CopySide) -> int:
        units, (due, before) = self._dues(side)
        explained = 0
        for number in np.flatnonzero(units["queue_offset"] > due):
            bounds = int(before[number]), int(units["log_offset"][number])
            missing = int(units["queue_offset"][number] - due[number])
            explained += missing * SMALLEST_RECORD <= self._room(side, *bounds)
        contradictions = super()._contradictions(side) - explained + self._slivers(side.records)
        return self._WEIGHT * contradictions + explained

    def _slivers(self, records: Rows) -> int:
        """Count the bytes between records of one file that are fewer than any record takes."""
        starts, stops = frame_starts(records), frame_stops(records)
        of_file = self._copies[0].file_numbers(starts)
        apart = np.where(of_file[1:] == of_file[:-1], starts[1:] - stops[:-1], 0)
        return int(((apart > 0) & (apart < SMALLEST_RECORD)).sum())

    def _room(self, side: _CopySide, start: int, stop: int) -> int:
        """Return the bytes between two places that no record of a side or around it takes, and no mark."""
        log, rows = self._copies[0].log, self._around.records
        mine = side.records[~np.isin(side.records["log_offset"], rows["log_offset"])]
        taken = 0
        for some in (rows, mine):
            low, high = np.searchsorted(some["log_offset"], [start, stop])
            taken += int(frame_sizes(some[low:high]).sum())
        for blank in self._copies[0].blanks.values():
            segment = log.segment_at(blank) if start <= blank < stop else None
            taken += 0 if segment is None else segment.stop - blank
        return stop - start - taken

    def _odder(self, places: Int64s) -> Int64s:
        return np.zeros(len(places), np.int64)

    @staticmethod
    def _goes_to_later(contradictions: int, of_later: int) -> bool:
        return 0 < contradictions >= of_later

    @classmethod
    def _is_decided(cls, contradictions: int, of_later: int) -> bool:
        is_explained = 0 < contradictions < cls._WEIGHT and of_later < cls._WEIGHT
        return contradictions != of_later and not is_explained


def overlaps(rows: Rows, others: Rows) -> tuple[Bools, Int64s]:
    """Return which records lie over one of others, and the number of the first that ends after each begins.

    ``rows`` and both results are ``(n,)``; of ``others``, ``(m,)``, none lies over another.
    """
    starts, stops = frame_starts(others), frame_stops(others)
    after = np.searchsorted(stops, frame_starts(rows), "right")
    met = np.zeros(len(rows), bool)
    some = after < len(starts)
    met[some] = starts[after[some]] < frame_stops(rows)[some]
    return met, after


def uncover(copy: LogCopy, of_copies: Sequence[QueueEvidence]) -> LogCopy:
    """Return a copy with the intact records below damaged frames in place of those that are false."""
    below = copy.below
    if below is None:
        return copy
    copy = replace(copy, below=None)
    met, first = overlaps(below.records, copy.records)
    same = np.append(copy.records["log_offset"], -1)[first] == below.records["log_offset"]
    if not (met & ~same).any():
        return copy
    won, aside = FrameDisputes(copy, below, met & ~same, ~met, of_copies, [copy.log]).settle()
    own = copy.records["log_offset"]
    frames = [copy.false, below.false, copy.records["log_offset"], below.records["log_offset"]]
    copy = joined(copy, below, won | ~met)
    false = np.setdiff1d(np.concatenate(frames), copy.records["log_offset"])
    return replace(copy, false=false, aside=tuple(record for record in aside if record.start in own))


def property_names(log: FileQueue, rows: Rows) -> frozenset[str]:
    """Return the names of the properties that some of these records have."""
    records = (read_record(log, row) for row in rows[:: max(len(rows) // SAMPLE, 1)])
    return frozenset(name for record in records if record is not None for name, _ in _pairs(record))


def oddities(log: FileQueue, row: Rows, known: Set[str]) -> tuple[int, int]:
    """Count properties that no client writes, and the names that other records have.

    Odd are bytes that are no text, broken pairs, unknown names, and a batch whose head says otherwise.
    """
    record = read_record(log, row)
    if record is None:
        return 0, 0
    shown = record.properties_bytes.decode("utf-8", "replace")
    odd = shown.count("\ufffd") + len(CONTROLS.findall(shown))
    odd += sum("\1" in value or name not in known for name, value in _pairs(record))
    base = record.properties.get("INNER_BASE")
    odd += base is not None and base != str(record.head.queue_offset)
    return odd, len({name for name, _ in _pairs(record)} & known)


def _pairs(record: Record) -> Iterator[tuple[str, str]]:
    """Yield name and value of each property; nothing, where they end in a separator, is a pair of its own."""
    for piece in record.properties_bytes.decode("utf-8", "replace").split("\2"):
        name, _, value = piece.partition("\1")
        yield name, value


def where(copy: LogCopy, keep: Bools) -> LogCopy:
    """Return a copy with some of its records only."""
    records = copy.records[keep]
    units = copy.units[np.isin(copy.units["log_offset"], records["log_offset"])]
    entries = copy.entries[np.isin(copy.entries["physical_offset"], records["log_offset"])]
    return replace(copy, records=records, units=units, entries=entries)


def joined(copy: LogCopy, other: LogCopy, taken: Bools) -> LogCopy:
    """Add records of another copy; what lies in their place goes."""
    healing = where(other, taken)
    covered, _ = overlaps(copy.records, healing.records)
    copy = where(copy, ~covered)
    numbers = {key: number for number, key in enumerate(copy.queues)}
    turned = np.array([numbers.setdefault(key, len(numbers)) for key in other.queues], np.int32)
    units = healing.units.copy()
    if len(units):
        units["queue"] = turned[units["queue"]]
    have = {segment.start for segment in copy.log}
    more = [segment for segment in other.log if segment.start not in have]
    segments = sorted([*copy.log, *more], key=lambda segment: segment.start)
    return replace(
        copy,
        log=replace(copy.log, segments=tuple(segments)),
        records=np.sort(np.concatenate([copy.records, healing.records]), order="log_offset"),
        units=_in_order(np.concatenate([copy.units, units])),
        entries=_in_order(np.concatenate([copy.entries, healing.entries]), "physical_offset"),
        queues=list(numbers),
        blanks=other.blanks | copy.blanks,
        sound_crcs=copy.sound_crcs + other.sound_crcs,
    )


def _in_order(rows: Rows, place: str = "log_offset") -> Rows:
    return rows[np.argsort(rows[place], kind="stable")]
