"""``rmqtool offsets``."""

from __future__ import annotations

from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

import click

from rmqtool.cli.options import A_STORE, StorePath, completed_by
from rmqtool.cli.session import Session, command, status_of
from rmqtool.commands.offsets import (
    Progress,
    reader_totals,
    undecodable_files,
    unused_tables,
)
from rmqtool.doctor import OFFSET_DATABASES, database_in
from rmqtool.errors import ExitStatus, UsageError
from rmqtool.findings import FindingLog
from rmqtool.report.output import write_records
from rmqtool.report.topics_text import delayed_text, offsets_text
from rmqtool.store.broker_json import OFFSET_TABLES
from rmqtool.times import present_ms

if TYPE_CHECKING:
    from rmqtool.api.store import Store


_EXAMPLES = """\
# lag of every group
rmqtool offsets $STORE
# delayed messages: due, overdue, passed over, delivered twice
rmqtool offsets $STORE --delayed
# out-of-range offsets of one group
rmqtool offsets $STORE --group billing --out-of-range
"""


@command("offsets", "text json ndjson csv", _EXAMPLES)
@click.argument("store_path", type=A_STORE, metavar="STORE")
@click.option(
    "-t",
    "--topic",
    "topics",
    multiple=True,
    metavar="GLOB",
    shell_complete=completed_by("topic"),
    help="Only offsets in these topics; repeatable.",
)
@click.option(
    "-g",
    "--group",
    metavar="GLOB",
    shell_complete=completed_by("group"),
    help="Only offsets of these groups.",
)
@click.option("--out-of-range", is_flag=True, help="Only offsets that lie outside of their queue.")
@click.option("--delayed", is_flag=True, help="Instead, messages that wait for their time, and late ones.")
def offsets_command(
    session: Session,
    store_path: StorePath,
    topics: tuple[str, ...],
    group: str | None,
    out_of_range: bool,
    delayed: bool,
) -> ExitStatus:
    """Show consumer lag and out-of-range offsets.

    Compares consumerOffset.json, lmqConsumerOffset.json, delayOffset.json and timercheck in config/ with the
    bounds of the queues. Lag is counted in consume queue units; a queue that a group has not begun lags in
    full. An offset out of range is a warning: see --fail-on. Exit status 1 if a file cannot be decoded.
    """
    store = session.open(store_path)
    session.note_broker(store)
    if delayed:
        if topics or group or out_of_range:
            raise UsageError("--delayed is about delay levels and the timer; give no other selection")
        return _delayed(session, store)
    rows = store.offsets(topic=topics, group=group)
    is_complete = _warn(session, store)
    findings = FindingLog()
    findings.extend(chain.from_iterable(row.findings() for row in rows))
    if not rows:
        there = [
            name for name in OFFSET_TABLES if store.files.config and (store.files.config / name).is_there()
        ]
        reason = f"nothing in {', '.join(there)}" if there else f"looked for {', '.join(OFFSET_TABLES)}"
        if kept := database_in(store.files.config, OFFSET_DATABASES):
            reason = f"config/{kept}/ holds them, a RocksDB database, which is not read"
        session.console.error(f"no offsets in {store.location}: {reason}")
        return ExitStatus.NEGATIVE
    is_unread = store.files.has_only_unread_log
    status = status_of(findings, session.fail_on, negative=not is_complete, unread=is_unread)
    shown = [row for row in rows if not out_of_range or row.state in {"ahead", "behind"} or row.passed_over]
    with session.output(store, whole=True) as stream:
        facts = {
            "store": store.location,
            "counts": findings.counts,
            "readers": reader_totals(rows),
        }
        data = partial(write_records, shown, "rmqtool.offsets/1", Progress, lambda: (status, facts))
        session.write(stream, partial(offsets_text, shown, session.zone), data)
    return status


def _delayed(session: Session, store: Store) -> ExitStatus:
    """Show messages that wait; a negative answer if some were passed over."""
    from rmqtool.lookup.delayed import DelayedMessages

    now_ms = present_ms()
    rows = store.delayed(at=now_ms)
    is_late = any(row.passed_over for row in rows)
    status = status_of(FindingLog(), session.fail_on, negative=is_late)
    with session.output(store, whole=True) as stream:
        facts = {"store": store.location, "at": now_ms}
        data = partial(write_records, rows, "rmqtool.delayed/1", DelayedMessages, lambda: (status, facts))
        session.write(stream, partial(delayed_text, rows, session.zone), data)
    return status


def _warn(session: Session, store: Store) -> bool:
    """Say what may be missing from the answer; return whether all files could be read."""
    problems = list(undecodable_files(store.files))
    for sentence in problems:
        session.console.warn(sentence)
    unused = unused_tables(store.files)
    if unused is not None:
        session.console.note(unused)
    for feature in store.files.hidden:
        session.console.warn(feature.unshown)
    return not problems
