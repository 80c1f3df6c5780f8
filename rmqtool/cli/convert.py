"""``rmqtool convert``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from rmqtool.cli.options import A_STORE, StorePath, jobs_option, out_option, request_options
from rmqtool.cli.session import Session, command
from rmqtool.commands.convert import ConvertRequest
from rmqtool.report.outcome_text import convert_text
from rmqtool.store.kinds import CONVERT_REPORT

if TYPE_CHECKING:
    from pathlib import Path

    from rmqtool.errors import ExitStatus

_EXAMPLES = """\
# a plain store of a DLedger store, and whether it is in order
rmqtool convert $STORE --to plain --out plain && rmqtool verify plain
"""


@command("convert", "text json", _EXAMPLES)
@click.argument("store_path", type=A_STORE, metavar="STORE")
@out_option("Result directory; must be new or empty.", takes_url=False, required=True)
@request_options(ConvertRequest)
@jobs_option
def convert_command(session: Session, store_path: StorePath, out: Path) -> ExitStatus:
    """Write a plain store of one with a DLedger log.

    The result in --out is a whole store that a broker without DLedger starts on: log, queues, index,
    checkpoint and config/. Queue offsets are as before, so consumers go on where they stopped; physical
    offsets, and so message IDs, are others. The store is only read. The result appears complete or not at
    all, with the report convert.json; of a damaged log nothing is made, and the exit status is 5.
    """
    session.makes(out, CONVERT_REPORT)
    store = session.open(store_path)
    session.note_settings(store)
    with session.output(store, whole=True) as stream:
        report = store.convert(
            out, jobs=session.common.jobs, progress=session.console, **session.given(ConvertRequest)
        )
        status = report.exit_status(session.fail_on)
        session.show(report, status, stream, convert_text, session.remark(report.hint))
    return status
