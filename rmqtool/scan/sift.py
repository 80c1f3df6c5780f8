"""Sift one split of the log: where the messages lie that a sieve keeps, and the gaps between records.

As ``record_walk`` does for people, this takes records that a broker would refuse for a property that is no
number.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from rmqtool.releases import LENIENT
from rmqtool.scan.gap_walk import GapWalk, gap_of
from rmqtool.scan.gaps import Gap, Outcome
from rmqtool.scan.sieve import EARLIEST_MS, Sieve
from rmqtool.scan.sieve_kernels import Mesh, sift

if TYPE_CHECKING:
    import numpy.typing as npt

    from rmqtool.scan.splits import Split
    from rmqtool.scan.walk import MessageBatch
    from rmqtool.store.reading import UnreadableRange

MAX_GAPS = 100
"""Gaps of one split that are told apart; the others are counted."""

_BATCH = 4096


@dataclass(frozen=True)
class SiftTask:
    """A range of one segment, and what to look for.

    Attributes:
        split: what is looked at.
        sieve: what to keep.
        first_place: physical offset of the first record; None to search the first true one.
        stale_from: see ``GapWalk``.
    """

    split: Split
    sieve: Sieve
    first_place: int | None = None
    stale_from: int | None = None


@dataclass
class Sifted:
    """What was found in a split.

    Attributes:
        split: what was looked at.
        first_place: physical offset of the first record; None if no record begins in the split.
        next_place: physical offset behind the last record; None when a gap reaches the split's end.
        places: physical offsets of the messages that stay, ascending.
        gaps: the first ones, at most ``MAX_GAPS``, and one that reaches the split's end.
        more_gaps: how many more there were.
        unreadable: ranges of the file that the disk did not deliver.
        ended: whether the chain ended at a BLANK: nothing of the segment follows.
    """

    split: Split
    first_place: int | None
    next_place: int | None = None
    places: list[int] = field(default_factory=list)
    gaps: list[Gap] = field(default_factory=list)
    more_gaps: int = 0
    unreadable: list[UnreadableRange] = field(default_factory=list)
    ended: bool = False

    @property
    def split_stop(self) -> int:
        """Return the physical offset behind the split."""
        return self.split.stop


def sift_split(task: SiftTask) -> Sifted:
    """Walk a split.

    Raises:
        EnvironmentFailureError: the segment cannot be opened or read.
    """
    return _Sifting(task).run()


class _Sifting:
    def __init__(self, task: SiftTask) -> None:
        self._task = task
        self._walk = GapWalk(task.split.segment, LENIENT, task.stale_from)
        self._mesh = _mesh_of(task.sieve)
        self._keys = np.array(task.sieve.key_hashes or (), np.int64)
        self._unique = np.array(task.sieve.unique_hashes or (), np.int64)
        self._places = np.empty(_BATCH, np.int64)

    def run(self) -> Sifted:
        walk, split, first = self._walk, self._task.split, self._task.first_place
        found = Sifted(split, walk.guess(split.start, split.stop) if first is None else first)
        if found.first_place is not None:
            for part in walk.parts(found.first_place, split.stop):
                if isinstance(part, Gap):
                    self._add_gap(part, found)
                else:
                    self._sift(part, found)
            found.next_place = walk.place if walk.outcome is Outcome.STOP else None
            found.ended = walk.outcome is Outcome.BLANK
        found.unreadable = walk.unreadable
        return found

    def _sift(self, batch: MessageBatch, found: Sifted) -> None:
        if len(batch.rows) > len(self._places):
            self._places = np.empty(len(batch.rows), np.int64)
        count = sift(
            batch.buffer, batch.rows, batch.values, self._mesh, self._keys, self._unique, self._places
        )
        found.places += self._places[:count].tolist()
        room = max(MAX_GAPS - len(found.gaps), 0)
        found.gaps += [gap_of(row) for row in batch.gaps[:room]]
        found.more_gaps += max(len(batch.gaps) - room, 0)

    def _add_gap(self, gap: Gap, found: Sifted) -> None:
        if len(found.gaps) < MAX_GAPS or gap.stop == self._task.split.stop:
            found.gaps.append(gap)
        else:
            found.more_gaps += 1


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
