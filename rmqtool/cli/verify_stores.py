"""``rmqtool verify`` of many stores: a verdict on each, and one report."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from rmqtool.cli.fleet import Fleet
from rmqtool.cli.options import StorePath, engine_of
from rmqtool.cli.verify_run import VerifyFiles, VerifyQuestion
from rmqtool.errors import ExitStatus, UsageError
from rmqtool.projection import json_object
from rmqtool.report.fleet import Forms
from rmqtool.report.verify_json import FINDING_COLUMNS, finding_objects, lines_of_store, verify_document

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rmqtool.cli.session import Session
    from rmqtool.commands.fleet import FleetReport
    from rmqtool.commands.verify.verdict import Verdict
    from rmqtool.report.text_report import TextReport


def verify_stores(
    session: Session, paths: Sequence[StorePath], kind: str | None, options: dict[str, Any]
) -> ExitStatus:
    """Verify all that paths and globs name, and return the worst status.

    Raises:
        UsageError: An option is that of one store.
        RefusedError: A file to write exists, or lies in a store.
        EnvironmentFailureError: A file has no directory to be written into, or the engine does not come up.
    """
    if options["baseline"] or options["manifest"]:
        raise UsageError("--baseline and --manifest are those of one store; give one PATH")
    fleet = Fleet(session, paths, _forms(session), kind=kind, reads_queues=True)
    files = VerifyFiles(session, fleet.stores, options)
    question = VerifyQuestion(options, session.fail_on, session.setting_arguments)
    write = partial(_write_reports, files)
    return fleet.ask(question, engine_of(options), travels=True, then=write)


def _write_reports(files: VerifyFiles, report: FleetReport[Verdict]) -> None:
    verdicts = [one.report for one in report if one.report is not None]
    failures = {one.store: one.failure or "" for one in report if one.report is None}
    files.end(verdicts, report.exit_status, failures)


def _forms(session: Session) -> Forms[Verdict]:
    def verdict_line(verdict: Verdict) -> str:
        from rmqtool.report.verify_headline import verdict_line as line

        return line(verdict)

    def text(verdict: Verdict, report: TextReport) -> None:
        from rmqtool.report.verify_text import verify_text

        verify_text(verdict, report, notes=True)

    return Forms(
        "verify",
        verdict_line,
        lambda verdict, _status: verify_document(verdict),
        text,
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
