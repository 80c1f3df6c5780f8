"""Every byte of the new log between the records that stay, in the place of lost ones.

Lost messages get their tombstones in the holes between the neighbours in their queue, those first whose last
hole comes first; within a hole they lie in the order of their places, as far as anything names those.
The rest of a hole is filled; a hole at a file's end becomes an end mark; after the log's last record there
are zeros.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from typing import TYPE_CHECKING

import numpy as np

from rmqtool.formats.framing import END_MARK_BYTES
from rmqtool.salvage import Lost, Part, PartKind
from rmqtool.salvage.making import (
    FILLER_TOPIC,
    Properties,
    bare_content,
    record_size,
    short_content,
    smallest_filler,
    tombstone_content,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from rmqtool.salvage.kept_ranges import FreeRange, KeptRanges


@dataclass
class Wanted:
    """Lost messages of a queue that wait for a place.

    Attributes:
        lost: which.
        number: in the lost messages.
        start: physical offset from which they can lie.
        first: number of the first piece that they may be in.
        last: number of the last.
        sizes: bytes of a tombstone that says what it is, and of ever smaller ones.
        batch: one tombstone replaces all.
    """

    lost: Lost
    number: int
    start: int
    first: int
    last: int
    sizes: tuple[int, ...]
    batch: bool
    done: int = 0

    @property
    def left(self) -> int:
        """Return how many tombstones are still to be placed."""
        return (1 if self.batch else self.lost.count) - self.done


class Waiting:
    """The lost that wait for a place, by the last piece that they may be in.

    Args:
        wanted: all of them.
        rooms: bytes that each piece has for tombstones.
    """

    def __init__(self, wanted: list[Wanted], rooms: list[int]) -> None:
        self._rooms = np.array(rooms, np.int64)
        ranks = max((len(want.sizes) for want in wanted), default=0)
        self._due = np.zeros((ranks, len(rooms)), np.int64)
        for want in wanted:
            if want.last >= 0:
                self._due[:, want.last] += want.left * np.array(want.sizes)
        self._coming = sorted(wanted, key=lambda want: (want.first, want.number), reverse=True)
        self._open: list[tuple[int, int, Wanted]] = []
        self._missed: dict[int, int] = {}

    def at(self, piece: int) -> list[Wanted]:
        """Return those that may be in a piece, the most urgent first; a queue's in their order."""
        while self._coming and self._coming[-1].first <= piece:
            want = self._coming.pop()
            heappush(self._open, (want.last, want.number, want))
        while self._open and self._open[0][0] < piece:
            self._miss(heappop(self._open)[2])
        self._open = [entry for entry in self._open if entry[2].left]
        self._open.sort(key=lambda entry: entry[:2])
        ready = [entry[2] for entry in self._open]
        # A lone record with a damaged queue id invents such losses: real ones come first.
        return sorted(ready, key=lambda want: want.lost.from_start)

    def fits(self, piece: int, rank: int) -> bool:
        """Return whether tombstones of a size, by its number, leave room for all that must go nearby."""
        stop = max((want.last for want in self.at(piece)), default=-1) + 1
        if not stop:
            return True
        due, rooms = self._due[rank, piece:stop], self._rooms[piece:stop]
        return bool((np.cumsum(due) <= np.cumsum(rooms)).all())

    def take(self, want: Wanted, count: int) -> None:
        """Note that some have a place."""
        want.done += count
        self._due[:, want.last] -= count * np.array(want.sizes)

    def without_place(self) -> dict[int, int]:
        """Return how many of each lost have no tombstone."""
        for want in [*self._coming, *(entry[2] for entry in self._open)]:
            self._miss(want)
        self._coming, self._open = [], []
        return self._missed

    def _miss(self, want: Wanted) -> None:
        if want.left:
            self._missed[want.number] = want.lost.count if want.batch else want.left


CONTENTS = (tombstone_content, short_content, bare_content)
"""Makers of a tombstone's properties and body, by rank: the first whose record fits is taken."""
_BARE = len(CONTENTS) - 1  # the rank of the smallest tombstones
_LARGEST_BATCH = (1 << 15) - 1  # INNER_NUM is a short, and so is a unit's batchSize


class HoleFiller:
    """Fills the free pieces of a log; ``batch_topics`` are topics whose queues count inner batches."""

    def __init__(self, ranges: KeptRanges, batch_topics: Collection[str]) -> None:
        self.ranges, self.form, self.batch_topics = ranges, ranges.form, batch_topics

    def fill(self, lost: list[Lost]) -> tuple[list[Part], list[Lost], int]:
        """Return the parts for the free pieces, the lost messages, and the log's end.

        Args:
            lost: messages in the order of each queue's offsets; those not ``placed`` are left alone.
        """
        reach = max([self.ranges.end, *(self._stop_of(loss) for loss in lost if loss.placed)])
        pieces = self.ranges.pieces(reach)
        queue = Waiting(
            [self._wanted(number, loss, pieces) for number, loss in enumerate(lost) if loss.placed],
            [_room(piece) for piece in pieces],
        )
        parts: list[Part] = []
        end = self.ranges.end
        for number, piece in enumerate(pieces):
            made = self._tombstones(number, piece, queue)
            end = max([end, *(part.stop for part in made)])
            parts += made
            parts += self._rest(piece, made, is_tail=piece.start >= self.ranges.end and piece is pieces[-1])
        return parts, self._settled(lost, queue.without_place()), end

    @staticmethod
    def _settled(lost: list[Lost], without: dict[int, int]) -> list[Lost]:
        """Return the lost messages, and apart those without a tombstone."""
        reported = []
        for number, loss in enumerate(lost):
            missed = without.get(number, 0)
            if missed and missed < loss.count:
                reported.append(replace(loss, count=loss.count - missed))
                reported.append(
                    replace(
                        loss, queue_offset=loss.queue_offset + loss.count - missed, count=missed, placed=False
                    )
                )
            else:
                reported.append(replace(loss, placed=loss.placed and not missed))
        return reported

    @staticmethod
    def _stop_of(loss: Lost) -> int:
        return loss.start if loss.physical_offset is None else loss.physical_offset + (loss.size or 0)

    def _wanted(self, number: int, loss: Lost, pieces: list[FreeRange]) -> Wanted:
        start, stop = loss.start, loss.stop
        if loss.physical_offset is not None:
            start, stop = loss.physical_offset, loss.physical_offset + (loss.size or 0)
        first = max(bisect_right(pieces, start, key=lambda piece: piece.start) - 1, 0)
        while first < len(pieces) and pieces[first].stop <= start:
            first += 1
        last = bisect_left(pieces, stop, key=lambda piece: piece.start) - 1
        batch = loss.topic in self.batch_topics
        sizes = tuple(
            record_size(self.form, loss.topic, *_content(rank, loss, 0, batch=batch))
            for rank in range(len(CONTENTS))
        )
        return Wanted(loss, number, start, first, max(last, -1), sizes, batch)

    def _tombstones(self, number: int, piece: FreeRange, queue: Waiting) -> list[Part]:
        left, chosen = _room(piece), []
        time_ms = self._time_before(piece.start)
        usual = next((rank for rank in range(_BARE) if queue.fits(number, rank)), _BARE)
        full: set[tuple[str, int]] = set()  # queues of which a tombstone waits: later ones must, too
        for wanted in queue.at(number):
            key = wanted.lost.topic, wanted.lost.queue_id
            if key in full:
                continue
            rank = usual
            while wanted.last == number and rank < _BARE and wanted.left * wanted.sizes[rank] > left:
                rank += 1
            size = wanted.sizes[rank]
            count = min(wanted.left, left // size)
            if count < wanted.left:
                full.add(key)
            if not count:
                continue
            chosen.append((wanted, self._part(wanted, size, count, time_ms, rank)))
            queue.take(wanted, count)
            left -= size * count
        at, made = piece.start, []
        for _, part in sorted(chosen, key=lambda entry: (entry[0].start, entry[0].number)):
            made.append(replace(part, start=at))
            at += part.length
        return self._padded(piece, made, at)

    def _padded(self, piece: FreeRange, made: list[Part], at: int) -> list[Part]:
        """Make the last tombstone longer where what is left is too short for a filler."""
        left = piece.stop - at
        if piece.to_end or not made or not 0 < left < smallest_filler(self.form):
            return made
        last = made.pop()
        if last.records > 1:
            size = last.length // last.records
            made.append(
                replace(last, length=last.length - size, records=last.records - 1, messages=last.messages - 1)
            )
            offset = (last.queue_offset or 0) + last.records - 1
            last = replace(last, start=at - size, length=size, records=1, messages=1, queue_offset=offset)
        made.append(replace(last, length=last.length + left))
        return made

    @staticmethod
    def _part(wanted: Wanted, size: int, count: int, time_ms: int, rank: int) -> Part:
        lost = wanted.lost
        properties, body = _content(rank, lost, time_ms, batch=wanted.batch)
        return Part(
            PartKind.TOMBSTONES,
            0,
            size * count,
            records=count,
            messages=lost.count if wanted.batch else count,
            topic=lost.topic,
            queue_id=lost.queue_id,
            queue_offset=lost.queue_offset + wanted.done,
            store_timestamp_ms=time_ms,
            properties=properties,
            body=body,
        )

    def _rest(self, piece: FreeRange, made: list[Part], *, is_tail: bool) -> Iterator[Part]:
        at = made[-1].stop if made else piece.start
        left = piece.stop - at
        if piece.to_end:
            if left:
                yield Part(PartKind.ZEROS if is_tail else PartKind.FILE_END, at, left)
            return
        time_ms = self._time_before(piece.start)
        count = -(-left // self.form.largest)
        for number in range(count):
            length = left // count + (number < left % count)
            topic = FILLER_TOPIC[: 1 + length - smallest_filler(self.form)]
            yield Part(PartKind.FILLER, at, length, records=1, topic=topic, store_timestamp_ms=time_ms)
            at += length

    def _time_before(self, log_offset: int) -> int:
        """Return the store time of the record before a place, of the first one if there is none."""
        kept = self.ranges.records
        if not len(kept):
            return 0
        number = int(np.searchsorted(self.ranges.starts, log_offset)) - 1
        return int(kept["store_timestamp_ms"][max(number, 0)])


def _room(piece: FreeRange) -> int:
    """Return the bytes that tombstones can take."""
    return piece.stop - piece.start - (END_MARK_BYTES if piece.to_end else 0)


def _content(rank: int, lost: Lost, time_ms: int, *, batch: bool) -> tuple[Properties, str]:
    """Return properties and body of a tombstone, the less of them the higher the rank."""
    properties, body = CONTENTS[rank](lost.topic, lost.queue_id, time_ms)
    return properties + (_inner(lost) if batch else ()), body


def in_batches(lost: Iterable[Lost], batch_topics: Collection[str]) -> Iterator[Lost]:
    """Yield lost messages; in batch queues, no more at a time than one record replaces."""
    for loss in lost:
        if loss.topic not in batch_topics or loss.count <= _LARGEST_BATCH:
            yield loss
            continue
        for first in range(0, loss.count, _LARGEST_BATCH):
            count = min(_LARGEST_BATCH, loss.count - first)
            yield replace(loss, queue_offset=loss.queue_offset + first, count=count)


def _inner(lost: Lost) -> tuple[tuple[str, str], ...]:
    """Return what makes one record stand for many queue offsets (``CommitLog#setBatchSizeIfNeeded``)."""
    return (("INNER_NUM", str(lost.count)), ("INNER_BASE", str(lost.queue_offset)))
