"""``rmqtool report``."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import click

from rmqtool.cli.options import (
    A_STORE,
    StorePath,
    command_line,
    request_options,
)
from rmqtool.cli.session import Session, command
from rmqtool.commands.report import Backlog, ReportRequest, StoreReport
from rmqtool.commands.verify import Verdict
from rmqtool.errors import EnvironmentFailureError, ExitStatus
from rmqtool.report.output import RUNNING, Format, document_of, to_json
from rmqtool.report.verdict import verdict_words
from rmqtool.version import __version__

if TYPE_CHECKING:
    from rmqtool.api.store import Store
    from rmqtool.engine import EngineOptions


_IN_ORDER = {"ok", "no-offset"}
_EXAMPLES = """\
# one page to read, print and send on
rmqtool report $STORE -o report.html
# also the digest of every file of the log
rmqtool report $STORE -o sealed.html --hash-log
"""


@command("report", "html json", _EXAMPLES, engine="local")
@click.argument("store_path", type=A_STORE, metavar="STORE")
@request_options(ReportRequest)
def report_command(session: Session, store_path: StorePath) -> ExitStatus:
    """Write one page about a store: losses, log, topics, findings.

    The page is one HTML file, without script, that fetches nothing, for a screen and for paper. It shows the
    verdict and the next command, losses by topic, the files of the log, messages over time, topics, backlog,
    gaps, findings, and the evidence. The exit status is that of verify --predict-recovery.
    """
    engine = session.engine
    store = session.open(store_path)
    session.note_settings(store)
    with session.output(store, whole=True) as stream:
        report = _gather(session, store, engine)
        verdict = Verdict(
            report.verification,
            session.fail_on,
            predictions=report.predictions,
            setting_arguments=session.common.setting_words,
        )
        if session.format is Format.JSON:
            document = document_of(report, verdict.status) | verdict_words(verdict) | RUNNING.member
            stream.write(to_json(document, indent=2) + "\n")
        else:
            from rmqtool.report.page import render_page

            stream.write(render_page(report, verdict, session.zone))
    return verdict.status


def _gather(session: Session, store: Store, engine: EngineOptions) -> StoreReport:
    from rmqtool.commands.report.gather import gather

    request = ReportRequest(
        store.files,
        __version__,
        command_line(),
        engine=engine,
        broker_conf=session.common.broker_conf,
        **session.given(ReportRequest),
    )
    report = gather(request, partial(_backlogs, session, store), session.console)
    session.console.close()
    return report


def _backlogs(session: Session, store: Store) -> tuple[Backlog, ...]:
    """Add up by reader and topic what is still to be read, the most first."""
    backlogs: dict[tuple[str, str], Backlog] = {}
    try:
        readers = store.offsets()
    except EnvironmentFailureError as failure:
        session.console.warn(f"{failure}; the backlog of groups is left out")
        return ()
    for reader in readers:
        key = reader.reader, reader.topic
        before = backlogs.get(key, Backlog(*key, 0, 0, 0, None))
        times = [ms for ms in (before.last_timestamp_ms, reader.last_timestamp_ms) if ms is not None]
        backlogs[key] = Backlog(
            *key,
            queues=before.queues + 1,
            units=before.units + (reader.lag or 0),
            odd=before.odd + (reader.state not in _IN_ORDER),
            last_timestamp_ms=max(times, default=None),
        )
    return tuple(
        sorted(backlogs.values(), key=lambda backlog: (-backlog.units, backlog.reader, backlog.topic))
    )
