"""Sift one split of the log: where the messages lie that a sieve keeps, and where no record can be followed.

As ``record_walk`` does for people, this goes on behind damage at the next true record, and takes records that
a broker would refuse for a property that is no number.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from rmqtool.releases import EXAMINER, LENIENT
from rmqtool.scan.records import check_record
from rmqtool.scan.resync import find_true
from rmqtool.scan.rows import Outcome, rules_of
from rmqtool.scan.sieve import EARLIEST_MS, Sieve
from rmqtool.scan.sieve_kernels import Mesh, sift
from rmqtool.scan.walk import SegmentWalk
from rmqtool.scan.window import Window

if TYPE_CHECKING:
    import numpy.typing as npt

    from rmqtool.scan.walk import MessageBatch
    from rmqtool.store.reading import UnreadableRange
    from rmqtool.store.segments import Segment

MAX_DAMAGE = 100
"""Damaged places of one split that are told apart; the others are counted."""

_BATCH = 4096


@dataclass(frozen=True)
class SiftTask:
    """A range of one segment, and what to look for.

    Attributes:
        segment: the file.
        start: physical offset.
        stop: physical offset; records that begin here or later are not looked at.
        sieve: what to keep.
        first_place: physical offset of the first record; None to search the first true one.
    """

    segment: Segment
    start: int
    stop: int
    sieve: Sieve
    first_place: int | None = None


@dataclass
class Sifted:
    """What was found in a split.

    Attributes:
        first_place: physical offset of the first record; None if no record begins in the split.
        end: physical offset behind the last record; None when the chain is lost up to the split's end.
        places: physical offsets of the messages that stay, ascending.
        damage: physical offsets at which no record could be followed, at most ``MAX_DAMAGE``.
        more_damage: how many more there were.
        unreadable: ranges of the file that the disk did not deliver.
        blank: whether the chain ended at a BLANK: nothing of the segment follows.
    """

    first_place: int | None
    end: int | None = None
    places: list[int] = field(default_factory=list)
    damage: list[int] = field(default_factory=list)
    more_damage: int = 0
    unreadable: list[UnreadableRange] = field(default_factory=list)
    blank: bool = False


def sift_split(task: SiftTask) -> Sifted:
    """Walk a split.

    Raises:
        EnvironmentFailureError: the segment cannot be opened or read.
    """
    return _Sifting(task).run()


class _Sifting:
    def __init__(self, task: SiftTask) -> None:
        rules = rules_of(EXAMINER)
        self._task = task
        self._walk = SegmentWalk(task.segment, rules, stops_at_mismatch=True)
        self._window = Window(task.segment)
        self._mesh = _mesh_of(task.sieve)
        self._keys = np.array(task.sieve.key_hashes or (), np.int64)
        self._unique = np.array(task.sieve.unique_hashes or (), np.int64)
        self._places = np.empty(_BATCH, np.int64)

    def run(self) -> Sifted:
        task = self._task
        place = self._first()
        found = Sifted(place)
        while place is not None and place < task.stop:
            for batch in self._walk.batches(place, task.stop):
                self._sift(batch, found)
            if self._walk.outcome in (Outcome.STOP, Outcome.BLANK):
                place = self._walk.place
                break
            place = self._behind_damage(found)
        found.blank = place is not None and self._walk.outcome is Outcome.BLANK
        found.end = place
        found.unreadable = self._walk.unreadable
        return found

    def _first(self) -> int | None:
        task = self._task
        if task.first_place is not None or task.start == task.segment.start:
            return task.start if task.first_place is None else task.first_place
        return self._find(task.start)

    def _find(self, start: int) -> int | None:
        """Return where the next true record lies; the kernels pass over those with a number that is none."""
        found = self._walk.find(start, self._task.stop)
        stop = min(self._task.stop, self._task.segment.stop) if found is Outcome.STOP else self._walk.place
        base = self._task.segment.start
        passed = find_true(self._window, start - base, base, stop - base)
        if passed is not None:
            return base + passed
        return None if found is Outcome.STOP else stop

    def _sift(self, batch: MessageBatch, found: Sifted) -> None:
        if len(batch.rows) > len(self._places):
            self._places = np.empty(len(batch.rows), np.int64)
        count = sift(
            batch.buffer, batch.rows, batch.values, self._mesh, self._keys, self._unique, self._places
        )
        found.places += self._places[:count].tolist()

    def _behind_damage(self, found: Sifted) -> int | None:
        """Return where the walk goes on behind what ended it; None if nowhere in this split."""
        place = self._walk.place
        if self._walk.outcome is Outcome.BAD_NUMBER:
            size = self._lenient_size(place)
            if size:
                found.places.append(place)  # a record all the same; who reads it decides
                return place + size
        if len(found.damage) < MAX_DAMAGE:
            found.damage.append(place)
        else:
            found.more_damage += 1
        return self._find(place + 1)

    def _lenient_size(self, place: int) -> int:
        """Return the bytes of a record that only a number makes wrong; 0 if its lengths are wrong, too."""
        segment = self._task.segment
        checked = check_record(segment, place - segment.start, LENIENT, base=segment.start)
        return 0 if checked.record is None else checked.size


def _mesh_of(sieve: Sieve) -> npt.NDArray[np.int64]:
    mesh = np.zeros(len(Mesh), np.int64)
    mesh[Mesh.BEGIN_MS], mesh[Mesh.END_MS] = sieve.begin_ms, sieve.end_ms
    mesh[Mesh.QUEUE_OFFSET] = EARLIEST_MS if sieve.queue_offset is None else sieve.queue_offset
    if sieve.topic_hash is not None:
        mesh[Mesh.HAS_TOPIC], mesh[Mesh.TOPIC_HASH] = 1, sieve.topic_hash
    if sieve.queue_id is not None:
        mesh[Mesh.HAS_QUEUE], mesh[Mesh.QUEUE_ID] = 1, sieve.queue_id
    mesh[Mesh.HAS_KEYS] = sieve.key_hashes is not None
    mesh[Mesh.HAS_UNIQUE] = sieve.unique_hashes is not None
    return mesh
