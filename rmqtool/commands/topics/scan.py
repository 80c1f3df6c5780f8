"""The records of one split of the log added up by queue, and what lies between them.

As a dump does, this takes records that a broker would refuse for a property that is no number, and those that
claim another place; bodies are not looked at.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rmqtool.dispatch.totals import QueueTotals
from rmqtool.releases import LENIENT
from rmqtool.scan.gap_walk import GapWalk, SplitEnd, gap_of
from rmqtool.scan.gaps import Gap, Outcome

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from rmqtool.io.reading import UnreadableRange
    from rmqtool.scan.splits import Split

MAX_GAPS = 100
"""Gaps of one split that are told apart; the others are counted."""


@dataclass(frozen=True)
class TotalsTask:
    """A range of one segment.

    Attributes:
        split: what is read.
        first_log_offset: physical offset of the first record; None to search the first true one.
        stale_from: see ``GapWalk``.
    """

    split: Split
    first_log_offset: int | None = None
    stale_from: int | None = None


@dataclass
class SplitTotals(SplitEnd):
    """What was found in a split.

    Attributes:
        split: what was read.
        first_log_offset: physical offset of the first record; None if no record begins in the split.
        outcome: as `GapWalk` has it.
        log_offset: likewise.
        totals: records by queue.
        gaps: the first ones, at most ``MAX_GAPS``, and one that reaches the split's end.
        more_gaps: how many more there were.
        more_gap_bytes: their size.
        blank_bytes: a BLANK that ended the file, to its end.
        unreadable: ranges of the file that the disk did not deliver.
    """

    split: Split
    first_log_offset: int | None
    outcome: Outcome = Outcome.STOP
    log_offset: int = 0
    totals: QueueTotals = field(default_factory=QueueTotals)
    gaps: list[Gap] = field(default_factory=list)
    more_gaps: int = 0
    more_gap_bytes: int = 0
    blank_bytes: int = 0
    unreadable: list[UnreadableRange] = field(default_factory=list)


def add_up_split(task: TotalsTask) -> SplitTotals:
    """Add up a split.

    Raises:
        EnvironmentFailureError: the segment cannot be opened or read.
    """
    split, first = task.split, task.first_log_offset
    walk = GapWalk(split.segment, LENIENT, task.stale_from)
    found = SplitTotals(split, walk.guess(split.start, split.stop) if first is None else first)
    if found.first_log_offset is not None:
        for part in walk.parts(found.first_log_offset, split.stop):
            if isinstance(part, Gap):
                _add_gap(part, found)
            else:
                found.totals.add(part)
                _add_passed(part.gaps, found)
        found.outcome, found.log_offset = walk.outcome, walk.log_offset
        if walk.outcome is Outcome.BLANK:
            found.blank_bytes = split.segment.stop - walk.log_offset
    found.unreadable = walk.unreadable
    return found


def _add_passed(gaps: npt.NDArray[np.void], found: SplitTotals) -> None:
    room = max(MAX_GAPS - len(found.gaps), 0)
    found.gaps += [gap_of(row) for row in gaps[:room]]
    left = gaps[room:]
    found.more_gaps += len(left)
    found.more_gap_bytes += int((left["stop"] - left["start"]).sum())


def _add_gap(gap: Gap, found: SplitTotals) -> None:
    if len(found.gaps) < MAX_GAPS or gap.stop == found.split.stop:
        found.gaps.append(gap)
    else:
        found.more_gaps += 1
        found.more_gap_bytes += gap.length
