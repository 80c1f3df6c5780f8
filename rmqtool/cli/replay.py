"""``rmqtool replay``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from rmqtool.cli.options import A_PATH, pairs_of, request_options
from rmqtool.cli.session import Session, command
from rmqtool.commands.replay import ReplayRequest
from rmqtool.options import request_of
from rmqtool.report.outcome_text import replay_text

if TYPE_CHECKING:
    from pathlib import Path

    from rmqtool.errors import ExitStatus

_EXAMPLES = """\
# write the messages of a store to a file, and show what would be sent
rmqtool dump $STORE -t Payments --format replay -o old.ndjson
rmqtool replay old.ndjson --proxy 127.0.0.1:8081
# to another topic
rmqtool dump $STORE -t Payments --format replay -o old.ndjson
rmqtool replay old.ndjson --proxy 127.0.0.1:8081 --topic-map Payments=Again
"""


@command("replay", "text json", _EXAMPLES)
@click.argument("file", type=A_PATH, metavar="FILE")
@click.option("--proxy", required=True, metavar="HOST:PORT", help="gRPC address of the cluster's proxy.")
@request_options(ReplayRequest)
@click.option(
    "--ledger",
    type=A_PATH,
    metavar="FILE",
    help="Messages sent so far, to continue from; default: FILE.ledger.",
)
@click.option(
    "--topic-map",
    "mapped",
    multiple=True,
    metavar="OLD=NEW",
    help="Send messages of topic OLD to topic NEW; repeatable.",
)
@click.option(
    "--rate",
    type=click.FloatRange(min=0, min_open=True),
    default=100.0,
    show_default=True,
    metavar="N",
    help="At most N messages a second.",
)
def replay_command(
    session: Session, file: Path, proxy: str, ledger: Path | None, mapped: tuple[str, ...], rate: float
) -> ExitStatus:
    """Send the messages of a file to a cluster, through its proxy.

    dump --format replay or salvage --replay writes FILE. Nothing is sent without --send. Each message is sent
    at least once: the ledger lists sent messages, and the same command continues from it. A crash between
    sending and noting, or a time-out, may send a message twice. Messages of retry and dead-letter topics are
    left out unless --topic-map names them. Delays have passed: all messages are sent at once. Exit status 1
    if the cluster did not accept a message. Credentials: RMQTOOL_ACCESS_KEY, RMQTOOL_SECRET_KEY.
    """
    from rmqtool.commands.replay import replay

    session.leaves(lambda: "the ledger lists the sent messages; run the same command again to continue")
    request = request_of(
        ReplayRequest,
        session.given(ReplayRequest),
        path=file,
        proxy=proxy,
        ledger=ledger or file.with_name(f"{file.name}.ledger"),
        topic_map=pairs_of("--topic-map", mapped, "OLD=NEW"),
        rate=rate,
    )
    with session.output(whole=True) as stream:
        report = replay(request, session.console)
        status = report.exit_status(session.fail_on)
        session.show(report, status, stream, replay_text)
    return status
