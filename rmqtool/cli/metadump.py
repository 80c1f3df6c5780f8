"""``--metadump`` of ``rmqtool report``: a skeleton of the store that can be handed on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from rmqtool.cli.next_command import other_command
from rmqtool.cli.options import A_PATH
from rmqtool.findings.wording import counted

if TYPE_CHECKING:
    from pathlib import Path

    from rmqtool.api.store import Store
    from rmqtool.cli.session import Session

metadump_option = click.option(
    "--metadump",
    type=A_PATH,
    metavar="DIR",
    help="Make DIR, a skeleton of the store for a bug report: bodies are zeros, names, keys and addresses"
    " other ones; every finding is still found.",
)


def write_metadump(session: Session, store: Store, out: Path) -> None:
    """Make a skeleton, and say how to hand it on.

    Raises:
        UsageError: It is a part of a store only.
        RefusedError: ``out`` exists, or lies in the store.
        EnvironmentFailureError: Something cannot be read or written.
    """
    from rmqtool.commands.metadump import make_skeleton

    made = make_skeleton(store.files, out, session.console)
    session.console.close()
    for place in made.left_out:
        session.console.warn(f"left out of the skeleton: {place}")
    session.console.note(
        f"{out}: {counted(made.files, 'file')}, {made.bytes:,} bytes, mostly holes; look at it, then pack it:"
        f" tar --sparse -czf skeleton.tar.gz {out}"
    )
    session.console.note(
        f"to see the findings in it: {other_command('verify', out, more=['--predict-recovery'])}"
    )
