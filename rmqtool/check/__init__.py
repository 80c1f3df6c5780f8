"""Checks of `verify`, each of a part of a store; here are its request and report.

``run`` checks the layout, ``stages`` the other levels: ``log`` (every record, and the log as a whole),
``queues`` and ``index`` (compared with what the log requires), ``side_files`` (checkpoint, consumers'
offsets, ``config/``). ``derived`` makes the tasks of the checks of derived files, ``expected`` hands out
the units and index entries that the log requires.
"""

from __future__ import annotations

import time
import traceback
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar

from rmqtool import options
from rmqtool.engine import Engine, EngineOptions
from rmqtool.errors import DeniedError, EnvironmentFailureError, ExitStatus, RmqtoolError
from rmqtool.findings import FailOn, Finding, FindingCode, FindingLog, Findings, Severity, Structure, codes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from rmqtool.account import LogLosses
    from rmqtool.check.picture import LogPicture
    from rmqtool.outcomes import Outcome
    from rmqtool.store import Store
    from rmqtool.store.segments import StoreFile


MAX_LEVEL = 3

Result = Literal[
    "clean",
    "derived-damage",
    "log-damage",
    "unreadable",
    "start-refused",
    "start-loses",
    "start-forgets",
    "start-wrong",
    "incomplete",
]
_RESULTS: dict[ExitStatus, Result] = {
    ExitStatus.CLEAN: "clean",
    ExitStatus.NEGATIVE: "derived-damage",
    ExitStatus.FAILED: "unreadable",
    ExitStatus.LOG_DAMAGED: "log-damage",
}

_STARTS: dict[FindingCode, Result] = {
    codes.NS_REFUSED: "start-refused",
    codes.NS_LOSES: "start-loses",
    codes.NS_FORGETS: "start-forgets",
    codes.NS_WRONG: "start-wrong",
}
PREDICTED = frozenset({Structure.START, Structure.CATCH_UP})


@dataclass(frozen=True)
class VerifyRequest:
    """A request to verify a store, or a part of it.

    If a broker holds the lock, the moving end is no damage with ``live``; ``pictured`` adds a picture of the
    log.
    """

    store: Store
    level: int = options.number(
        "0 layout, 1 each file on its own, 2 queues and index against the log, 3 completeness.",
        MAX_LEVEL,
        most=MAX_LEVEL,
    )
    max_findings: int = options.max_findings(100, "listed")
    live: bool = options.live()
    engine: EngineOptions | Engine = field(default_factory=lambda: EngineOptions("local"))
    pictured: bool = False


@dataclass(frozen=True, slots=True)
class Examined:
    """Amount that was examined; sums of parts add up.

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
        sums = {
            field.name: getattr(self, field.name) + getattr(other, field.name) for field in fields(Examined)
        }
        return Examined(**sums)


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """The verdict on a store.

    Attributes:
        store: path of the evidence.
        level: how deep it was examined.
        findings: the findings.
        examined: how much was examined.
        seconds: wall time of each stage.
        interrupted: the stage in which the run was interrupted: nothing after it was examined, and the report
            is no verdict; None for a run that came to its end.
        limits: the parts that were left out, each the end of a sentence; empty for all of a store at level 3.
        picture: of the log, if it was requested and the log exists.
        log_losses: messages that the log has lost, where something points to that; else None.
        outcomes: of each action, where something is wrong; empty where none was computed.
        release: of the broker whose outcomes they are.
        retention: the deletions of a broker that works on it for a day; None where there are none.
        directories: paths that a copy of it must have, where something is wrong, and links or settings put
            parts of it outside of its own, which comes first; else empty.
    """

    schema: ClassVar = "rmqtool.verify/2"
    store: str
    level: int
    findings: Findings
    examined: Examined
    seconds: Mapping[str, float] = field(default_factory=dict)
    interrupted: str | None = None
    limits: tuple[str, ...] = ()
    picture: LogPicture | None = None
    log_losses: LogLosses | None = None
    outcomes: tuple[Outcome, ...] = ()
    release: str | None = None
    retention: str | None = None
    directories: tuple[str, ...] = ()

    @property
    def result(self) -> Result:
        """Return the verdict: errors alone decide, whatever ``--fail-on`` says; damage before predictions."""
        if self.interrupted is not None:
            return "incomplete"
        status = self.damage_status
        if status < self.findings.exit_status():
            counts = self.findings.counts
            return next(result for code, result in _STARTS.items() if code.code in counts)
        return _RESULTS[status]

    @property
    def damage_status(self) -> ExitStatus:
        """Return the exit status of the present damage, whatever the next start makes of it."""
        return self.findings.exit_status(without=PREDICTED)

    def exit_status(self, fail_on: FailOn | str = FailOn.ERROR) -> ExitStatus:
        """Return 130 if it was interrupted, else the status of its findings (`rmqtool.findings`)."""
        if self.interrupted is not None:
            return ExitStatus.INTERRUPTED
        return self.findings.exit_status(FailOn(fail_on))


class VerifyRun:
    """A verification under way, whose report grows; it can continue that of another."""

    def __init__(self, report: VerifyReport) -> None:
        self.findings, self._seconds = FindingLog.of(report.findings), dict(report.seconds)
        self.report = replace(report, findings=self.findings, seconds=self._seconds)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Measure a stage, and keep its name if it is interrupted."""
        start = time.perf_counter()
        try:
            yield
        except KeyboardInterrupt:
            self.note(interrupted=name)
            raise
        finally:
            self._seconds[name] = round(time.perf_counter() - start, 3)

    def add(self, findings: FindingLog, examined: Examined) -> None:
        """Add the findings of a check, and how much it examined."""
        self.findings.merge(findings)
        self.note(examined=self.report.examined + examined)

    def note(self, **fields: Any) -> None:  # noqa: ANN401 - those of a `VerifyReport`
        """Change fields of the report."""
        self.report = replace(self.report, **fields)


class VerifyInterruptedError(KeyboardInterrupt):
    """Ctrl-C ended a verification; ``report`` has the findings so far."""

    def __init__(self, report: VerifyReport) -> None:
        super().__init__()
        self.report = report


class CheckInterruptedError(KeyboardInterrupt):
    """Ctrl-C ended one of its checks; its findings are certain for what it examined."""

    def __init__(self, findings: FindingLog, examined: Examined) -> None:
        super().__init__()
        self.findings = findings
        self.examined = examined


T = TypeVar("T")
R = TypeVar("R")

_LAST_FRAMES = 3


def run_guarded(
    function: Callable[[T], R], evidence: Callable[[T], Sequence[StoreFile]], structure: Structure, task: T
) -> R | Finding:
    """Run a check; return a finding instead of its result if the evidence or the check itself fails.

    ``evidence`` returns the files of the store that a task reads. Failures of our own scratch files or of the
    engine are raised.
    """
    try:
        return function(task)
    except EnvironmentFailureError as failure:
        finding = _evidence_failure(evidence(task), structure)
        if finding is None:
            raise failure from None
        return finding
    except RmqtoolError:
        raise
    except Exception as failure:
        return _internal(evidence(task), structure, failure)


def _evidence_failure(files: Sequence[StoreFile], structure: Structure) -> Finding | None:
    for file in files:
        try:
            file.read_at(0, 1, [])
        except DeniedError as failure:
            return Finding(code=codes.IO_DENIED, file=file.label, message=failure.reason)
        except EnvironmentFailureError as failure:
            return Finding(
                code=codes.IO_CHANGED,
                file=file.label,
                message=str(failure),
                severity_override=Severity.ERROR,  # its content is unknown
                structure_override=structure,
            )
    return None


def denied(file: StoreFile) -> Finding | None:
    """Return that this user may not read a file; its check reports any other trouble."""
    finding = _evidence_failure((file,), Structure.STORE)
    return finding if finding is not None and finding.code is codes.IO_DENIED else None


def _internal(files: Sequence[StoreFile], structure: Structure, failure: Exception) -> Finding:
    frames = traceback.extract_tb(failure.__traceback__)[-_LAST_FRAMES:]
    places = " < ".join(f"{frame.name}:{frame.lineno}" for frame in reversed(frames))
    return Finding(
        code=codes.RM_INTERNAL,
        file=files[0].label if files else None,
        message=f"{type(failure).__name__}: {failure} ({places})",
        structure_override=structure,
    )
