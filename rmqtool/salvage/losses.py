"""Which messages are lost, and between which places of the log they were."""

from __future__ import annotations

import itertools
from bisect import bisect_left
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from rmqtool.formats.message import SMALLEST_RECORD
from rmqtool.salvage.causes import Cause
from rmqtool.salvage.model import Lost

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import numpy.typing as npt

    from rmqtool.salvage.belief import Belief
    from rmqtool.salvage.chains import Chain
    from rmqtool.salvage.evidence import QueueEvidence

    Rows = npt.NDArray[Any]


_QUEUE_OFFSET = attrgetter("queue_offset")


class _Pin(NamedTuple):
    """A lost message of which something names the place."""

    queue_offset: int
    messages: int
    log_offset: int
    size: int
    tags_code: int | None
    cause: str


@dataclass(frozen=True, slots=True)
class _Stretch:
    """A part of a queue between two of its records that are given back.

    Attributes:
        first: the first queue offset in it.
        start: physical offset from which its messages can lie.
        last: the queue offset after it; None without a second record: as far as something names messages.
        stop: physical offset of that record.
    """

    first: int
    start: int
    last: int | None = None
    stop: int | None = None


@dataclass
class LossFinder:
    """Finds the lost messages of every queue.

    Attributes:
        belief: the records that are given back.
        evidence: what queues list.
        takes: whether the user wants a topic.
        horizon: physical offset up to which the log is wanted.
    """

    belief: Belief
    evidence: QueueEvidence
    takes: Callable[[str], bool]
    horizon: int

    def __post_init__(self) -> None:
        records = self.belief.survey.records[self.belief.kept]
        self._starts = np.ascontiguousarray(records["log_offset"])
        self._stops = records["log_offset"] + records["total_size"]
        self._taken = np.concatenate([[0], np.cumsum(records["total_size"], dtype=np.int64)])

    def lost(self) -> Iterator[Lost]:
        """Yield lost messages by queue and queue offset."""
        survey = self.belief.survey
        numbers = {key: number for number, key in enumerate(survey.queues)}
        for key in sorted({*numbers, *self.evidence.units}):
            if self.takes(key[0]):
                yield from self._of_queue(key, self.belief.chains.get(numbers.get(key, -1)))

    def _of_queue(self, key: tuple[str, int], chain: Chain | None) -> Iterator[Lost]:
        pins = self._listed(key)
        if chain is None or not len(chain.rows):
            first = pins[0].queue_offset if pins else 0
            yield from self._between(key, pins, _Stretch(first, self._log_start))
            return
        belief = self.belief
        units, records = belief.survey.units, belief.survey.records
        cause = belief.cause[belief.record_of[chain.rows]]
        bounds = [0, *sorted(chain.resets), len(chain.rows)]
        for number, (one, two) in enumerate(itertools.pairwise(bounds)):
            rows = chain.rows[one:two]
            damaged = rows[cause[one:two] == Cause.BODY]
            good = rows[cause[one:two] == Cause.NONE]
            last = number == len(bounds) - 2
            known = {pin.queue_offset: pin for pin in pins} if last else {}
            known |= {pin.queue_offset: pin for pin in self._damaged(damaged)}
            ordered = [known[offset] for offset in sorted(known)]
            starts = units["queue_offset"][good]
            stops = starts + units["count"][good]
            places = units["log_offset"][good]
            ends = places + records["total_size"][belief.record_of[good]]
            yield from self._in_generation(key, ordered, (starts, stops, places, ends), last=last)

    def _in_generation(
        self, key: tuple[str, int], pins: list[_Pin], kept: tuple[Rows, Rows, Rows, Rows], *, last: bool
    ) -> Iterator[Lost]:
        starts, stops, places, ends = kept
        if not len(starts):
            first = 0 if self.belief.from_zero else (pins[0].queue_offset if pins else 0)
            yield from self._between(key, pins, _Stretch(first, self._log_start))
            return
        first = pins[0].queue_offset if pins else int(starts[0])
        first = 0 if self.belief.from_zero else min(first, int(starts[0]))
        head = _Stretch(first, self._log_start, int(starts[0]), int(places[0]))
        before = list(self._between(key, pins, head))
        unnamed = all(lost.physical_offset is None for lost in before)
        yield from (replace(lost, from_start=unnamed) for lost in before)
        for number in np.flatnonzero(starts[1:] > stops[:-1]):
            after = int(starts[number + 1]), int(places[number + 1])
            yield from self._between(key, pins, _Stretch(int(stops[number]), int(ends[number]), *after))
        if last or pins:
            yield from self._between(key, pins, _Stretch(int(stops[-1]), int(ends[-1])))

    @property
    def _log_start(self) -> int:
        return self.belief.survey.log.start

    def _listed(self, key: tuple[str, int]) -> list[_Pin]:
        """Return the units of a queue that point to where no record is given back, by queue offset."""
        rows = self.evidence.of(key)
        stops = rows["log_offset"] + rows["size"]
        within = (rows["log_offset"] >= self._log_start) & (stops <= self.horizon)
        rows = rows[within]
        if not len(rows):
            return []
        after = np.searchsorted(self._stops, rows["log_offset"], "right")
        free = np.ones(len(rows), bool)
        some = after < len(self._starts)
        free[some] = self._starts[after[some]] >= (rows["log_offset"] + rows["size"])[some]
        return [
            _Pin(
                int(row["queue_offset"]), int(row["count"]), int(row["log_offset"]), int(row["size"]),
                int(row["tags_code"]), "listed",
            )
            for row in rows[free]
        ]  # fmt: skip

    def _damaged(self, rows: Rows) -> Iterator[_Pin]:
        units, records = self.belief.survey.units, self.belief.survey.records
        for row in rows:
            unit, record = units[row], records[self.belief.record_of[row]]
            yield _Pin(
                int(unit["queue_offset"]), int(unit["count"]), int(unit["log_offset"]),
                int(record["total_size"]), None, "body",
            )  # fmt: skip

    def _between(self, key: tuple[str, int], pins: list[_Pin], stretch: _Stretch) -> Iterator[Lost]:
        """Yield what is lost in a stretch."""
        if stretch.last is not None and stretch.first >= stretch.last:
            return
        found = list(self._within(key, pins, stretch))
        nowhere = self._lacks_room([one for one in found if one.physical_offset is None])
        # Queue offsets that no hole has room for were never in this part of the log.
        yield from (one for one in found if one.physical_offset is not None or not nowhere)

    def _within(self, key: tuple[str, int], pins: list[_Pin], stretch: _Stretch) -> Iterator[Lost]:
        last, reach = stretch.last, self.horizon if stretch.stop is None else stretch.stop
        due, place = stretch.first, stretch.start
        for pin in pins[bisect_left(pins, due, key=_QUEUE_OFFSET) :]:
            if last is not None and pin.queue_offset >= last:
                break
            over = last is not None and pin.queue_offset + pin.messages > last
            if pin.queue_offset < due or over or pin.log_offset < place or pin.log_offset + pin.size > reach:
                continue
            if pin.queue_offset > due:
                yield Lost(*key, due, pin.queue_offset - due, place, pin.log_offset, "hole")
            yield Lost(
                *key, pin.queue_offset, pin.messages, place, reach, pin.cause, pin.log_offset, pin.size,
                pin.tags_code,
            )  # fmt: skip
            due, place = pin.queue_offset + pin.messages, pin.log_offset + pin.size
        if last is not None and due < last:
            yield Lost(*key, due, last - due, place, reach, "hole")

    def _lacks_room(self, lost: list[Lost]) -> bool:
        """Whether no hole can have held messages of which nothing names the place."""
        if not lost:
            return False
        start, stop = lost[0].start, max(one.stop for one in lost)
        one, two = np.searchsorted(self._starts, [start, stop])
        free = stop - start - int(self._taken[two] - self._taken[one])
        return free < sum(one.count for one in lost) * SMALLEST_RECORD
