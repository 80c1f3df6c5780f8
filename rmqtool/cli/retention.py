"""``rmqtool retention``."""

from __future__ import annotations

from functools import partial

import click

from rmqtool.cli.options import A_STORE, A_TIME, StorePath
from rmqtool.cli.session import Session, command
from rmqtool.errors import ExitStatus
from rmqtool.report.retention_text import retention_text, write_retention

_EXAMPLES = """\
# what a broker deletes, and when
rmqtool retention $STORE
# what is left after four o'clock of a day
rmqtool retention $STORE --at 2030-01-31T04:00
# and on a disk that is 91 % full
rmqtool retention $STORE --disk-ratio 91
# with the broker's own settings, in its zone
rmqtool retention $STORE -p deleteWhen='04;16' --timezone Asia/Shanghai
"""


@command("retention", "text json ndjson csv", _EXAMPLES)
@click.argument("store_path", type=A_STORE, metavar="STORE")
@click.option(
    "--at",
    type=A_TIME,
    metavar="TIME",
    help="Time of the runs; default: the next at which a file goes.",
)
@click.option(
    "--disk-ratio",
    type=click.FloatRange(0, 100),
    metavar="N",
    help="Fullness of the disk in percent; default: below every limit.",
)
def retention_command(
    session: Session, store_path: StorePath, at: int | None, disk_ratio: float | None
) -> ExitStatus:
    """Show the files that a broker deletes, and when.

    A broker goes by the time of a file's last change, not by its messages: a copy with the times of its
    original is as old as that, so that an old backup loses all but its last file at the first deleteWhen
    after its start. A file is shown as deleted if the runs at TIME delete it. --timezone is
    that of the broker's process. TIME: see rmqtool help query.
    """
    store = session.open(store_path, reads_queues=True)
    session.note_broker(store)
    report = store.retention(at=at, disk_ratio=disk_ratio)
    with session.output(store, whole=True) as stream:
        session.write(stream, partial(retention_text, report, session.zone), partial(write_retention, report))
    return ExitStatus.CLEAN
