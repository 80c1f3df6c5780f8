"""``rmqtool verify``."""

from __future__ import annotations

import re
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rmqtool.cli.case_record import case_option
from rmqtool.cli.completers import complete_code, complete_target
from rmqtool.cli.engine_options import engine_of, engine_options
from rmqtool.cli.help import Command
from rmqtool.cli.lost_file import check_lost, lost_lines, lost_option
from rmqtool.cli.options import A_PATH, A_STORE, max_findings_option, shared_options, type_option
from rmqtool.cli.session import Session
from rmqtool.cli.verify_files import MANIFEST_ACTIONS, REPORT_KINDS, VerifyFiles, metavar
from rmqtool.errors import DeniedError, EnvironmentFailureError, ExitStatus, UsageError
from rmqtool.projection import json_object
from rmqtool.releases import RELEASES
from rmqtool.report.formats import Format, to_json
from rmqtool.store import PathKind
from rmqtool.store.listing import label_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import TextIO

    from rmqtool.api.store import Store
    from rmqtool.check.model import VerifyRun
    from rmqtool.cli.options import StorePath
    from rmqtool.commands.verify.verdict import Verdict
    from rmqtool.recovery.model import Prediction

_PREDICT = "--predict-recovery"
_INFERRED = "inferred"
_ALL = "all"
_VERSION_LIKE = re.compile(r"v?\d+\.[\w.-]+")

_EXAMPLES = """\
# is this store sound
rmqtool verify $STORE
# what would the next start of a broker do with it
rmqtool verify $STORE --predict-recovery
# and which messages would be lost, one a line
rmqtool verify $STORE --predict-recovery --lost lost.ndjson
# checksums and framing only
rmqtool verify $STORE/commitlog --level 1
# for CI: a report file, and an exit status
rmqtool verify $STORE -q --fail-on warning --report junit:verify.xml
# what a finding means
rmqtool verify --explain CL-HOLE
# seal a copy, and later check that nobody changed it
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
                words[place] = f"{_PREDICT}={_INFERRED}"
        return super().parse_args(ctx, words)


def _names_releases(word: str) -> bool:
    """Tell whether a word is meant as a value of ``--predict-recovery``, right or wrong."""
    if word in {*RELEASES, _ALL, _INFERRED}:
        return True
    return _VERSION_LIKE.fullmatch(word) is not None and not Path(word).exists()


@click.command("verify", cls=_VerifyCommand, examples=_EXAMPLES)
@click.argument("paths", nargs=-1, type=A_STORE, metavar="PATH...")
@type_option()
@click.option(
    "--level",
    type=click.IntRange(0, 3),
    default=3,
    show_default=True,
    help="0 layout, 1 each file on its own, 2 queues and index against the log, 3 completeness.",
)
@max_findings_option("listed", 100)
@click.option(
    "--baseline", type=A_PATH, metavar="FILE", help="Known findings: json or ndjson of an earlier run."
)
@click.option(
    _PREDICT,
    "predict",
    type=click.Choice([*RELEASES, _ALL, _INFERRED]),
    help="Also tell what the next start of a broker of that release would do; default: the store's own.",
)
@click.option(
    "--report",
    "reports",
    multiple=True,
    metavar=metavar(REPORT_KINDS),
    shell_complete=complete_target(REPORT_KINDS),
    help="Also write a report; repeatable.",
)
@click.option(
    "--manifest",
    metavar=metavar(MANIFEST_ACTIONS),
    shell_complete=complete_target(MANIFEST_ACTIONS),
    help="Write or check SHA-256 of all files, as sha256sum -c does.",
)
@click.option(
    "--explain",
    "explain_code",
    metavar="CODE",
    shell_complete=complete_code,
    help="What a finding means; needs no PATH.",
)
@lost_option(f"every message that {_PREDICT} finds to be lost")
@click.option("--live", is_flag=True, help="Read a store whose lock a broker holds.")
@engine_options("local")
@case_option
@shared_options("text", "json", "ndjson", "csv")
def verify_command(
    paths: tuple[StorePath, ...],
    type_name: str | None,
    **options: Any,  # noqa: ANN401 - what click makes of the other options
) -> ExitStatus:
    """Check a store, or a part of it, and say what is wrong.

    PATH is a store root, one of its directories, or one file. The log is the truth: consume queues and
    index are compared with it, a part of a store with the log beside it. Nothing is ever repaired or
    written into the store.
    """
    session = Session(options)
    if options["explain_code"] is not None:
        return _explain(session, options["explain_code"])
    if not paths:
        raise UsageError("give a PATH to verify, or --explain CODE")
    if len(paths) > 1 and (options["baseline"] or options["manifest"]):
        raise UsageError("--baseline and --manifest are those of one store; give one PATH")
    engine_of(options)  # contradictions are told before a store is looked at
    _check_lost(paths, options)
    stores = [session.open_root(path, type_name, reads_queues=True) for path in paths]
    if options["predict"] is not None and any(store.kind != PathKind.STORE for store in stores):
        raise UsageError(f"{_PREDICT} is about whole stores; give a store root")
    files = VerifyFiles(session, stores, options)
    session.begin_case(*stores)
    verdicts = _verdicts(session, stores, files, options)
    session.console.close()
    status = max(verdict.status for verdict in verdicts)
    session.tell_case(partial(_document, verdicts))
    if status is ExitStatus.INTERRUPTED:
        session.console.error(
            "interrupted; the report is of what was looked at before" + files.say_not_written()
        )
    else:
        files.write_reports(verdicts)
    try:
        with session.output(*stores, whole=True) as stream:
            _write(session, verdicts, stream)
    except BrokenPipeError:  # whoever reads has enough; the verdict stands
        from rmqtool.report.output import silence_standard_output

        silence_standard_output()
    return status


def _verdicts(
    session: Session, stores: Sequence[Store], files: VerifyFiles, options: dict[str, Any]
) -> list[Verdict]:
    """Verify one store after the other; after an interrupt, none is looked at."""
    from rmqtool.check.model import Examined, VerifyReport
    from rmqtool.commands.verify.verdict import Verdict
    from rmqtool.findings import FindingLog

    verdicts: list[Verdict] = []
    for store in stores:
        base = store.files.base
        part = None if store.kind == PathKind.STORE else label_of(store.files.place.path, base)
        if verdicts and verdicts[-1].report.interrupted is not None:
            empty = VerifyReport(str(base), options["level"], FindingLog(), Examined(), {}, "start")
            verdicts.append(Verdict(empty, session.fail_on, part=part))
        else:
            verdicts.append(_verify(session, store, files, options, part))
    return verdicts


def _verify(
    session: Session, store: Store, files: VerifyFiles, options: dict[str, Any], part: str | None
) -> Verdict:
    from rmqtool.check.model import VerifyInterruptedError, VerifyRun
    from rmqtool.commands.verify.verdict import Verdict

    session.note_settings(store)
    predictions: tuple[Prediction, ...] = ()
    try:
        report = store.verify(
            level=options["level"],
            engine=engine_of(options),
            max_findings=options["max_findings"] + files.known_findings,
            live=options["live"],
            progress=session.console,
        )
    except VerifyInterruptedError as stop:
        report = stop.report
    else:
        run = VerifyRun(report)
        with suppress(KeyboardInterrupt):  # the report says so
            files.manifest(store, run, options["jobs"])
            predictions = _predict(store, run, options)
        report = run.report()
    return Verdict(report, session.fail_on, files.compare(report), predictions, part, session.given_words)


def _check_lost(paths: Sequence[StorePath], options: dict[str, Any]) -> None:
    if options["lost"] is None:
        return
    if options["predict"] in {None, _ALL} or len(paths) > 1:
        raise UsageError(
            f"--lost is what one start does to one store: give {_PREDICT}, one release, one PATH"
        )
    check_lost(options)


def _predict(store: Store, run: VerifyRun, options: dict[str, Any]) -> tuple[Prediction, ...]:
    wanted = options["predict"]
    if wanted is None:
        return ()
    from rmqtool.findings.places import IO_DENIED
    from rmqtool.recovery import NotPredictedError
    from rmqtool.recovery.outcome import skipped, start_findings
    from rmqtool.store.unreadable import denied_finding

    releases = RELEASES if wanted == _ALL else [None if wanted == _INFERRED else wanted]
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


def _write(session: Session, verdicts: list[Verdict], stream: TextIO) -> None:
    from rmqtool.report import verify_json

    if session.format is Format.JSON:
        verify_json.write_verify_json(verdicts, stream)
    elif session.format is Format.NDJSON:
        verify_json.write_verify_ndjson(verdicts, stream)
    elif session.format is Format.CSV:
        verify_json.write_verify_csv(verdicts, stream)
    else:
        from rmqtool.report.verify_text import write_verify_text

        write_verify_text(verdicts, stream, color=session.color, notes=session.is_verbose)


def _document(verdicts: Sequence[Verdict]) -> dict[str, Any]:
    from rmqtool.report.verify_json import whole_document

    return whole_document(verdicts)


def _explain(session: Session, text: str) -> ExitStatus:
    from rmqtool.commands.verify.explain import explained
    from rmqtool.report import verify_json

    entries = explained(text)
    with session.output(whole=True) as stream:
        if session.format is Format.TEXT:
            from rmqtool.report.verify_text import write_explanations

            write_explanations(entries, stream, color=session.color)
        elif session.format is Format.CSV:
            verify_json.write_explanations_csv(entries, stream)
        elif session.format is Format.NDJSON:
            for entry in entries:
                stream.write(to_json(json_object(entry)) + "\n")
        else:
            stream.write(to_json(verify_json.explain_document(entries), indent=2) + "\n")
    return ExitStatus.CLEAN


COMMANDS = {"verify": verify_command}
