"""Verdict of ``verify``: failures, findings of a baseline, predictions of a start; and manifests."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, NamedTuple

from rmqtool.errors import EnvironmentFailureError, ExitStatus, UsageError
from rmqtool.findings import (
    CATALOG,
    FailOn,
    Finding,
    FindingLog,
    Findings,
    Severity,
    Structure,
    codes,
)
from rmqtool.projection import json_object

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from rmqtool.check import VerifyReport
    from rmqtool.recovery import Prediction


Identity = tuple[str | int | None, ...]

_IDENTITY = ("code", "file", "position", "topic", "queueId", "queueOffset", "physicalOffset")
_RANKS = {Severity.INFO: 0, Severity.WARNING: 1, Severity.ERROR: 2}


def identity(finding: Mapping[str, Any]) -> Identity:
    """Return what a FINDING object is recognised by: its code and its place."""
    return tuple(finding.get(name) for name in _IDENTITY)


class Comparison(NamedTuple):
    """A run's findings, compared with a baseline.

    Attributes:
        known: for each kept finding, in the order of the log, whether the baseline has it.
        known_count: findings that the baseline has, listed or by number.
        new: findings that it lacks, with counts.
        by_number: findings of a code that are known by number only.
        gone: findings that the baseline lists and the run did not meet; None if it did not look everywhere.
    """

    known: tuple[bool, ...]
    known_count: int
    new: FindingLog
    by_number: dict[str, int]
    gone: int | None


@dataclass
class Baseline:
    """Findings of an earlier run: how often each identity is listed, and how many of a code it met."""

    listed: Counter[Identity] = field(default_factory=Counter)
    counts: Counter[str] = field(default_factory=Counter)

    @property
    def largest(self) -> int:
        """Return the largest number of findings listed for one code."""
        sums = Counter[str]()
        for key, count in self.listed.items():
            sums[str(key[0])] += count
        return max(sums.values(), default=0)

    def compare(self, findings: Findings, *, complete: bool = True) -> Comparison:
        """Return the known and new findings of a run; an incomplete run cannot miss any."""
        left = Counter(self.listed)
        known = tuple(_take(left, finding) for finding in findings)
        fresh: dict[str, list[Finding]] = {code: [] for code in findings.counts}
        for finding, is_known in zip(findings, known, strict=True):
            if not is_known:
                fresh[finding.code.code].append(finding)
        new, by_number = FindingLog(findings.max_per_code), {}
        for code, unlisted in fresh.items():
            suppressed = findings.suppressed(code)
            number = len(unlisted) + suppressed
            if number and number <= (
                self.counts[code] - sum(count for key, count in self.listed.items() if key[0] == code)
            ):
                by_number[code] = number
            elif number:
                new.extend(unlisted)
                new.add(_stand_in(findings, code, suppressed), count=suppressed)
        return Comparison(known, len(findings) - len(new), new, by_number, left.total() if complete else None)


def _take(left: Counter[Identity], finding: Finding) -> bool:
    key = identity(json_object(finding))
    if left[key] < 1:
        return False
    left[key] -= 1
    return True


def _stand_in(findings: Findings, code: str, count: int) -> Finding:
    """Return a finding for those that are only counted; it weighs as much as the worst that is kept."""
    kept = [finding for finding in findings if finding.code.code == code]
    worst = max(kept, key=lambda finding: _RANKS[finding.severity], default=Finding(code=CATALOG[code]))
    return Finding(
        code=worst.code,
        message=f"{count} more that are counted, not listed",
        severity_override=worst.severity,
        structure_override=worst.structure,
    )


class _NoBaselineError(Exception):
    """The text is something else; the message ends a sentence."""


def load_baseline(path: Path) -> Baseline:
    """Read a baseline."""
    reason = "it is not what verify writes with --format json or ndjson"
    try:
        return _baseline(path.read_text(encoding="utf-8"))
    except OSError as failure:
        raise EnvironmentFailureError(f"{path}: cannot be read: {failure.strerror}") from failure
    except _NoBaselineError as failure:
        reason = str(failure)
    except (AttributeError, RecursionError, TypeError, ValueError):  # other members, or no JSON
        pass
    raise UsageError(
        f"{path}: no baseline: {reason}; make one with verify --format ndjson -o FILE --fail-on never"
    )


def _baseline(text: str) -> Baseline:
    """Return the findings that a run's output lists and counts; without a summary, what is listed is all."""
    baseline = Baseline()
    is_summarised = False
    for value in _objects(text):
        if value.get("type") == "finding":
            baseline.listed[identity(value)] += 1
        elif "counts" in value:
            baseline.counts.update({code: int(count) for code, count in value["counts"].items()})
            is_summarised = True
        elif value.get("type") != "prediction":
            raise _NoBaselineError("an object in it is neither a finding nor a summary")
    listed = Counter(key[0] for key in baseline.listed.elements())
    for code in (*listed, *baseline.counts):
        if code not in CATALOG:
            raise _NoBaselineError(f"there is no finding code {code!r}")
    if not is_summarised:
        baseline.counts = Counter({str(code): count for code, count in listed.items()})
    return baseline


def _objects(text: str) -> Iterator[dict[str, Any]]:
    """Yield findings and summaries of a json document, or of ndjson lines."""
    try:
        values = [json.loads(text)] if text.strip() else []
    except json.JSONDecodeError:
        values = [json.loads(line) for line in text.split("\n") if line.strip()]
    for value in values:
        if "stores" in value:
            raise _NoBaselineError("it covers several stores; keep one baseline for each")
        yield from value.get("findings", ())
        yield value


_POINTING = {codes.CQ_DANGLING, codes.CQ_STALE_TAIL, codes.IX_DANGLING, codes.NS_LOSES}
_OF_FILES = {codes.CQ_GAP_FILE, codes.CQ_FILE_NAME, codes.CQ_STRAY}
_OF_UNITS = {codes.CQ_MISSING_MSG, codes.CQ_MISPLACED, codes.CQ_DANGLING}
_OF_PROPERTIES = {codes.CQ_SIZE_TAG, codes.IX_WRONG}
_Queue = tuple[str, int]


@dataclass
class Roots:
    """Findings that follow from others.

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
    """Return which findings follow from others; merely counted ones follow as all kept ones of a code do."""
    losses = sorted(
        (finding for finding in findings if _is_loss(finding)),
        key=lambda finding: (finding.physical_offset or 0, finding.length or 0),
    )
    queues: dict[_Queue, Finding] = {}
    for one in findings:
        if one.code in _OF_FILES and (key := _queue_of(one)) is not None:
            queues.setdefault(key, one)
    roots = Roots([_root(finding, losses, queues) for finding in findings])
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
    if place is not None and finding.code.explains != "all":
        for loss in losses:
            takes = finding.code in _POINTING or loss.code.explains == "all"
            start = loss.physical_offset or 0
            if takes and start <= place < start + (loss.length or 0):
                return loss
    if place is not None and finding.code in _OF_PROPERTIES:
        # unit and items still have the old properties
        changed = (loss for loss in losses if loss.code is codes.CL_PROPERTIES)
        return next((loss for loss in changed if loss.physical_offset == place), None)
    if place is not None and finding.code is codes.CL_QOFF_GAP:
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
        report: the findings.
        fail_on: which findings fail.
        comparison: the findings compared with ``--baseline``, if one was given.
        predictions: the next start of brokers on the store, if requested.
        part: the examined part of the store, relative to it; None for all of it.
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

        An interrupted run has the status of interrupts.
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
