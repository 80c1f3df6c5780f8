"""``rmqtool info``."""

from __future__ import annotations

import shlex
from functools import partial
from typing import TYPE_CHECKING

import click

from rmqtool.cli.options import A_STORE, StorePath, other_command, type_option
from rmqtool.cli.session import Session, command
from rmqtool.io.local import as_owner
from rmqtool.report.info_text import info_text, write_info
from rmqtool.store import PathKind

if TYPE_CHECKING:
    from rmqtool.commands.info import StoreSummary
    from rmqtool.errors import ExitStatus


_EXAMPLES = """\
# files, ranges, settings and queues of a store
rmqtool info $STORE
# with the broker's own settings, and settings that the store does not use
rmqtool info $STORE -c $STORE/broker.conf -v
# the bounds of every queue, for a spreadsheet
rmqtool info $STORE --format csv
"""


@command("info", "text json ndjson csv", _EXAMPLES)
@click.argument("path", type=A_STORE)
@type_option()
def info_command(session: Session, path: StorePath, type_name: str | None) -> ExitStatus:
    """Sum up a store: files, ranges, settings, queues.

    PATH is a store root, one of its directories, or one file. Every setting is shown with its origin: given,
    inferred from the files, or the broker's default. -v also shows every queue, and the defaults of features
    that this store does not use. The csv lists the queues.
    """
    store = session.open(path, type_name, narrows_root=True, reads_queues=True)
    session.note_broker(store)
    with session.output(store, whole=True) as stream:
        summary = store.info()
        status = summary.findings.exit_status(session.fail_on)
        line = _next(path, summary, status)
        text = partial(info_text, summary, session.zone, line, details=session.common.verbose)
        session.write(stream, text, partial(write_info, summary, status))
    return status


def _next(path: StorePath, summary: StoreSummary, status: ExitStatus) -> str:
    """Return the next command to run; only a store has a next start to predict."""
    if summary.denied:
        words = as_owner(f"{path}/{summary.denied[0]}")
        return " ".join([*map(shlex.quote, words), other_command("info", path)])
    if summary.lock_holder:
        return other_command("verify", path, more=["--live"])
    is_doubtful = summary.kind == PathKind.STORE and (summary.abort or status)
    return other_command("verify", path, more=["--predict-recovery"] if is_doubtful else [])
