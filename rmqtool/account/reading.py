"""The reading of a damaged log: of several, that which the evidence bears out."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from rmqtool.account.belief import Belief
from rmqtool.account.disputes import uncover
from rmqtool.account.evidence import read_evidence
from rmqtool.account.names import under_own_names
from rmqtool.account.records import Cause, Grounds, survey_log
from rmqtool.dispatch.policy import DispatchPolicy
from rmqtool.engine.engines import LocalEngine

if TYPE_CHECKING:
    from rmqtool.arrays import Int64s
    from rmqtool.store import FileQueue, Store


class Reading(NamedTuple):
    """A log as the evidence has it.

    Attributes:
        log: its files where their records say.
        false: ``(n,)`` physical offsets of the frames in it that are none.
        undecided: ``(d,)`` of them, those of which nothing decides.
        unplaced: ``(u,)`` those of records that are contradicted, or not borne out, in what they say of their
            queue.
    """

    log: FileQueue
    false: Int64s
    undecided: Int64s
    unplaced: Int64s


def read_by_evidence(store: Store, log: FileQueue) -> Reading:
    """Read a damaged log.

    Args:
        store: whose queues decide.
        log: as it lies there.

    Raises:
        EnvironmentFailureError: a file of the log cannot be opened or read.
    """
    file_size = store.settings.commitlog_file_size
    log = under_own_names(log.without_excess(file_size), file_size)
    evidence = read_evidence(store)
    found = uncover(survey_log(log, DispatchPolicy.from_settings(store.settings), LocalEngine()), [evidence])
    undecided = [one.start for one in found.aside if one.chosen_by is Grounds.NOTHING]
    belief = Belief(found, evidence, from_zero=found.log.start == 0)
    out = np.isin(belief.cause, (Cause.STALE, Cause.FIELDS))
    out[belief.record_of[belief.unproven & ~found.units["light"]]] = True
    return Reading(log, found.false, np.array(undecided, np.int64), belief.places[out])
