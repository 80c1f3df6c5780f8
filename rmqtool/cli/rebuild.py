"""``rmqtool rebuild`` and ``rmqtool rebuild-index``: one command, for all parts or for the index alone."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from rmqtool.cli.options import (
    A_STORE,
    StorePath,
    adding,
    is_fleet,
    lost_option,
    out_option,
    request_options,
)
from rmqtool.cli.session import Session, command, rows_state_sentence
from rmqtool.commands.rebuild import PARTS, RebuildRequest
from rmqtool.commands.rebuild.report import RebuildReport
from rmqtool.errors import ExitStatus, UsageError
from rmqtool.projection import json_value
from rmqtool.report.outcome_text import rebuild_text
from rmqtool.report.output import several
from rmqtool.scan.record_walk import LogExtent
from rmqtool.store.kinds import REBUILD_REPORT

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from rmqtool.api.store import Store
    from rmqtool.commands.fleet import FleetReport, ResumedReport
    from rmqtool.engine import Engine
    from rmqtool.progress import Progress
    from rmqtool.store.results import Target

_OF_ONE_LOG = "is a place in one log: give one STORE"
_FIRST = "--out --dry-run --compare --topic --until-timestamp --lost --engine --jobs --format"
_EXAMPLES = """\
# consume queues and index in a new directory, on all cores of this machine
rmqtool rebuild $STORE --out rebuilt --engine local
# would a rebuild change anything
rmqtool rebuild $STORE --compare --engine local
# plan and count, write nothing
rmqtool rebuild $STORE --dry-run --engine local
# which messages would consumers miss, and why
rmqtool rebuild $STORE --dry-run --lost lost.ndjson --engine local
# one topic only, for inspection
rmqtool rebuild $STORE --topic TopicTest --out part --engine local
# several brokers, a directory for each; continues after an interrupt
rmqtool rebuild $STORE $OTHER --out all --resume --engine local
"""
_INDEX_FIRST = "--out --dry-run --compare --topic --until-timestamp --engine --jobs --format"
_INDEX_EXAMPLES = """\
# a new index, beside the store
rmqtool rebuild-index $STORE --out rebuilt --engine local
# does the present index match the log
rmqtool rebuild-index $STORE --compare --engine local
"""

_OPTIONS = (
    click.argument("paths", nargs=-1, required=True, type=A_STORE, metavar="STORE..."),
    out_option("Result directory, or its URL; must be new or empty. Each of several stores gets one in it."),
    click.option("--resume", is_flag=True, help="Skip the stores whose result is in --out already."),
    request_options(RebuildRequest),
)
_rebuild_options = adding(_OPTIONS)


@command("rebuild", "text json", _EXAMPLES, engine="spark", first=_FIRST)
@_rebuild_options
@lost_option("every message missing from the result")
def rebuild_command(
    session: Session, paths: tuple[StorePath, ...], out: StorePath | None, resume: bool, lost: Path | None
) -> ExitStatus:
    """Rebuild consumequeue/ and index/ from the commit log.

    The result appears in --out complete or not at all, exactly as a broker would have left it, with the
    report rebuild.json. The store is only read. --compare and --dry-run need no --out. Several stores, or a
    glob in quotes, are one run: see rmqtool help fleets.
    """
    return _rebuild(session, paths, out, resume=resume, lost=lost)


@command("rebuild-index", "text json", _INDEX_EXAMPLES, engine="spark", first=_INDEX_FIRST)
@_rebuild_options
def rebuild_index_command(
    session: Session, paths: tuple[StorePath, ...], out: StorePath | None, resume: bool
) -> ExitStatus:
    """Rebuild index/ from the commit log.

    The result appears in --out complete or not at all, exactly as a broker would have left it, with the
    report rebuild.json. The store is only read. --compare and --dry-run need no --out. Several stores, or a
    glob in quotes, are one run: see rmqtool help fleets.
    """
    return _rebuild(session, paths, out, resume=resume, parts=frozenset({"index"}))


def _rebuild(
    session: Session,
    paths: tuple[StorePath, ...],
    out: StorePath | None,
    *,
    resume: bool,
    parts: frozenset[str] = PARTS,
    lost: Path | None = None,
) -> ExitStatus:
    from rmqtool.commands.rebuild.run import rebuild

    session.makes(out, REBUILD_REPORT, several=is_fleet(paths))
    request = session.request(RebuildRequest, store=None, out=out, engine=None, parts=parts)
    if is_fleet(paths):
        if lost is not None:
            raise UsageError("--lost is of one store: give one STORE")
        return _rebuild_all(session, paths, request, resume=resume)
    if resume:
        raise UsageError("--resume is for several stores: a single result appears as a whole, or not at all")
    engine = session.engine
    store = session.open(paths[0], reads_queues=True)
    session.note_settings(store)
    if session.lost_file(lost) is None and lost is not None:
        session.leaves(rows_state_sentence)
    with (
        session.output(store, whole=True) as stream,
        session.lost_lines(store, lost) as tell_lost,
    ):
        report = rebuild(
            replace(request, store=store.files, engine=engine, tell_lost=tell_lost), session.console
        )
        status = report.exit_status(session.fail_on)
        hint = session.remark(report.install_hint, warns=not report.is_installable)
        session.show(report, status, stream, rebuild_text, hint)
    return status


def _rebuild_all(
    session: Session, paths: tuple[StorePath, ...], request: RebuildRequest, *, resume: bool
) -> ExitStatus:
    """Rebuild all that paths and globs name, each into a directory of its own; return the worst status."""
    from rmqtool.cli.fleet import Fleet, MakingQuestion
    from rmqtool.report.fleet import forms_of_resumed

    _check_all(request, resume=resume)
    engine, out = session.engine, request.out
    name = "rebuild" if request.parts == PARTS else "rebuild-index"
    forms = forms_of_resumed(name, _verdict, "store", rebuild_text, _totals)
    fleet = Fleet(session, paths, forms, reads_queues=True)
    outs = {} if out is None else fleet.folders(out)
    make, asked = partial(_make, request), partial(_asked, request)
    question = MakingQuestion(REBUILD_REPORT, make, asked, session.fail_on, outs, resume)
    return fleet.ask(question, engine, then=partial(_say_what_next_of_all, session, out))


def _make(
    request: RebuildRequest, store: Store, out: Target | None, engine: Engine, progress: Progress
) -> RebuildReport:
    from rmqtool.commands.rebuild.run import rebuild

    return rebuild(replace(request, store=store.files, out=out, engine=engine), progress)


def _asked(request: RebuildRequest, store: Store, _out: Target) -> dict[str, Any]:
    return {
        "schema": RebuildReport.schema,
        "store": str(store.files.base),
        "mode": "broker",
        "asked": json_value(request.result_options),
        "compared": request.compare,
        "settings": json_value(store.settings),
        "log": json_value(LogExtent.of(store.files)),
    }


def _check_all(request: RebuildRequest, *, resume: bool) -> None:
    """Refuse what makes sense for one store only, before the first is opened."""
    from rmqtool.cli.fleet import refuse_contents

    if request.until_offset is not None:
        raise UsageError(f"--until-offset {_OF_ONE_LOG}")
    if request.tag_words.startswith("from:"):
        raise UsageError(f"--tag-items {request.tag_words} {_OF_ONE_LOG}")
    if request.out is None and not (request.compare or request.dry_run):
        raise UsageError("nothing to do: give --out DIR for the results, or --compare, or --dry-run")
    if request.out is not None and not resume:
        refuse_contents(request.out)


def _say_what_next_of_all(
    session: Session, out: Target | None, report: FleetReport[ResumedReport[RebuildReport]]
) -> None:
    session.report_interrupt(report)
    made = [
        outcome.report.report
        for outcome in report
        if outcome.report is not None and outcome.report.report is not None
    ]
    ready = [rebuilt for rebuilt in made if rebuilt.is_installable]
    others = sum(bool(rebuilt.install_hint) and not rebuilt.is_installable for rebuilt in made)
    if ready:
        assumed = {name: why for result in ready for name, why in result.assumed.items()}
        of_all = replace(ready[0], store="STORE", out=f"{out}/NAME", assumed=assumed)
        session.console.note(of_all.install_hint)
    if others:
        count = several(others, "result is", "results are")
        session.console.warn(
            f"{count} not to be installed; for the reason, run rmqtool rebuild on that store alone"
        )


def _verdict(document: Mapping[str, Any]) -> str:
    return str(document["verdict"])


def _totals(document: Mapping[str, Any]) -> dict[str, int]:
    return {name: document[name] for name in ("records", "bytes", "queues", "units", "indexEntries")}
