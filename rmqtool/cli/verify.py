"""``rmqtool verify``: of one store, or of many in workers, with the files beside the data.

All files are checked before the work begins, which may take hours.
"""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rmqtool.check import VerifyRequest
from rmqtool.cli.group import Command
from rmqtool.cli.options import (
    A_PATH,
    A_STORE,
    StorePath,
    Target,
    TargetType,
    completed_by,
    is_fleet,
    lost_option,
    request_options,
    type_option,
)
from rmqtool.cli.session import Session, command
from rmqtool.errors import ExitStatus, UsageError
from rmqtool.findings import counted
from rmqtool.projection import json_object
from rmqtool.releases import RELEASES
from rmqtool.report.output import check_output_files, write_whole
from rmqtool.report.verdict import (
    FINDING_COLUMNS,
    finding_objects,
    lines_of_store,
    verdict_line,
    verify_document,
    verify_text,
    write_verdict,
)
from rmqtool.store import PathKind

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rmqtool.api.store import Store
    from rmqtool.commands.explain import ExplainedLine
    from rmqtool.commands.fleet import FleetReport
    from rmqtool.commands.verify import Verdict
    from rmqtool.engine import Engine, EngineOptions
    from rmqtool.findings import FindingCode
    from rmqtool.progress import Progress
    from rmqtool.releases import Release
    from rmqtool.report.fleet import Forms

_PREDICT = "--predict-recovery"
INFERRED, _ALL = "inferred", "all"
_VERSION_LIKE = re.compile(r"v?\d+\.[\w.-]+")

_REPORTS = TargetType("junit", "sarif")
_MANIFEST = TargetType("write", "check")
_FIRST = "--level --live --baseline --predict-recovery --report --lost --explain --format --output"
_EXAMPLES = """\
# is this store sound
rmqtool verify $STORE
# what would the next start of a broker do
rmqtool verify $STORE --predict-recovery
# and which messages would it lose, one a line
rmqtool verify $STORE --predict-recovery --lost lost.ndjson
# checksums and framing only
rmqtool verify $STORE/commitlog --level 1
# all stores of a backup: a line for each, the worst first
rmqtool verify $STORE $OTHER
# for CI: a report file, and an exit status
rmqtool verify $STORE -q --fail-on warning --report junit:verify.xml
# what a finding means
rmqtool verify --explain CL-HOLE
# write digests of a copy, and later check that nobody changed it
rmqtool verify $STORE --manifest write:store.sha256
rmqtool verify $STORE --manifest check:store.sha256
"""


class _VerifyCommand(Command):
    """A command in which the value of one option may be left out in front of a PATH."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Give ``--predict-recovery`` its value where the next word is none of its values."""
        words = list(args)
        options = words[: words.index("--")] if "--" in words else words
        for place, word in enumerate(options):
            following = words[place + 1] if words[place + 1 :] else ""
            if word == _PREDICT and not _names_releases(following):
                words[place] = f"{_PREDICT}={INFERRED}"
        return super().parse_args(ctx, words)


def _names_releases(word: str) -> bool:
    """Return whether a word is meant as a value of ``--predict-recovery``, right or wrong."""
    if word in {*RELEASES, _ALL, INFERRED}:
        return True
    return _VERSION_LIKE.fullmatch(word) is not None and not Path(word).exists()


@command("verify", "text json ndjson csv", _EXAMPLES, engine="local", kind=_VerifyCommand, first=_FIRST)
@click.argument("paths", nargs=-1, type=A_STORE, metavar="PATH...")
@type_option()
@request_options(VerifyRequest)
@click.option(
    "--baseline", type=A_PATH, metavar="FILE", help="Known findings: json or ndjson of an earlier run."
)
@click.option(
    _PREDICT,
    "predict",
    type=click.Choice([*RELEASES, _ALL, INFERRED]),
    help="Predict the next start of a broker of that release; default: the version that wrote the store.",
)
@click.option(
    "--report",
    "reports",
    multiple=True,
    type=_REPORTS,
    metavar="|".join(_REPORTS.forms),
    help="Also write a report to FILE; repeatable.",
)
@click.option(
    "--manifest",
    type=_MANIFEST,
    metavar="|".join(_MANIFEST.forms),
    help="Write or check SHA-256 of all files, as sha256sum -c does.",
)
@click.option(
    "--explain",
    "explain_code",
    metavar="CODE",
    shell_complete=completed_by("code"),
    help="Print what a finding means; needs no PATH.",
)
@lost_option(f"every message that {_PREDICT} finds lost")
def verify_command(
    session: Session,
    paths: tuple[StorePath, ...],
    type_name: str | None,
    explain_code: str | None,
    predict: str | None,
    lost: Path | None,
    reports: tuple[Target, ...],
    baseline: Path | None,
    manifest: Target | None,
) -> ExitStatus:
    """Check a store, or a part of it, and report damage.

    PATH is a store root, one of its directories, or one file. Consume queues and index are compared with the
    log; a part of a store is compared with the log beside it. The store is only read. Several PATHs, or a
    glob in quotes, are one run: a line for each, and one exit status.
    """
    if explain_code is not None:
        from rmqtool.commands.explain import named

        return explain(session, *named(explain_code))
    if not paths:
        raise UsageError("give a PATH to verify, or --explain CODE")
    engine = session.engine  # contradictions are refused before a store is opened
    if lost is not None and (predict in {None, _ALL} or is_fleet(paths)):
        raise UsageError(
            f"--lost is what one start does to one store: give {_PREDICT}, one release, one PATH"
        )
    if is_fleet(paths):
        if baseline or manifest:
            raise UsageError("--baseline and --manifest are those of one store; give one PATH")
        from rmqtool.cli.fleet import Fleet

        fleet = Fleet(session, paths, _forms(), kind=type_name, reads_queues=True)
        files = VerifyFiles(session, fleet.stores, reports)
        question = partial(_verdict_and_status, session, predict)
        return fleet.ask(question, engine, then=partial(_write_reports, files))
    store = session.open(paths[0], type_name, reads_queues=True)
    _refuse_prediction(store, predict)
    files = VerifyFiles(session, [store], reports, baseline, manifest, lost)
    session.note_settings(store)
    verdict = verdict_on(session, store, engine, session.console, predict, files)
    session.console.close()
    files.end([verdict], verdict.status)
    with session.output(store, whole=True) as stream:
        text = partial(verify_text, verdict, notes=session.common.verbose)
        session.write(stream, text, partial(write_verdict, verdict))
    return verdict.status


def explain(
    session: Session,
    codes: Sequence[FindingCode],
    lines: Sequence[ExplainedLine],
    store: Store | None = None,
    verdict: Verdict | None = None,
) -> ExitStatus:
    """Write what codes and lines mean, and what a store has of the lines; return the store's status."""
    from rmqtool.report.explain_text import explanations_text, write_explanations

    with session.output(*(() if store is None else (store,)), whole=True) as stream:
        text = partial(explanations_text, codes, lines, verdict)
        session.write(stream, text, partial(write_explanations, codes, lines, verdict))
    return ExitStatus.CLEAN if verdict is None else verdict.status


def verdict_on(
    session: Session,
    store: Store,
    engine: Engine | EngineOptions,
    progress: Progress,
    predict: str | None,
    files: VerifyFiles | None = None,
) -> Verdict:
    """Verify a store with the options of the command line."""
    from rmqtool.commands.verify.run import Verification, verified

    wanted = Verification(
        session.request(VerifyRequest, store=store.files, engine=engine),
        session.fail_on,
        () if predict is None else _releases(predict),
        setting_arguments=session.common.setting_words,
    )
    if files is not None:
        lost = session.lost_lines(store, files.lost)
        wanted = wanted._replace(lost=lost, manifest=files.manifest, baseline=files.baseline)
    return verified(wanted, progress)


def _releases(predict: str) -> tuple[Release | None, ...]:
    """Return releases by a value of ``--predict-recovery``; None is the one that wrote the store."""
    if predict == INFERRED:
        return (None,)
    return tuple(RELEASES.values()) if predict == _ALL else (RELEASES[predict],)


def _verdict_and_status(
    session: Session, predict: str | None, store: Store, engine: Engine | EngineOptions, progress: Progress
) -> tuple[Verdict, ExitStatus]:
    _refuse_prediction(store, predict)
    verdict = verdict_on(session, store, engine, progress, predict)
    return verdict, verdict.status


def _refuse_prediction(store: Store, predict: str | None) -> None:
    """Refuse to predict what a start would do to a part of a store."""
    if predict is not None and store.kind != PathKind.STORE:
        raise UsageError(f"{_PREDICT} is about whole stores; give a store root")


class VerifyFiles:
    """Files that the run writes and compares with.

    Raises:
        RefusedError: A file to write exists, or lies in a store.
        EnvironmentFailureError: A file cannot be read, or has no directory to be written into.
        UsageError: A file to read is something else, or two outputs are one file.
    """

    def __init__(
        self,
        session: Session,
        stores: Sequence[Store],
        reports: Sequence[Target] = (),
        baseline: Path | None = None,
        manifest: Target | None = None,
        lost: Path | None = None,
    ) -> None:
        self._session, self._reports, self.lost = session, reports, lost
        self.baseline = self.manifest = None
        new = [session.lost_file(lost)]
        is_new = manifest is not None and manifest.purpose == "write"
        if manifest is not None and is_new:
            new.append(manifest.path)
        outputs = [session.common.output, *(target.path for target in reports)]
        check_output_files(outputs, [root for store in stores for root in store.files.evidence_roots], new)
        if baseline is not None:
            from rmqtool.commands.verify import load_baseline

            self.baseline = load_baseline(baseline)
        if manifest is not None:
            from rmqtool.commands.verify.manifest import Manifest, load_manifest

            lines = None if is_new else load_manifest(manifest.path)
            self.manifest = Manifest(manifest.path, is_new, lines, session.common.jobs)

    def end(
        self, verdicts: Sequence[Verdict], status: ExitStatus, failures: Mapping[str, str] | None = None
    ) -> None:
        """Write the manifest, and the reports, each whole, or say that an interrupted run has none.

        JUnit has no way to say that something is missing: half a run would look like a sound store.
        """
        manifest = self.manifest
        if manifest is not None and manifest.is_new and manifest.lines is not None:
            write_whole(manifest.path, b"".join(line.to_bytes() for line in manifest.lines))
            files = counted(len(manifest.lines), "file")
            self._session.console.note(
                f"{manifest.path}: SHA-256 of {files}; check with verify --manifest check:FILE"
            )
        if status is ExitStatus.INTERRUPTED:
            names = [str(report.path) for report in self._reports]
            missing = f", and not written to {', '.join(names)}" if names else ""
            self._session.console.error(f"interrupted; the report covers the part examined before{missing}")
        elif self._reports:
            from rmqtool.report.ci_reports import junit, sarif

            for report in self._reports:
                write_whole(report.path, (junit if report.purpose == "junit" else sarif)(verdicts, failures))


def _write_reports(files: VerifyFiles, report: FleetReport[Verdict]) -> None:
    verdicts = [outcome.report for outcome in report if outcome.report is not None]
    failures = {outcome.store: outcome.failure or "" for outcome in report if outcome.report is None}
    files.end(verdicts, report.exit_status, failures)


def _forms() -> Forms[Verdict]:
    from rmqtool.report.fleet import Forms

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
