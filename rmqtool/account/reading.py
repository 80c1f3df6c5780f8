"""The reading of a damaged log: of several, that which the evidence bears out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rmqtool.account.disputes import uncover
from rmqtool.account.evidence import read_evidence
from rmqtool.account.names import under_own_names
from rmqtool.account.records import Grounds, survey_log
from rmqtool.dispatch.policy import DispatchPolicy
from rmqtool.engine.engines import (
    LocalEngine,
)

if TYPE_CHECKING:
    from rmqtool.arrays import Int64s
    from rmqtool.store import FileQueue, Store


def read_by_evidence(store: Store, log: FileQueue) -> tuple[FileQueue, Int64s, Int64s]:
    """Return a log with its files where their records say, and the frames in it that are none, ``(n,)``.

    The third are those of them that may be true: nothing decides.

    Args:
        store: whose queues decide.
        log: as it lies there.

    Raises:
        EnvironmentFailureError: a file of the log cannot be opened or read.
    """
    file_size = store.settings.commitlog_file_size
    log = under_own_names(log.without_excess(file_size), file_size)
    found = survey_log(log, DispatchPolicy.from_settings(store.settings), LocalEngine())
    found = uncover(found, [read_evidence(store)])
    undecided = [one.start for one in found.aside if one.chosen_by is Grounds.NOTHING]
    return log, found.false, np.array(undecided, np.int64)
