"""``rmqtool export``."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import click

from rmqtool.api.functions import export, export_request
from rmqtool.cli.options import A_STORE, StorePath, is_fleet, request_options
from rmqtool.cli.session import Session, command
from rmqtool.columns import FileFormat
from rmqtool.commands.export import REPORT_NAME, ExportReport, ExportRequest
from rmqtool.engine import Engine, EngineOptions
from rmqtool.errors import ExitStatus, UsageError
from rmqtool.projection import json_value
from rmqtool.report.fleet import forms_of_resumed
from rmqtool.report.outcome_text import export_text
from rmqtool.report.output import Format, several, size_text
from rmqtool.scan.record_walk import LogExtent

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rmqtool.api.store import Store
    from rmqtool.progress import Progress
    from rmqtool.store.results import Target

_FIRST = "--out --format --topic --key --begin --end --columns --partition-by --body"
_EXAMPLES = """\
# all messages, for pandas, DuckDB, Polars or Spark
rmqtool export $STORE --out messages
# three columns of one topic, without bodies
rmqtool export $STORE --out few -t TopicTest --columns topic,queueOffset,tags
# a folder for each topic
rmqtool export $STORE --out lake --partition-by topic
# several brokers, in a folder each
rmqtool export $STORE $OTHER --out cluster --partition-by day
# csv, with text bodies as text
rmqtool export $STORE --out sheets --format csv
"""


@command(
    "export", " ".join(FileFormat), _EXAMPLES, engine="local", handover=False, makes_folder=True, first=_FIRST
)
@click.argument("paths", nargs=-1, required=True, type=A_STORE, metavar="STORE...")
@request_options(ExportRequest)
@click.option(
    "--columns", metavar="NAME,...", help="These columns, in this order: rmqtool help export lists them."
)
@click.option(
    "--resume",
    is_flag=True,
    help="Write the folder of each of several stores by itself, and skip the folders that exist.",
)
def export_command(
    session: Session, paths: tuple[StorePath, ...], out: StorePath, resume: bool, columns: str | None
) -> ExitStatus:
    """Write messages as files of Parquet, Arrow, ndjson or csv.

    STORE is a store root, its commitlog/, or one file of that. Every 256 MiB of log become a file, or one in
    each folder of --partition-by. Each of several stores, or of a glob in quotes, gets a folder; one that
    cannot be read is left out. The column damage describes damage of a record; the report _export.json beside
    the files lists damage between records. Exit status 1 if nothing matches a filter.
    """
    session.makes(out, REPORT_NAME, several=resume)
    engine = session.engine
    words = session.given(ExportRequest) | {
        "format": session.common.format_name,
        "columns": None if columns is None else columns.split(","),
    }
    if resume:
        return _resumed(session, paths, words, out)
    stores, left_out = _stores(session, paths)
    for store in stores:
        session.note_state(store)
    with session.output(*stores, whole=True) as stream:
        report = export(stores, out, left_out=left_out, engine=engine, progress=session.console, **words)
        session.console.close()
        text = session.text(stream)
        export_text(report, text)
        text.finish()
    return report.exit_status(session.fail_on)


def _resumed(
    session: Session, paths: tuple[StorePath, ...], words: dict[str, Any], out: StorePath
) -> ExitStatus:
    """Export all that paths and globs name, each by itself, and return the worst status."""
    if not is_fleet(paths):
        raise UsageError("--resume is for several stores: that of one appears as a whole, or not at all")
    from rmqtool.cli.fleet import Fleet, MakingQuestion

    forms = forms_of_resumed("export", _verdict, "out", export_text, _totals)
    fleet = Fleet(session, paths, forms, notes_brokers=True)
    outs = fleet.folders(out, "store=")
    question = MakingQuestion(
        REPORT_NAME, partial(_make, words), partial(_asked, words), session.fail_on, outs, resume=True
    )
    return fleet.ask(question, session.engine, then=session.report_interrupt, chosen=Format.TEXT)


def _make(
    words: dict[str, Any], store: Store, out: Target | None, engine: Engine, progress: Progress
) -> ExportReport:
    if out is None:
        raise ValueError("an export has a folder")
    return export(store, out, engine=engine, progress=progress, **words)


def _asked(words: dict[str, Any], store: Store, out: Target) -> dict[str, Any]:
    request = export_request((store,), out, EngineOptions("local"), **words)
    return {
        "schema": ExportReport.schema,
        "stores": [store.location],
        "format": request.format.value,
        "partition": None if request.partition is None else request.partition.value,
        "columns": list(request.columns),
        "asked": json_value(request.asked),
        "logs": [json_value(LogExtent.of(store.files))],
    }


def _verdict(document: Mapping[str, Any]) -> str:
    messages = several(document["messages"], "message")
    return f"{messages} of {size_text(document['logBytes'])} of log"


def _totals(document: Mapping[str, Any]) -> dict[str, int]:
    return {"messages": document["messages"], "files": len(document["files"])}


def _stores(session: Session, paths: tuple[StorePath, ...]) -> tuple[list[Store], dict[str, str]]:
    if not is_fleet(paths):
        return [session.open(paths[0])], {}
    from rmqtool.cli.fleet import stores_of

    return stores_of(session, paths)
