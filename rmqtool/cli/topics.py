"""``rmqtool topics``."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import click

from rmqtool.cli.options import A_STORE, StorePath, command_line, is_fleet, request_options
from rmqtool.cli.session import Session, command, status_of
from rmqtool.commands.offsets import undecodable_files
from rmqtool.commands.topics import TopicsReport, TopicsRequest, TopicTotals
from rmqtool.projection import columns_of, json_object
from rmqtool.report.output import Format, document_of, several, write_records
from rmqtool.report.topics_text import topics_text, topics_verdict
from rmqtool.store.layouts import Deed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.api.store import Store
    from rmqtool.commands.fleet import FleetReport
    from rmqtool.engine import Engine
    from rmqtool.errors import ExitStatus
    from rmqtool.findings import FailOn
    from rmqtool.progress import Progress
    from rmqtool.report.fleet import Forms
    from rmqtool.report.text_report import TextReport

_DROPPED = ()
"""The value of an option that is left out of a command line."""
_FIRST = "--topic --kind --queues --sort --top --format"
_EXAMPLES = """\
# what fills this log
rmqtool topics $STORE
# the ten topics with the greatest backlog
rmqtool topics $STORE --sort backlog --top 10
# queue by queue, for a spreadsheet
rmqtool topics $STORE --topic TopicTest --queues --format csv
# all brokers of a cluster, topic by topic
rmqtool topics $STORE $OTHER --format csv
# retries and dead letters
rmqtool topics $STORE --kind retry --kind dead-letter
"""


@command("topics", "text json ndjson csv", _EXAMPLES, first=_FIRST)
@click.argument("paths", nargs=-1, required=True, type=A_STORE, metavar="STORE...")
@request_options(TopicsRequest)
def topics_command(session: Session, paths: tuple[StorePath, ...], topic: tuple[str, ...]) -> ExitStatus:
    """Add up the log by topic: messages, bytes, rate, backlog.

    A message is a record of the log, under the topic it is stored with: half and op messages of transactions,
    retries and delayed messages count under the broker's own topics, an inner batch counts once. Expired
    messages are not counted, and bodies are not checked: see verify. The rate is messages over the time
    between the oldest and the newest. The backlog is what config/consumerOffset.json leaves to the slowest
    group, in units of the present queues.

    Damaged parts of the log are skipped and reported; the exit status is then 5. Several stores, or a glob in
    quotes, are one run: see rmqtool help fleets.
    """
    question = partial(_add_up, session.given(TopicsRequest), session.fail_on)
    if is_fleet(paths):
        from rmqtool.cli.fleet import Fleet

        fleet = Fleet(session, paths, _forms(session), notes_brokers=True)
        return fleet.ask(question, then=partial(_warn_of_cuts, session))
    store = session.open(paths[0])
    session.note_broker(store)
    report, status = question(store, None, session.console)
    session.console.close()
    if not report.rows:
        session.console.error(f"no message of such a topic in the log of {store.location}")
        session.hint_topics(store, topic)
    if report.truncated and session.format is Format.CSV:
        session.console.warn(f"{report.more} more rows are left out; without --top all are shown")
    with session.output(store, whole=True) as stream:
        data = partial(write_records, report, report.schema, TopicTotals, lambda: (status, _facts(report)))
        session.write(stream, partial(_write_text, session, report), data)
    return status


def _add_up(
    given: dict[str, Any], fail_on: FailOn, store: Store, _engine: Engine | None, progress: Progress
) -> tuple[TopicsReport, ExitStatus]:
    """Add up a store, and say what may be missing from the answer; errors are those of `Store.topics`."""
    # of readers, whose backlog is missing then
    problems = [] if store.files.root is None else list(undecodable_files(store.files))
    for sentence in problems:
        progress.warn(sentence)
    for feature in store.files.hidden:
        progress.warn(feature.unshown)
    report = store.topics(progress=progress, **given)
    negative, unread = bool(problems) or not report.rows, not store.files.can(Deed.READ_LOG)
    return report, status_of(report.findings, fail_on, negative=negative, unread=unread)


def _warn_of_cuts(session: Session, fleet: FleetReport[TopicsReport]) -> None:
    session.report_interrupt(fleet)
    cut = sum(outcome.report is not None and outcome.report.truncated for outcome in fleet)
    if cut and session.format is Format.CSV:
        stores = several(cut, "store")
        session.console.warn(f"more rows of {stores} are left out; without --top all are shown")


def _write_text(session: Session, report: TopicsReport, text: TextReport) -> None:
    topics_text(report, session.zone, command_line(top=_DROPPED), text)


def _facts(report: TopicsReport) -> dict[str, Any]:
    return {name: value for name, value in json_object(report).items() if name not in {"schema", "rows"}}


def _forms(session: Session) -> Forms[TopicsReport]:
    from rmqtool.report.fleet import Forms

    def lines(report: TopicsReport, _status: ExitStatus) -> Iterator[dict[str, Any]]:
        yield from (row | {"store": report.store} for row in _rows(report))
        yield {"type": "summary", "schema": report.schema, **_facts(report)}

    text = partial(_write_text, session)
    return Forms("topics", topics_verdict, document_of, text, _totals, lines, _rows, columns_of(TopicTotals))


def _totals(report: TopicsReport) -> dict[str, int]:
    return {"messages": report.log.messages, "messageBytes": report.log.message_bytes}


def _rows(report: TopicsReport) -> Iterator[dict[str, Any]]:
    return map(json_object, report)
