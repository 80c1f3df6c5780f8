"""``rmqtool case``: checks the records of ``--case``, and the files that they name."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from rmqtool.cli.options import A_PATH, jobs_option
from rmqtool.cli.session import Session, command
from rmqtool.report.outcome_text import case_text

if TYPE_CHECKING:
    from pathlib import Path

    from rmqtool.errors import ExitStatus

_EXAMPLES = """\
# record a run, and check the records
rmqtool verify $STORE --case mycase; rmqtool case verify mycase
# check also that no file has changed
rmqtool verify $STORE --case mycase; rmqtool case verify mycase --files
"""


@command("case", "text json", _EXAMPLES)
@click.argument("action", type=click.Choice(["verify"]))
@click.argument("directory", type=A_PATH, metavar="DIR")
@click.option(
    "--files", is_flag=True, help="Also read the files that the records name, and compare their digests."
)
@click.option(
    "--head",
    "heads",
    multiple=True,
    metavar="SHA256",
    help="A digest noted elsewhere; it must be that of a record; repeatable.",
)
@jobs_option
def case_command(
    session: Session, directory: Path, files: bool, heads: tuple[str, ...], jobs: int | None
) -> ExitStatus:
    """Check the records of runs that --case wrote.

    Each record has a digest of itself and the digest of the record before. The exit status is 5 if a record
    was changed or deleted, or if no record has a digest of --head; 1 if --files finds a file that is missing
    or differs from its last record; else 0. The chain cannot show that its last records were deleted: note
    the last digest elsewhere, and pass it with --head.
    """
    from rmqtool.commands.case.check import check_case

    with session.output(whole=True, evidence=[directory]) as stream:
        found = check_case(directory, session.console, files=files, heads=heads, jobs=jobs)
        status = found.exit_status(session.fail_on)
        session.show(found, status, stream, case_text)
    return status
