"""What a verification is asked, and what it says."""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, ClassVar, Literal

from rmqtool.engine import EngineOptions
from rmqtool.errors import ExitStatus
from rmqtool.findings import FailOn, FindingLog

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from rmqtool.store import Store

MAX_LEVEL = 3

Result = Literal["clean", "derived-damage", "log-damage", "incomplete"]
_RESULTS: dict[ExitStatus, Result] = {
    ExitStatus.INTERRUPTED: "incomplete",
    ExitStatus.CLEAN: "clean",
    ExitStatus.NEGATIVE: "derived-damage",
    ExitStatus.LOG_DAMAGED: "log-damage",
}


@dataclass(frozen=True)
class VerifyRequest:
    """What to verify, and how.

    Attributes:
        store: the evidence, or a part of it.
        level: 0 layout, 1 each file on its own, 2 derived files against the log, 3 completeness.
        engine: where the stages run.
        max_findings: findings of one code that are kept in full; the rest is counted.
        live: go on although a broker holds the store's lock; then the moving end is no damage.
    """

    store: Store
    level: int = MAX_LEVEL
    engine: EngineOptions = field(default_factory=lambda: EngineOptions("local"))
    max_findings: int = 100
    live: bool = False


@dataclass(frozen=True, slots=True)
class Examined:
    """How much was looked at; sums of parts add up.

    Attributes:
        commitlog_files: files of the commit log.
        records: records of the log whose framing holds.
        bytes: bytes of the log that were read.
        consume_queues: queues, batch queues included.
        units: units of those, pre-blank ones included.
        index_files: files of the index.
        items: entries in them.
    """

    commitlog_files: int = 0
    records: int = 0
    bytes: int = 0
    consume_queues: int = 0
    units: int = 0
    index_files: int = 0
    items: int = 0

    def __add__(self, other: Examined) -> Examined:
        sums = {one.name: getattr(self, one.name) + getattr(other, one.name) for one in fields(Examined)}
        return Examined(**sums)


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """The verdict on a store.

    Attributes:
        store: path of the evidence.
        level: how deep it was examined.
        findings: what was found.
        examined: how much was looked at.
        seconds: wall time of each stage.
        interrupted: the stage amid which the run was interrupted: what follows it was not looked at, and the
            report is no verdict; None for a run that came to its end.
    """

    schema: ClassVar = "rmqtool.verify/1"
    store: str
    level: int
    findings: FindingLog
    examined: Examined
    seconds: Mapping[str, float] = field(default_factory=dict)
    interrupted: str | None = None

    @property
    def result(self) -> Result:
        """Return the verdict: errors alone decide, whatever ``--fail-on`` says."""
        return _RESULTS[self.exit_status()]

    def exit_status(self, fail_on: FailOn | str = FailOn.ERROR) -> ExitStatus:
        """Return 5 for a damaged log, 1 for damaged derived files, else 0; 130 if it was interrupted."""
        if self.interrupted is not None:
            return ExitStatus.INTERRUPTED
        return self.findings.exit_status(FailOn(fail_on))


class VerifyRun:
    """A verification under way: what becomes a report, which can be gone on with.

    Args:
        report: what is known so far.
    """

    def __init__(self, report: VerifyReport) -> None:
        self._report = report
        self._seconds = dict(report.seconds)
        self._examined = report.examined
        self.findings = report.findings
        self.interrupted = report.interrupted

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Measure a stage, and note when it is interrupted."""
        start = time.perf_counter()
        try:
            yield
        except KeyboardInterrupt:
            self.interrupted = name
            raise
        finally:
            self._seconds[name] = round(time.perf_counter() - start, 3)

    def add(self, findings: FindingLog, examined: Examined) -> None:
        """Add what a check found, and how much it looked at."""
        self.findings.merge(findings)
        self._examined += examined

    def report(self) -> VerifyReport:
        """Return what is known by now."""
        return replace(
            self._report, examined=self._examined, seconds=self._seconds, interrupted=self.interrupted
        )


class VerifyInterruptedError(KeyboardInterrupt):
    """Ctrl-C ended a verification; ``report`` has what was found so far."""

    def __init__(self, report: VerifyReport) -> None:
        super().__init__()
        self.report = report


class CheckInterruptedError(KeyboardInterrupt):
    """Ctrl-C ended one of its checks; what that found in what it examined is sure."""

    def __init__(self, findings: FindingLog, examined: Examined) -> None:
        super().__init__()
        self.findings = findings
        self.examined = examined
