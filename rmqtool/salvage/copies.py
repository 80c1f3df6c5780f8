"""Several copies of one log as one: a hole of the first is healed, record by record, from the others.

A record heals if it is whole and believed in its own copy and lies in a hole of the copies before. Where two
copies hold different records, both proven, one stays (``disputes``), and the other is kept aside.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rmqtool.account.belief import Belief
from rmqtool.account.disputes import Disputes, joined, overlaps, where
from rmqtool.errors import UsageError
from rmqtool.salvage import Found

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rmqtool.account.evidence import QueueEvidence
    from rmqtool.account.records import Survey
    from rmqtool.arrays import Bools


def merge(
    surveys: Sequence[Survey],
    evidence: QueueEvidence,
    *,
    of_copies: Sequence[QueueEvidence],
    include_stale: bool,
) -> tuple[Survey, tuple[Found, ...]]:
    """Put copies together as if they were one log, the first leads.

    Args:
        surveys: of the copies.
        evidence: what the queues of all copies list.
        of_copies: what those of each list.
        include_stale: believe what looks stale.

    Returns:
        All of them, and the records that differ from what stays in their place.

    Raises:
        UsageError: they are no copies of one log: they share places, and not one record.
    """
    merged = surveys[0]
    if len(surveys) == 1:
        return merged, ()
    conflicts: list[Found] = []
    merged = _believed(merged, evidence, include_stale=include_stale)
    for number, other in enumerate(surveys[1:], 1):
        other.records["source"] = number
        good = _believed(other, evidence, include_stale=include_stale, only=True)
        same, taken, differing = _compared(merged, good)
        if not same.any() and differing.any():
            raise UsageError(f"{other.log.directories[0]}: no copy of this log: no record is the same")
        if differing.any():
            whole = where(merged, ~merged.damaged)
            logs = [one.log for one in surveys]
            won, aside = Disputes(whole, good, differing, taken, of_copies, logs).settle()
            taken |= won
            conflicts += (
                Found(one.start, one.length, one.source, "conflict", chosen_by=one.chosen_by) for one in aside
            )
        merged = joined(merged, good, taken)
    return merged, tuple(conflicts)


def _believed(survey: Survey, evidence: QueueEvidence, *, include_stale: bool, only: bool = False) -> Survey:
    """Return a survey without what is not believed; with ``only``, without damaged bodies, too."""
    belief = Belief(survey, evidence, from_zero=survey.log.start == 0, include_stale=include_stale)
    keep = belief.kept if only else belief.kept | survey.damaged
    return where(survey, keep)


def _compared(survey: Survey, other: Survey) -> tuple[Bools, Bools, Bools]:
    """Return which records of another copy are the same, fill a hole, or differ, ``(n,)`` each."""
    sound, rows = survey.records[~survey.damaged], other.records
    met, after = overlaps(rows, sound)
    same = np.zeros(len(rows), bool)
    theirs = sound[after[met]]
    same[met] = (theirs["log_offset"] == rows["log_offset"][met]) & (
        theirs["fingerprint"] == rows["fingerprint"][met]
    )
    return same, ~met, met & ~same
