"""``rmqtool topics``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from rmqtool.cli.completers import complete_topic
from rmqtool.cli.help import Command
from rmqtool.cli.next_command import command_line
from rmqtool.cli.options import A_STORE, shared_options
from rmqtool.cli.session import Session
from rmqtool.commands.offsets import undecodable_files
from rmqtool.commands.topics.model import TopicOrder, TopicTotals
from rmqtool.errors import ExitStatus
from rmqtool.findings import FailOn
from rmqtool.lookup.topic_names import missing_topic
from rmqtool.projection import json_value
from rmqtool.report.formats import Format
from rmqtool.report.records import write_records
from rmqtool.topics import TopicKind

if TYPE_CHECKING:
    from rmqtool.api.store import Store
    from rmqtool.cli.options import StorePath
    from rmqtool.commands.topics import TopicsReport

_DROPPED = ()
"""The value of an option that is left out of a command line."""
_EXAMPLES = """\
# what fills this log
rmqtool topics $STORE
# the ten topics whose slowest group has most before it
rmqtool topics $STORE --sort backlog --top 10
# queue by queue, for a spreadsheet
rmqtool topics $STORE --topic TopicTest --queues --format csv
# retries, and what groups gave up
rmqtool topics $STORE --kind retry --kind dead-letter
"""


@click.command("topics", cls=Command, examples=_EXAMPLES)
@click.argument("store_path", type=A_STORE, metavar="STORE")
@click.option(
    "-t",
    "--topic",
    "topics",
    multiple=True,
    metavar="GLOB",
    shell_complete=complete_topic,
    help="Only these topics, such as '%RETRY%*'; repeatable.",
)
@click.option(
    "--kind",
    "kinds",
    multiple=True,
    type=click.Choice([one.value for one in TopicKind]),
    help="Only topics of users, for retries, of dead letters, or of the broker's own; repeatable.",
)
@click.option("--queues", is_flag=True, help="A row for each queue instead of each topic.")
@click.option(
    "--sort",
    type=click.Choice([one.value for one in TopicOrder]),
    default=TopicOrder.BYTES.value,
    show_default=True,
    help="The greatest first; the least of oldest and name.",
)
@click.option(
    "-n", "--top", type=click.IntRange(min=1), metavar="N", help="At most so many rows; default: all."
)
@shared_options("text", "json", "ndjson", "csv")
def topics_command(
    store_path: StorePath,
    **options: Any,  # noqa: ANN401 - what click makes of the options
) -> ExitStatus:
    """Add up the log by topic: messages, bytes, rate, backlog.

    A message is a record of the log, under the topic it is stored with: half and op messages of transactions,
    retries and delayed messages under the broker's topics of that name, an inner batch as one. What has
    expired is not known, and bodies are not checked: see verify. A rate is messages over the time between the
    oldest and the newest. The backlog is what config/consumerOffset.json leaves to the slowest group, in
    units of the queues that are there.

    Damaged parts of the log are skipped and told; the exit status is then 5.
    """
    session = Session(options)
    store = session.open(store_path)
    session.note_broker(store)
    is_complete = _warn(session, store)
    report = store.topics(
        queues=options["queues"],
        topic=options["topics"],
        kind=options["kinds"],
        sort=options["sort"],
        top=options["top"],
        progress=session.console,
    )
    session.console.close()
    status = report.findings.exit_status(session.fail_on)
    if not (is_complete and report.rows) and session.fail_on is not FailOn.NEVER:
        status = max(status, ExitStatus.NEGATIVE)
    if not report.rows:
        _tell_missed(session, store, options["topics"])
    if report.truncated and session.format is Format.CSV:
        session.console.warn(f"{report.more} more rows are left out; without --top all are shown")
    with session.output(store, whole=True) as stream:
        if session.format is Format.TEXT:
            from rmqtool.report.topics_text import write_topics_text

            every = command_line(top=_DROPPED)
            write_topics_text(report, stream, session.zone, color=session.color, all_command=every)
        else:
            write_records(
                session.format,
                stream,
                report,
                schema=report.schema,
                kind=TopicTotals,
                status=lambda: status,
                facts=lambda: _facts(report),
            )
    return status


def _facts(report: TopicsReport) -> dict[str, Any]:
    return {
        "store": report.store,
        "log": json_value(report.log),
        "topics": report.topics,
        "truncated": report.truncated,
        "more": report.more,
        "counts": report.findings.counts,
        "findings": json_value(report.findings),
    }


def _warn(session: Session, store: Store) -> bool:
    """Say what may be missing from the answer; return whether all files could be read."""
    problems = list(undecodable_files(store.files)) if store.files.root is not None else []
    for sentence in problems:
        session.console.warn(sentence)
    for feature in store.files.features:
        session.console.warn(f"{feature.label}: {feature.code.title}; what it holds is not shown")
    return not problems


def _tell_missed(session: Session, store: Store, topics: tuple[str, ...]) -> None:
    """Say that the log has nothing like that, and which topic may be meant."""
    session.console.error(f"no message of such a topic in the log of {store.location}")
    for topic in topics:
        sentence = missing_topic(store.files, topic, session.console)
        if sentence is not None:
            session.console.note(f"hint: {sentence}")


COMMANDS = {"topics": topics_command}
