"""``rmqtool repair``: the one command that changes a store."""

from __future__ import annotations

import shlex
import sys
from typing import TYPE_CHECKING, TextIO

import click

from rmqtool.cli.options import A_PATH, pairs_of, request_options
from rmqtool.cli.session import Session, command
from rmqtool.commands.repair import RepairReport, RepairRequest
from rmqtool.errors import ExitStatus, RefusedError
from rmqtool.io import FileKind, location_of
from rmqtool.report.outcome_text import repair_text
from rmqtool.report.output import Format

if TYPE_CHECKING:
    from pathlib import Path

    from rmqtool.api.store import Store


_EXAMPLES = """\
# what would change, and what does each choice for damaged settings mean
rmqtool repair $STORE --plan
# repair; --undo brings back every byte
rmqtool repair $STORE --yes
# consumer offsets were cut and have no .bak: keep the whole entries
rmqtool repair $STORE --only config --config consumerOffset.json=prefix --yes
# after a switch: take what the old master's groups had consumed
rmqtool repair $STORE --settings-from $OTHER --only config --plan
# undo the newest repair
rmqtool repair $STORE --undo
"""


@command("repair", "text json", _EXAMPLES, engine="local", handover=False)
@click.argument("store_path", type=A_PATH, metavar="STORE")
@click.option("--plan", is_flag=True, help="Show what would change, change nothing.")
@click.option("--undo", is_flag=True, help="Undo the newest repair, finished or interrupted.")
@click.option("-y", "--yes", is_flag=True, help="Repair without asking.")
@request_options(RepairRequest)
@click.option(
    "--config",
    "choices",
    multiple=True,
    metavar="FILE=CHOICE",
    help="Choice for a damaged file in config/, by its name in --plan; repeatable.",
)
@click.option(
    "--settings-from",
    type=A_PATH,
    metavar="OTHER",
    help="Merge the offsets, topics and groups of another store, or of a client's offsets.json, into these.",
)
def repair_command(
    session: Session,
    store_path: Path,
    plan: bool,
    undo: bool,
    yes: bool,
    choices: tuple[str, ...],
    settings_from: Path | None,
) -> ExitStatus:
    """Repair a store in place where that loses nothing, with undo.

    Rebuilds queues and index from the log and exchanges them, unless consumers would see less than now; then
    come checkpoint, abort, files in commitlog/ that are no part of the log, and damaged settings in config/.
    The log is never changed. Replaced files stay in the store, in rmqtool-repair-NNNN/, and --undo brings
    back every byte. Stop the broker first: repair holds its lock. After an interrupt, the next repair
    finishes what was begun and asks first, or --undo undoes it.
    """
    session.leaves(lambda: "the next repair finishes what was begun, or --undo undoes it")
    chosen = pairs_of("--config", choices, "FILE=CHOICE, such as consumerOffset.json=merged")
    engine = session.engine
    store = session.open(store_path)
    session.note_settings(store)
    other: Store | Path | None = settings_from
    if settings_from is not None and location_of(settings_from).kind() is not FileKind.FILE:
        other = session.open(settings_from)
        session.note_broker(other)
    with session.output(store, whole=True) as stream:

        def agreed(planned: RepairReport) -> bool:
            return yes or _agreed(session, planned, stream)

        report = store.repair(
            plan=plan,
            undo=undo,
            config={name.removeprefix("config/"): choice for name, choice in chosen.items()},
            settings_from=other,
            agreed=agreed,
            command=shlex.join(sys.argv),
            engine=engine,
            progress=session.console,
            **session.given(RepairRequest),
        )
        status = report.exit_status(session.fail_on)
        session.show(report, status, stream, repair_text)
    return status


def _agreed(session: Session, planned: RepairReport, stream: TextIO) -> bool:
    """Show the plan and prompt."""
    session.console.close()
    if not sys.stdin.isatty():
        waiting = planned.journal
        what = "" if waiting is None else f"{waiting} was interrupted and waits to be finished; "
        more = "" if waiting is None else ", or take it back with --undo"
        raise RefusedError(
            f"{planned.store}: {what}nothing was changed: no terminal to confirm on. Check --plan, "
            f"then add --yes{more}."
        )
    text = session.text(sys.stderr if session.format is Format.JSON else stream)
    repair_text(planned, text)
    text.finish()
    return click.confirm("Do this?", default=False, err=True)
