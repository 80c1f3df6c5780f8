"""``rmqtool report``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from rmqtool.cli.help import Command
from rmqtool.cli.metadump import metadump_option, write_metadump
from rmqtool.cli.options import A_PATH, shared_options
from rmqtool.cli.session import Session
from rmqtool.errors import ExitStatus, UsageError

if TYPE_CHECKING:
    from pathlib import Path

_EXAMPLES = """\
# a skeleton of the store for a bug report, without what was sent
rmqtool report $STORE --metadump skeleton
"""


@click.command("report", cls=Command, examples=_EXAMPLES)
@click.argument("store_path", type=A_PATH, metavar="STORE")
@metadump_option
@shared_options("text")
def report_command(
    store_path: Path,
    metadump: Path | None,
    **options: Any,  # noqa: ANN401 - what click makes of the shared options
) -> ExitStatus:
    """Make of a store what can be handed on.

    With --metadump, a directory of the same structure and damage, file by file and byte by byte, in which
    nothing is left of what was sent, by whom and to whom.
    """
    if metadump is None:
        raise UsageError("give --metadump DIR")
    session = Session(options)
    store = session.open(store_path)
    session.note_broker(store)
    write_metadump(session, store, metadump)
    return ExitStatus.CLEAN


COMMANDS = {"report": report_command}
