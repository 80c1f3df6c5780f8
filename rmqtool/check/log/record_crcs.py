"""Whether the broker that wrote a file of the log ends its records in the property ``__CRC32#``.

A broker deletes a property ``__CRC32#`` that a message brings along only if it appends its own
(``CommitLog#asyncPutMessage``, 5.3.3): where most records have none, a wrong one may come from elsewhere.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from rmqtool.check.log.record_checks import RecordChecker
from rmqtool.findings import FindingLog
from rmqtool.findings.commitlog import CL_PROP_CRC
from rmqtool.releases import NEWEST
from rmqtool.scan.gap_walk import GapWalk
from rmqtool.scan.gaps import Gap

if TYPE_CHECKING:
    from rmqtool.store.segments import Segment


def most_have_none(records: int, sound: int, wrong: int) -> bool:
    """Tell whether a wrong ``__CRC32#`` may come from elsewhere.

    Args:
        records: of the file.
        sound: of them, how many carry one that holds.
        wrong: how many carry one that does not.
    """
    return 2 * sound < records - wrong


@lru_cache(maxsize=64)
def file_has_none(segment: Segment) -> bool:
    """Tell whether a wrong ``__CRC32#`` in a file of the log may come from elsewhere; reads the whole file.

    Raises:
        EnvironmentFailureError: The file cannot be opened or read.
    """
    findings = FindingLog(1)
    checker = RecordChecker(segment, findings)
    records = 0
    for part in GapWalk(segment, NEWEST.records).parts(segment.start, segment.stop):
        if not isinstance(part, Gap):
            checker.check(part)
            records += len(part.rows)
    return most_have_none(records, checker.sound_crcs, findings.counts.get(CL_PROP_CRC.code, 0))
