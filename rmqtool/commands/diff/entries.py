"""Differences from windows of aligned rows: runs, limits, and rows that the other side's log explains."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from rmqtool.commands.diff.align import NUMBER, align
from rmqtool.commands.diff.model import Change, Difference, DifferenceLimiter, said

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from rmqtool.arrays import Row
    from rmqtool.commands.diff.align import AlignRules, DifferenceWindow, LogBounds
    from rmqtool.commands.diff.model import Comparison, Value

    Rows = npt.NDArray[Any]


_LONE = (Change.ONLY_A, Change.ONLY_B)


@dataclass
class _Run:
    """Neighbours that only one side has; the next window may bring more of them."""

    first: Row
    count: int
    next_number: int


class Entries(ABC):
    """The entries of one queue, or of the index, of two stores."""

    structure: ClassVar[str]
    plural: ClassVar[str]
    rules: ClassVar[AlignRules]

    def __init__(self, comparison: Comparison, topic: str | None = None, queue_id: int | None = None) -> None:
        self._comparison = comparison
        self._told = DifferenceLimiter(comparison, self.structure, topic, queue_id)
        self._runs: list[_Run | None] = [None, None]
        self.topic, self.queue_id = topic, queue_id
        self.found = 0

    def compare(self, a: Iterator[Rows], b: Iterator[Rows], reaches: LogBounds) -> Iterator[Difference]:
        """Yield the differences of two streams."""
        before = self._comparison.counts[self.structure]
        for window in align(a, b, self.rules, reaches):
            self._comparison.compared[self.plural] += window.compared
            self._comparison.beyond[self.structure] += window.excused
            yield from self._window(window)
        for side in (0, 1):
            yield from self._close(side)
        self.found = self._comparison.counts[self.structure] - before
        yield from self._told.finish()

    @abstractmethod
    def place(self, row: Row) -> dict[str, Any]:
        """Return the fields of a difference that show its place."""

    @abstractmethod
    def values(self, row: Row) -> dict[str, Value]:
        """Return the values of a side."""

    @abstractmethod
    def name(self, row: Row) -> str:
        """Return the entry as a sentence begins."""

    def _window(self, window: DifferenceWindow) -> Iterator[Difference]:
        changed = zip(*window.changed, strict=True)
        for one, other in self._shown(changed, len(window.changed[0])):
            yield from self._told.tell(self._changed(one, other))
        for row in self._shown(iter(window.moved), len(window.moved)):
            sentence = f"{self.name(row)} stands in another order"
            found = self._make(Change.MOVED, sentence, row, a=self.values(row))
            yield from self._told.tell(found)
        for side, rows in enumerate((window.only_a, window.only_b)):
            yield from self._lone(side, rows)

    def _shown(self, rows: Iterator[Any], count: int) -> Iterator[Any]:
        """Yield rows within the limit, and count the others."""
        shown = min(count, max(self._told.room, 0))
        for _ in range(shown):
            yield next(rows)
        if count > shown:
            self._told.pass_over(count - shown)

    def _changed(self, one: Row, other: Row) -> Difference:
        ours, theirs = self.values(one), self.values(other)
        names = [name for name in ours if ours[name] != theirs[name]]
        texts = (f"{name} {said(name, ours[name])} and {said(name, theirs[name])}" for name in names)
        return self._make(Change.CHANGED, f"{self.name(one)}: {', '.join(texts)}", one, a=ours, b=theirs)

    def _make(self, change: Change, sentence: str, row: Row, **more: Any) -> Difference:  # noqa: ANN401
        return Difference(
            self.structure,
            change,
            sentence,
            topic=self.topic,
            queue_id=self.queue_id,
            physical_offset=int(row["physical_offset"]),
            **self.place(row),
            **more,
        )

    def _lone(self, side: int, rows: Rows) -> Iterator[Difference]:
        if not len(rows):
            return
        numbers = rows[NUMBER]
        starts = np.concatenate([[0], np.flatnonzero(np.diff(numbers) != 1) + 1])
        for start, stop in zip(starts.tolist(), [*starts[1:].tolist(), len(rows)], strict=True):
            run, after = self._runs[side], int(numbers[stop - 1]) + 1
            if run is not None and run.next_number == numbers[start]:
                run.count, run.next_number = run.count + stop - start, after
                continue
            yield from self._close(side)
            self._runs[side] = _Run(rows[start].copy(), stop - start, after)

    def _close(self, side: int) -> Iterator[Difference]:
        run, self._runs[side] = self._runs[side], None
        if run is None:
            return
        if self._told.room <= 0:
            self._told.pass_over(run.count)
            return
        what = self.name(run.first)
        if run.count > 1:
            what = f"{run.count} {self.plural}, the first of them {what}"
        values = {"ab"[side]: self.values(run.first)}
        sentence = f"only {'AB'[side]} has {what}"
        yield from self._told.tell(self._make(_LONE[side], sentence, run.first, count=run.count, **values))
