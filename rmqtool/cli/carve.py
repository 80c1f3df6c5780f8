"""``rmqtool carve``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from rmqtool.cli.options import A_PATH, jobs_option, out_option
from rmqtool.cli.session import Session, command
from rmqtool.errors import ExitStatus, UsageError
from rmqtool.report.outcome_text import carve_text
from rmqtool.store.results import CARVE_REPORT

if TYPE_CHECKING:
    from pathlib import Path


_EXAMPLES = """\
# what is in a file without a name
rmqtool carve $STORE/commitlog/00000000000000000000 --dry-run
# a store from files without names; a disk image or a device works, too
rmqtool carve $STORE/commitlog/* --out carved
# the same, with a known size of the log's files
rmqtool carve $STORE/commitlog/* --out carved -p mappedFileSizeCommitLog=8192
"""


@command("carve", "text json", _EXAMPLES)
@click.argument("images", type=A_PATH, metavar="IMAGE…", nargs=-1, required=True)
@out_option("Result directory; must be new or empty.", takes_url=False)
@click.option("--dry-run", is_flag=True, help="Look and report, write nothing.")
@click.option(
    "--one-log",
    is_flag=True,
    help="Records of all store hosts are one log, unless they contradict each other; for a broker whose"
    " address changed.",
)
@jobs_option
def carve_command(
    session: Session, images: tuple[Path, ...], out: Path | None, dry_run: bool, one_log: bool
) -> ExitStatus:
    """Recover messages from disk images and raw bytes.

    An IMAGE is any bytes with records at any position: a disk image, a block device, a blob, a memory dump, a
    tar, a truncated or shifted segment. A record begins with its magic; lengths and checksums prove it, and
    it goes to the physical offset that it names. The result in --out is complete or not at all: a store root,
    log-2/ and so on for other logs, lost+found/ for records of no log, and carve/ with the report, a map of
    each image and digests. The images are only read. The exit status is 5 if bytes are missing between the
    records, 1 if there are no records.
    """
    if dry_run == (out is not None):
        raise UsageError("give --out DIR for the result, or --dry-run")
    session.makes(out, CARVE_REPORT)
    with session.output(whole=True, evidence=images) as stream:
        # Here, because help needs none of it.
        from rmqtool.api.functions import carve_images

        report = carve_images(
            images,
            out,
            one_log=one_log,
            broker_conf=session.common.broker_conf,
            properties=session.common.properties,
            jobs=session.common.jobs,
            progress=session.console,
        )
        status = report.exit_status(session.fail_on)
        session.show(report, status, stream, carve_text, session.remark(report.hint))
    return status
