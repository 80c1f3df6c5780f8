"""A report in the light of what the user asked for: what fails, what is known, what a broker would do."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from difflib import get_close_matches
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import PurePath
from typing import TYPE_CHECKING

from rmqtool.errors import ExitStatus, UsageError
from rmqtool.findings import CATALOG, FailOn, Finding, FindingCode, Findings, Severity, Structure
from rmqtool.findings.codes import (
    CL_QOFF_GAP,
    CQ_DANGLING,
    CQ_FILE_NAME,
    CQ_GAP_FILE,
    CQ_MISPLACED,
    CQ_MISSING_MSG,
    CQ_STALE_TAIL,
    CQ_STRAY,
    IX_DANGLING,
    NS_LOSES,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.check.model import VerifyReport
    from rmqtool.commands.verify.baseline import Comparison
    from rmqtool.recovery.model import Prediction


_POINTING = {CQ_DANGLING, CQ_STALE_TAIL, IX_DANGLING, NS_LOSES}
_OF_FILES = {CQ_GAP_FILE, CQ_FILE_NAME, CQ_STRAY}
_OF_UNITS = {CQ_MISSING_MSG, CQ_MISPLACED, CQ_DANGLING}
_Queue = tuple[str, int]


@dataclass
class Roots:
    """What follows from what.

    Attributes:
        of: for each kept finding, in the order of the log, the finding that it follows from; None if none.
        explained: how many findings of each code, kept or only counted, follow from those of another code.
    """

    of: list[Finding | None] = field(default_factory=list)
    explained: dict[str, Counter[str]] = field(default_factory=dict)

    def follows(self, code: str) -> int:
        """Return how many findings of a code follow from others."""
        return sum(counts[code] for counts in self.explained.values())

    @property
    def count(self) -> int:
        """Return how many findings follow from others."""
        return sum(counts.total() for counts in self.explained.values())


def label_of_root(root: Finding) -> str:
    """Return what names a finding in the others: its code and where it is."""
    place = root.file if root.physical_offset is None else root.physical_offset
    return f"{root.code.code}@{place}"


def roots_of(findings: Findings) -> Roots:
    """Tell what follows from what; findings that are only counted follow what all kept ones of a code do."""
    losses = sorted(
        (one for one in findings if _is_loss(one)),
        key=lambda one: (one.physical_offset or 0, one.length or 0),
    )
    queues: dict[_Queue, Finding] = {}
    for one in findings:
        if one.code in _OF_FILES and (key := _queue_of(one)) is not None:
            queues.setdefault(key, one)
    roots = Roots([_root(one, losses, queues) for one in findings])
    free = {one.code.code for one, root in zip(findings, roots.of, strict=True) if root is None}
    for one, root in zip(findings, roots.of, strict=True):
        if root is not None:
            counts = roots.explained.setdefault(root.code.code, Counter())
            counts[one.code.code] += 1
            if one.code.code not in free:
                free.add(one.code.code)
                counts[one.code.code] += findings.suppressed(one.code.code)
    return roots


def _is_loss(finding: Finding) -> bool:
    """Return whether a finding takes a range away from the log."""
    return (
        finding.structure is Structure.COMMITLOG
        and finding.severity is Severity.ERROR
        and finding.physical_offset is not None
        and bool(finding.length)
    )


def _root(finding: Finding, losses: list[Finding], queues: dict[_Queue, Finding]) -> Finding | None:
    place = finding.physical_offset
    if place is not None and finding.code in _POINTING:
        for loss in losses:
            start = loss.physical_offset or 0
            if start <= place < start + (loss.length or 0):
                return loss
    if place is not None and finding.code is CL_QOFF_GAP:
        before = [loss for loss in losses if (loss.physical_offset or 0) < place]
        return before[-1] if before else None
    if finding.code in _OF_UNITS and finding.topic is not None and finding.queue_id is not None:
        return queues.get((finding.topic, finding.queue_id))
    return None


def _queue_of(finding: Finding) -> _Queue | None:
    """Return the queue whose file a finding is about: ``consumequeue/TOPIC/QUEUEID/FILE``."""
    parts = PurePath(finding.file or "").parts
    return (parts[-3], int(parts[-2])) if len(parts) == 4 and parts[-2].isdecimal() else None


@dataclass
class Verdict:
    """Verdict on one store.

    Attributes:
        report: what was found.
        fail_on: which findings fail.
        comparison: the findings told apart by ``--baseline``, if one was given.
        predictions: what brokers would do with the store, if that was asked.
        part: what of the store was looked at, relative to it; None for all of it.
        setting_arguments: arguments of the command line that give settings, for the next command.
    """

    report: VerifyReport
    fail_on: FailOn = FailOn.ERROR
    comparison: Comparison | None = None
    predictions: tuple[Prediction, ...] = ()
    part: str | None = None
    setting_arguments: tuple[str, ...] = ()

    @cached_property
    def roots(self) -> Roots:
        """Return which findings follow from others."""
        return roots_of(self.report.findings)

    @property
    def status(self) -> ExitStatus:
        """Return the exit status: known findings do not fail, whatever the report's own result is.

        What was interrupted has no other than that.
        """
        if self.report.interrupted is not None:
            return ExitStatus.INTERRUPTED
        findings = self.report.findings if self.comparison is None else self.comparison.new
        return findings.exit_status(self.fail_on)

    def findings(self) -> Iterator[tuple[Finding, bool]]:
        """Yield the kept findings and whether the baseline knows them."""
        findings = list(self.report.findings)
        known = (False,) * len(findings) if self.comparison is None else self.comparison.known
        yield from zip(findings, known, strict=True)


ALL = "all"


def explained(text: str) -> tuple[FindingCode, ...]:
    """Return the entries that a user asks for.

    Args:
        text: A code in any case, a glob such as ``CL-*``, or ``all``.

    Raises:
        UsageError: There is no such code; the closest ones are named.
    """
    wanted = text.strip().upper()
    pattern = "*" if wanted == ALL.upper() else wanted
    found = tuple(entry for code, entry in CATALOG.items() if fnmatchcase(code, pattern))
    if found:
        return found
    close = get_close_matches(wanted, CATALOG, n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(close)}?" if close else "--explain all lists them"
    raise UsageError(f"no finding code is called {text!r}; {hint}")
