"""``rmqtool salvage``."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import click

from rmqtool.cli.options import (
    A_PATH,
    A_RESULT_FILE,
    A_STORE,
    StorePath,
    jobs_option,
    out_option,
    request_options,
)
from rmqtool.cli.session import Session, command
from rmqtool.commands.salvage import SalvageReport, SalvageRequest
from rmqtool.errors import EnvironmentFailureError, ExitStatus, UsageError
from rmqtool.io import location_of
from rmqtool.outcomes import CommandLines
from rmqtool.report.outcome_text import salvage_text
from rmqtool.report.output import Format, check_output_files, open_output
from rmqtool.salvage import Choices
from rmqtool.store.kinds import SALVAGE_REPORT, PathKind

if TYPE_CHECKING:
    from pathlib import Path

    from rmqtool.api.store import Store
    from rmqtool.outcomes import Outcome
    from rmqtool.salvage import SalvagePlan

_FIRST = "--out --plan --apply --topic --until-timestamp --replay --format"
_EXAMPLES = """\
# a new store from a damaged one
rmqtool salvage $STORE --out salvaged
# a new store whose holes are filled from a replica
rmqtool salvage $STORE $OTHER --out salvaged
# also write its messages, to be sent again
rmqtool salvage $STORE --out salvaged --replay replay.ndjson
# write a plan, read it, then carry it out
rmqtool salvage $STORE --plan plan.json
rmqtool salvage $STORE --apply plan.json --out salvaged
# the log as it was at a point in time
rmqtool salvage $STORE --out before --until-timestamp 2026-11-21T03:28:46Z
"""


@command("salvage", "text json", _EXAMPLES, first=_FIRST)
@click.argument("store_paths", type=A_STORE, metavar="STORE…", nargs=-1, required=True)
@out_option("Result directory, or its URL; must be new or empty.")
@click.option(
    "--plan", "plan_path", type=A_RESULT_FILE, metavar="FILE", help="Write the plan as JSON, and stop."
)
@click.option(
    "--apply",
    "applied",
    type=A_PATH,
    metavar="FILE",
    help="Carry out that plan; refused if a file of the log has changed since.",
)
@request_options(SalvageRequest)
@click.option(
    "--replay",
    type=A_RESULT_FILE,
    metavar="FILE",
    help="Also write the recovered messages, to be sent again: see rmqtool help replay.",
)
@jobs_option
def salvage_command(
    session: Session,
    store_paths: tuple[StorePath, ...],
    out: StorePath | None,
    plan_path: Path | None,
    applied: Path | None,
    replay: Path | None,
) -> ExitStatus:
    """Write a new store of what is left of a damaged one.

    The result in --out is a whole store that a broker starts on: log, queues, index, checkpoint, and the
    settings in config/. Every intact record keeps its bytes and its physical offset. Several STOREs are
    copies of one log: holes of the first are filled from the others. The stores are only read. DIR/salvage
    lists lost messages and the digests of all files; DIR/lost+found holds the bytes that were left out. The
    exit status is 5 if the log was damaged.
    """
    if (out is None) == (plan_path is None):
        raise UsageError("give --out DIR for the result, or --plan FILE for what would be done")
    if applied is not None and plan_path is not None:
        raise UsageError("--apply carries out a plan, --plan writes one: pass one of them")
    session.makes(out, SALVAGE_REPORT)
    stores = [session.open(path) for path in store_paths]
    session.note_settings(stores[0])
    if replay is not None:
        if out is None:
            raise UsageError("--replay is of the messages in --out; give that")
        roots = [root for store in stores for root in store.files.evidence_roots]
        made = location_of(out).local_path()
        check_output_files([session.common.output], roots if made is None else [*roots, made], new=[replay])
    if out is None:
        report = _plan(stores, session, plan_path)
    else:
        plan = None if applied is None else _plan_in(applied)
        words = {"jobs": session.common.jobs, "progress": session.console} | session.given(SalvageRequest)
        report = stores[0].salvage(out, stores[1:], plan=plan, **words)
        if replay is not None:
            _write_replay(replay, out, session)
    status = report.exit_status(session.fail_on)
    with session.output(*stores, whole=True) as stream:
        session.show(report, status, stream, salvage_text, session.remark(report.hint))
    return status


def _plan(stores: list[Store], session: Session, path: Path | None) -> SalvageReport:
    from rmqtool.salvage.sidecars import plan_text

    roots = [root for store in stores for root in store.files.evidence_roots]
    check_output_files([session.common.output], roots, new=[path])
    outcomes = _outcomes(stores, session)
    words = {"jobs": session.common.jobs, "progress": session.console} | session.given(SalvageRequest)
    plan = stores[0].plan_salvage(stores[1:], **words)
    with open_output(path, roots) as stream:
        stream.write(plan_text(plan))
    return SalvageReport.of(plan, outcomes=outcomes)


def _outcomes(stores: list[Store], session: Session) -> tuple[Outcome, ...]:
    """Return the outcomes that verify foretells, of one store and a salvage without choices."""
    request = session.request(SalvageRequest, stores=(), engine=None)
    if len(stores) > 1 or request.live or request.choices != Choices() or stores[0].kind != PathKind.STORE:
        return ()
    report = stores[0].verify(jobs=session.common.jobs, progress=session.console)
    commands = CommandLines(report.store, session.common.setting_words, report.directories)
    return tuple(
        outcome
        if outcome.refused
        else replace(outcome, command=commands.line(outcome.action, outcome.setting))
        for outcome in report.outcomes
    )


def _plan_in(path: Path) -> SalvagePlan:
    from rmqtool.salvage.sidecars import read_plan

    try:
        return read_plan(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError) as failure:
        raise EnvironmentFailureError(f"{path}: cannot be read: {failure}") from failure


def _write_replay(path: Path, out: StorePath, session: Session) -> None:
    """Write the messages of a new store, but for those that only stand for lost ones."""
    from rmqtool.report.sinks import open_sink

    with open_output(path, ()) as stream, session.open(out) as made:
        sink = open_sink(Format.REPLAY, stream, schema="", warn=session.console.warn)
        for row in made.dump(types="commitlog", row_types=("message", "inner-message"), unpack_batches=True):
            sink.add(row)
        sink.finish(ExitStatus.CLEAN)
