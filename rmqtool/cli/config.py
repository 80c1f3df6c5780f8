"""``rmqtool config``."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import click

from rmqtool.cli.options import A_PATH, A_STORE, StorePath
from rmqtool.cli.session import Session, command
from rmqtool.commands.config import ConfigRemark, remarks_on
from rmqtool.errors import ExitStatus, UsageError
from rmqtool.findings import Structure, status_of
from rmqtool.releases import NEWEST, release_named
from rmqtool.report.config_text import config_text
from rmqtool.report.output import write_records
from rmqtool.store.broker_conf import read_properties_file

if TYPE_CHECKING:
    from pathlib import Path

_EXAMPLES = """\
# what a broker makes of its file
rmqtool config $STORE/broker.conf --release 5.3.3
# and whether the store was made with it
rmqtool config $STORE/broker.conf --release 5.3.3 --store $STORE
# what another release does with the same file
rmqtool config $STORE/broker.conf --release 4.9.8 --release 5.5.1
"""


@command("config", "text json ndjson csv", _EXAMPLES)
@click.argument("file", type=A_PATH, metavar="FILE")
@click.option(
    "--release",
    "releases",
    multiple=True,
    metavar="R",
    help="The broker's release; twice: from the first to the second. Default: the newest, or the store's.",
)
@click.option("--store", "store_path", type=A_STORE, metavar="STORE", help="The store that it is for.")
def config_command(
    session: Session, file: Path, releases: tuple[str, ...], store_path: StorePath | None
) -> ExitStatus:
    """Show what a broker makes of its properties file.

    Names that no broker of the release reads, values that it ignores, rounds or replaces, dangerous settings,
    paths that lead nowhere, and with --store what differs from what the store was made with. A broker says
    nothing of all that: a value that it cannot read leaves the default. Exit status 1 if a value does not
    count, or a setting does harm.
    """
    if len(releases) > 2:
        raise UsageError("--release: give one, or two: from the first to the second")
    store = None if store_path is None else session.open(store_path)
    inferred = NEWEST.name if store is None else store.files.settings.release.name
    chosen = [release_named(name) for name in releases or (session.common.broker_version or inferred,)]
    try:
        data = read_properties_file(file)
    except UsageError as failure:
        raise UsageError(f"{file}: {failure}") from failure
    count, remarks = remarks_on(data, chosen, None if store is None else store.files)
    status = status_of(((remark.severity, Structure.STORE) for remark in remarks), session.fail_on)
    facts = {
        "file": str(file),
        "release": chosen[-1].name,
        "from": chosen[0].name if len(chosen) > 1 else None,
        "store": None if store is None else store.location,
        "settings": count,
    }
    with session.output(*(() if store is None else (store,)), whole=True) as stream:
        data_of = partial(write_records, remarks, "rmqtool.config/1", ConfigRemark, lambda: (status, facts))
        session.write(stream, partial(config_text, facts, remarks), data_of)
    return status
