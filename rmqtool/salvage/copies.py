"""Several copies of one log as one: a hole of the first is healed, record by record, from the others.

A record heals if it is whole and believed in its own copy and lies in a hole of the copies before. Where two
copies hold different records, both proven, one stays (``disputes``), and the other is kept aside.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from rmqtool.errors import UsageError
from rmqtool.salvage.belief import Belief
from rmqtool.salvage.disputes import Disputes, FrameDisputes, overlaps

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from rmqtool.arrays import Bools
    from rmqtool.salvage.evidence import QueueEvidence
    from rmqtool.salvage.model import Found
    from rmqtool.salvage.survey import Survey

    Rows = npt.NDArray[Any]


@dataclass(frozen=True)
class Merged:
    """Copies put together.

    Attributes:
        survey: all of them, as if it were one log.
        healed: records that the first copy does not have.
        conflicts: records that differ from what stays in their place.
    """

    survey: Survey
    healed: int = 0
    conflicts: tuple[Found, ...] = ()


def merge(
    surveys: Sequence[Survey],
    evidence: QueueEvidence,
    *,
    of_copies: Sequence[QueueEvidence],
    include_stale: bool,
) -> Merged:
    """Put copies together, the first leads.

    Args:
        surveys: of the copies.
        evidence: what the queues of all copies list.
        of_copies: what those of each list.
        include_stale: believe what looks stale.

    Raises:
        UsageError: they are no copies of one log: they share places, and not one record.
    """
    merged = surveys[0]
    if len(surveys) == 1:
        return Merged(merged)
    conflicts: list[Found] = []
    merged = _believed(merged, evidence, include_stale=include_stale)
    for number, other in enumerate(surveys[1:], 1):
        other.records["source"] = number
        good = _believed(other, evidence, include_stale=include_stale, only=True)
        same, taken, differing = _compared(merged, good)
        if not same.any() and differing.any():
            raise UsageError(f"{other.log.directories[0]}: no copy of this log: no record is the same")
        if differing.any():
            whole = _where(merged, ~merged.damaged)
            logs = [one.log for one in surveys]
            won, aside = Disputes(whole, good, differing, taken, of_copies, logs).settle()
            taken |= won
            conflicts += aside
        merged = _joined(merged, good, taken)
    return Merged(merged, int((merged.records["source"] != 0).sum()), tuple(conflicts))


def uncover(survey: Survey, of_copies: Sequence[QueueEvidence]) -> Survey:
    """Return a survey with the true records below damaged frames in place of those that are false."""
    below = survey.below
    if below is None:
        return survey
    survey = replace(survey, below=None)
    met, first = overlaps(below.records, survey.records)
    same = np.append(survey.records["log_offset"], -1)[first] == below.records["log_offset"]
    if not (met & ~same).any():
        return survey
    won, _ = FrameDisputes(survey, below, met & ~same, ~met, of_copies, [survey.log]).settle()
    return _joined(survey, below, won | ~met)


def _believed(survey: Survey, evidence: QueueEvidence, *, include_stale: bool, only: bool = False) -> Survey:
    """Return a survey without what is not believed; with ``only``, without damaged bodies, too."""
    belief = Belief(survey, evidence, from_zero=survey.log.start == 0, include_stale=include_stale)
    keep = belief.kept if only else belief.kept | survey.damaged
    return _where(survey, keep)


def _where(survey: Survey, keep: Bools) -> Survey:
    records = survey.records[keep]
    units = survey.units[np.isin(survey.units["log_offset"], records["log_offset"])]
    return replace(survey, records=records, units=units)


def _compared(survey: Survey, other: Survey) -> tuple[Bools, Bools, Bools]:
    """Tell of each record of another copy whether it is the same, fills a hole, or differs, ``(n,)`` each."""
    sound, rows = survey.records[~survey.damaged], other.records
    met, after = overlaps(rows, sound)
    same = np.zeros(len(rows), bool)
    theirs = sound[after[met]]
    same[met] = (theirs["log_offset"] == rows["log_offset"][met]) & (
        theirs["fingerprint"] == rows["fingerprint"][met]
    )
    return same, ~met, met & ~same


def _joined(survey: Survey, other: Survey, taken: Bools) -> Survey:
    """Add records of another copy; what lies in their place goes."""
    healing = _where(other, taken)
    covered, _ = overlaps(survey.records, healing.records)
    survey = _where(survey, ~covered)
    numbers = {key: number for number, key in enumerate(survey.queues)}
    turned = np.array([numbers.setdefault(key, len(numbers)) for key in other.queues], np.int32)
    units = healing.units.copy()
    if len(units):
        units["queue"] = turned[units["queue"]]
    return replace(
        survey,
        log=_joined_log(survey, other),
        records=np.sort(np.concatenate([survey.records, healing.records]), order="log_offset"),
        units=_in_order(np.concatenate([survey.units, units])),
        queues=list(numbers),
        blanks=other.blanks | survey.blanks,
        sound_crcs=survey.sound_crcs + other.sound_crcs,
    )


def _in_order(units: Rows) -> Rows:
    return units[np.argsort(units["log_offset"], kind="stable")]


def _joined_log(survey: Survey, other: Survey) -> Any:  # noqa: ANN401 - a FileQueue
    have = {segment.start for segment in survey.log}
    more = [segment for segment in other.log if segment.start not in have]
    segments = sorted([*survey.log, *more], key=lambda segment: segment.start)
    return replace(survey.log, segments=tuple(segments))
