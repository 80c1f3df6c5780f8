"""``rmqtool diff``."""

from __future__ import annotations

from functools import partial

import click

from rmqtool.cli.options import A_STORE, StorePath, other_command, request_options, type_option
from rmqtool.cli.session import Session, command
from rmqtool.commands.diff import Difference, StoreComparison
from rmqtool.errors import ExitStatus
from rmqtool.findings import FailOn
from rmqtool.report.diff_text import diff_facts, diff_text
from rmqtool.report.output import write_records
from rmqtool.store.layouts import Deed

_EXAMPLES = """\
# a store and a copy of it
rmqtool diff $STORE $OTHER
# a master and its slave, which may lag and keep other files
rmqtool diff $STORE $OTHER --replica
# only the logs
rmqtool diff $STORE/commitlog $OTHER/commitlog
"""


@command("diff", "text json ndjson csv", _EXAMPLES)
@click.argument("a", type=A_STORE)
@click.argument("b", type=A_STORE)
@type_option()
@click.option(
    "--replica",
    is_flag=True,
    help="Allow different bounds of the logs and different checkpoints, as between running replicas.",
)
@request_options(StoreComparison)
def diff_command(
    session: Session, a: StorePath, b: StorePath, type_name: str | None, replica: bool
) -> ExitStatus:
    """Compare two stores, or the same part of two stores.

    A and B are store roots, results of rebuild, or the same directory or file of two stores. Records are
    compared by physical offset, units by queue offset, index entries as one stream in log order, ext units
    through the units that name them. Sizes and names of files are ignored, and so are bytes that no broker
    reads. Entries whose records one log does not hold, or no longer holds, are counted apart. Any difference
    makes the exit status 1, a log or queues in a form that is not read 3, a damaged log 5.
    """
    one, other = session.open(a, type_name), session.open(b, type_name)
    for store in (one, other):
        session.note_broker(store)
    rows = one.diff(other, **session.given(StoreComparison))
    comparison = rows.comparison

    def status() -> ExitStatus:
        return _status(comparison, session.fail_on, replica=replica)

    def remark() -> bool:
        for sentence in comparison.notes:
            session.console.note(sentence)
        heals = all(store.files.can(Deed.SALVAGE) for store in (one, other))
        helped = [healing.side for healing in comparison.healing if heals and healing.helps]
        for side in helped:
            first, second = (a, b) if side == "a" else (b, a)
            line = other_command("salvage", first, second, more=["--out", "DIR"])
            session.console.note(f"next: {second} can heal {first}: {line}")
        if comparison.is_damaged and not helped:
            for path in (a, b):
                session.console.note(f"next: {other_command('verify', path)}")
        return comparison.is_damaged or bool(helped)

    with session.output(one, other) as stream:
        paths = {"a": one.location, "b": other.location}
        data = partial(
            write_records,
            rows,
            "rmqtool.diff/2",
            Difference,
            lambda: (status(), paths | diff_facts(comparison)),
        )
        session.write(stream, partial(diff_text, rows, comparison, session.zone), data, remark)
    return status()


def _status(comparison: StoreComparison, fail_on: FailOn, *, replica: bool) -> ExitStatus:
    if comparison.is_damaged and fail_on is not FailOn.NEVER:
        return ExitStatus.LOG_DAMAGED
    if comparison.is_unread:
        return ExitStatus.FAILED
    if fail_on is FailOn.NEVER:
        return ExitStatus.CLEAN
    return ExitStatus.NEGATIVE if comparison.differs(replica=replica) else ExitStatus.CLEAN
