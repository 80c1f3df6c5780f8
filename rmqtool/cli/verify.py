"""``rmqtool verify``."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import click

from rmqtool.check.model import VerifyRequest
from rmqtool.cli.case_record import case_option
from rmqtool.cli.completion import complete_code, complete_target
from rmqtool.cli.group import Command
from rmqtool.cli.options import (
    A_PATH,
    A_STORE,
    StorePath,
    check_lost,
    engine_of,
    engine_options,
    is_fleet,
    lost_option,
    request_options,
    shared_options,
    type_option,
)
from rmqtool.cli.session import Session
from rmqtool.cli.verify_run import (
    ALL,
    INFERRED,
    MANIFEST_ACTIONS,
    PREDICT,
    REPORT_KINDS,
    VerifyFiles,
    VerifyQuestion,
    metavar,
    refuse_prediction,
    verify_stores,
)
from rmqtool.errors import ExitStatus, UsageError
from rmqtool.releases import RELEASES
from rmqtool.report.formats import Format
from rmqtool.report.verify_json import verify_document, write_explanations, write_verdict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rmqtool.commands.verify import Verdict

_VERSION_LIKE = re.compile(r"v?\d+\.[\w.-]+")

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
            if word == PREDICT and not _names_releases(following):
                words[place] = f"{PREDICT}={INFERRED}"
        return super().parse_args(ctx, words)


def _names_releases(word: str) -> bool:
    """Return whether a word is meant as a value of ``--predict-recovery``, right or wrong."""
    if word in {*RELEASES, ALL, INFERRED}:
        return True
    return _VERSION_LIKE.fullmatch(word) is not None and not Path(word).exists()


@click.command("verify", cls=_VerifyCommand, examples=_EXAMPLES)
@click.argument("paths", nargs=-1, type=A_STORE, metavar="PATH...")
@type_option()
@request_options(VerifyRequest)
@click.option(
    "--baseline", type=A_PATH, metavar="FILE", help="Known findings: json or ndjson of an earlier run."
)
@click.option(
    PREDICT,
    "predict",
    type=click.Choice([*RELEASES, ALL, INFERRED]),
    help="Predict the next start of a broker of that release; default: the version that wrote the store.",
)
@click.option(
    "--report",
    "reports",
    multiple=True,
    metavar=metavar(REPORT_KINDS),
    shell_complete=complete_target(REPORT_KINDS),
    help="Also write a report to FILE; repeatable.",
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
    help="Print what a finding means; needs no PATH.",
)
@lost_option(f"every message that {PREDICT} finds lost")
@engine_options("local")
@case_option
@shared_options("text", "json", "ndjson", "csv")
def verify_command(
    paths: tuple[StorePath, ...],
    type_name: str | None,
    **options: Any,  # noqa: ANN401 - what click makes of the other options
) -> ExitStatus:
    """Check a store, or a part of it, and report damage.

    PATH is a store root, one of its directories, or one file. Consume queues and index are compared with the
    log; a part of a store is compared with the log beside it. The store is only read. Several PATHs, or a
    glob in quotes, are one run: a line for each, and one exit status.
    """
    session = Session(options)
    session.reports_tails = True
    if options["explain_code"] is not None:
        return _explain(session, options["explain_code"])
    if not paths:
        raise UsageError("give a PATH to verify, or --explain CODE")
    engine_of(options)  # contradictions are refused before a store is looked at
    _check_lost(paths, options)
    if is_fleet(paths):
        return verify_stores(session, paths, type_name, options)
    store = session.open_root(paths[0], type_name, reads_queues=True)
    refuse_prediction(store, options)
    files = VerifyFiles(session, [store], options)
    session.begin_case(store)
    session.note_settings(store)
    question = VerifyQuestion(options, session.fail_on, session.setting_arguments, files)
    verdict, status = question(store, engine_of(options), session.console)
    session.console.close()
    session.report_to_case(partial(verify_document, verdict))
    files.end([verdict], status)
    try:
        with session.output(store, whole=True) as stream:
            _write(session, verdict, stream)
    except BrokenPipeError:  # the reader has enough; the verdict stands
        from rmqtool.report.output import silence_standard_output

        silence_standard_output()
    return status


def _check_lost(paths: Sequence[StorePath], options: dict[str, Any]) -> None:
    if options["lost"] is None:
        return
    if options["predict"] in {None, ALL} or is_fleet(paths):
        raise UsageError(f"--lost is what one start does to one store: give {PREDICT}, one release, one PATH")
    check_lost(options)


def _write(session: Session, verdict: Verdict, stream: TextIO) -> None:
    if session.format is Format.TEXT:
        from rmqtool.report.verify_text import verify_text

        verify_text(verdict, session.text(stream), notes=session.is_verbose)
    else:
        write_verdict(verdict, session.format, stream)


def _explain(session: Session, text: str) -> ExitStatus:
    from rmqtool.commands.verify import explained

    entries = explained(text)
    with session.output(whole=True) as stream:
        if session.format is Format.TEXT:
            from rmqtool.report.verify_text import explanations_text

            explanations_text(entries, session.text(stream))
        else:
            write_explanations(entries, session.format, stream)
    return ExitStatus.CLEAN


COMMANDS = {"verify": verify_command}
