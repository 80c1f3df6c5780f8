"""``rmqtool report``."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import click

from rmqtool.cli.group import Command
from rmqtool.cli.options import (
    A_PATH,
    A_STORE,
    StorePath,
    engine_of,
    engine_options,
    given_options,
    request_options,
    shared_options,
)
from rmqtool.cli.session import Session, command_line
from rmqtool.commands.report import Backlog, ReportRequest, StoreReport
from rmqtool.errors import EnvironmentFailureError, ExitStatus
from rmqtool.findings import counted
from rmqtool.report.formats import Format, report_json
from rmqtool.report.output import check_output_files, write_whole
from rmqtool.version import __version__

if TYPE_CHECKING:
    from pathlib import Path

    from rmqtool.api.store import Store


_IN_ORDER = {"ok", "no-offset"}
_EXAMPLES = """\
# one page to read, print and send on
rmqtool report $STORE -o report.html
# also a timeline of events for Timesketch
rmqtool report $STORE -o page.html --timeline events.jsonl
# also the digest of every file of the log
rmqtool report $STORE -o sealed.html --hash-log
"""


@click.command("report", cls=Command, examples=_EXAMPLES)
@click.argument("store_path", type=A_STORE, metavar="STORE")
@click.option(
    "--timeline", type=A_PATH, metavar="FILE", help="Also write the events as JSON lines for Timesketch."
)
@request_options(ReportRequest)
@engine_options("local")
@shared_options("html", "json")
def report_command(
    store_path: StorePath,
    **options: Any,  # noqa: ANN401 - what click makes of the other options
) -> ExitStatus:
    """Write one page about a store: losses, log, topics, findings.

    The page is one HTML file, without script, that fetches nothing, for a screen and for paper. It shows the
    verdict and the next command, losses by topic, the files of the log, messages over time, topics, backlog,
    gaps, delays, findings, and the evidence. The exit status is that of verify --predict-recovery.
    """
    session = Session(options)
    engine = engine_of(options)
    store = session.open(store_path)
    timeline = options["timeline"]
    if timeline is not None:
        check_output_files([options["output"]], store.files.evidence_roots, new=[timeline])
    session.note_settings(store)
    with session.output(store, whole=True) as stream:
        report, status = _gather(session, store, options, engine)
        if session.format is Format.JSON:
            stream.write(report_json(report, status))
        else:
            from rmqtool.report.page import render_page

            stream.write(render_page(report, session.fail_on, session.setting_arguments, session.zone))
        if timeline is not None:
            _write_timeline(session, timeline, report)
    return status


def _gather(
    session: Session,
    store: Store,
    options: dict[str, Any],
    engine: Any,  # noqa: ANN401 - EngineOptions
) -> tuple[StoreReport, ExitStatus]:
    from rmqtool.commands.report.gather import gather

    request = ReportRequest(
        store.files,
        __version__,
        command_line(),
        engine=engine,
        broker_conf=options["broker_conf"],
        **given_options(ReportRequest, options),
    )
    report = gather(request, partial(_backlogs, session, store), session.console)
    session.console.close()
    return report, report.verification.exit_status(session.fail_on)


def _backlogs(session: Session, store: Store) -> tuple[Backlog, ...]:
    """Add up by reader and topic what is still to be read, the most first."""
    found: dict[tuple[str, str], Backlog] = {}
    try:
        readers = store.offsets()
    except EnvironmentFailureError as failure:
        session.console.warn(f"{failure}; the backlog of groups is left out")
        return ()
    for one in readers:
        key = one.reader, one.topic
        before = found.get(key, Backlog(*key, 0, 0, 0, None))
        times = [ms for ms in (before.last_timestamp_ms, one.last_timestamp_ms) if ms is not None]
        found[key] = Backlog(
            *key,
            queues=before.queues + 1,
            units=before.units + (one.lag or 0),
            odd=before.odd + (one.state not in _IN_ORDER),
            last_timestamp_ms=max(times, default=None),
        )
    return tuple(sorted(found.values(), key=lambda one: (-one.units, one.reader, one.topic)))


def _write_timeline(session: Session, path: Path, report: StoreReport) -> None:
    from rmqtool.report.timeline import timeline_bytes

    data, events, undated = timeline_bytes(report)
    write_whole(path, data)
    left_out = f"; {undated:,} have no date and are left out" if undated else ""
    session.console.note(f"{path}: {counted(events, 'event', spec=',')}{left_out}")


COMMANDS = {"report": report_command}
