"""``rmqtool dump``."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING

import click

from rmqtool import rows
from rmqtool.cli.options import (
    A_RESULT_FILE,
    A_STORE,
    StorePath,
    body_option,
    conditions,
    request_options,
    type_option,
)
from rmqtool.cli.session import Session, command, status_of
from rmqtool.commands.dump import DumpRequest
from rmqtool.commands.dump.hex import layout_rows
from rmqtool.errors import ExitStatus, UsageError
from rmqtool.findings import FindingLog
from rmqtool.options import declared_options, names_of
from rmqtool.projection import BodyMode
from rmqtool.report.output import BodyFiles, Format
from rmqtool.report.sinks import RowSink, open_sink
from rmqtool.rows.messages import MessageFilter
from rmqtool.store import PathKind

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path


_SCHEMA = "rmqtool.dump/2"
_INNER = "inner-message"
_FILTERS = {option.name for option in declared_options(MessageFilter)} | {"from_offset", "to_offset"}
_FIRST = "--type --topic --queue --key --begin --end --from-offset --limit --hex --body --format"
_EXAMPLES = """\
# the messages of one topic with their bodies
rmqtool dump $STORE/commitlog --topic TopicTest --body text
# five messages of one queue from a queue offset on
rmqtool dump $STORE -t TopicTest --queue 0 --from-queue-offset 3 --limit 5
# the bytes of the record at a physical offset, field by field
rmqtool dump $STORE/commitlog --hex --from-offset 334 --limit 1
# what a group has not consumed, and dead letters to be sent again
rmqtool dump $STORE --backlog-of readers --limit 3
rmqtool dump $STORE --dead-letters --format replay -o letters.ndjson
# the units of one consume queue
rmqtool dump $STORE/consumequeue/TopicTest/0
# the index with its slots and chains
rmqtool dump $STORE/index --slots --chains
# all messages, for a script
rmqtool dump $STORE/commitlog --format ndjson -o messages.ndjson
# messages to be sent again: rmqtool help replay
rmqtool dump $STORE --format replay -o replay.ndjson
# the fields of a format, without a store
rmqtool dump --layout --type index
"""


@command("dump", "text json ndjson csv replay", _EXAMPLES, first=_FIRST)
@click.argument("paths", nargs=-1, type=A_STORE, metavar="PATH...")
@type_option("entry-index", "config")
@request_options(DumpRequest)
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="At most N rows; damage is extra.")
@body_option
@click.option("--body-dir", type=A_RESULT_FILE, metavar="DIR", help="Write each body to a file there.")
@click.option("--layout", is_flag=True, help="Print the fields of a format; needs no PATH.")
def dump_command(
    session: Session,
    paths: tuple[StorePath, ...],
    type_name: str | None,
    body: BodyMode | None,
    body_dir: Path | None,
    limit: int | None,
    layout: bool,
) -> ExitStatus:
    """Show the records, units and items in a store's files.

    PATH is a store root, one of its directories, or one file. Without --type, a store root shows all its
    files; a filter narrows that to the files it applies to, a filter on messages to the commit log. A unit is
    an entry of a consume queue, an item is an entry of the index. The broker's JSON files in config/ are
    shown entry by entry, as strict JSON. Exit status 1 if nothing matches a filter. --format replay writes
    users' messages only, unpacked, to be sent again: see rmqtool help replay.
    """
    request = session.request(
        DumpRequest, kinds=frozenset(() if type_name is None else [PathKind(type_name)])
    )
    if session.format is Format.REPLAY:
        request = replace(request, row_types=frozenset({"message", _INNER}))
    from rmqtool.commands.dump.run import dump

    stores = [] if layout else [session.open(path, type_name, takes_config=True) for path in paths]
    if not stores and not layout:
        raise UsageError("give a PATH to dump, or --layout")
    is_json = session.format in {Format.NDJSON, Format.JSON}
    takes_lines = is_json and limit is None and body_dir is None
    request = replace(
        request,
        unpack_batches=request.unpack_batches or _INNER in request.row_types,
        lines=body or BodyMode.NONE if takes_lines else None,
    )
    for store in stores:
        session.note_state(store)
    session.stream_data()
    with session.output(*stores) as stream:
        sink = open_sink(
            session.format,
            stream,
            schema=_SCHEMA,
            body=body,
            zone=session.zone,
            color=session.color,
            fields=request.hex,
            asked_for=request.row_types,
            warn=session.console.warn,
        )
        every: Iterable[rows.Row] = (
            layout_rows(None if type_name is None else PathKind(type_name))
            if layout
            else chain.from_iterable(dump(store.files, request, session.console) for store in stores)
        )
        if body_dir is not None:
            every = _with_bodies(
                every, BodyFiles(body_dir, [root for one in stores for root in one.files.evidence_roots])
            )
        findings, count = _write(every, sink, limit)
        wanted = conditions(_FILTERS)
        is_missed = not count and not layout and bool(wanted)
        is_unread = any(store.files.has_only_unread_log for store in stores)
        status = status_of(findings, session.fail_on, negative=is_missed, unread=is_unread)
        sink.finish(status)
    if is_missed:
        session.console.error(f"nothing for {wanted} in {', '.join(store.location for store in stores)}")
        for store in stores:
            session.hint_topics(store, names_of(request.messages.topic or ()))
    return status


def _with_bodies(every: Iterable[rows.Row], files: BodyFiles) -> Iterable[rows.Row]:
    for row in every:
        if isinstance(row, rows.Message | rows.InnerMessage):
            files.add(row)
        yield row


def _write(every: Iterable[rows.Row], sink: RowSink, limit: int | None) -> tuple[FindingLog, int]:
    """Write rows up to the limit; return the damage among them, and how many others there were."""
    findings = FindingLog()
    count = blanks = 0
    for row in every:
        if isinstance(row, rows.Damage):
            findings.add(row.finding())
            sink.add(row)
            continue
        blanks += isinstance(row, rows.Blank)
        count += not isinstance(row, rows.Blank | rows.FieldBytes)
        if limit is not None and count > limit:
            break
        sink.add(row)
    return findings, count + blanks
