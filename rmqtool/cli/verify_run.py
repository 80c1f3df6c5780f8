"""Verification of one store, here or in a worker of a run over many, and its files beside the data.

All files are checked before the work begins, which may take hours.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rmqtool.cli.options import StorePath, check_lost, engine_of, given_options, lost_lines
from rmqtool.errors import DeniedError, EnvironmentFailureError, ExitStatus, UsageError
from rmqtool.findings import counted
from rmqtool.io import local_name
from rmqtool.projection import json_object
from rmqtool.releases import RELEASES
from rmqtool.report.output import check_output_files, write_whole
from rmqtool.report.verify_json import FINDING_COLUMNS, finding_objects, lines_of_store, verify_document
from rmqtool.store import PathKind
from rmqtool.store.segments import label_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rmqtool.api.store import Store
    from rmqtool.check.model import VerifyReport, VerifyRun
    from rmqtool.cli.session import Session
    from rmqtool.commands.fleet import FleetReport
    from rmqtool.commands.verify import Comparison, Verdict
    from rmqtool.engine import Engine, EngineOptions
    from rmqtool.findings import FailOn
    from rmqtool.progress import Progress
    from rmqtool.recovery import Prediction
    from rmqtool.report.fleet import Forms

PREDICT = "--predict-recovery"
INFERRED = "inferred"
ALL = "all"


@dataclass(frozen=True)
class VerifyQuestion:
    """A question to a store; picklable without ``files``.

    Attributes:
        options: Of the command.
        fail_on: Which findings fail.
        given: Arguments of the command line that give settings.
        files: What is written and compared with; None for one store of many.
    """

    options: dict[str, Any]
    fail_on: FailOn
    given: tuple[str, ...]
    files: VerifyFiles | None = None

    def __call__(
        self, store: Store, engine: Engine | EngineOptions, progress: Progress
    ) -> tuple[Verdict, ExitStatus]:
        """Verify a store, and return the verdict on it; an interrupted run has one of what it has seen.

        Raises:
            RmqtoolError: As `Store.verify`; or a prediction for a part of a store.
        """
        from rmqtool.check.model import VerifyInterruptedError, VerifyRequest, VerifyRun
        from rmqtool.commands.verify import Verdict

        refuse_prediction(store, self.options)
        options, files = self.options, self.files
        predictions: tuple[Prediction, ...] = ()
        given = given_options(VerifyRequest, options)
        given["max_findings"] += 0 if files is None else files.known_findings
        try:
            report = store.verify(engine=engine, progress=progress, **given)
        except VerifyInterruptedError as stop:
            report = stop.report
        else:
            run = VerifyRun(report)
            with suppress(KeyboardInterrupt):  # the report says so
                if files is not None:
                    files.manifest(store, run, options["jobs"])
                predictions = _predict(store, run, options)
            report = run.report()
        compared = None if files is None else files.compare(report)
        verdict = Verdict(report, self.fail_on, compared, predictions, _part(store), self.given)
        return verdict, verdict.status


def refuse_prediction(store: Store, options: dict[str, Any]) -> None:
    """Refuse to predict what a start would do to a part of a store.

    Raises:
        UsageError: It is a part.
    """
    if options["predict"] is not None and store.kind != PathKind.STORE:
        raise UsageError(f"{PREDICT} is about whole stores; give a store root")


def _part(store: Store) -> str | None:
    """Return what of a store is looked at; None for all of it."""
    files = store.files
    return None if store.kind == PathKind.STORE else label_of(files.place.path, files.base)


def _predict(store: Store, run: VerifyRun, options: dict[str, Any]) -> tuple[Prediction, ...]:
    wanted = options["predict"]
    if wanted is None:
        return ()
    from rmqtool.findings.codes import IO_DENIED
    from rmqtool.recovery.outcome import skipped, start_findings
    from rmqtool.recovery.predict import NotPredictedError
    from rmqtool.store.segments import denied_finding

    releases = RELEASES if wanted == ALL else [None if wanted == INFERRED else wanted]
    with run.stage("prediction"):
        try:
            with lost_lines(options, store) as tell_lost:
                predictions = tuple(store.predict_recovery(one, lost=tell_lost) for one in releases)
        except (NotPredictedError, EnvironmentFailureError) as failure:
            run.findings.add(skipped(str(failure)))
            if isinstance(failure, DeniedError) and IO_DENIED.code not in run.findings.counts:
                run.findings.add(denied_finding(failure, store.files.base))
            return ()
        for prediction in predictions:
            run.findings.extend(start_findings(prediction))
    return predictions


REPORT_KINDS = ("junit", "sarif")
MANIFEST_ACTIONS = ("write", "check")


class Target(NamedTuple):
    """A file and what it is for: an option's value ``PURPOSE:FILE``."""

    purpose: str
    path: Path


def metavar(purposes: Sequence[str]) -> str:
    """Return how help shows such a value."""
    return "|".join(f"{purpose}:FILE" for purpose in purposes)


def _target(option: str, text: str, purposes: Sequence[str]) -> Target:
    purpose, _, name = text.partition(":")
    if purpose not in purposes or not name:
        raise UsageError(f"{option} {text!r}: expected {metavar(purposes).replace('|', ' or ')}")
    return Target(purpose, Path(local_name(name)))


class VerifyFiles:
    """Files that the run writes and compares with.

    Raises:
        RefusedError: A file to write exists, or lies in a store.
        EnvironmentFailureError: A file cannot be read, or has no directory to be written into.
        UsageError: A file to read is something else, or two outputs are one file.
    """

    def __init__(self, session: Session, stores: Sequence[Store], options: dict[str, Any]) -> None:
        self._session = session
        self._reports = [_target("--report", text, REPORT_KINDS) for text in options["reports"]]
        manifest = options["manifest"]
        self._manifest = None if manifest is None else _target("--manifest", manifest, MANIFEST_ACTIONS)
        self._baseline = self._lines = None
        new = [check_lost(options)]
        if self._manifest is not None and self._manifest.purpose == "write":
            new.append(self._manifest.path)
        reports = [options["output"], *(target.path for target in self._reports)]
        check_output_files(reports, [root for store in stores for root in store.files.evidence_roots], new)
        if options["baseline"] is not None:
            from rmqtool.commands.verify import load_baseline

            self._baseline = load_baseline(options["baseline"])
        if self._manifest is not None and self._manifest.purpose == "check":
            from rmqtool.commands.verify.manifest import load_manifest

            self._lines = load_manifest(self._manifest.path)

    @property
    def known_findings(self) -> int:
        """Return the room that known findings of a code need beside new ones."""
        return 0 if self._baseline is None else self._baseline.largest

    def compare(self, report: VerifyReport) -> Comparison | None:
        """Tell findings apart by the baseline, and say what only their number speaks for."""
        if self._baseline is None:
            return None
        comparison = self._baseline.compare(report.findings, complete=report.interrupted is None)
        for code, count in comparison.by_number.items():
            self._session.console.warn(
                f"{counted(count, 'finding')} of {code} known by number only, as the baseline does not list"
                " them; write it again with a higher --max-findings"
            )
        return comparison

    def manifest(self, store: Store, run: VerifyRun, jobs: int | None) -> None:
        """Write the manifest, or add what differs from it to what was found."""
        if self._manifest is None:
            return
        from rmqtool.commands.verify.manifest import check_manifest, make_manifest

        console, path = self._session.console, self._manifest.path
        with run.stage("manifest"):
            if self._lines is not None:
                run.findings.extend(check_manifest(store.files, path, self._lines, jobs, console))
                return
            lines = make_manifest(store.files, jobs, console, run.findings)
            write_whole(path, b"".join(line.to_bytes() for line in lines))
        files = counted(len(lines), "file")
        console.note(f"{path}: SHA-256 of {files}; check with verify --manifest check:FILE")

    def end(
        self, verdicts: Sequence[Verdict], status: ExitStatus, failures: Mapping[str, str] | None = None
    ) -> None:
        """Write the reports, each whole, or say that an interrupted run has none.

        JUnit has no way to say that something is missing: half a run would look like a sound store.

        Args:
            verdicts: Of the stores that could be examined.
            status: Of the run.
            failures: Why others could not, by their paths.
        """
        if status is ExitStatus.INTERRUPTED:
            names = [str(path) for _, path in self._reports]
            missing = f", and not written to {', '.join(names)}" if names else ""
            self._session.console.error(f"interrupted; the report covers the part examined before{missing}")
        elif self._reports:
            from rmqtool.report.ci_reports import junit, sarif

            for kind, path in self._reports:
                write_whole(path, (junit if kind == "junit" else sarif)(verdicts, failures))


def verify_stores(
    session: Session, paths: Sequence[StorePath], kind: str | None, options: dict[str, Any]
) -> ExitStatus:
    """Verify all that paths and globs name, and return the worst status."""
    from rmqtool.cli.fleet import Fleet

    if options["baseline"] or options["manifest"]:
        raise UsageError("--baseline and --manifest are those of one store; give one PATH")
    fleet = Fleet(session, paths, _forms(), kind=kind, reads_queues=True)
    files = VerifyFiles(session, fleet.stores, options)
    question = VerifyQuestion(options, session.fail_on, session.setting_arguments)
    return fleet.ask(question, engine_of(options), travels=True, then=partial(_write_reports, files))


def _write_reports(files: VerifyFiles, report: FleetReport[Verdict]) -> None:
    verdicts = [one.report for one in report if one.report is not None]
    failures = {one.store: one.failure or "" for one in report if one.report is None}
    files.end(verdicts, report.exit_status, failures)


def _forms() -> Forms[Verdict]:
    from rmqtool.report.fleet import Forms
    from rmqtool.report.verify_text import verdict_line, verify_text

    return Forms(
        "verify",
        verdict_line,
        lambda verdict, _status: verify_document(verdict),
        partial(verify_text, notes=True),
        _totals,
        lambda verdict, _status: lines_of_store(verdict),
        _rows,
        ("part", *FINDING_COLUMNS),
    )


def _totals(verdict: Verdict) -> dict[str, int]:
    report = verdict.report
    return json_object(report.examined) | {"findings": sum(report.findings.counts.values())}


def _rows(verdict: Verdict) -> Iterator[dict[str, Any]]:
    for value in finding_objects(verdict):
        yield {"part": verdict.part} | value
