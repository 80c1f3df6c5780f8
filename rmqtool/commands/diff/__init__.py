"""``diff``: differences in meaning between two stores, or the same part of two stores; here are its results.

Sizes and names of files do not matter: records are compared by physical offset, units by topic, queue and
queue offset, index entries by physical offset and hash, ext units through the units that name them. `entries`
joins the entries of two streams; the other modules read one structure each.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC
from enum import StrEnum
from typing import TYPE_CHECKING, ClassVar

from rmqtool import options
from rmqtool.findings import counted
from rmqtool.times import time_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from datetime import tzinfo

    from rmqtool.commands.diff.verdict import CopiesVerdict
    from rmqtool.io.location import UnreadableRange
    from rmqtool.store import StoreFile

Value = int | str | dict[str, str]
CONFIG = "config/"
"""The beginning of the structure of a setting's difference: its file."""


def said(name: str, value: object, zone: tzinfo | None = UTC) -> str:
    """Return a value for a sentence: a time as a date."""
    is_time = name.lower().endswith("timestamp")
    return time_text(value, zone) if is_time and isinstance(value, int) else str(value)


class Change(StrEnum):
    """Kind of a difference."""

    CHANGED = "changed"  # both have the entry, with other values
    ONLY_A = "only-a"
    ONLY_B = "only-b"
    DAMAGED = "damaged"  # the log cannot be followed here
    STARTS = "starts"  # one log reaches further back
    ENDS = "ends"  # one log goes further
    MORE = "more"  # the differences of this structure above the limit


@dataclass(frozen=True, slots=True)
class Difference:
    """One difference, or a run of neighbours that only one side has.

    Attributes:
        structure: As for ``--type``, or a file in ``config/``.
        change: Its kind.
        message: One sentence.
        topic: Of the queue.
        queue_id: Of the queue.
        queue_offset: Of the unit, the first of a run.
        physical_offset: Of the record, or the one that the unit or entry points at.
        item: Number of the index entry in A, or in B if A does not have it; from 0 over all files of the
            index.
        count: Entries.
        a: The values of A, where the two differ; None where it has none.
        b: The values of B.
        damaged: ``a``, ``b`` or ``both`` where a record of the log is damaged.
        code: The finding of the log's damage.
        normal: Replicas at work differ so: retention, lag, checkpoint.
    """

    type: ClassVar = "difference"
    structure: str
    change: Change
    message: str
    topic: str | None = None
    queue_id: int | None = None
    queue_offset: int | None = None
    physical_offset: int | None = None
    item: int | None = None
    count: int = 1
    a: dict[str, Value] | None = None
    b: dict[str, Value] | None = None
    damaged: str | None = None
    code: str | None = None
    normal: bool = False


@dataclass(frozen=True, slots=True)
class Healing:
    """Losses of one side.

    Attributes:
        side: ``a`` or ``b``.
        lost: messages.
        held: of them, those that the other side has.
        damaged: places that are damaged on this side alone.
        before: messages before the log's first byte to which something still leads; not among the lost.
    """

    side: str
    lost: int
    held: int
    damaged: int
    before: int

    @property
    def helps(self) -> bool:
        """Whether the other side has some of it."""
        return bool(self.held or self.damaged)


@dataclass
class StoreComparison:
    """Counts and notes of a comparison; filled while differences are drawn. Counts are by structure.

    Attributes:
        limit: Differences of one log, queue or index that are shown; the rest is counted.
        counts: Differences, without those of replicas at work.
        normal: Differences as replicas at work have them.
        beyond: Units and entries that only one side has, and of which the other's log has no record.
        notes: Sentences about parts that were not compared, or whose difference means nothing.
        damaged: Differences in which one log, or both, are damaged, by side.
        healing: Losses of each side that the other can fill, once all was compared.
        settings: Differences in ``config/``, by file; they are no difference of the stores.
        damaged_at: Physical offset of the first record that is damaged on one side alone, by side.
        verdict: On the two copies of a log; None if no two logs were compared.
        is_unread: Whether a log, or the only form of queues, is in a form that is not read, so not compared.
    """

    limit: int = options.number(
        "Differences listed of each log, queue or index; the rest is counted.",
        20,
        name="max_differences",
        least=1,
    )
    compared: Counter[str] = field(default_factory=Counter)
    counts: Counter[str] = field(default_factory=Counter)
    normal: Counter[str] = field(default_factory=Counter)
    beyond: Counter[str] = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)
    is_damaged: bool = False
    damaged: Counter[str] = field(default_factory=Counter)
    settings: Counter[str] = field(default_factory=Counter)
    damaged_at: dict[str, int] = field(default_factory=dict)
    healing: list[Healing] = field(default_factory=list)
    verdict: CopiesVerdict | None = None
    is_unread: bool = False

    def differs(self, *, replica: bool = False) -> bool:
        """Whether anything differs; between replicas, more than is normal."""
        return bool(self.counts.total() or (self.normal.total() and not replica))

    def note(self, sentence: str) -> None:
        """Add a sentence, once."""
        if sentence not in self.notes:
            self.notes.append(sentence)

    def note_unreadable(self, files: Iterable[tuple[StoreFile, Sequence[UnreadableRange]]]) -> None:
        """Note which files the disk did not deliver in full."""
        for file, ranges in files:
            if ranges:
                lost = sum(bad.length for bad in ranges)
                self.note(f"{file.path}: {lost} bytes cannot be read, the first at {ranges[0].position}")

    def count(self, difference: Difference) -> Difference:
        """Count a difference, and return it."""
        counts = self.normal if difference.normal else self.counts
        if difference.structure.startswith(CONFIG):
            counts = self.settings
        counts[difference.structure] += difference.count
        if difference.damaged is not None:
            self.is_damaged = True
            self.damaged[difference.damaged] += difference.count
            place = difference.physical_offset
            if place is not None:
                first = self.damaged_at.setdefault(difference.damaged, place)
                self.damaged_at[difference.damaged] = min(first, place)
        return difference


@dataclass
class DifferenceLimiter:
    """The differences of one log, queue or index: counts all, yields those up to the limit."""

    comparison: StoreComparison
    structure: str
    topic: str | None = None
    queue_id: int | None = None
    _listed: int = 0
    _rest: int = 0

    @property
    def room(self) -> int:
        """Return how many more are shown."""
        return self.comparison.limit - self._listed

    def add(self, difference: Difference) -> Iterator[Difference]:
        """Count a difference; yield it if it is below the limit."""
        self.comparison.count(difference)
        if self.room > 0:
            self._listed += 1
            yield difference
        else:
            self._rest += difference.count

    def add_all(self, differences: Iterable[Difference]) -> Iterator[Difference]:
        """Count differences; yield those below the limit."""
        for difference in differences:
            yield from self.add(difference)

    def pass_over(self, count: int) -> None:
        """Count differences above the limit that were not made."""
        self.comparison.counts[self.structure] += count
        self._rest += count

    def finish(self) -> Iterator[Difference]:
        """Yield a row for those that were not shown."""
        if self._rest:
            name = "" if self.topic is None else f" in {self.topic}/{self.queue_id}"
            sentence = f"{counted(self._rest, 'more difference')}{name}"
            place = (self.topic, self.queue_id)
            yield Difference(self.structure, Change.MORE, sentence, *place, count=self._rest)
