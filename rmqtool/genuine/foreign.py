"""Files of another log: one was copied over a file of this log, or restored into the wrong store.

Their records lie where they say, and every checksum holds. But what lists the log's messages leads to other
places in such a file and to none of its records, and the queue offsets of its records go on neither from the
file before nor to the one after. Units made of another log fail the first test in every file; a queue that is
damaged fails the second. Where no unit leads into a file, the items of the index are what lists its messages.
The log of a replica that parted has the same queue offsets: queues and index then list the same places,
and neither lists the records. A log to which the same was sent can even have all records in the same places:
store times step back at one bound of such a file, then, and the items of the index there have other keys;
if it is the last, an index file has the keys of the one before and not its own.
A replica mostly parted inside a file: its first records are listed right there, and of those after them none,
while queues and index list the same other places.
Where no other file shows which of the two is of this store, the topics do: a file of which neither
``topics.json`` nor a queue knows any topic is foreign if queues and index list other places in it, or if it
begins queues amidst their queue offsets; nobody misses the messages of a topic that was deleted.
"""

from __future__ import annotations

from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from rmqtool.derived.index_files import opened_index_files
from rmqtool.errors import EnvironmentFailureError
from rmqtool.genuine.records import DAMAGED, by_queue
from rmqtool.javacompat import index_key_hash
from rmqtool.kernels.compare import are_among
from rmqtool.scan.records import record_at
from rmqtool.store.segments import ENDLESS
from rmqtool.topics import LMQ_PREFIX

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rmqtool.arrays import Bools, Int64s, Rows
    from rmqtool.genuine.evidence import QueueEvidence
    from rmqtool.genuine.records import LogCopy
    from rmqtool.store import Store

_FEW = 16
"""Places that are listed in vain, and records that are not listed, for each that is met by chance."""
_SAMPLED = 16
_PROOFS = 4
"""Messages of a file whose keys are compared with the index, and those that must have items there."""
_ENDS = 2
"""Files at the log's end that are compared with the index where store times never step back."""


class _Listing(NamedTuple):
    """Listed places of each file, and those of them that are records, each ``(files,)``."""

    leads: Int64s
    hits: Int64s

    def fails_in(self, records: Int64s) -> Bools:
        """Return in which files it lists few of the records, and much else; none if it does in most."""
        misses = self.leads - self.hits
        fails = (self.hits * _FEW < misses) & (self.hits * _FEW < records)
        return np.asarray(fails & (self.hits[~fails].sum() > misses[~fails].sum()))


def foreign_from(copy: LogCopy, evidence: QueueEvidence, confirmed: Bools, *, from_zero: bool) -> Int64s:
    """Return from where on each file is that of another log, ``(files,)`` physical offsets; else ``ENDLESS``.

    ``confirmed`` has the units of the copy that a queue lists right there, ``(m,)``; with ``from_zero`` the
    log begins at 0, so every queue begins at 0, too.
    """
    log = _Files(copy)
    begins = log.parted_inside(evidence, confirmed)
    files = _foreign_files(log, evidence, confirmed, from_zero=from_zero)
    begins[files] = log.starts[files]
    return begins


def _foreign_files(log: _Files, evidence: QueueEvidence, confirmed: Bools, *, from_zero: bool) -> Int64s:
    """Return which files are those of another log as a whole, ``(k,)`` numbers of its segments."""
    copy = log.copy
    twins = log.twins(evidence.stores)
    queues, listed = _own_queues(evidence)
    listing = _Listing(log.count(listed), log.count(copy.units["log_offset"][log.own & confirmed]))
    records, damaged = (log.count(rows["log_offset"]) for rows in (copy.records, copy.records[copy.damaged]))
    suspects, unlisted = listing.fails_in(records), (listing.leads == 0) & (records > 0)
    strange = log.of_strange_topics(evidence)
    if not (suspects | unlisted | strange).any():
        return np.flatnonzero(twins)
    parted, whole = log.parted(queues, listing.leads, from_zero=from_zero), 2 * damaged < records
    others = strange & unlisted & parted
    if ((np.where(parted, unlisted, suspects) | strange) & whole).any():
        places = _places_of_items(evidence.stores)
        places = places[~are_among(places, log.starts)]  # at which any file has a record
        is_record = are_among(places, copy.records["log_offset"])
        fails = _Listing(log.count(places), log.count(places[is_record])).fails_in(records)
        agreed = 2 * log.count(listed[are_among(listed, places[~is_record])]) > listing.leads
        parted |= fails & agreed
        suspects |= unlisted & fails
        others |= strange & agreed
    return np.flatnonzero((suspects & parted | others) & whole | twins)


def _own_queues(evidence: QueueEvidence) -> tuple[dict[tuple[str, int], Rows], Int64s]:
    """Return the units of queues but for light ones, and where they lead."""
    queues = {key: rows for key, rows in evidence.units.items() if not key[0].startswith(LMQ_PREFIX)}
    return queues, np.concatenate([np.empty(0, np.int64), *(rows["log_offset"] for rows in queues.values())])


def _places_of_items(stores: list[Store]) -> Int64s:
    """Return the places that index files list, each once; none of what cannot be read."""
    places = [np.empty(0, np.int64)]
    with suppress(EnvironmentFailureError):
        for store in stores:
            for index in opened_index_files(store):
                places += [np.unique(items.physical_offsets) for items in index.item_columns()]
    return np.unique(np.concatenate(places))


class _Files:
    """The files of a log, and its own units by queue."""

    def __init__(self, copy: LogCopy) -> None:
        self.copy, self.starts = copy, copy.file_starts
        self.own = ~copy.units["light"]

    def count(self, places: Int64s) -> Int64s:
        """Return how many of some places lie in each file, ``(files,)``."""
        numbers = self.copy.file_numbers(places[places < self.copy.log.stop])
        return np.bincount(numbers[numbers >= 0], minlength=len(self.starts))

    def parted_inside(self, evidence: QueueEvidence, confirmed: Bools) -> Int64s:
        """Return where each file parts from the log after records of it, ``(files,)``; else ``ENDLESS``.

        A file that was cut short has records beyond its end where another copy of the log fills it.
        """
        parted = np.full(len(self.starts), ENDLESS, np.int64)
        records, (_, listed) = self.copy.records["log_offset"], _own_queues(evidence)
        if not len(parted):
            return parted
        own = self.copy.units["log_offset"][self.own & confirmed]
        begins = self.starts.copy()
        np.maximum.at(begins, self.copy.file_numbers(own), own + 1)

        def count(places: Int64s) -> Int64s:
            return self.count(places[places >= begins[self.copy.file_numbers(places)]])

        leads = count(listed)
        parts = (begins > self.starts) & (np.minimum(leads, count(records)) >= _PROOFS)
        if not parts.any():
            return parted
        places = _places_of_items(evidence.stores)
        is_record = are_among(places, records)
        # The first record of each log after the last that both have lies in the same place.
        misses, hits = count(places[~is_record]), count(places[is_record]) - 1
        agreed = 2 * count(listed[are_among(listed, places[~is_record])]) > leads
        parts &= agreed & (hits * _PROOFS < misses)
        parted[parts] = records[np.searchsorted(records, begins[parts])]
        return parted

    def of_strange_topics(self, evidence: QueueEvidence) -> Bools:
        """Return the files, ``(files,)``, of whose topics ``topics.json`` has none, and none has a queue."""
        known = {*evidence.declared, *(topic for topic, _ in evidence.units)}
        units = self.copy.units[self.own]
        is_known = np.array([topic in known for topic, _ in self.copy.queues], np.bool_)
        of_known = self.count(units["log_offset"][is_known[units["queue"]]])
        has_any = bool(evidence.declared) & (self.count(units["log_offset"]) > 0)
        return np.asarray(has_any & (of_known == 0))

    def twins(self, stores: list[Store]) -> Bools:
        """Return the files, ``(files,)``, for whose places the index has items, but of other messages."""
        times, steps = self.copy.records["store_timestamp_ms"], np.zeros(len(self.starts) + 1, bool)
        latest: int | None = None
        sound = {number: rows for number in range(len(self.starts)) if len(rows := self._sound(number))}
        for number, rows in sound.items():
            steps[number] = latest is not None and times[rows[0]] < latest
            latest = int(times[rows[-1]])
        known = [*sound]
        chosen = known if steps.any() else known[-_ENDS:]
        listing, ends = self._listed_keys(stores, {number: sound[number] for number in chosen})
        fails = listing.fails_in(listing.leads * _FEW) & (listing.leads >= _PROOFS)
        edges = np.flatnonzero(np.diff(np.concatenate([[False], fails, [False]]).astype(np.int8)))
        for start, stop in edges.reshape(-1, 2).tolist():
            fails[start:stop] = steps[start] or steps[stop] or (stop > known[-1] and ends[start])
        return np.asarray(fails)

    @cached_property
    def _bounds(self) -> Int64s:
        """Return the first record of each file, and how many there are, ``(files + 1,)``."""
        limits = np.append(self.starts, self.copy.log.stop)
        return np.asarray(np.searchsorted(self.copy.records["log_offset"], limits))

    def _sound(self, number: int) -> Int64s:
        """Return the undamaged records of a file, ``(n,)`` numbers of rows."""
        first, stop = self._bounds[number : number + 2].tolist()
        marks = self.copy.records["marks"][first:stop]
        return np.asarray(first + np.flatnonzero((marks & int(DAMAGED)) == 0))

    def _listed_keys(self, stores: list[Store], sound: Mapping[int, Int64s]) -> tuple[_Listing, Bools]:
        """Return of some ``sound`` records of files those with items, and those with one of their unique key.

        With it comes at which files, ``(files,)``, an index file ceases to have the keys of the log.
        """
        sampled: dict[int, tuple[int, int]] = {}
        for number, rows in sound.items():
            for place in self.copy.records["log_offset"][rows[:: -(-len(rows) // _SAMPLED) or 1]].tolist():
                record = record_at(self.copy.log, place)
                unique = None if record is None else record.properties.get("UNIQ_KEY")
                if record is not None and unique is not None:
                    sampled[place] = number, index_key_hash(record.topic, unique)
        places, files = np.array(sorted(sampled), np.int64), len(self.starts)
        counts, ends = np.zeros((2, files), np.int64), np.zeros(files, bool)
        with suppress(EnvironmentFailureError):
            for index in (index for store in stores for index in opened_index_files(store)):
                first, last = index.header.begin_phy_offset, index.header.end_phy_offset
                if not len(places) or first > places[-1] or last < places[0]:
                    continue
                listed: dict[int, bool] = {}
                for place, key_hash in index.hashes_at(places):
                    listed[place] = listed.get(place, False) or key_hash == sampled[place][1]
                found = [(sampled[place][0], has_key) for place, has_key in listed.items()]
                of_files, hits = np.array(found, np.int64).reshape(-1, 2).T
                mine = np.stack([np.bincount(met, minlength=files) for met in (of_files, of_files[hits > 0])])
                ends[1:] |= (mine[1, :-1] * 2 > mine[0, :-1]) & (mine[0, 1:] > 0) & (mine[1, 1:] == 0)
                counts += mine
        return _Listing(*counts), ends

    def parted(self, queues: Mapping[tuple[str, int], Rows], leads: Int64s, *, from_zero: bool) -> Bools:
        """Return at which files more queues break off, at their bounds or over them, than go on there.

        A queue that was rebuilt after a loss lists its messages in their place, if under other queue offsets.
        """
        of_queues = by_queue(self.copy.units, len(self.copy.queues), self.own)
        joins, breaks = self._joints(of_queues, from_zero=from_zero)
        near, left_out = np.zeros((2, len(self.starts)), np.int64)
        units = {key: self.copy.units[rows] for key, rows in zip(self.copy.queues, of_queues, strict=True)}
        for key, rows in queues.items():
            places, mine = rows["log_offset"], units.get(key, self.copy.units[:0])
            has_offset = are_among(rows["queue_offset"], mine["queue_offset"])
            has_place = are_among(places, mine["log_offset"])
            near = near + self.count(places[has_place])
            files, ends = self.copy.file_numbers(places), rows["queue_offset"] + rows["count"]
            joint = (files[1:] != files[:-1]) & (rows["queue_offset"][1:] == ends[:-1])
            is_there, is_right = has_offset | has_place, has_offset & has_place
            left_out = left_out + self.count(places[1:][joint & is_right[:-1] & ~is_there[1:]])
            left_out = left_out + self.count(places[:-1][joint & is_right[1:] & ~is_there[:-1]])
        return np.asarray((breaks + left_out > joins) & (2 * near <= leads))

    def _joints(self, of_queues: list[Int64s], *, from_zero: bool) -> tuple[Int64s, Int64s]:
        """Return of each file how many queues go on at its bounds, and how many break off at or over it."""
        units, files = self.copy.units[np.concatenate([np.empty(0, np.int64), *of_queues])], len(self.starts)
        file_of = self.copy.file_numbers(units["log_offset"])
        heads = np.concatenate([[True], units["queue"][1:] != units["queue"][:-1]])[: len(units)]
        before = np.concatenate([[-1], file_of])[: len(units)]
        due = np.concatenate([[0], units["queue_offset"] + units["count"]])[: len(units)]
        before[heads], due[heads] = -1, 0
        crosses = (before != file_of) & (from_zero | ~heads)
        before, after = before[crosses], file_of[crosses]
        goes_on = units["queue_offset"][crosses] == due[crosses]
        joins, breaks = np.zeros((2, files + 1), np.int64)
        for side in (before, after):
            np.add.at(joins, side[goes_on & (before >= 0)], 1)
        np.add.at(breaks, np.maximum(before[~goes_on], 0), 1)
        np.add.at(breaks, after[~goes_on] + 1, -1)
        return joins[:files], np.cumsum(breaks)[:files]
